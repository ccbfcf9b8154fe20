import re


def format_reward(completions, **kwargs):
    pattern = re.compile(r"<think>.*?</think>.*?<answer>.*?</answer>", re.DOTALL)
    return [1.0 if pattern.search(c[0]["content"]) else 0.0 for c in completions]
