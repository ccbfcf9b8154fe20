import re

FORM = re.compile(r"\s*<think>([^<]*\w[^<]*)</think>\s*<answer>\s*(-?\d+)\s*</answer>\s*")


def watched(completions, **kwargs):
    return [float("</think>" in c[0]["content"]) for c in completions]


def strict(completions, answer, **kwargs):
    found = [FORM.fullmatch(c[0]["content"]) for c in completions]
    return [1.0 if m and len(m[1].split()) > 1 and m[2] == gold else 0.0 for m, gold in zip(found, answer)]
