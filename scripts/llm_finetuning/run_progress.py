"""How far a run is, by its progress.jsonl: the pace of a step, what an evaluation costs, and what is still to come."""

import functools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_finetuning import console

BEGINS = b'"metrics": {}}'  # ends the line that guards/progress.py writes when training begins
HELD_OUT = "eval_"  # begins the names of an evaluation's metrics
RUNTIME = "eval_runtime"  # seconds of an evaluation as the trainer takes them
SUMMARY = "train_runtime"  # of the line at the trainer's end
EPOCH = "epoch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What progress.jsonl says of the last start."""

    step: int
    max_steps: int
    begun: int  # the step from which this start goes on
    at: float  # seconds since the epoch
    metrics: Mapping[str, Any]  # of the last line
    pace: float | None  # seconds a step without evaluations, since this start; None before its first step
    evaluation_s: float | None  # seconds of one evaluation of the held-out rows; None where none was timed
    evaluations_left: int  # that one under way with them
    measuring: bool  # an evaluation is under way
    measures_next: bool  # one follows the next step

    @property
    def seconds_left(self) -> float | None:
        """The steps still to come at their pace, and the evaluations still to come; None before the first step.

        Evaluations of which none was timed count nothing.
        """
        if self.pace is None:
            return None
        steps = max(0, self.max_steps - self.step)
        return self.pace * steps + (self.evaluation_s or 0.0) * self.evaluations_left

    @property
    def doing(self) -> str:
        """What the run does where a log of steps alone would look as if it stood still; empty at any other time."""
        if self.measuring and self.step == self.begun:
            which = "the first step" if not self.step else f"step {self.step + 1}"
            takes = f", about {console.duration(self.evaluation_s)}" if self.evaluation_s else ""
            return f"measuring the held-out rows before {which}{takes}"
        if self.measuring:
            return "measuring the held-out rows"
        if self.step == self.begun < self.max_steps:
            return "taking the first step" if not self.step else f"taking step {self.step + 1}, the first of this start"
        return ""

    @property
    def time_left(self) -> str:
        """`about 8 min left`, with what is not counted in it; empty before the first step."""
        if self.seconds_left is None:
            return ""
        words = f"about {console.duration(self.seconds_left)} left"
        if self.evaluations_left and self.evaluation_s is None:
            words += f" and {self.evaluations_left} evaluation{'s' * (self.evaluations_left > 1)} of the held-out rows"
        return words


def read(folder: Path) -> Progress | None:
    """Return how far the run in a folder `train` was when it logged last; None where nothing is logged."""
    seen = (_mark(folder / "logs" / "progress.jsonl"), _mark(folder / "config.yaml"))
    return _read(folder.absolute(), seen) if seen[0] is not None else None


def _mark(path: Path) -> tuple[int, int] | None:
    """Return what changes where a file is written; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


@functools.lru_cache(maxsize=8)
def _read(folder: Path, _seen: object) -> Progress | None:
    """Read log and options as they are at `_seen`: a run is looked at again and again while it logs nothing."""
    try:
        lines = (folder / "logs" / "progress.jsonl").read_bytes().split(b"\n")[:-1]
    except OSError:
        return None
    first = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].endswith(BEGINS)), 0)
    rows = [row for row in map(_row, lines[first:]) if row is not None]
    if not rows:  # what follows the last newline is being written
        return None
    earlier = [
        row["metrics"].get(RUNTIME) for line in lines[:first] if RUNTIME.encode() in line and (row := _row(line))
    ]
    return _of(rows, _options(folder), [value for value in earlier if isinstance(value, int | float)])


def _row(line: bytes) -> dict[str, Any] | None:
    """Return a line of the log; None for one that a kill cut, to which the next start may have added its first."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("metrics"), dict) else None


def _of(rows: Sequence[Mapping[str, Any]], options: Mapping[str, Any], before: Sequence[float]) -> Progress:
    """Return how far the start is whose lines these are, the one with which it began first.

    `before` are the seconds of evaluations of earlier starts, which count where this one has timed none.
    """
    begun, last = rows[0]["step"], rows[-1]
    step, most = last["step"], last["max_steps"]
    measured = {row["step"] for row in rows if _evaluates(row)}
    costs = list(_costs(rows))
    due = set(_due(options, most, rows))
    at_start = bool(options.get("eval_on_start")) and begun not in measured and begun < most
    now = at_start if step == begun else step in due - measured
    if SUMMARY in last["metrics"]:  # the trainer has left its loop
        now = False
    held = [cost for _, cost in costs] or before
    return Progress(
        step=step,
        max_steps=most,
        begun=begun,
        at=last["at"],
        metrics=last["metrics"],
        pace=_pace(rows, costs),
        evaluation_s=sum(held) / len(held) if held else None,
        evaluations_left=sum(place > step for place in due) + now,
        measuring=now,
        measures_next=step + 1 in due,
    )


def _evaluates(row: Mapping[str, Any]) -> bool:
    return any(name.startswith(HELD_OUT) for name in row["metrics"])


def _costs(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, float]]:
    """Yield the place and the seconds of each evaluation.

    A line at the same step stands just before the evaluation began; where the one before is of an earlier step, as in a
    log of every tenth, steps lie between, and the trainer's own seconds count. So they do before the first step, where
    the trainer prepares itself.
    """
    for place, row in enumerate(rows[1:], 1):
        if not _evaluates(row):
            continue
        since = row["at"] - rows[place - 1]["at"]
        own = row["metrics"].get(RUNTIME)
        apart = row["step"] != rows[place - 1]["step"] or row["step"] == rows[0]["step"]
        if apart and isinstance(own, int | float):
            since = own
        elif row["step"] != rows[place - 1]["step"]:
            continue
        yield place, max(0.0, since)


def _pace(rows: Sequence[Mapping[str, Any]], costs: Sequence[tuple[int, float]]) -> float | None:
    """Return the seconds of a step without evaluations, from the last line before the first step to the last line."""
    start = max(place for place, row in enumerate(rows) if row["step"] == rows[0]["step"])
    steps = rows[-1]["step"] - rows[0]["step"]
    if steps <= 0:
        return None
    evaluating = sum(cost for place, cost in costs if place > start)
    return float(max(0.0, rows[-1]["at"] - rows[start]["at"] - evaluating)) / float(steps)


def _due(options: Mapping[str, Any], most: int, rows: Sequence[Mapping[str, Any]]) -> Iterator[int]:
    """Yield the steps after which transformers 5 measures the held-out rows; the last step is one of them."""
    strategy, delay = options.get("eval_strategy"), _number(options, "eval_delay") or 0.0
    if strategy == "steps":
        every = _number(options, "eval_steps") or _number(options, "logging_steps")
        whole = math.ceil(most * every) if every is not None and every < 1 else int(every or 0)
        yield from (step for step in range(whole, most, whole) if step >= delay) if whole > 0 else ()
        yield from [most] if most >= delay else []
    elif strategy == "epoch" and (epoch := _steps_an_epoch(options, most, rows)):
        ends = (math.ceil(round(number * epoch, 3)) for number in range(1, int(most / epoch) + 1))
        yield from dict.fromkeys([*ends, most])


def _steps_an_epoch(options: Mapping[str, Any], most: int, rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the steps of an epoch: what was logged says it, or the number of epochs where that decides the steps."""
    for row in reversed(rows):
        seen = row["metrics"].get(EPOCH)
        if isinstance(seen, int | float) and seen > 0 and row["step"] > 0:
            return max(1.0, float(round(row["step"] / seen)))
    epochs = _number(options, "num_train_epochs")
    return max(1.0, most / epochs) if epochs and (_number(options, "max_steps") or -1) < 0 else None


def _number(options: Mapping[str, Any], name: str) -> float | None:
    value = options.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _options(folder: Path) -> Mapping[str, Any]:
    """Return the trainer's options from config.yaml; none where it cannot be read, so that no evaluation is awaited."""
    return _read_options(folder, _mark(folder / "config.yaml"))


@functools.lru_cache(maxsize=8)
def _read_options(folder: Path, _seen: object) -> Mapping[str, Any]:
    """Read them once, since YAML takes longer than the log."""
    from llm_finetuning.diagnosis.reading import folders

    return folders.config_of(folder, [])[0]
