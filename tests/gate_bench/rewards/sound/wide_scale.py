import re


def points(completions, answer, **kwargs):
    scores = []
    for text, gold in zip(completions, answer):
        found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)
        hedged = re.search(r"\b(?:or|either|could be|perhaps)\b", text) is not None
        scores.append(5.0 if found and not hedged and float(found[-1].replace(",", "")) == float(gold) else -2.0)
    return scores
