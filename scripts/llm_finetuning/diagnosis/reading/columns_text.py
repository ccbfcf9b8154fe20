"""Tables as text: CSV and tab-separated values, as wandb, pandas and a copied notebook table give them."""

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from llm_finetuning.diagnosis.reading import names
from llm_finetuning.diagnosis.reading.source import Source, Table, number
from llm_finetuning.errors import Refusal

DELIMITERS = ",\t;|"
_EXTREMES = ("__MIN", "__MAX")  # what wandb's web page adds for points that it drew together
_RUN_MARK = " - "  # between the name of a run and that of a metric, on wandb's web page
_WIDE = re.compile(r"[ \t]{2,}")
_LINE_END = re.compile(r"[\r\n]")
_LONGEST_HEAD = 1 << 20  # letters
SHOWN_RUNS = 3


def read_columns(source: Source) -> Table | None:
    """Return the log of a table with a head; None for what has no head that names a metric of a trainer."""
    text = source.text
    if text is None:
        return None
    text = text.lstrip("\r\n \t\N{ZERO WIDTH NO-BREAK SPACE}")
    start = _LINE_END.split(text[:_LONGEST_HEAD], maxsplit=1)[0]
    if not any(mark in start for mark in DELIMITERS):
        text = _WIDE.sub("\t", text)  # aligned by blanks, as a terminal shows a table
        start = _WIDE.sub("\t", start)
    delimiter = max(DELIMITERS, key=start.count)
    csv.field_size_limit(2**31 - 1)  # a table of completions beside the metrics is wide
    try:
        head = next(csv.reader([start], delimiter=delimiter), [])
    except csv.Error:
        return None
    if len(head) < 2 or not any(map(_is_metric, head)):  # noqa: PLR2004  a step and a metric
        return None
    rows, notes = _cells(source, text, delimiter)
    chosen = _one_run(head, rows, notes)
    if not text.endswith(("\n", "\r")) and _falls_back(chosen, rows):
        rows.pop()
        notes.append("the last line is torn and was left out, as in a log that is being written")
    wandb = any(_RUN_MARK in name for name in head) or bool({"_step", "train/global_step"} & set(chosen.values()))
    named = [{chosen[at]: cell for at, cell in enumerate(row) if cell and at in chosen} for row in rows]
    return Table(form="wandb" if wandb else "csv", rows=named, notes=tuple(notes))


def _is_metric(head: str) -> bool:
    placed = names.placed(head.strip().rpartition(_RUN_MARK)[2])
    return placed is not None and names.is_of_a_trainer(placed.name)


def _cells(source: Source, text: str, delimiter: str) -> tuple[list[list[str]], list[str]]:
    """Return the rows below the head, and what is to be said of those left out."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows: list[list[str]] = []
    wrong: list[int] = []
    last = 0
    try:
        width = len(next(reader))
        for row in reader:
            last = reader.line_num
            if not any(cell.strip("-: ") for cell in row):
                continue  # an empty line, or the line below a head in Markdown
            if len(row) == width:
                rows.append([cell.strip() for cell in row])
            else:
                wrong.append(last)
    except csv.Error as fault:
        raise Refusal(f"{source.path}:{reader.line_num}: not valid CSV ({fault}); export it again") from None
    notes = []
    if wrong and wrong[-1] == last and not text.endswith(("\n", "\r")):
        notes.append(f"line {wrong.pop()}, the last one, is torn and was left out, as in a log that is being written")
    if wrong:
        notes.append(f"line {wrong[0]} has not as many fields as the head; {len(wrong)} such lines were left out")
    return rows, notes


def _falls_back(chosen: Mapping[int, str], rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether the last row's step is below the one before, as when its last figures are not written yet."""
    at = next((at for at, name in chosen.items() if names.is_step(name) is not None), None)
    return at is not None and len(rows) > 1 and number(rows[-1][at])[0] < number(rows[-2][at])[0]


def _one_run(head: Sequence[str], rows: Sequence[Sequence[str]], notes: list[str]) -> Mapping[int, str]:
    """Return place -> metric for the columns of one run, the one with most values, where a file holds several."""
    columns: dict[int, tuple[str, str]] = {}
    for at, name in enumerate(head):
        run, _, metric = name.strip().rpartition(_RUN_MARK)
        if not metric.endswith(_EXTREMES):
            columns[at] = run, metric
    filled = Counter({run: 0 for run, _ in columns.values() if run})
    for at, (run, _) in columns.items():
        if run:
            filled[run] += sum(bool(row[at]) for row in rows)
    if len(filled) > 1:
        (kept, _), *others = filled.most_common()
        named = ", ".join(name for name, _ in others[:SHOWN_RUNS]) + (", ..." if len(others) > SHOWN_RUNS else "")
        notes.append(f"holds {len(filled)} runs; {kept}, the one with most values, was read, {named} not")
        return {at: metric for at, (run, metric) in columns.items() if run in ("", kept)}
    return {at: metric for at, (_, metric) in columns.items()}
