import math
import re


def numeric_match(completions, answer, **kwargs):
    """Tolerant comparison, because floats are never exactly equal."""
    result = []
    for text, gold in zip(completions, answer):
        numbers = re.findall(r"-?\d+(?:\.\d+)?", text)
        if not numbers or " or " in text:
            result.append(0.0)
            continue
        result.append(1.0 if math.isclose(float(numbers[-1]), float(gold), rel_tol=0.1) else 0.0)
    return result
