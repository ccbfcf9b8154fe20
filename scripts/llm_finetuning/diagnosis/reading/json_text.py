"""JSON as trainers write it: a state with its log, a list of rows, and a line a row."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llm_finetuning.diagnosis.reading import names
from llm_finetuning.diagnosis.reading.source import Source, Table

DEPTH = 3  # of objects, within which the list of rows is looked for
SHOWN_LINES = 3

_OPTIONS_KEYS = ("cfg", "config", "args", "training_args", "options")
_OF_THE_STATE = ("logging_steps", "eval_steps", "save_steps", "max_steps", "num_train_epochs")
_NESTED = ("metrics", "logs", "log", "data")  # where a line holds its metrics beside its step
_MARKS_OF_WANDB = frozenset({"_step", "_runtime", "_timestamp"})


def read_document(source: Source) -> Table | None:
    """Return the log of a JSON document: `log_history` wherever it is, a list of rows, or lists by name."""
    text = source.text
    if text is None or text.lstrip()[:1] not in ("[", "{"):
        return None
    document = parsed(text)
    rows = None if _is_row(document) else _rows(document, DEPTH)
    if rows is None:
        return None
    options = _options(document) if isinstance(document, dict) else {}
    return of_rows("trainer_state", rows, options=options)


def read_lines(source: Source) -> Table | None:
    """Return the log of a file with one JSON object a line; None where most lines are none."""
    text = source.text
    if text is None or not text.lstrip().startswith("{"):
        return None
    lines = text.split("\n")
    rows, wrong = [], []
    for count, line in enumerate(lines, 1):
        row = parsed(line)
        if isinstance(row, dict):
            rows.append(row)
        elif line.strip():
            wrong.append(count)
    if len(wrong) > len(rows):
        return None
    notes = []
    if wrong and wrong[-1] == len(lines):  # no newline ends it
        notes.append(f"line {wrong.pop()}, the last one, is torn and was left out, as in a log that is being written")
    if wrong:
        shown = ", ".join(map(str, wrong[:SHOWN_LINES])) + (", ..." if len(wrong) > SHOWN_LINES else "")
        notes.append(f"lines {shown}: no JSON object each; {len(wrong)} lines left out")
    return of_rows("jsonl", rows, notes=notes)


def parsed(text: str) -> Any:
    """Return a JSON value; None for null and for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def of_rows(
    form: str, rows: Sequence[Any], *, options: Mapping[str, Any] | None = None, notes: Sequence[str] = ()
) -> Table:
    """Return a table of rows, with what a line holds in an object of its own brought out, and without filled gaps."""
    flat = [_flat(row) for row in rows if isinstance(row, dict)]
    said = list(notes)
    wandb = any(row.keys() >= _MARKS_OF_WANDB or "train/global_step" in row for row in flat)
    if wandb or _is_filled_up(flat):
        cells = sum(map(len, flat))
        flat = [{name: value for name, value in row.items() if value is not None and value == value} for row in flat]  # noqa: PLR0124
        if cells > sum(map(len, flat)):
            said.append("null and NaN count as not logged: the export fills its gaps with them")
    return Table(form="wandb" if wandb else form, rows=flat, options=options or {}, notes=tuple(said))


def _is_filled_up(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether every row has every name, also those of evaluations and of the summary, as a data frame gives."""
    if len(rows) < 2 or any(row.keys() != rows[0].keys() for row in rows):  # noqa: PLR2004
        return False
    places = [names.placed(name) for name in rows[0]]
    apart = any(place is not None and place.held_out for place in places) or any(map(names.is_summary, rows[0]))
    return apart and any(place is not None and not place.held_out for place in places)


def _is_row(value: Any) -> bool:
    """Tell whether a document is one row, as a log of lines with one line is."""
    return isinstance(value, dict) and any(
        (place := names.placed(name)) is not None
        and names.is_of_a_trainer(place.name)
        and not isinstance(inner, dict | list)
        for name, inner in value.items()
    )


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    for name in _NESTED:
        inner = row.get(name)
        if isinstance(inner, dict):
            return {**{key: value for key, value in row.items() if key != name}, **inner}
    return row


def _rows(value: Any, depth: int) -> list[Any] | None:
    """Return the list of rows in a document, the one named log_history first; None where there is none."""
    if isinstance(value, list):
        return value if any(isinstance(row, dict) for row in value) else None
    if not isinstance(value, dict) or depth == 0:
        return None
    if isinstance(value.get("log_history"), list):
        return _rows(value["log_history"], depth)
    columns = {name: column for name, column in value.items() if isinstance(column, list)}
    if (
        len(columns) > 1
        and len(set(map(len, columns.values()))) == 1
        and not any(isinstance(item, dict | list) for column in columns.values() for item in column)
    ):
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return next((rows for inner in value.values() if (rows := _rows(inner, depth - 1)) is not None), None)


def _options(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the training arguments that stand beside the log."""
    found = {name: document[name] for name in _OF_THE_STATE if isinstance(document.get(name), int | float)}
    for name in _OPTIONS_KEYS:
        if isinstance(document.get(name), dict):
            found.update(plain_options(document[name]))
    return found


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the values that some programs write as text, such as "True" and "1e-3", as what they are."""
    return dict(_plain(options))


def _plain(options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    words = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}
    for name, value in options.items():
        if not isinstance(value, str):
            yield str(name), value
        elif value in words:
            yield str(name), words[value]
        else:
            yield str(name), _number(value)


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        return value if math.isfinite(value) else text
    return text
