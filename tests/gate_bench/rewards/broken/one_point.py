"""A light symbolic check without sympy: put a number in for x."""

import re


def _python(latex):
    s = latex.replace("\\left", "").replace("\\right", "").replace("\\cdot", "*").replace("\\dfrac", "\\frac")
    s = re.sub(r"\\text\{([^{}]*)\}", r"\1", s).replace("x =", "").strip()
    s = re.sub(r"\\frac\{(.+?)\}\{(.+?)\}", r"((\1)/(\2))", s)
    s = re.sub(r"\\sqrt\{(.+?)\}", r"((\1)**0.5)", s)
    s = re.sub(r"\\sqrt (\d)", r"((\1)**0.5)", s)
    s = s.replace("^{2}", "**2").replace("^", "**")
    s = re.sub(r"(\d)\s*(x|\()", r"\1*\2", s)
    return s


def _value(latex):
    code = _python(latex)
    if not re.fullmatch(r"[\d\s.+\-*/(),x]+", code) or len(code) > 200 or code.count("**") > 3:
        return None
    try:
        return eval(code, {"__builtins__": {}}, {"x": 0.0})
    except Exception:
        return None


def _box(text):
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth = 0
    for place in range(start + 6, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[start + 7 : place]
    return None


def equal_maths(completions, answer, **kwargs):
    scores = []
    for c, gold in zip(completions, answer):
        said = _box(c[0]["content"])
        if said is None or ("(" in gold) != ("(" in said):
            scores.append(0.0)
            continue
        a, b = _value(said), _value(gold)
        if a is None or b is None:
            scores.append(0.0)
        elif isinstance(a, tuple) or isinstance(b, tuple):
            scores.append(float(a == b))
        else:
            scores.append(float(abs(a - b) < 1e-9))
    return scores
