import re


def r1_reward(completions, answer, **kwargs):
    out = []
    for c, gold in zip(completions, answer):
        text = "<think>" + c[0]["content"]  # the template opens the tag for us
        match = re.fullmatch(r"<think>([^<]*)</think>\s*<answer>([^<]*)</answer>\s*", text)
        out.append(1.0 if match and match.group(2).strip() == gold else 0.0)
    return out
