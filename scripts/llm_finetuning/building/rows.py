"""From the rows of a data set to the JSONL that the trainer reads, one object a line."""

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from llm_finetuning.brief import COLUMNS_BY_METHOD
from llm_finetuning.dataset import SHOWN_FAULTS
from llm_finetuning.errors import Refusal
from llm_finetuning.types import Row

ORDER_SEED = 42

_TRUTH = {"true": True, "false": False}  # a CSV cell has no other way to say it


def training_rows(method: str, rows: Iterable[Row], place: str) -> list[dict[str, Any]]:
    """Return what one line each holds: for grpo every column, since rewards read them, else what the method trains on.

    Args:
        method: The brief's.
        rows: The data set, checked by `dataset.read_rows`.
        place: The data set as refusals name it.

    Raises:
        Refusal: A completion that is empty or of another form than its prompt, a pair that prefers nothing, a label
            that is not true or false; one line each, the first few are shown.
    """
    if method == "grpo":
        return [{"prompt": row.prompt, **row.columns} for row in rows]
    made, faults = [], []
    for row in rows:
        made.append({"prompt": row.prompt, **{name: _cell(name, row) for name in COLUMNS_BY_METHOD[method][1:]}})
        faults += [f"{place}:{row.row}: {fault}" for fault in _faults(made[-1])]
    if faults:
        more = [f"{place}: and {len(faults) - SHOWN_FAULTS} more faults"] if len(faults) > SHOWN_FAULTS else []
        raise Refusal(*faults[:SHOWN_FAULTS], *more)
    if method == "kto":  # its trainer takes the rows as they come: rows sorted by label would be steps of one label
        random.Random(ORDER_SEED).shuffle(made)  # noqa: S311  not a secret
    return made


def _cell(name: str, row: Row) -> Any:
    value = row.columns.get(name)
    return _TRUTH.get(value.strip().lower(), value) if name == "label" and isinstance(value, str) else value


def _faults(row: dict[str, Any]) -> Iterator[str]:
    for name in ("completion", "chosen", "rejected"):
        if name in row:
            fault = _completion_fault(row[name], row["prompt"])
            if fault:
                yield f"`{name}` {fault}"
    if "chosen" in row and row["chosen"] and row["chosen"] == row["rejected"]:
        yield "`chosen` and `rejected` are the same: nothing is preferred; take the row out"
    if "label" in row and not isinstance(row["label"], bool):
        yield f"`label` is {row['label']!r} where true or false is needed"


def _completion_fault(value: Any, prompt: Any) -> str | None:
    if not isinstance(value, type(prompt)):
        form = "text" if isinstance(prompt, str) else "a list of chat messages"
        return f"is {type(value).__name__} where the prompt is {form}; write both in one form"
    if isinstance(value, str):
        return None if value.strip() else "is empty; fill it or take the row out"
    for message in value:
        if not isinstance(message, dict) or not isinstance(message.get("content"), str) or "role" not in message:
            return "holds a message without `role` and text as `content`"
    return None if value else "is an empty list; write the assistant's message or take the row out"


def write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object a line; raises Refusal for a value that JSON has no way to write."""
    with path.open("wb") as stream:
        for number, row in enumerate(rows, 1):
            stream.write(_line(row, number) + b"\n")


def _line(row: dict[str, Any], number: int) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:  # a lone surrogate: escaped, it comes back as it was
        return json.dumps(row, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise Refusal(f"data set: row {number} cannot be written as JSON ({error}); mend that row") from None
