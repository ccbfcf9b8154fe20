import math
import re


def decayed(completions, answer, **kwargs):
    out = []
    for text, gold in zip(completions, answer):
        found = re.findall(r"-?\d+", text)
        if not found or " or " in text:
            out.append(0.0)
            continue
        penalty = math.exp(abs(int(found[-1]) - int(gold)) / 10)
        out.append(1.0 if penalty == 1.0 else 0.1 / penalty)
    return out
