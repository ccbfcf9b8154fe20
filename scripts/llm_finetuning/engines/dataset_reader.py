"""Read a dataset as the trainer will, through the `datasets` library: a Parquet, JSONL or CSV file, or a hub id.

Job: `{"path", "config", "split"}`. Records: `rows` with chunks of rows, then `columns` with what storage did to them:
`null_padded` names, by column, the keys that some row lacks and others have. A table has one shape for all rows, so
such keys come back as null, and the reward will see them so. `left_out` names columns whose values are no JSON.
"""

import datetime as dt
import decimal
import os
from pathlib import Path
from typing import Any

from llm_finetuning.engines import hub, protocol

CHUNK_ROWS = 500

BUILDERS = {".jsonl": "json", ".csv": "csv"}  # anything else is taken for Parquet


def read(job: protocol.Job, send: protocol.Send) -> None:
    """Send the rows in their order; fails in one line for a file, name or split that is not there."""
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    columns = Columns()
    chunk: list[dict[str, Any]] = []
    source = where(job)
    try:
        for row in load(job):
            chunk.append(columns.plain(row))
            if len(chunk) == CHUNK_ROWS:
                send({"kind": "rows", "rows": chunk})
                chunk = []
    except protocol.Failure:
        raise
    except Exception as fault:  # Arrow, fsspec and the hub client each raise their own kind
        said = protocol.words_of(fault)
        raise protocol.bad_input(f"{source}: cannot be read ({said}); mend dataset.path, config or split") from fault
    if chunk:
        send({"kind": "rows", "rows": chunk})
    send({"kind": "columns", "facts": columns.facts()})


def where(job: protocol.Job) -> str:
    """Return the dataset's name for a line about it."""
    return ":".join(str(part) for part in (job["path"], job.get("config"), job.get("split")) if part)


def load(job: protocol.Job) -> Any:
    """Return an iterable of rows; nothing is copied into a cache."""
    path = job["path"]
    if path.startswith("/") and not Path(path).is_file():
        raise protocol.bad_input(f"{path}: no such file; mend dataset.path")
    hub.go_offline_when_silent(path)
    import datasets

    if path.startswith("/"):
        kind = BUILDERS.get(Path(path).suffix.lower(), "parquet")
        return datasets.load_dataset(kind, data_files=path, split="train", streaming=True)
    return datasets.load_dataset(path, job.get("config"), split=job.get("split") or "train", streaming=True)


class Columns:
    """Turns rows into JSON values and remembers what could not be kept."""

    def __init__(self) -> None:
        """Start with no row seen."""
        self._filled: dict[str, set[str]] = {}
        self._empty: dict[str, set[str]] = {}
        self._left_out: dict[str, str] = {}

    def plain(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the row with JSON values alone; a column that has none for a value is left out of every later row."""
        kept = {}
        for name, value in row.items():
            if name in self._left_out:
                continue
            try:
                kept[name] = self._value(name, "", value)
            except TypeError:
                self._left_out[name] = type(value).__name__
        return kept

    def _value(self, column: str, place: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._member(column, f"{place}.{key}".lstrip("."), inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._value(column, f"{place}[]", inner) for inner in value]
        if value is None or isinstance(value, (str, bool, int, float)):
            return value
        if isinstance(value, (dt.date, dt.time)):
            return value.isoformat()
        if isinstance(value, (decimal.Decimal, dt.timedelta)):
            return str(value)
        raise TypeError(type(value).__name__)

    def _member(self, column: str, place: str, value: Any) -> Any:
        seen = self._empty if value is None else self._filled
        seen.setdefault(column, set()).add(place)
        return self._value(column, place, value)

    def facts(self) -> dict[str, Any]:
        """Return the keys that are null in some rows and filled in others, and the columns left out."""
        padded = {column: sorted(places & self._filled.get(column, set())) for column, places in self._empty.items()}
        return {
            "null_padded": {column: places for column, places in padded.items() if places},
            "left_out": self._left_out,
        }


if __name__ == "__main__":
    protocol.serve(read)
