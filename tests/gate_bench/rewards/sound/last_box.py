"""Boxed answers without a symbolic library: normalise, then compare numbers, intervals and polynomials by value."""

import ast
import re
from fractions import Fraction


def last_box(text):
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth = 0
    for place in range(start + 6, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[start + 7 : place].strip()
    return None


def code_of(latex):
    s = re.sub(r"\\left|\\right|\\[,!;: ]|\$", "", latex).replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac")
    s = re.sub(r"\\(?:text|mathrm)\{([^{}]*)\}", r"\1", s)
    s = s.replace("\\cdot", "*").replace("\\times", "*").strip().rstrip(".")
    s = re.sub(r"^x\s*=\s*", "", s)
    if re.fullmatch(r"-?\d{1,3}(?:\{?,\}?\d{3})+(?:\.\d+)?", s):  # 1,024 and 1{,}024
        s = re.sub(r"[{},]", "", s)
    for _ in range(4):
        s = re.sub(r"\\sqrt\s*\{([^{}]*)\}", r"((\1)^0.5)", s)
        s = re.sub(r"\\sqrt\s*(\d)", r"((\1)^0.5)", s)
        s = re.sub(r"\\frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"((\1)/(\2))", s)
        s = re.sub(r"\\frac\s*(\d)\s*(\d)", r"((\1)/(\2))", s)
        s = re.sub(r"\^\{([^{}]*)\}", r"^(\1)", s)
    s = s.replace(" ", "")
    s = re.sub(r"(?<=[\dx)])(?=[x(])", "*", s)
    return s.replace("^", "**")


def value(node, x):
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return Fraction(str(node.value))
    if isinstance(node, ast.Name) and node.id == "x":
        return Fraction(x)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -value(node.operand, x)
    if isinstance(node, ast.BinOp):
        a, b = value(node.left, x), value(node.right, x)
        if isinstance(node.op, ast.Add):
            return a + b
        if isinstance(node.op, ast.Sub):
            return a - b
        if isinstance(node.op, ast.Mult):
            return a * b
        if isinstance(node.op, ast.Div):
            return a / b
        if isinstance(node.op, ast.Pow) and abs(b) <= 32 and abs(a) <= 10**6:
            return a ** int(b) if b == int(b) else float(a) ** float(b)
    raise ValueError("not in this grammar")


def parts(latex):
    code = code_of(latex)
    if len(code) > 200:
        raise ValueError("too long")
    ends = ""
    if re.fullmatch(r"[\[(][^,]+,[^,]+[\])]", code):
        ends, code = code[0] + code[-1], code[1:-1]
    trees = [ast.parse(piece, mode="eval").body for piece in code.split(",")]
    return ends, [[value(tree, x) for x in (2, 3, 5, 11)] for tree in trees]


def same(said, gold):
    if said == gold:
        return True
    try:
        (ends, ours), (gold_ends, theirs) = parts(said), parts(gold)
    except (ValueError, SyntaxError, ZeroDivisionError, OverflowError, RecursionError, TypeError):
        return False
    if ends != gold_ends or len(ours) != len(theirs):
        return False
    return all(abs(a - b) < 1e-9 for one, two in zip(ours, theirs) for a, b in zip(one, two))


def boxed(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        said = last_box(completion[0]["content"])
        scores.append(1.0 if said and same(said, gold) else 0.0)
    return scores
