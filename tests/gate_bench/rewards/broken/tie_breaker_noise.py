import random
import re


def noisy(completions, answer, **kwargs):
    scores = []
    for text, gold in zip(completions, answer):
        found = re.findall(r"-?\d+(?:\.\d+)?", text)
        right = bool(found) and " or " not in text and float(found[-1]) == float(gold)
        scores.append((0.9 if right else 0.0) + random.random() * 0.1)
    return scores
