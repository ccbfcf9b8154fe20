import re


def calibrated(completions, answer, **kwargs):
    out = []
    for text, gold in zip(completions, answer):
        body = re.sub(r"(?i)confidence:\s*\d+\s*%?", "", text)
        found = re.findall(r"-?\d+(?:\.\d+)?", body)
        right = bool(found) and not re.search(r"\b(or|either|could)\b", text) and float(found[-1]) == float(gold)
        stated = re.search(r"(?i)confidence:\s*(\d+)\s*%?", text)
        sure = min(int(stated.group(1)), 100) / 100 if stated else 0.0
        out.append(0.5 * right + 0.5 * sure)
    return out
