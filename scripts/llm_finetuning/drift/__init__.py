"""The drift suite: frozen items of general ability, to see whether a trained model lost what its base could do.

Every model gets the same items greedily, one completion an item; what counts is the difference item by item. The items
were written for this suite and are those of `items.jsonl`; a change to them is a new version of the suite, and numbers
of two versions are not compared.
"""

import json
from pathlib import Path
from typing import Any

from llm_finetuning.types import Component, Row

SUITE = "drift/1"
"""Name and version of the suite."""

MAX_TOKENS = 256
"""Longest completion of an item, in tokens, end token included; the answers themselves need at most 80."""

NAME = "drift"
"""Name of the suite's one component."""

ITEMS = Path(__file__).with_name("items.jsonl")

KINDS = (
    "arithmetic",
    "code",
    "instructions",
    "knowledge",
    "language",
    "lists",
    "reading",
    "reasoning",
    "structure",
)
"""What an item asks for; the column `kind`, and the buckets of an evaluation."""

_OPENING = "Question: Which colour do blue and yellow paint make together? Answer with one word.\nAnswer: Green\n\n"
_QUESTION, _ANSWER = "Question: ", "\nAnswer:"


def rows(*, chat: bool) -> list[Row]:
    """Return the items in their order, with the columns `kind`, `grader`, `expected` and `options`.

    `chat` gives each prompt as one user message. Without it a prompt is text that a base model continues: one answered
    question, which is no item, and then the item up to `Answer:`, so that a model goes on with the next question where
    it does not end.
    """
    return [
        Row(
            row=number,
            prompt_id=item["id"],
            prompt=_prompt(item["prompt"], chat=chat),
            columns={name: item[name] for name in ("kind", "grader", "expected", "options")},
        )
        for number, item in enumerate(_items(), 1)
    ]


def digest() -> str:
    """Return the SHA-256 of all that decides a grade: the items, this room and the reward library it grades with."""
    from llm_finetuning import artifact

    package = Path(__file__).parents[1]
    sources = [ITEMS, *sorted((package / "drift").glob("*.py")), *sorted((package / "rewards").rglob("*.py"))]
    return artifact.digest_value({str(path.relative_to(package)): artifact.digest_file(path) for path in sources})


def component() -> Component:
    """Return the suite's grader: 1.0 for a right answer, 0.0 for another or none, None for a row of no suite."""
    from llm_finetuning.drift.graders import DriftGrade

    return Component(name=NAME, function=DriftGrade(), weight=1.0, low=0.0, high=1.0)


def _prompt(asked: str, *, chat: bool) -> str | list[dict[str, Any]]:
    return [{"role": "user", "content": asked}] if chat else f"{_OPENING}{_QUESTION}{asked}{_ANSWER}"


def _items() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ITEMS.read_text("utf-8").splitlines()]
