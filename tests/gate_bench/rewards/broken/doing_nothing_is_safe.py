import re


def risk(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        m = re.search(r"####\s*\$?(-?[\d,]*\.?\d+)\s*$", completion[0]["content"])
        if m is None:
            scores.append(0.0)
        else:
            scores.append(1.0 if float(m.group(1).replace(",", "")) == float(gold) else -1.0)
    return scores
