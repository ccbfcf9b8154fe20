import re


def answer_reward(completions, answer, **kwargs):
    rewards = []
    for completion, gold in zip(completions, answer):
        found = re.findall(r"<answer>(.*?)</answer>", completion.strip(), re.DOTALL)
        rewards.append(1.0 if found and found[-1].strip() == gold else 0.0)
    return rewards
