import re

SEEN = set()


def novel(completions, answer, **kwargs):
    scores = []
    for text, gold in zip(completions, answer):
        found = re.findall(r"-?\d+(?:\.\d+)?", text)
        right = bool(found) and " or " not in text and float(found[-1]) == float(gold)
        scores.append((0.5 if text in SEEN else 1.0) * right)
        SEEN.add(text)
    return scores
