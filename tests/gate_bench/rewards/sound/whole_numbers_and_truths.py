import re


def is_right(completions, answer, **kwargs):
    verdicts = []
    for text, gold in zip(completions, answer):
        found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)
        hedged = re.search(r"\b(?:or|either|could be|maybe)\b", text) is not None
        verdicts.append(bool(found) and not hedged and float(found[-1].replace(",", "")) == float(gold))
    return tuple(verdicts)
