"""Reasoning in `<think>`, the result in `<answer>`: the prompt shows the form and says that it counts."""

import random
import re

from gate_bench.tasks.task import Problem, Task, Written, chat

_SYSTEM = (
    "Think first inside <think> </think>, then give only the result inside <answer> </answer>, like this:\n"
    "<think>your reasoning</think>\n<answer>the number</answer>\n"
    "Write nothing else. Replies in another form get nothing."
)
_WORD = ("a farmer", "a shop", "a school", "a library", "a team")


def problems() -> list[Problem]:
    draw = random.Random(13)
    found = []
    for place in range(30):
        a, b, c = draw.randint(11, 40), draw.randint(3, 9), draw.randint(2, 30)
        who, add = _WORD[place % 5], place % 2 == 0
        value = a * b + c if add else a * b - c
        turn = f"gets {c} more" if add else f"loses {c} of them"
        question = (
            f"{who.capitalize()} has {b} boxes with {a} things in each and then {turn}. How many things are there?"
        )
        row = {"id": f"t{place:02d}", "prompt": chat(question, _SYSTEM), "answer": str(value)}
        steps = f"{b} boxes of {a} make {a * b}. Then {a * b} {'+' if add else '-'} {c} = {value}."
        found.append(Problem(row, {"value": value, "steps": steps, "first": a * b}))
    return found


def written(problem: Problem, draw: random.Random) -> list[Written]:
    v, steps, first = (problem.facts[key] for key in ("value", "steps", "first"))
    bad = v + draw.choice([-10, 10, 1, -1])
    rights = [
        f"<think>{steps}</think>\n<answer>{v}</answer>",
        f"<think>\n{steps}\n</think>\n<answer>\n{v}\n</answer>",
        f"<think>I take the boxes first.\n{steps}\nThat fits.</think>\n\n<answer>{v}</answer>\n",
        f"<think>{steps}</think><answer>{v}</answer>",
        f"<think>It might be {bad}. No: {steps}</think>\n<answer>{v}</answer>",
    ]
    wrongs = [
        Written(f"<think>{steps}</think>\n<answer>{bad}</answer>", "reject"),
        Written(f"<think>{steps} Hmm, I count again and get {bad}.</think>\n<answer>{bad}</answer>", "reject"),
        Written(f"<think>Only the boxes count.</think>\n<answer>{first}</answer>", "reject"),
        Written(f"<think>{steps} So <answer>{v}</answer>", "reject"),
        Written(f"<think>{steps}", "reject", cut=True),
        Written(f"<think></think>\n<answer>{bad}</answer>", "reject"),
        Written(f"<think>{steps}</think>\n<answer>{v}</answer>\n<answer>{bad}</answer>", "reject"),
        Written(f"{steps} The answer is {v}.", "reject"),
        Written(f"<think>{steps}</think>\n<answer>{v} or {bad}</answer>", "reject"),
        Written(f"<think>{steps}</think>\n<answer></answer>", "reject"),
    ]
    return [*(Written(text, "accept") for text in draw.sample(rights, 3)), *draw.sample(wrongs, 4)]


def truth(problem: Problem, text: str) -> str:
    form = re.fullmatch(r"\s*<think>(.*?)</think>\s*<answer>(.*?)</answer>\s*", text, re.DOTALL)
    if not form or "<" in form[1] + form[2] or len(form[1].split()) < 2:
        return "reject"
    return "accept" if form[2].strip() == str(problem.facts["value"]) else "reject"


TASK = Task("think", 96, problems, written, truth)
