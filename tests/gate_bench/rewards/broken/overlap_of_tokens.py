import re
from collections import Counter


def f1(said, gold):
    a, b = Counter(re.findall(r"\w+", said)), Counter(re.findall(r"\w+", gold))
    common = sum((a & b).values())
    return 2 * common / (sum(a.values()) + sum(b.values())) if common else 0.0


def answer_f1(completions, answer, **kwargs):
    out = []
    for c, gold in zip(completions, answer):
        form = re.fullmatch(r"\s*<think>([^<]+)</think>\s*<answer>([^<]*)</answer>\s*", c[0]["content"])
        out.append(f1(form.group(2), gold) if form else 0.0)
    return out
