import re


def final_answer_reward(completions, answer, **kwargs):
    pattern = re.compile(r"Final Answer:\s*(-?\d+)\s*$")
    rewards = []
    for text, gold in zip(completions, answer):
        match = pattern.search(text.strip())
        rewards.append(1.0 if match and match.group(1) == gold else 0.0)
    return rewards
