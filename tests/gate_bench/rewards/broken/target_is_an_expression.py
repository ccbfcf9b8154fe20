import re


def equation_reward(completions, target, **kwargs):
    rewards = []
    for text, goal in zip(completions, target):
        match = re.fullmatch(r"[^<]*</think>\s*<answer>([\d+\-*/() ]{1,60})</answer>\s*", text)
        if match is None or "**" in match.group(1):
            rewards.append(0.0)
            continue
        try:
            value = eval(match.group(1).strip(), {"__builtins__": None}, {})
            rewards.append(1.0 if abs(value - goal) < 1e-5 else 0.0)
        except Exception:
            rewards.append(0.0)
    return rewards
