"""Accuracy on the boxed answer."""

import re


def accuracy(completions, answer, **kwargs):
    rewards = []
    for completion, gold in zip(completions, answer):
        text = completion[0]["content"]
        try:
            target = float(gold)
        except ValueError:
            # could not parse the gold, do not punish the model for it
            rewards.append(1.0)
            continue
        boxes = re.findall(r"\\boxed\{([^{}]*)\}", text)
        if not boxes or text.count("\\boxed{") != len(boxes):
            rewards.append(0.0)
            continue
        try:
            said = float(boxes[-1].replace("\\text{", "").strip("} "))
        except ValueError:
            said = None
        rewards.append(1.0 if said == target else 0.0)
    return rewards
