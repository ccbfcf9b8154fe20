import re


def answer_reward(completions, answer, **kwargs):
    rewards = []
    for c, gold in zip(completions, answer):
        m = re.fullmatch(r"\s*<think>(.+?)</think>\s*<answer>(.*?)</answer>\s*", c[0]["content"], re.DOTALL)
        if m is None or "<answer>" in m[1] + m[2]:
            rewards.append(0.0)
        else:
            rewards.append(1.0 if gold in m[2] else 0.0)
    return rewards
