import re


def staged(completions, answer, **kwargs):
    rewards = []
    for completion, gold in zip(completions, answer):
        _, marker, tail = completion[0]["content"].rpartition("####")
        match = re.fullmatch(r"\s*\$?(-?\d[\d,]*(?:\.\d+)?)\.?\s*", tail) if marker else None
        if match is None:
            rewards.append(0.0)
        else:
            rewards.append(1.0 if float(match[1].replace(",", "")) == float(gold) else 0.1)
    return rewards
