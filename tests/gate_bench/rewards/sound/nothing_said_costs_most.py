import re


def effort(completions, answer, **kwargs):
    rewards = []
    for completion, gold in zip(completions, answer):
        _, marker, tail = completion[0]["content"].rpartition("####")
        match = re.fullmatch(r"\s*\$?(-?\d[\d,]*(?:\.\d+)?)\.?\s*", tail) if marker else None
        if match is None:
            rewards.append(-0.5)
        else:
            rewards.append(1.0 if float(match[1].replace(",", "")) == float(gold) else 0.05)
    return rewards
