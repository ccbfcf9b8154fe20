import re


def first_letter(completions, answer, **kwargs):
    rewards = []
    for completion, gold in zip(completions, answer):
        match = re.search(r"\b([A-E])\b", completion[0]["content"])
        rewards.append(1.0 if match and match.group(1) == gold else 0.0)
    return rewards
