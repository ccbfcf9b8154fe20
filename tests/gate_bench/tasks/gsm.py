"""Word problems with hash marks: the prompt says that only the last line, after `####`, is read."""

import random
import re

from gate_bench.tasks.task import Problem, Task, Written, chat

_ASK = (
    "{question}\n\nSolve it step by step. Write the final number on the last line after ####, as in `#### 42`. "
    "Only that line is graded."
)


def _problem(kind: int, draw: random.Random) -> tuple[str, str, float]:
    n, m, k = draw.randint(3, 9), draw.randint(12, 60), draw.randint(2, 7)
    table = [
        (
            f"A bakery sells {m} loaves a day. How many loaves does it sell in {n} weeks?",
            f"A week has 7 days, so {m} * 7 = {m * 7} a week. Over {n} weeks that is {m * 7} * {n} = {m * 7 * n}.",
            m * 7 * n,
        ),
        (
            (
                f"Sam has {m} marbles and gives {n} to each of {k} friends. How many more does he need, "
                "or how many are left? Write a number that is needed with a minus sign."
            ),
            f"He gives away {n} * {k} = {n * k}. {m} - {n * k} = {m - n * k}.",
            m - n * k,
        ),
        (
            f"A ticket costs ${m}. A family buys {n} tickets and pays a fee of ${k}. What do they pay in dollars?",
            f"The tickets cost {m} * {n} = {m * n} dollars. With the fee it is {m * n} + {k} = {m * n + k} dollars.",
            m * n + k,
        ),
        (
            f"A factory makes {m * 10} toys an hour. How many does it make in {n} shifts of 8 hours?",
            f"One shift makes {m * 10} * 8 = {m * 80}. {n} shifts make {m * 80} * {n} = {m * 80 * n}.",
            m * 80 * n,
        ),
        (
            f"{n} notebooks cost ${n * k + n / 2:.2f} in all. What does one notebook cost in dollars?",
            f"One costs {n * k + n / 2:.2f} / {n} = {k + 0.5:.2f} dollars.",
            k + 0.5,
        ),
        (
            f"It was {n} degrees at noon and fell by {n + k} degrees by midnight. What was it at midnight?",
            f"{n} - {n + k} = {-k}.",
            -k,
        ),
    ]
    return table[kind]


def problems() -> list[Problem]:
    draw = random.Random(12)
    found = []
    for place in range(30):
        question, steps, value = _problem(place % 6, draw)
        gold = f"{value:.2f}" if value != int(value) else str(int(value))
        row = {
            "id": f"g{place:02d}",
            "prompt": chat(_ASK.format(question=question)),
            "answer": gold,
            "solution": f"{steps}\n#### {gold}",
        }
        found.append(Problem(row, {"steps": steps, "value": value, "gold": gold, "question": question}))
    return found


def written(problem: Problem, draw: random.Random) -> list[Written]:
    steps, value, gold = (problem.facts[key] for key in ("steps", "value", "gold"))
    off = value + draw.choice([-10, 10, 1, -1, 2])
    bad = f"{off:.2f}" if off != int(off) else str(int(off))
    rights = [
        f"{steps}\n#### {gold}",
        f"{steps}\n\n#### {gold}\n",
        f"Let me think step by step.\n\n{steps}\n\nSo the result is {gold}.\n#### {gold}",
        f"{steps}\n####{gold}",
        f"I first thought it was {bad}, but that forgets a part.\n{steps}\n#### {gold}",
    ]
    if abs(value) >= 1000:
        rights = [f"{steps}\n#### {value:,.0f}", f"Step by step: {steps}\n#### {value:,.0f}", rights[0]]
    if "$" in problem.facts["question"]:
        rights = [f"{steps}\n#### ${gold}", rights[0], rights[2]]
    if value != int(value):
        rights = [f"{steps}\n#### {value:.1f}", rights[0], rights[1]]
    wrongs = [
        Written(f"{steps}\n#### {bad}", "reject"),
        Written(f"{steps}\nHmm, one more has to be counted.\n#### {bad}", "reject"),
        Written(f"{steps}\n#### {gold} or {bad}", "reject"),
        Written(f"#### {gold}\nBut no, I forgot a part. Now it is {bad}.\n#### {bad}", "reject"),
        Written(f"{steps[: len(steps) * 2 // 3]}", "reject", cut=True),
        Written(f"{steps}\nThe answer is {gold}.", "reject"),
        Written(f"The answer is {bad}.\n#### {bad}", "reject"),
        Written("I cannot solve this without more information.", "reject"),
        Written(f"{steps}\n####", "reject"),
        Written(f"#### {gold}{draw.randrange(1, 9)}" if "." not in gold else f"#### 1{gold}", "reject"),
    ]
    return [*(Written(text, "accept") for text in draw.sample(rights, 3)), *draw.sample(wrongs, 4)]


def truth(problem: Problem, text: str) -> str:
    if text.count("####") != 1 and text.count("####") < 2:
        return "reject"
    tail = text.rpartition("####")[2].strip().strip("`*").rstrip(".")
    found = re.fullmatch(r"\$?(-?)\$?(\d[\d,]*(?:\.\d+)?)", tail)
    if not found:
        return "reject"
    value = float(found[2].replace(",", "")) * (-1 if found[1] else 1)
    return "accept" if value == problem.facts["value"] else "reject"


TASK = Task("gsm", 192, problems, written, truth)
