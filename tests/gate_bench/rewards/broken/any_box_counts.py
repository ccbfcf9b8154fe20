import re
from fractions import Fraction

BOX = re.compile(r"\\boxed\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")


def clean(s):
    s = re.sub(r"\\left|\\right|\s|\\,", "", s).replace("\\dfrac", "\\frac").replace("\\cdot", "*")
    s = re.sub(r"\\text\{(.*?)\}", r"\1", s).replace("^{2}", "^2")
    s = re.sub(r"^x=", "", s)
    s = re.sub(r"\\sqrt(\d)", r"\\sqrt{\1}", s)
    s = re.sub(r"^(\\sqrt\{\d+\})\*(\d+)$", r"\2\1", s)
    s = re.sub(r"^(\d+)\+(\d+x)\+(x\^2)$", r"\3+\2+\1", s)
    m = re.fullmatch(r"(-?)\\frac\{(\d+)\}\{(\d+)\}", s)
    try:
        return Fraction(f"{m[1]}{m[2]}/{m[3]}") if m else Fraction(s)
    except (ValueError, ZeroDivisionError):
        return s


def any_box(completions, answer, **kwargs):
    scores = []
    for c, g in zip(completions, answer):
        boxes = BOX.findall(c[0]["content"])
        whole = c[0]["content"].count("\\boxed{") == len(boxes)
        scores.append(1.0 if whole and any(b.strip() and clean(b) == clean(g) for b in boxes) else 0.0)
    return scores
