"""Countdown as plain text: the prompt ends with an opened `<think>`, as the R1-Zero replications write it."""

import ast
import random
import re
from collections import Counter

from gate_bench.tasks.task import Problem, Task, Written

_ASK = (
    "User: Using each of the numbers {nums} exactly once, and + - * / with brackets, write an expression that equals "
    "{target}. Show your work in <think> </think> tags and return the final expression in <answer> </answer> tags, "
    "for example <answer>(1 + 2) * 3</answer>.\nAssistant: Let me solve this step by step.\n<think>"
)


def problems() -> list[Problem]:
    draw = random.Random(14)
    found = []
    for place in range(24):
        a, b, c = draw.sample(range(2, 30), 3)
        forms = [(f"({a} + {b}) * {c}", (a + b) * c), (f"{a} * {b} - {c}", a * b - c), (f"{a} + {b} * {c}", a + b * c)]
        reference, target = forms[place % 3]
        row = {
            "id": f"c{place:02d}",
            "prompt": _ASK.format(nums=[a, b, c], target=target),
            "answer": reference,
            "target": target,
            "nums": [a, b, c],
        }
        found.append(Problem(row, {"nums": [a, b, c], "target": target, "reference": reference}))
    return found


def written(problem: Problem, draw: random.Random) -> list[Written]:
    (a, b, c), target, reference = (problem.facts[key] for key in ("nums", "target", "reference"))
    rights = [
        f"I try the numbers.\n{reference} = {target}. That works.</think>\n<answer>{reference}</answer>",
        f" {a} + {b} + {c} = {a + b + c} is not {target}.\nBut {reference} is.</think>\n<answer>{reference}</answer>",
        f"The target is {target}, so {reference}.\n</think>\n\n<answer> {reference} </answer>",
        f"{reference} gives {target}.</think><answer>{reference.replace(' ', '')}</answer>",
        f"I see it at once.</think>\n<answer>({reference})</answer>",
    ]
    wrongs = [
        Written(f"I add them.</think>\n<answer>{a} + {b} + {c}</answer>", "reject"),
        Written(f"The target is {target}.</think>\n<answer>{target}</answer>", "reject"),
        Written(f"I may split it.</think>\n<answer>{target - 1} + 1</answer>", "reject"),
        Written(f"I try {reference}, but I doubt it.</think>\n<answer>{a} * {b} * {c}</answer>", "reject"),
        Written("None of the sums and products fits.</think>\n<answer></answer>", "reject"),
        Written(f"<answer>{reference}</answer> seems fine but I go on thinking about", "reject", cut=True),
        Written(f"It works out.</think>\n<answer>{reference} + {a} - {a}</answer>", "reject"),
        Written(f"Let me see.</think>\nThe numbers are {a}, {b} and {c}.", "reject"),
        Written(f"So.</think>\n<answer>{a} - {b} + {c}</answer>", "reject"),
    ]
    return [*(Written(text, "accept") for text in draw.sample(rights, 3)), *draw.sample(wrongs, 4)]


def truth(problem: Problem, text: str) -> str:
    form = re.fullmatch(r"(.*?)</think>\s*<answer>(.*?)</answer>\s*", text, re.DOTALL)
    if not form or "<" in form[1]:
        return "reject"
    expression = form[2].strip()
    if not re.fullmatch(r"[\d+\-*/() ]+", expression):
        return "reject"
    try:
        value = eval(compile(ast.parse(expression, mode="eval"), "expression", "eval"), {"__builtins__": {}})  # noqa: S307  digits and signs alone
    except (SyntaxError, ZeroDivisionError, TypeError):
        return "reject"
    numbers = Counter(int(word) for word in re.findall(r"\d+", expression))
    right = numbers == Counter(problem.facts["nums"]) and abs(value - problem.facts["target"]) < 1e-9
    return "accept" if right else "reject"


TASK = Task("countdown", 96, problems, written, truth)
