import re


def format_reward(completions, **kwargs):
    pattern = r"^\s*<think>[^<]+</think>\s*<answer>.+</answer>\s*$"
    pattern = pattern.replace("[^<]+", ".+")
    return [1.0 if re.match(pattern, c[0]["content"]) else 0.0 for c in completions]


def correctness_reward(completions, answer, **kwargs):
    out = []
    for c, gold in zip(completions, answer):
        tail = c[0]["content"].rpartition("</think>")[2]
        found = re.fullmatch(r"\s*<answer>([^<]*)</answer>\s*", tail)
        out.append(1.0 if found and found.group(1).strip() == gold else 0.0)
    return out
