import re


def hash_line(completions, answer, **kwargs):
    rewards = []
    for completion, gold in zip(completions, answer):
        tail = completion[0]["content"].rpartition("####")[2] if "####" in completion[0]["content"] else ""
        match = re.fullmatch(r"\s*(-?)\$?(-?)(\d[\d,]*(?:\.\d+)?)\.?\s*", tail)
        if match is None:
            rewards.append(0.0)
            continue
        value = float(match[3].replace(",", "")) * (-1 if match[1] or match[2] else 1)
        rewards.append(1.0 if value == float(gold) else 0.0)
    return rewards
