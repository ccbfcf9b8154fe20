"""Which rows of a log count, and in what order: rows without a step, steps that restart, runs after one another."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

FEW_RESTARTS = 2
MOST_RESTARTS = 0.25  # of the rows; a file whose steps fall more often than that is sorted in another way
SHOWN_RESTARTS = 3
DIGITS = 6  # of an epoch


class Rows:
    """What is known of each row of a log."""

    def __init__(self, count: int) -> None:
        """Take the number of rows; nothing is known of them yet."""
        self.steps = [math.nan] * count  # NaN where the row names none
        self.epochs = [math.nan] * count
        self.trains = [False] * count
        self.evaluates = [False] * count


def in_order(rows: Rows, begins: Mapping[int, float], notes: list[str]) -> tuple[list[int], bool]:
    """Return the rows that count, in their order, and whether the log names steps; each of them has one then.

    Where most rows of training name no step, they are counted from 1; where few do not, those are left out. An
    evaluation without a step belongs to the row of training before it.
    """
    training = [row for row, trains in enumerate(rows.trains) if trains]
    without = [row for row in training if math.isnan(rows.steps[row])]
    has_steps = 2 * len(without) < len(training) or not training
    if has_steps and without:
        notes.append(f"{len(without)} of {len(training)} rows name no step and were left out")
        for row in without:
            rows.trains[row] = False
    kept = _after_restarts(rows, rows.steps if has_steps else rows.epochs, begins, notes)
    last, count = 0.0, 0
    for row in kept:
        if rows.trains[row]:
            count += 1
            last = rows.steps[row] = rows.steps[row] if has_steps else float(count)
        elif rows.evaluates[row] and (math.isnan(rows.steps[row]) or not has_steps):
            rows.steps[row] = last
    return kept, has_steps


def _after_restarts(rows: Rows, clock: Sequence[float], begins: Mapping[int, float], notes: list[str]) -> list[int]:
    """Return the rows that count, in their order.

    Where the clock falls, training went on from a checkpoint: what was logged from there on is of a life whose model
    is gone. `begins` says it outright: row -> the step from which training goes on before it.
    """
    training = [row for row, trains in enumerate(rows.trains) if trains]
    falls = _falls(training, clock)
    if len(falls) > max(FEW_RESTARTS, MOST_RESTARTS * len(training)):
        notes.append("the rows are not in the order of their steps; sorted, so that no restart of the run can be told")
        falls = []
    ends = {row: clock[row] for row in falls}  # row -> what came before it counts below this alone
    for row, step in begins.items():
        ends[row] = min(ends.get(row, math.inf), math.nextafter(step, math.inf))
    kept: list[int] = []
    left_out = dict.fromkeys(sorted(ends), 0)
    end, by = math.inf, -1
    for row in range(len(clock), -1, -1):
        if row < len(clock) and (rows.trains[row] or rows.evaluates[row]):
            if clock[row] >= end:
                left_out[by] += rows.trains[row]
            else:
                kept.append(row)
        if ends.get(row, math.inf) < end:
            end, by = ends[row], row
    first = min((clock[row] for row in training), default=math.nan)
    notes.extend(_told(ends, left_out, first))
    return kept[::-1]


def _told(ends: Mapping[int, float], left_out: Mapping[int, int], first: float) -> Iterator[str]:
    """Yield a line for each restart that took rows away, the last ones where there are many."""
    lines = [
        f"an earlier run in the same log, {count} rows, was left out: its steps begin again"
        if ends[row] <= first
        else f"training went on {_whence(ends[row])}: {count} rows of its life before were left out"
        for row, count in left_out.items()
        if count
    ]
    if len(lines) > SHOWN_RESTARTS:
        yield f"{len(lines) - SHOWN_RESTARTS} more restarts before these"
    yield from lines[-SHOWN_RESTARTS:]


def _whence(end: float) -> str:
    """Return from where a life began; what it said itself stands just above the step (`math.nextafter`)."""
    return f"before {end:g}" if end == round(end, DIGITS) else f"from step {end:g}"


def _falls(training: Iterable[int], clock: Sequence[float]) -> list[int]:
    """Return the rows whose clock stands before that of the row before them."""
    found, last = [], -math.inf
    for row in training:
        if clock[row] < last:
            found.append(row)
        if not math.isnan(clock[row]):
            last = clock[row]
    return found
