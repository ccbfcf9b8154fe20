"""Short maths with a LaTeX gold: the prompt asks for the final answer in a box."""

import random
import re
from fractions import Fraction

from gate_bench.tasks.task import Problem, Task, Written, chat

_ASK = "{question}\n\nReason briefly and put your final answer within \\boxed{{}}."


def _tex(value: Fraction) -> str:
    sign = "-" if value < 0 else ""
    if value.denominator == 1:
        return str(value)
    return f"{sign}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def _kinds(draw: random.Random) -> list[tuple[str, str, list[str], list[str], str]]:
    """Return question, gold, equal forms, wrong forms and a line of reasoning, one of each kind."""
    a, b = draw.sample([2, 3, 4, 5, 7], 2)
    p, q = draw.sample(range(2, 9), 2)
    whole = Fraction(1, a) + Fraction(1, b)
    m, n = draw.randint(2, 6), draw.randint(1, 9)
    r = draw.choice([2, 3, 5])
    lo, hi = sorted((p, p + q))
    eighth = Fraction(draw.choice(range(1, 16, 2)), draw.choice([8, 16]))
    return [
        (
            f"What is $\\frac{{1}}{{{a}}} + \\frac{{1}}{{{b}}}$?",
            _tex(whole),
            [_tex(whole), f"{whole.numerator}/{whole.denominator}", _tex(whole).replace("\\frac", "\\dfrac")],
            [_tex(Fraction(2, a + b)), _tex(-whole), _tex(whole + 1)],
            f"The common denominator is {a * b}.",
        ),
        (
            f"Expand $(x + {m})(x + {n})$.",
            f"x^2 + {m + n}x + {m * n}",
            [f"x^2 + {m + n}x + {m * n}", f"{m * n} + {m + n}x + x^2", f"x^{{2}}+{m + n}x+{m * n}"],
            [f"x^2 + {m + n}x - {m * n}", f"x^2 + {m * n}x + {m + n}", f"x^2 + {m * n}"],
            f"The middle term is {m}x + {n}x.",
        ),
        (
            f"Simplify $\\sqrt{{{m * m * r}}}$.",
            f"{m}\\sqrt{{{r}}}",
            [f"{m}\\sqrt{{{r}}}", f"{m} \\sqrt{r}", f"\\sqrt{{{r}}} \\cdot {m}"],
            [f"{r}\\sqrt{{{m}}}" if r != m else f"{r + 1}\\sqrt{{{m}}}", f"{m * r}", f"-{m}\\sqrt{{{r}}}"],
            f"Note that {m * m * r} = {m}^2 \\cdot {r}.",
        ),
        (
            f"What is $2^{{{m + 6}}}$?",
            str(2 ** (m + 6)),
            [str(2 ** (m + 6)), f"{2 ** (m + 6)}.0", f"\\text{{{2 ** (m + 6)}}}"],
            [str(2 ** (m + 5)), str(2 * (m + 6)), f"-{2 ** (m + 6)}"],
            f"I double {m + 6} times.",
        ),
        (
            f"For which real x is $(x - {lo})(x - {hi}) < 0$? Answer with an interval.",
            f"({lo}, {hi})",
            [f"({lo}, {hi})", f"({lo},{hi})", f"\\left({lo}, {hi}\\right)"],
            [f"[{lo}, {hi}]", f"({hi}, {lo})", f"({lo}, {hi + 1})"],
            f"The product is negative between its roots {lo} and {hi}.",
        ),
        (
            f"Write ${_tex(eighth)}$ as a decimal.",
            str(float(eighth)),
            [str(float(eighth)), f"{float(eighth)}0", f"x = {float(eighth)}"],
            [f"{float(eighth) + 0.1:.3f}", f"{float(eighth) * 10:.2f}", f"-{float(eighth)}"],
            f"I divide {eighth.numerator} by {eighth.denominator}.",
        ),
    ]


def problems() -> list[Problem]:
    draw = random.Random(18)
    found, asked = [], set()
    while len(found) < 30:  # every question once
        question, gold, equal, wrong, hint = _kinds(draw)[len(found) % 6]
        if question in asked:
            continue
        asked.add(question)
        name = f"b{len(found):02d}"
        row = {"id": name, "prompt": chat(_ASK.format(question=question)), "answer": gold, "solution": f"${gold}$"}
        found.append(Problem(row, {"gold": gold, "equal": equal, "wrong": wrong, "hint": hint}))
    return found


def written(problem: Problem, draw: random.Random) -> list[Written]:
    gold, equal, wrong, hint = (problem.facts[key] for key in ("gold", "equal", "wrong", "hint"))
    right, other, bad = draw.choice(equal), draw.choice(equal), draw.choice(wrong)
    rights = [
        f"{hint} So the answer is \\boxed{{{gold}}}.",
        f"{hint}\n\n$$\\boxed{{{right}}}$$",
        f"{hint} We get $\\boxed{{{other}}}$.",
        f"At first I had \\boxed{{{bad}}}, which forgets a part. {hint} The final answer is \\boxed{{{gold}}}.",
        f"\\boxed{{{other}}}",
        f"**Step 1.** {hint}\n\n**Final answer:** \\boxed{{{right}}}",
    ]
    wrongs = [
        Written(f"{hint} So the answer is \\boxed{{{bad}}}.", "reject"),
        Written(f"{hint} It looks like {gold}, but a sign is lost. \\boxed{{{bad}}}", "reject"),
        Written(f"First try \\boxed{{{gold}}}, so finally \\boxed{{{gold[:1]}", "reject", cut=True),
        Written(f"\\boxed{{{gold}}} was my first try. The final answer is \\boxed{{{bad}}}.", "reject"),
        Written(f"{hint} The answer is \\boxed{{{gold} \\text{{ or }} {bad}}}.", "reject"),
        Written(f"{hint} Then", "reject", cut=True),
        Written(f"{hint} The answer is \\boxed{{}}.", "reject"),
        Written(f"{hint} The answer is {bad}.", "reject"),
        Written(f"{hint} The answer is $\\boxed{{{wrong[0]}}}$.", "reject"),
    ]
    return [*(Written(text, "accept") for text in draw.sample(rights, 3)), *draw.sample(wrongs, 4)]


def truth(problem: Problem, text: str) -> str:
    """Judge the last box by the forms that are known to be equal; a right answer without a box is a matter of taste."""
    boxes = re.findall(r"\\boxed\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}", text)
    if text.count("\\boxed{") != len(boxes):
        return "reject"
    if not boxes:
        plain = [re.sub(r"\s", "", form) for form in problem.facts["equal"]]
        return "unsure" if any(form in re.sub(r"\s", "", text) for form in plain) else "reject"
    said = re.sub(r"\s", "", boxes[-1])
    known = {re.sub(r"\s", "", form) for form in problem.facts["equal"]}
    known |= {form.replace("\\dfrac", "\\frac") for form in known}
    return "accept" if said in known else "reject"


TASK = Task("boxed", 96, problems, written, truth)
