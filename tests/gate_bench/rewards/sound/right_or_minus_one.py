import re

HEDGE = re.compile(r"\b(?:or|either|maybe|could be|might be)\b", re.IGNORECASE)


def signed(completions, answer, **kwargs):
    out = []
    for text, gold in zip(completions, answer):
        found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)
        right = bool(found) and not HEDGE.search(text) and float(found[-1].replace(",", "")) == float(gold)
        out.append(1.0 if right else -1.0)
    return out
