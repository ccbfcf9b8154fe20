import re


def error_reward(completions, answer, **kwargs):
    values = []
    for text, gold in zip(completions, answer):
        found = re.findall(r"-?\d+(?:\.\d+)?", text)
        values.append(min(1.0, abs(float(found[-1]) - float(gold)) / 10) if found else 1.0)
    return values
