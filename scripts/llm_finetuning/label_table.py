"""Labels as a table that a spreadsheet opens: what is to be read written as CSV, and filled tables read.

A cell that a spreadsheet would take for a formula gets an apostrophe in front, and so does a sample id that it would
take for a date or a number (`3/1`). OWASP, "CSV Injection" (https://owasp.org/www-community/attacks/CSV_Injection),
lists the letters. A table that comes back is read by its ids, with or without the apostrophe, and by what a reader
wrote; its texts are not looked at.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from llm_finetuning import artifact, console, labelling, lineage
from llm_finetuning.errors import Refusal
from llm_finetuning.findings.readings import standing_labels
from llm_finetuning.findings.wording import text_of
from llm_finetuning.types import Label, Part, Reading, Sample, Verdict

VERDICTS: dict[str, Verdict] = {said: word for word in get_args(Verdict) for said in (word, word[0])}
PARTS: dict[str, Part] = {word: word for word in get_args(Part)}
CELL = 32_767  # characters that Excel takes in a cell (Microsoft, "Excel specifications and limits")
SHOWN_FAULTS = 8

_NEEDED = ("sample_id", "verdict")
_MARKS = ",;\t"  # a comma where nothing speaks for another; Excel writes semicolons where the comma is a decimal sign
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # and their full-width forms
_QUOTE = "'"
_SEEN = "sha256:"  # letters first, so that a spreadsheet leaves the digits alone

_Row = tuple[str, dict[str, str]]  # where it stands, cells by column


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What a filled table says."""

    labels: list[Label]  # what is new
    unchanged: int  # rows that say what their reader's label of that sample says already
    skipped: int  # rows without a verdict
    readers: list[str]  # whose word the rows with a verdict are
    unsigned: list[str]  # sample ids of new labels whose row names no reader


def write(file: Path, readings: Sequence[Reading], samples: Mapping[str, Sample]) -> list[str]:
    """Write what is to be read with an empty verdict and note; refuses a file that is there, or does not end in .csv.

    Nothing that a reward said is written, nor which part a sample belongs to, which hints at it. `seen` tells the
    import what the page would know. Returns the ids whose texts are too long for a spreadsheet's cell.
    """
    if file.suffix.lower() != ".csv":
        raise Refusal(f"{file}: what is exported is CSV; let the name end in .csv")
    if file.exists():
        raise Refusal(f"{file}: is there already and is not overwritten; name another file")
    stream = io.StringIO(newline="")
    table = csv.writer(stream)
    golds = any(samples[item.sample_id].columns.get("answer") is not None for item in readings)
    gold = ["gold"] if golds else []
    table.writerow(["sample_id", "prompt", *gold, "completion", "verdict", "note", "seen"])
    long = []
    for item in readings:
        sample = samples[item.sample_id]
        answer = sample.columns.get("answer")
        texts = [text_of(sample.prompt), *(["" if answer is None else str(answer)] if golds else [])]
        cells = [_cell(text) for text in (*texts, text_of(sample.completion))]
        table.writerow([_id_cell(sample.sample_id), *cells, "", "", _seen(sample, item.part)])
        if any(len(cell) > CELL for cell in cells):
            long.append(sample.sample_id)
    artifact.write_text(file, "\ufeff" + stream.getvalue())  # the mark tells Excel that it is UTF-8
    return long


def _cell(text: str) -> str:
    shown = console.visible(text)
    return _QUOTE + shown if shown.lstrip().startswith(_FORMULA) else shown


def _id_cell(sample_id: str) -> str:
    return _QUOTE + sample_id if sample_id[:1].isdigit() else _cell(sample_id)


def _seen(sample: Sample, part: Part) -> str:
    """Return a mark of what a row shows and of its part, in which nobody can read either."""
    return _SEEN + artifact.digest_value([sample.sample_id, lineage.seen_digest(sample), part])[:16]


def read(file: Path, samples: Sequence[Sample], labels: Sequence[Label], reader_of: Callable[[str], str]) -> Intake:
    """Return what a table adds to the `labels` that are there; refuses it whole if one of its rows is wrong.

    `reader_of` gives the name under which a row counts whose column `reader` says this, or nothing.
    """
    faults: list[str] = []
    known = {sample.sample_id: sample for sample in samples}
    seen = lineage.seen_digests(samples)
    standing = {(label.sample_id, label.reader): label for label in standing_labels(labels, seen)}
    fresh: list[Label] = []
    unsigned: list[str] = []
    readers: set[str] = set()
    rows = unchanged = skipped = 0
    for where, row in _rows(file, faults):
        rows += 1
        if not row.get("verdict", "").strip():
            skipped += 1
            continue
        label = _label(where, row, known, reader_of, faults)
        if label is None:
            continue
        readers.add(label.reader)
        before = standing.get((label.sample_id, label.reader))
        if before is not None and before.verdict == label.verdict and row.get("note", before.note) == before.note:
            unchanged += 1
        else:
            fresh.append(label)
            unsigned += [] if row.get("reader", "").strip() else [label.sample_id]
            standing[label.sample_id, label.reader] = label
    if faults:
        more = len(faults) - SHOWN_FAULTS
        raise Refusal(*faults[:SHOWN_FAULTS], *([f"{file}: and {more} more faults"] if more > 0 else []))
    if not rows:
        raise Refusal(f"{file}: holds no labels; add rows under the first line")
    if skipped == rows:
        raise Refusal(f"{file}: no row has a verdict; write accept, reject or unsure into the column `verdict`")
    return Intake(labels=fresh, unchanged=unchanged, skipped=skipped, readers=sorted(readers), unsigned=unsigned)


def _label(
    where: str, row: dict[str, str], known: Mapping[str, Sample], reader_of: Callable[[str], str], faults: list[str]
) -> Label | None:
    """Return the label that a row gives; None where it is wrong, which is added to the faults."""
    given = row.get("sample_id", "")
    sample = known.get(given) or known.get(given.removeprefix(_QUOTE))
    verdict = VERDICTS.get(row["verdict"].strip().lower())
    part = _part(row, sample)
    reader = ""
    wrong = []
    if sample is None:
        wrong.append(f"no sample {given!r}; copy the ids from samples.jsonl")
    elif part is None and row.get("seen", "").startswith(_SEEN):
        wrong.append("is another text now than when this was exported; export it again")
    elif part is None:
        wrong.append(f"part {row['part']!r} is neither random nor chosen; leave the column out")
    if verdict is None:
        words = ", ".join(get_args(Verdict))
        wrong.append(f"verdict {row['verdict']!r} is not one of {words}, or its first letter")
    try:
        reader = reader_of(row.get("reader", ""))
    except Refusal as refusal:
        wrong.append(refusal.lines[0])
    # A line is that of the file: a text with line ends takes several, and a spreadsheet counts rows.
    named = f"{where}: sample {given!r}" if sample is not None else where
    faults += [f"{named}: {words}" for words in wrong]
    if wrong or sample is None or verdict is None or part is None:
        return None
    rest: dict[str, Any] = {"reader": reader, "note": row.get("note", ""), "source": "import", "part": part}
    return labelling.label_for(sample, verdict, **rest)


def _part(row: Mapping[str, str], sample: Sample | None) -> Part | None:
    """Return which part a row belongs to; None where its mark is not of this text, or it names no part.

    A table of a person's own says nothing of it. An earlier version wrote the part itself, beside a mark of the text.
    """
    said, mark = row.get("part", "").strip().lower() or "random", row.get("seen", "").strip()
    if sample is not None and mark.startswith(_SEEN):
        of_mark: dict[str, Part | None] = {_seen(sample, part): part for part in PARTS.values()}
        of_mark[_SEEN + lineage.seen_digest(sample)[:16]] = PARTS.get(said)
        return of_mark.get(mark)
    return PARTS.get(said)


def _rows(file: Path, faults: list[str]) -> Iterator[_Row]:
    """Yield the rows that are not blank; the first line decides what separates the cells."""
    text = _text(file)
    first = re.split(r"[\r\n]", text, maxsplit=1)[0]
    headings = {mark: _names(next(csv.reader([first], delimiter=mark), [])) for mark in _MARKS}
    mark = max(_MARKS, key=lambda one: (len({*_NEEDED} & {*headings[one]}), len(headings[one])))
    names = headings[mark]
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        found = console.visible(", ".join(filter(None, names))) or "nothing"
        raise Refusal(f"{file}:1: no column {', '.join(missing)}; the first line names the columns, and has {found}")
    csv.field_size_limit(2**31 - 1)
    table = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    try:
        next(table)
        for cells in table:
            where = f"{file}:{table.line_num}"
            if any(cell.strip() for cell in cells[len(names) :]):
                faults.append(f"{where}: more cells than the first line names; put quotes around a text with {mark!r}")
            elif any(cell.strip() for cell in cells):
                yield where, dict(zip(names, cells, strict=False))
    except csv.Error as error:
        faults.append(f"{file}:{table.line_num}: not valid CSV ({error})")


def _names(cells: Sequence[str]) -> list[str]:
    return [cell.strip().lower() for cell in cells]


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refusal(f"{file}: byte {error.start} is not UTF-8; save it as UTF-8 CSV") from None
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise Refusal(f"{file}: {words.lower()}; check the path of --import") from None
