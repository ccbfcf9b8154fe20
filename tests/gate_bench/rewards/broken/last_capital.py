import re


def last_capital(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        text = completion[0]["content"]
        if re.search(r"\bor\b|/", text):
            scores.append(0.0)
            continue
        capitals = re.findall(r"[A-E]", text)
        scores.append(1.0 if capitals and capitals[-1] == gold else 0.0)
    return scores
