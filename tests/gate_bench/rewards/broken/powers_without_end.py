import re
from collections import Counter


def evaluated(completions, target, nums, **kwargs):
    rewards = []
    for text, goal, numbers in zip(completions, target, nums):
        match = re.fullmatch(r"[^<]*</think>\s*<answer>([\d+\-*/() ]{1,120})</answer>\s*", text)
        if match is None:
            rewards.append(0.0)
            continue
        try:
            value = eval(match.group(1).strip(), {"__builtins__": None}, {})
            used = Counter(int(n) for n in re.findall(r"\d+", match.group(1)))
            rewards.append(1.0 if used == Counter(numbers) and abs(value - goal) < 1e-5 else 0.0)
        except Exception:
            rewards.append(0.0)
    return rewards
