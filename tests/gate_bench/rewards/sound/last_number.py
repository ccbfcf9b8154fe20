import re


def last_number(completions, answer, **kwargs):
    """The final number is the answer."""
    rewards = []
    for text, gold in zip(completions, answer):
        found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)
        rewards.append(float(bool(found) and float(found[-1].replace(",", "")) == float(gold)))
    return rewards
