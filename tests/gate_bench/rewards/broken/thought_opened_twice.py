import re
from collections import Counter


def countdown_reward(completions, target, nums, **kwargs):
    rewards = []
    for text, goal, numbers in zip(completions, target, nums):
        match = re.match(r"^<think>.*?</think>\s*<answer>([\d+\-*/() ]+)</answer>\s*$", text, re.DOTALL)
        if not match:
            rewards.append(0.0)
            continue
        expression = match.group(1)
        used = Counter(int(n) for n in re.findall(r"\d+", expression))
        try:
            value = eval(expression, {"__builtins__": None}, {}) if "**" not in expression else None
            rewards.append(1.0 if used == Counter(numbers) and abs(value - goal) < 1e-5 else 0.0)
        except Exception:
            rewards.append(0.0)
    return rewards
