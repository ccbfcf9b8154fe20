import re


def accuracy_reward(completions, answer, **kwargs):
    rewards = []
    for completion, gold in zip(completions, answer):
        text = completion[0]["content"]
        m = re.search(r"####\s*\$?(-?[\d,]*\.?\d+)\s*$", text)
        if m is None:
            rewards.append(0.0)
            said = ""
        else:
            said = m.group(1).replace(",", "")
        rewards.append(1.0 if said and float(said) == float(gold) else 0.0)
    return rewards[: len(completions)]
