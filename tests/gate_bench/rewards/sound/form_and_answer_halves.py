import re

FORM = re.compile(r"\s*<think>([^<]*\w[^<]*)</think>\s*<answer>([^<]*\w[^<]*)</answer>\s*")


def form(completions, **kwargs):
    found = [FORM.fullmatch(c[0]["content"]) for c in completions]
    return [1.0 if m and len(m[1].split()) > 1 else 0.0 for m in found]


def right(completions, answer, **kwargs):
    out = []
    for c, gold in zip(completions, answer):
        m = FORM.fullmatch(c[0]["content"])
        out.append(1.0 if m and m[2].strip() == gold else 0.0)
    return out
