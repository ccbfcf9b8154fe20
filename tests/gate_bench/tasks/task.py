"""What the tasks of the benchmark have in common: a problem, a written completion, and who decides what is right."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from llm_finetuning.types import Verdict


@dataclass(frozen=True, slots=True)
class Problem:
    """One row of a task's data set, and what its author knows beside it."""

    row: dict[str, Any]
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """A completion as a better model would write it, with the truth that its author meant."""

    text: str
    truth: Verdict
    cut: bool = False  # ended by the cap


@dataclass(frozen=True, slots=True)
class Task:
    """One task: its data set, its written completions, and the program that knows what is right."""

    name: str
    cap: int  # tokens; real completions are drawn with it
    problems: Callable[[], list[Problem]]
    written: Callable[[Problem, random.Random], list[Written]]  # seven completions: three right, four not
    truth: Callable[[Problem, str], Verdict]  # of any completion; unsure where readers would differ
    columns: dict[str, str] = field(default_factory=lambda: {"prompt": "prompt", "answer": "answer", "id": "id"})


def chat(user: str, system: str | None = None) -> list[dict[str, str]]:
    head = [{"role": "system", "content": system}] if system else []
    return [*head, {"role": "user", "content": user}]


def last_number(text: str) -> float | None:
    found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)
    return float(found[-1].replace(",", "")) if found else None
