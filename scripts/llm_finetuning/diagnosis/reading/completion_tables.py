"""TRL's tables of completions, which a run with `log_completions` leaves as Parquet."""

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from llm_finetuning.diagnosis.log import Completion, RunLog
from llm_finetuning.diagnosis.reading import folders
from llm_finetuning.diagnosis.reading.source import number

MOST_TABLES = 200  # read of a run, spread evenly, the first and the last among them
_TABLE = re.compile(r"completions_(\d+)\.parquet")
_NO_REWARDS = frozenset({"step", "prompt", "completion", "advantage", "trainer_state"})


def read_tables(folder: Path, *, python: str, log: RunLog) -> list[Completion]:
    """Return the completions of training, by step, in the order of their tables.

    In a folder of TRL's own an evaluation at step N takes the place of the table of step N (TRL 1.16.0), so the
    steps at which the log has an evaluation are passed over; our runs keep both apart. A step that reuses its
    completions writes the last table once more; such a copy is passed over.
    """
    from llm_finetuning.program import run_program

    run = folders.run_folder(folder)
    evaluated = frozenset() if run is not None else frozenset(log.held_out_steps.tolist())
    tables = _spread([(step, path) for step, path in _tables(run or folder) if step not in evaluated])
    if not tables:
        return []
    job = {"paths": [str(path.absolute()) for _, path in tables]}
    steps = {str(path.absolute()): step for step, path in tables}
    found: list[Completion] = []
    last: list[Any] = []
    with closing(run_program("completions_reader", job, python=python)) as records:
        for record in records:
            rows = record["rows"]
            content = [[value for name, value in row.items() if name != "step"] for row in rows]
            if content != last:
                found += _completions(steps[record["path"]], rows, frozenset(log.components))
            last = content
    return found


def _tables(folder: Path) -> list[tuple[int, Path]]:
    """Return the tables of training with their steps, in order."""
    place = folder / "completions"
    named = [(_TABLE.fullmatch(path.name), path) for path in place.iterdir()] if place.is_dir() else []
    return sorted((int(name[1]), path) for name, path in named if name)


def _spread(tables: Sequence[tuple[int, Path]]) -> list[tuple[int, Path]]:
    if len(tables) <= MOST_TABLES:
        return list(tables)
    return [tables[round(place * (len(tables) - 1) / (MOST_TABLES - 1))] for place in range(MOST_TABLES)]


def _completions(step: int, rows: Sequence[Mapping[str, Any]], components: frozenset[str]) -> list[Completion]:
    """Return a table's rows; the rewards are the columns of the log's components, or without one all of numbers."""
    present = dict.fromkeys(name for row in rows for name in row if name not in _NO_REWARDS)
    rewards = [name for name in present if name in components] or [
        name for name in present if all(isinstance(row.get(name), float | None) for row in rows)
    ]
    return [
        Completion(
            step=step,
            prompt=_text(row.get("prompt")),
            completion=_text(row.get("completion")),
            rewards={name: _value(row.get(name)) for name in rewards},
            advantage=_value(row.get("advantage")),
            columns={name: row.get(name) for name in present if name not in rewards},
        )
        for row in rows
    ]


def _value(value: Any) -> float | None:
    """Return a number; None for null, NaN and infinity."""
    found, _ = number(value)
    return found if found == found else None  # noqa: PLR0124  NaN alone differs from itself


def _text(value: Any) -> str:
    """Return text as it is, and of chat messages the content of each on lines of its own."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_text(part.get("content") if isinstance(part, Mapping) else part) for part in value)
    return "" if value is None else str(value)
