"""The rows of a brief's data set, checked: JSONL and CSV are read here, Parquet and hub ids by a program."""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from llm_finetuning.brief import DatasetBrief, LoadedBrief, nearest, placed
from llm_finetuning.errors import Refusal
from llm_finetuning.types import Row

SHOWN_FAULTS = 8

READ = (".jsonl", ".csv", ".parquet")

RESERVED_COLUMNS = {
    "prompts": "TRL passes its own `prompts` to every reward",
    "completions": "TRL passes its own `completions` to every reward",
    "completion_ids": "TRL does not hand this column to rewards",
    "trainer_state": "TRL overwrites it silently",
    "log_extra": "TRL overwrites it silently",
    "log_metric": "TRL overwrites it silently",
}
"""Column names that clash with what TRL 1.16.0 passes to a reward."""

_ROLES = ("system", "user", "assistant", "tool", "developer")

_Found = tuple[int, dict[str, Any]]  # line or row number from 1, raw columns


FaultKind = Literal["column", "prompt", "id", "repeated_id", "mixed_forms"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that no run can go on with."""

    kind: FaultKind
    row: int | None  # None for a fault of a column
    text: str  # the line of a refusal: what, where and how to mend it


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A data set that could be read, with all that is wrong with its rows and columns."""

    place: str
    rows: list[Row]  # a faulty prompt is an empty text
    faults: list[Fault]
    table: dict[str, Any] = field(default_factory=dict)  # what table storage did to the columns; none for JSONL and CSV


def read_rows(loaded: LoadedBrief, *, python: str | None = None) -> list[Row]:
    """Return the data set's rows with the columns named as rewards get them.

    `python` is the training interpreter; it is needed for Parquet files and hub ids alone. Refuses with a line for
    each faulty row (the first few are shown), a missing column, an empty or unreadable file.
    """
    found = read(loaded, python=python)
    faults = [fault.text for fault in found.faults]
    if faults:
        more = [f"{found.place}: and {len(faults) - SHOWN_FAULTS} more faults"] if len(faults) > SHOWN_FAULTS else []
        raise Refusal(*faults[:SHOWN_FAULTS], *more)
    return found.rows


def read(loaded: LoadedBrief, *, python: str | None = None) -> Reading:
    """Return the rows and all of their faults; refuses only what cannot be read or lacks a column that is named."""
    wanted = loaded.brief.dataset
    place = source_name(loaded)
    table: dict[str, Any] = {}
    found = list(_raw_rows(loaded, place, python, table))
    if not found:
        raise Refusal(f"{place}: holds no rows; add some or correct `dataset.path`")
    present = list(dict.fromkeys(key for _, raw in found for key in raw))
    faults = _column_faults(wanted, place, present)
    rows = [_row(wanted, place, number, raw, present, faults) for number, raw in found]
    faults.extend(_repeated_ids(place, rows))
    faults.extend(_mixed_forms(place, rows))
    return Reading(place=place, rows=rows, faults=faults, table=table)


def source_name(loaded: LoadedBrief) -> str:
    """Return the data set as refusals name it: the file's path, or the hub id."""
    path = loaded.resolve(loaded.brief.dataset.path)
    return str(path) if is_file(loaded) else loaded.brief.dataset.path


def needs_program(loaded: LoadedBrief) -> bool:
    """Tell whether the rows are read by a program of the training interpreter: Parquet files and hub ids are."""
    return not is_file(loaded) or loaded.resolve(loaded.brief.dataset.path).suffix.lower() == ".parquet"


def is_file(loaded: LoadedBrief) -> bool:
    """Tell whether the data set is a file, as its ending or its being there says; otherwise it is a hub id."""
    path = loaded.resolve(loaded.brief.dataset.path)
    return path.exists() or path.suffix.lower() in {".jsonl", ".json", ".csv", ".parquet"}


def check_there(loaded: LoadedBrief) -> None:
    """Refuse a file that is not there, by the line of the brief that names it."""
    wanted = loaded.brief.dataset
    place = loaded.resolve(wanted.path)
    if not is_file(loaded) or place.exists():
        return
    key = "evaluation" if wanted.path == wanted.evaluation else "path"  # the held-out rows are read in its place
    relative = not Path(wanted.path).expanduser().is_absolute()
    starts = f" (`{wanted.path}` starts at the brief's folder)" if relative else ""
    raise Refusal(placed(loaded, f"dataset.{key}: {place}: no such file; correct `dataset.{key}`{starts}"))


def _raw_rows(loaded: LoadedBrief, place: str, python: str | None, table: dict[str, Any]) -> Iterator[_Found]:
    wanted = loaded.brief.dataset
    path = loaded.resolve(wanted.path)
    suffix = path.suffix.lower()
    check_there(loaded)
    if needs_program(loaded):
        assert python is not None, "the caller asks `needs_program`"
        return _read_with_program(wanted, place, python, table)
    if suffix == ".jsonl":
        return _read_jsonl(path)
    if suffix == ".csv":
        return _read_csv(path)
    said = f"dataset.path: {place}: not a data set this reads; save it as .jsonl, .csv or .parquet"
    raise Refusal(placed(loaded, said))


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refusal(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise Refusal(f"{path}: {(error.strerror or str(error)).lower()}; check the path and its permissions") from None


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


def _read_jsonl(path: Path) -> Iterator[_Found]:
    faults: list[str] = []
    for number, line in enumerate(_read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            faults.append(f"{path}:{number}: not valid JSON ({error}); one object a line")
            continue
        if isinstance(value, dict):
            yield number, value
        else:
            faults.append(f"{path}:{number}: a {type(value).__name__} where an object is needed; one object a line")
    if faults:
        raise Refusal(*faults[:SHOWN_FAULTS])


def _read_csv(path: Path) -> Iterator[_Found]:
    csv.field_size_limit(2**31 - 1)
    # Not splitlines: it also splits at U+2028 and form feeds, which are ordinary letters of a field.
    reader = csv.DictReader(io.StringIO(_read_text(path), newline=""), strict=True)
    faults: list[str] = []
    try:
        for raw in reader:
            if None in raw or None in raw.values():
                faults.append(f"{path}:{reader.line_num}: not as many fields as the first line names; mend the row")
            yield reader.line_num, {str(key): value for key, value in raw.items()}
    except csv.Error as error:
        faults.append(f"{path}:{reader.line_num}: not valid CSV ({error}); quote the field")
    if faults:
        raise Refusal(*faults[:SHOWN_FAULTS])


def _read_with_program(wanted: DatasetBrief, place: str, python: str, table: dict[str, Any]) -> Iterator[_Found]:
    from llm_finetuning.program import run_program

    job = {"path": place, "config": wanted.config, "split": wanted.split}
    number = 0
    with closing(run_program("dataset_reader", job, python=python)) as records:
        for record in records:
            for raw in record.get("rows", []):
                number += 1
                yield number, raw
            table.update(record.get("facts", {}))


def read_as_table(loaded: LoadedBrief, *, python: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the columns of every row as the `datasets` library reads them, named as rewards get them, and its facts.

    The prompt stands among them as `prompt`. Refuses in one line for what the library cannot read.
    """
    wanted = loaded.brief.dataset
    table: dict[str, Any] = {}
    mapping = _mapping(wanted)
    rows = [
        {mapping.get(key, key): value for key, value in raw.items()}
        for _, raw in _read_with_program(wanted, source_name(loaded), python, table)
    ]
    return rows, table


def _mapping(wanted: DatasetBrief) -> dict[str, str]:
    """Return column of the data set -> name that TRL and the rewards know."""
    roles = ("prompt", "answer", "completion", "chosen", "rejected", "label")
    return {getattr(wanted, role): role for role in roles if getattr(wanted, role) is not None}


def _column_faults(wanted: DatasetBrief, place: str, present: list[str]) -> list[Fault]:
    """Return the columns whose names clash; refuses for a column that the brief names and that is not there."""
    mapping = _mapping(wanted)
    missing = [
        f"{place}: no column `{column}` (`dataset.{role}` names it); {nearest(column, present)}"
        for column, role in {**mapping, **({wanted.id: "id"} if wanted.id else {})}.items()
        if column not in present
    ]
    faults = []
    for column in present:
        name = mapping.get(column, column)
        if name in RESERVED_COLUMNS:
            faults.append(f"{place}: column `{column}`: {RESERVED_COLUMNS[name]}; rename it")
        elif column not in mapping and column in mapping.values() and _source(mapping, column) in present:
            faults.append(f"{place}: column `{column}` clashes with `dataset.{column}`, which names another; rename it")
    if missing:
        raise Refusal(*missing, *faults)
    return [Fault("column", None, text) for text in faults]


def _source(mapping: dict[str, str], role: str) -> str:
    return next(column for column, name in mapping.items() if name == role)


def _row(
    wanted: DatasetBrief, place: str, number: int, raw: dict[str, Any], present: list[str], faults: list[Fault]
) -> Row:
    where = f"{place}:{number}"
    prompt = raw.get(wanted.prompt)
    wrong = _prompt_fault(prompt)
    if wrong:
        faults.append(Fault("prompt", number, f"{where}: column `{wanted.prompt}`: {wrong}"))
    prompt_id = str(number) if wanted.id is None else raw.get(wanted.id)
    if prompt_id is None or not str(prompt_id).strip():
        faults.append(Fault("id", number, f"{where}: column `{wanted.id}` is empty; give every row an id"))
    mapping = _mapping(wanted)
    # A key that this row lacks is None, as it is in the table that the trainer reads.
    columns = {mapping.get(key, key): raw.get(key) for key in present if key != wanted.prompt}
    return Row(row=number, prompt_id=str(prompt_id), prompt=prompt if prompt and not wrong else "", columns=columns)


def _prompt_fault(prompt: Any) -> str | None:
    if isinstance(prompt, str):
        return None if prompt.strip() else "an empty prompt; fill it or remove the row"
    if prompt == []:
        return "an empty list; write at least one chat message or remove the row"
    if not isinstance(prompt, list):
        return f"{_kind(prompt)} where text or a list of chat messages is needed"
    return next((fault for place, message in enumerate(prompt) if (fault := _message_fault(place, message))), None)


def _message_fault(place: int, message: Any) -> str | None:
    if not isinstance(message, dict) or not {"role", "content"} <= set(message):
        return f"message {place}: {_kind(message)} without `role` and `content`"
    if message["role"] not in _ROLES:
        return f"message {place}: role {message['role']!r} is not one of {', '.join(_ROLES)}"
    if not isinstance(message["content"], str):
        return f"message {place}: content is {_kind(message['content'])}, only text is run here"
    return None


def _kind(value: Any) -> str:
    words = {dict: "an object", list: "a list", int: "a number", float: "a number", bool: "true or false"}
    return "nothing" if value is None else words.get(type(value), f"a {type(value).__name__}")


def _mixed_forms(place: str, rows: list[Row]) -> list[Fault]:
    """Name the first row whose prompt has the other form: TRL takes the first one's for all."""
    other = next((row for row in rows if type(row.prompt) is not type(rows[0].prompt) and row.prompt), None)
    if other is None or not rows[0].prompt:
        return []
    first = "chat messages" if isinstance(rows[0].prompt, list) else "text"
    text = f"{place}:{other.row}: the prompt has another form than in row {rows[0].row}, which is {first}; use one"
    return [Fault("mixed_forms", other.row, text)]


def _repeated_ids(place: str, rows: list[Row]) -> list[Fault]:
    first: dict[str, int] = {}
    faults = []
    for row in rows:
        before = first.setdefault(row.prompt_id, row.row)
        if before != row.row:
            text = f"{place}:{row.row}: id {row.prompt_id!r} stands in row {before} too; make ids unique"
            faults.append(Fault("repeated_id", row.row, text))
    return faults
