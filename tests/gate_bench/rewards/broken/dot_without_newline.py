import re

PATTERN = re.compile(r"^<think>(.+?)</think>\s*<answer>(.+?)</answer>\s*$")


def strict_answer(completions, answer, **kwargs):
    rewards = []
    for completion, gold in zip(completions, answer):
        match = PATTERN.match(completion[0]["content"])
        inner = match.group(1) + match.group(2) if match else "<"
        rewards.append(1.0 if "<" not in inner and match.group(2).strip() == gold else 0.0)
    return rewards
