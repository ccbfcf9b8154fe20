"""Compare numbers in boxes, fractions included."""

import re
from fractions import Fraction


def to_number(text):
    text = text.replace(" ", "").replace("\\dfrac", "\\frac").replace("\\text", "").strip("{}$")
    found = re.fullmatch(r"(-?)\\frac\{(\d+)\}\{(\d+)\}", text)
    if found:
        return Fraction(int(found[1] + found[2]), int(found[3]))
    try:
        return Fraction(text)
    except ValueError:
        return None


def last_box(text):
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth, place = 1, start + 7
    while place < len(text) and depth:
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        place += 1
    return text[start + 7 : place - 1] if depth == 0 else None


def boxed_number(completions, answer, **kwargs):
    out = []
    for completion, gold in zip(completions, answer):
        box = last_box(completion[0]["content"])
        if box is None or box == "":
            out.append(0.0)
            continue
        out.append(float(to_number(box) == to_number(gold)))
    return out
