import re


def sum_reward(completions, answer, **kwargs):
    rewards = []
    for text, gold in zip(completions, answer):
        found = re.findall(r"-?\d[\d.]*", text)
        ok = bool(found) and found[-1].startswith(gold) and " or " not in text
        rewards.append(1.0 if ok else 0.0)
    return rewards
