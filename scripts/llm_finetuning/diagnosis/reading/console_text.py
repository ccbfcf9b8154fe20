"""What a trainer prints: a dictionary a log between progress bars, warnings and the prints of rewards."""

import json
import re
from collections.abc import Iterator
from typing import Any

from llm_finetuning.diagnosis.reading import names
from llm_finetuning.diagnosis.reading.source import Source, Table

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")  # colours and moves of the cursor (ECMA-48, control sequences)
_FLAT = re.compile(r"\{[^{}]*\}")
_PAIR = re.compile(
    r"""(?P<quote>['"])(?P<name>[^'"\n]{1,200})(?P=quote)\s*:\s*
        (?:'(?P<single>[^']*)'|"(?P<double>[^"]*)"|(?:[A-Za-z_][\w.]*\()?(?P<bare>[^\s,'"{}()\[\]]+))""",
    re.VERBOSE,
)
_CLOCKS = frozenset({"epoch", *names.STEPS})


def read_console(source: Source) -> Table | None:
    """Return the log of a text with dictionaries of metrics in it; None where there are none."""
    text = source.text
    return None if text is None else read_text(text)


def read_text(text: str) -> Table | None:
    """Return the log of a text with dictionaries of metrics in it, whole or cut off; None where there are none."""
    plain = _ESCAPES.sub("", text)
    rows = list(_rows(plain))
    if any(_CLOCKS & row.keys() for row in rows):  # what a reward prints of itself has no epoch
        rows = [row for row in rows if _CLOCKS & row.keys()]
    if not rows:
        return None
    notes = []
    if plain.lstrip().startswith(("[", '{"')):
        notes.append("is no whole JSON, as a file that is being written or was cut off; its whole rows were read")
    elif plain.rfind("{") > plain.rfind("}"):
        notes.append("the last row is torn and was left out, as in a log that is being written")
    form = "trainer_state" if plain.lstrip().startswith(("[", '{"')) else "console"
    return Table(form=form, rows=rows, notes=tuple(notes))


def _rows(text: str) -> Iterator[dict[str, Any]]:
    for found in _FLAT.finditer(text):
        row = _row(found.group())
        if any(map(names.is_summary, row)) or any(
            (placed := names.placed(name)) is not None and names.is_of_a_trainer(placed.name) for name in row
        ):
            yield row


def _row(text: str) -> dict[str, Any]:
    """Return a dictionary as JSON or Python writes it; of a value such as np.float64(0.5), the number in it."""
    try:
        row = json.loads(text.replace("'", '"'))
    except (ValueError, RecursionError):
        return {
            pair["name"]: next(pair[kind] for kind in ("single", "double", "bare") if pair[kind] is not None)
            for pair in _PAIR.finditer(text)
        }
    return row if isinstance(row, dict) else {}
