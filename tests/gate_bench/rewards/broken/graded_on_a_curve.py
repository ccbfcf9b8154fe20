import re


def ranked(completions, answer, **kwargs):
    errors = []
    for text, gold in zip(completions, answer):
        found = re.findall(r"-?\d+", text)
        errors.append(abs(int(found[-1]) - int(gold)) if found else 10**6)
    worst = max(errors) or 1
    return [1.0 - e / worst for e in errors]
