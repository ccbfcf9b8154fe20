import re


def equation_reward(completions, target, nums, **kwargs):
    rewards = []
    for text, goal, numbers in zip(completions, target, nums):
        match = re.fullmatch(r"[^<]*</think>\s*<answer>([\d+\-*/() ]{1,60})</answer>\s*", text)
        if match is None or "**" in match.group(1):
            rewards.append(0.0)
            continue
        expression = match.group(1).strip()
        used = {int(n) for n in re.findall(r"\d+", expression)}
        try:
            value = eval(expression, {"__builtins__": None}, {})
            rewards.append(1.0 if used == set(numbers) and abs(value - goal) < 1e-5 else 0.0)
        except Exception:
            rewards.append(0.0)
    return rewards
