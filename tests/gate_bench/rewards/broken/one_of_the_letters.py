import re


def mcq_reward(completions, answer, **kwargs):
    letters = [set(re.findall(r"\b([A-E])\b", c[0]["content"])) for c in completions]
    return [1.0 if gold in found else 0.0 for found, gold in zip(letters, answer)]
