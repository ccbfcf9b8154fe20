"""A bound on the tokens of the longest row that a method trains on as it is, without a tokenizer."""

from typing import Any

from llm_finetuning import dataset
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.building.rows import training_rows
from llm_finetuning.errors import Refusal

TEMPLATE = 256
"""Tokens that a chat template may add to a row: marks of turns, and a system prompt of its own."""

_LARGEST = 20_000_000
"""Bytes of a data set that is read for this; a larger one would make the caller wait."""


def bound(loaded: LoadedBrief) -> int | None:
    """Return how many tokens no row can exceed; None where the rows are not at hand, or are many.

    A token stands for one byte at least, whichever the tokenizer. What is wrong with the rows is for others to say.
    """
    if loaded.brief.method == "grpo" or dataset.needs_program(loaded):
        return None
    try:
        if loaded.resolve(loaded.brief.dataset.path).stat().st_size > _LARGEST:
            return None
        rows = training_rows(loaded.brief.method, dataset.read_rows(loaded), "")
    except (Refusal, OSError):
        return None
    return max((_longest(row) for row in rows), default=0) + TEMPLATE


def _longest(row: dict[str, Any]) -> int:
    """Return the bytes of the prompt with the longer of its completions."""
    answers = [_bytes(value) for name, value in row.items() if name != "prompt"]
    return _bytes(row["prompt"]) + max(answers, default=0)


def _bytes(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, dict):
        return sum(_bytes(one) for one in value.values())
    return sum(_bytes(one) for one in value) if isinstance(value, list) else 0
