"""The table of a training notebook: the notebook itself, or its page saved as HTML."""

import html
import re
from collections.abc import Iterator
from typing import Any

from llm_finetuning.diagnosis.reading import names
from llm_finetuning.diagnosis.reading.console_text import read_text
from llm_finetuning.diagnosis.reading.json_text import parsed
from llm_finetuning.diagnosis.reading.source import Source, Table

FORM = "notebook"

_ROW = re.compile(r"<tr\b[^>]*>(.*?)(?=<tr\b|</tr|</table|\Z)", re.IGNORECASE | re.DOTALL)
_CELL = re.compile(r"<t[hd]\b[^>]*>([^<]*(?:<(?!/?t[hdr])[^<]*)*)", re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")
_OUTPUTS = ("text/html", "text/plain")


def read_notebook(source: Source) -> Table | None:
    """Return the log of the table with most rows among those that name a metric of a trainer; None without one.

    A notebook without such a table is read like a console, by what its cells printed.
    """
    text = source.text
    if text is None:
        return None
    if text.lstrip().startswith("{") and '"cells"' in text:
        document = parsed(text)
        if not isinstance(document, dict) or not isinstance(document.get("cells"), list):
            return None
        outputs = list(_outputs(document["cells"]))
        found = max((rows for output in outputs for rows in _tables(output)), key=len, default=[])
        return Table(form=FORM, rows=found) if found else read_text("\n".join(outputs))
    if text.lstrip().startswith("<"):
        found = max(_tables(text), key=len, default=[])
        return Table(form=FORM, rows=found) if found else None
    return None


def _outputs(cells: list[Any]) -> Iterator[str]:
    for cell in cells:
        for output in cell.get("outputs") or () if isinstance(cell, dict) else ():
            if isinstance(output, dict):
                data = output.get("data")
                parts = [data.get(kind) for kind in _OUTPUTS] if isinstance(data, dict) else []
                yield from (_joined(part) for part in (*parts, output.get("text")))


def _joined(text: Any) -> str:
    """Return a notebook's text, which it keeps as one text or as a list of lines."""
    if isinstance(text, list):
        return "".join(line for line in text if isinstance(line, str))
    return text if isinstance(text, str) else ""


def _tables(text: str) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each table that names a metric of a trainer in its head."""
    for part in re.split(r"<table\b", text, flags=re.IGNORECASE)[1:]:
        rows = [[_plain(cell) for cell in _CELL.findall(row)] for row in _ROW.findall(part)]
        head = next((row for row in rows if row), [])
        places = [names.placed(name) for name in head]
        if any(place is not None and names.is_of_a_trainer(place.name) for place in places):
            yield [dict(zip(head, row, strict=True)) for row in rows if len(row) == len(head) and row != head]


def _plain(cell: str) -> str:
    return html.unescape(_TAG.sub("", cell)).strip()
