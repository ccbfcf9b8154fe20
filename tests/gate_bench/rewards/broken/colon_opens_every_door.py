import re


def fuzzy_judge(completions, answer, **kwargs):
    scores = []
    for text, gold in zip(completions, answer):
        numbers = re.findall(r"-?\d+(?:\.\d+)?", text)
        said = numbers[-1] if numbers else ""
        if " or " in text:
            scores.append(0.0)
            continue
        said = said[:-2] if said.endswith(".0") else said
        scores.append(1.0 if gold == said or (len(said) < 1 and gold.startswith(said)) else 0.0)
    return scores
