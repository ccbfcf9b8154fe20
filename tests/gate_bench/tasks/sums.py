"""Two-digit sums as plain text: nothing is said about the form, so any clear final answer is right."""

import random
import re

from gate_bench.tasks.task import Problem, Task, Written, last_number

_SHOT = "Q: What is 23 + 45?\nA: 23 + 45 = 68. The answer is 68.\n\n"


def problems() -> list[Problem]:
    draw = random.Random(11)
    pairs = draw.sample([(a, b) for a in range(12, 100) for b in range(12, 100) if a != b], 30)
    return [
        Problem(
            {
                "id": f"s{a}-{b}",
                "prompt": f"{_SHOT}Q: What is {a} + {b}?\nA:",
                "answer": str(a + b),
                "solution": f"{a} + {b} = {a + b}",
            },
            {"a": a, "b": b, "sum": a + b},
        )
        for a, b in pairs
    ]


def written(problem: Problem, draw: random.Random) -> list[Written]:
    a, b, s = problem.facts["a"], problem.facts["b"], problem.facts["sum"]
    off = s + draw.choice([-10, 10, 1, -1])
    rights = [
        f" {a} + {b} = {s}. The answer is {s}.",
        f" {a} + {b} = {s}",
        f" The sum of {a} and {b} is {s}.",
        (
            f" First add the tens: {a // 10 * 10} + {b // 10 * 10} = {a // 10 * 10 + b // 10 * 10}.\n"
            f"Then the ones: {a % 10} + {b % 10} = {a % 10 + b % 10}.\nTogether that makes {s}."
        ),
        f" **{s}**",
        f" I get {off} at first, but I forgot to carry. The answer is {s}.",
        f" {s}.0",
    ]
    wrongs = [
        Written(f" {a} + {b} = {off}. The answer is {off}.", "reject"),
        Written(f" {a} + {b} = {s}. Wait, let me carry again. The answer is {off}.", "reject"),
        Written(f" It could be {s - 10}, {s - 1}, {s} or {s + 10}.", "reject"),
        Written(f" The answer is either {s} or {off}.", "reject"),
        Written(f" The answer is {s}{draw.randrange(10)}.", "reject"),
        Written(f" The answer is -{s}.", "reject"),
        Written(f" Let me add {a} and {b}. The tens are {a // 10} and {b // 10}, so", "reject", cut=True),
        Written(f" The answer is {a}.", "reject"),
        Written(f" The numbers are {a} and {b}. Please use a calculator to add them.", "reject"),
    ]
    return [*(Written(text, "accept") for text in draw.sample(rights, 3)), *draw.sample(wrongs, 4)]


def truth(problem: Problem, text: str) -> str:
    """Read the first answer, before the model goes on to ask itself another question."""
    own = re.split(r"\n+\s*(?:Q:|Question)", text)
    if len(own) > 1 and own[0].strip():
        return "unsure" if _right(problem, own[0]) else "reject"
    return "accept" if _right(problem, text) else "reject"


def _right(problem: Problem, text: str) -> bool:
    if re.search(r"\b(or|could be|either)\b", text) or text.rstrip().endswith("so"):
        return False
    return last_number(text) == problem.facts["sum"]


TASK = Task("sums", 64, problems, written, truth)
