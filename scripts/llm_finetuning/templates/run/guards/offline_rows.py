"""The rows of a method that learns from completions which are in the data set, as its trainer takes them."""

from collections.abc import Mapping, Sequence
from typing import Any

from datasets import Dataset

from guards import ending


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Dataset:
    """Return the columns that the trainer reads, and no other; ends the run for a row without one of them."""
    for number, row in enumerate(rows, 1):
        missing = [name for name in columns if name not in row]
        if missing:
            raise ending.refuse(f"data: row {number} has no {', '.join(missing)}; build the run again")
    return Dataset.from_dict({name: [row[name] for row in rows] for name in columns})


def say_what_is_cut(trainer: Any, longest: int | None) -> None:
    """Say how many rows lose their end, and with it the end token, which the model then does not learn to write."""
    if longest is None or "input_ids" not in trainer.train_dataset.column_names:
        return
    cut = sum(len(ids) > longest for ids in trainer.train_dataset["input_ids"])
    if cut:
        ending.say(
            f"{cut} of {len(trainer.train_dataset)} rows are longer than max_length {longest} and lose their end"
        )
