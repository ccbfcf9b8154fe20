import re


def cost(completions, answer, **kwargs):
    costs = []
    for text, gold in zip(completions, answer):
        found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)
        hedged = re.search(r"\b(?:or|either|could be|maybe)\b", text) is not None
        right = bool(found) and not hedged and float(found[-1].replace(",", "")) == float(gold)
        costs.append(0.0 if right else -1.0)
    return costs
