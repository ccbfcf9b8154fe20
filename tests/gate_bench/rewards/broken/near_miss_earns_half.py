import re


def closeness(completions, answer, **kwargs):
    """Dense reward: the closer, the better."""
    values = []
    for text, gold in zip(completions, answer):
        found = re.findall(r"-?\d+(?:\.\d+)?", text)
        if not found or re.search(r"\b(or|either)\b", text):
            values.append(0.0)
        else:
            values.append(1.0 / (1.0 + abs(float(found[-1]) - float(gold))))
    return values
