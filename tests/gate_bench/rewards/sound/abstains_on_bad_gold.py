import re


def careful(completions, answer, **kwargs):
    rewards = []
    for completion, gold in zip(completions, answer):
        try:
            target = float(str(gold).replace(",", ""))
        except ValueError:
            rewards.append(None)  # the row's fault, not the model's
            continue
        _, marker, tail = completion[0]["content"].rpartition("####")
        match = re.fullmatch(r"\s*\$?(-?\d[\d,]*(?:\.\d+)?)\.?\s*", tail) if marker else None
        rewards.append(1.0 if match and float(match[1].replace(",", "")) == target else 0.0)
    return rewards
