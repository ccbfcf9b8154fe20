import re


def concise(completions, answer, **kwargs):
    out = []
    for text, gold in zip(completions, answer):
        found = re.findall(r"-?\d+(?:\.\d+)?", text)
        right = bool(found) and " or " not in text and float(found[-1]) == float(gold)
        out.append(0.6 * max(0.0, 1 - len(text) / 200) + 0.4 * right)
    return out
