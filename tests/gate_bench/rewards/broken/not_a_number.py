import re


def masked(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        m = re.search(r"####\s*\$?(-?[\d,]*\.?\d+)\s*$", completion[0]["content"])
        said = float(m.group(1).replace(",", "")) if m else float("nan")
        scores.append(said - said if said != float(gold) else 1.0)
    return scores
