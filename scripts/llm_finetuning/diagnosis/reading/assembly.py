"""From rows as they were written to one series a metric: steps in order, a step's rows in one, evaluations apart."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_finetuning.diagnosis.log import RunLog, Series
from llm_finetuning.diagnosis.reading import names
from llm_finetuning.diagnosis.reading.order import Rows, in_order
from llm_finetuning.diagnosis.reading.source import Table, number
from llm_finetuning.errors import Refusal

if TYPE_CHECKING:
    import numpy as np

    from llm_finetuning.diagnosis.log import Column, Mask

    Places = np.ndarray[Any, np.dtype[np.int64]]

MOST_METRICS = 4000  # a log with more is none, and would fill the memory
SHOWN_NAMES = 6


@dataclass(slots=True)
class _Kind:
    """All rows that have the same names in the same order."""

    names: tuple[str, ...]
    steps: dict[int, int]  # rank of a name that may hold the step -> place
    epoch: int | None
    training: list[tuple[int, str]]  # place, name in TRL 1.16
    held_out: list[tuple[int, str]]
    rows: list[int] = field(default_factory=list)
    values: list[tuple[Any, ...]] = field(default_factory=list)


def assemble(table: Table, path: Path, options: Mapping[str, Any], *, untrained: bool = False) -> RunLog:
    """Return the log of a table; refuses one in which no row has a metric of a trainer.

    It refuses one without a row of training, unless that may be `untrained`.
    """
    kinds, rows = _by_kind(table)
    if table.rows or not untrained:
        _check(kinds, table, path)
    notes = list(table.notes)
    kept, has_steps = in_order(rows, table.begins, notes)
    steps, series = _side(kinds, [row for row in kept if rows.trains[row]], rows, notes)
    held_out_steps, held_out = _side(kinds, [row for row in kept if rows.evaluates[row]], rows, notes, held_out=True)
    if not series and not untrained:
        raise Refusal(
            f"{path}: holds evaluations and no row of training yet: wait for the first step, or give the log that the "
            "trainer wrote"
        )
    present = dict.fromkeys(name for kind in kinds for name in kind.names)
    return RunLog(
        source=str(path),
        form=table.form,
        era=table.era or names.era(present),
        steps=steps,
        numbered=has_steps,
        series=series,
        held_out=held_out,
        held_out_steps=held_out_steps,
        options=_options(table.options, options, notes),
        renamed=_renamed(present),
        notes=tuple(notes),
    )


def _side(
    kinds: Sequence[_Kind], wanted: Sequence[int], rows: Rows, notes: list[str], *, held_out: bool = False
) -> "tuple[Column, dict[str, Series]]":
    """Return the steps of training or of evaluations, and the metrics over them, from the rows that are wanted."""
    import numpy as np

    logged: Column = np.asarray([rows.steps[row] for row in wanted], dtype=float)
    steps, places = np.unique(logged, return_inverse=True)
    columns = _Columns(len(rows.steps), wanted, places, len(steps))
    for kind in kinds:
        columns.take(kind, kind.held_out if held_out else kind.training)
    if again := int(columns.repeated.sum()):
        what = ("evaluation" if held_out else "step") + "s" * (again > 1)
        notes.append(f"{again} {what} logged again; the last value counts")
    return steps, columns.series()


def _by_kind(table: Table) -> tuple[list[_Kind], Rows]:
    """Return the rows sorted by the names they have, and for each row its step and what it is about."""
    known: dict[tuple[str, ...], _Kind | None] = {}
    for place, row in enumerate(table.rows):
        key = tuple(row)
        if key not in known:
            known[key] = _kind(key)
        if (kind := known[key]) is not None:
            kind.rows.append(place)
            kind.values.append(tuple(row.values()))
    kinds = [kind for kind in known.values() if kind is not None]
    rank = _rank(kinds)
    rows = Rows(len(table.rows))
    for kind in kinds:
        at = kind.steps.get(rank)
        for place, values in zip(kind.rows, kind.values, strict=True):
            rows.trains[place], rows.evaluates[place] = bool(kind.training), bool(kind.held_out)
            rows.steps[place] = math.nan if at is None else _step(values[at])
            rows.epochs[place] = math.nan if kind.epoch is None else number(values[kind.epoch])[0]
    return kinds, rows


def _rank(kinds: Sequence[_Kind]) -> int:
    """Return which of the names of a step counts: the best one that half of the rows of training have, or the most."""
    found: Counter[int] = Counter()
    for kind in kinds:
        for rank in kind.steps:
            found[rank] += len(kind.rows) if kind.training else 0
    half = sum(len(kind.rows) for kind in kinds if kind.training) / 2
    return max(found, key=lambda rank: (min(found[rank], half), -rank), default=-1)


def _kind(key: tuple[str, ...]) -> _Kind | None:
    """Return what rows with these names hold; None for the trainer's summary at the end."""
    sides: tuple[dict[str, int], dict[str, int]] = ({}, {})
    steps: dict[int, int] = {}
    for at, name in enumerate(key):
        if (rank := names.is_step(name)) is not None:
            steps[rank] = at
        elif (place := names.placed(name)) is not None and (place.own or place.name not in sides[place.held_out]):
            sides[place.held_out][place.name] = at  # of a metric's old and new name in one row, the new one counts
    training, evaluation = sides
    if any(map(names.is_summary, key)) and not {"loss", "grad_norm"} & set(training):
        return None
    return _Kind(
        names=key,
        steps=steps,
        epoch=training.get("epoch"),
        training=[(at, name) for name, at in training.items()] if set(training) - names.COMPANIONS else [],
        held_out=[(at, name) for name, at in evaluation.items()],
    )


def _step(value: Any) -> float:
    """Return a step, also of "10/200"; NaN for what is none."""
    if isinstance(value, str):
        value = value.partition("/")[0]
    found, _ = number(value)
    return found if found >= 0 else math.nan


def _check(kinds: Sequence[_Kind], table: Table, path: Path) -> None:
    metrics = dict.fromkeys(name for kind in kinds for _, name in (*kind.training, *kind.held_out))
    if not any(map(names.is_of_a_trainer, metrics)):
        found = ", ".join(_short(name) for name in list(metrics)[:SHOWN_NAMES]) or "none"
        raise Refusal(
            f"{path}: none of its {len(table.rows)} rows has a metric of a trainer, such as reward or loss (they have: "
            f"{found}); give trainer_state.json, or what was exported from it"
        )
    if len(metrics) > MOST_METRICS:
        raise Refusal(f"{path}: has {len(metrics)} different metrics, a log has at most {MOST_METRICS}; is it one?")


def _short(name: str) -> str:
    return repr(name if len(name) <= 40 else name[:37] + "...")  # noqa: PLR2004  letters on a line


class _Columns:
    """The series of one side of the log, filled kind by kind; of two values for a place the later row's stays."""

    def __init__(self, rows: int, wanted: Sequence[int], places: Any, height: int) -> None:
        """Take, of `rows` rows, the wanted ones and the place of each among `height` steps."""
        import numpy as np

        self._place: Places = np.full(rows, -1, dtype=np.int64)
        self._place[np.asarray(wanted, dtype=np.int64)] = places.reshape(-1)
        self._height = height
        self._found: dict[str, tuple[Column, Mask, Places]] = {}
        self.repeated: Mask = np.zeros(height, dtype=bool)  # steps with a value that a later row replaced

    def take(self, kind: _Kind, metrics: Sequence[tuple[int, str]]) -> None:
        """Enter the values of a kind's rows."""
        import numpy as np

        if not metrics or not kind.rows:
            return
        rows = np.asarray(kind.rows, dtype=np.int64)
        there = self._place[rows] >= 0
        if not there.any():
            return
        rows = rows[there]
        columns = list(zip(*kind.values, strict=True))
        for at, name in metrics:
            values, bad = _numbers(columns[at])
            self._enter(name, rows, values[there], bad[there])

    def _enter(self, name: str, rows: Any, values: Any, bad: Any) -> None:
        import numpy as np

        logged = bad | ~np.isnan(values)
        if not logged.any():
            return
        if name not in self._found:
            column: Column = np.full(self._height, math.nan)
            marks: Mask = np.zeros(self._height, dtype=bool)
            self._found[name] = column, marks, np.full(self._height, -1, dtype=np.int64)
        column, marks, writer = self._found[name]
        rows, values, bad = rows[logged], values[logged], bad[logged]
        last: Places = np.full(self._height, -1, dtype=np.int64)
        np.maximum.at(last, self._place[rows], rows)
        final = (last[self._place[rows]] == rows) & (writer[self._place[rows]] < rows)
        places = self._place[rows[final]]
        if name not in names.COMPANIONS:
            self.repeated[places[writer[places] >= 0]] = True
            self.repeated[self._place[rows[~final]]] = True
        column[places], marks[places], writer[places] = values[final], bad[final], rows[final]

    def series(self) -> dict[str, Series]:
        """Return the series by name."""
        return {name: Series(values=values, bad=bad) for name, (values, bad, _) in self._found.items()}


def _numbers(logged: Sequence[Any]) -> "tuple[Column, Mask]":
    """Return values, NaN where there is no finite number, and where null, NaN or infinity was logged."""
    import numpy as np

    if all(type(value) is float for value in logged):
        values = np.array(logged, dtype=float)
        bad = ~np.isfinite(values)
        values[bad] = math.nan
        return values, bad
    pairs = [number(value) for value in logged]
    return np.array([value for value, _ in pairs]), np.array([bad for _, bad in pairs], dtype=bool)


def _options(beside: Mapping[str, Any], given: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return the training arguments: what stands beside the log, and what was given for the rest."""
    notes.extend(
        f"option {name}: {value} was given, but {beside[name]} stands beside the log and counts"
        for name, value in given.items()
        if name in beside and beside[name] != value
    )
    return {**given, **beside}


def _renamed(present: Mapping[str, None]) -> dict[str, str]:
    """Return the metrics of training whose names in the log are not those of TRL 1.16."""
    pairs = ((name, place.name) for name in present if (place := names.placed(name)) and not place.held_out)
    return {old: new for old, new in pairs if old != new}
