"""Judge a data set before anything is sampled: golds, ids, duplicates, leakage, columns and batches.

Everything is judged on all rows that are there, so a count is a count and needs no interval. Rules of batches and
columns: TRL 1.16.0, `GRPOConfig.__post_init__` and `GRPOTrainer` (trl/trainer/grpo_trainer.py). What the tokenizer
and the template do is judged in `audit_tokens`.
"""

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from llm_finetuning.findings.abstentions import COSTS_NOTHING, PAY_ZERO, is_chat, mend_reward
from llm_finetuning.findings.again import with_commands
from llm_finetuning.types import AuditReport, Finding, Row

SHOWN_ROWS = 8
SAME_GOLD_ROWS = 3  # from so many rows on, one gold for all is no accident

_NUMBER = re.compile(r"[-+]?\d{1,400}(?:\.\d{1,400})?|[-+]?\d{1,400}/[1-9]\d{0,399}")
_TOLD = re.compile(  # what announces an answer
    r"(?:(?:answer|solution|result)\W{0,3}(?:\bis\b\W{0,3}|:\s*)|####\s*)\Z", re.IGNORECASE
)
_TOLD_WITHIN = 60  # characters before the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldReading:
    """What the composed reward said when it was called with every row's gold."""

    tried: int  # rows whose gold was written in honest forms and paid for
    unreadable: Mapping[str, Sequence[int]] = field(default_factory=dict)  # `reward: reason` -> rows
    unscored: Sequence[int] = ()  # every reward abstained from the gold itself
    unpaid: Sequence[int] = ()  # the gold is paid no more than a wrong answer
    silent: Mapping[int, str] = field(default_factory=dict)  # row whose gold is scored -> failure that is not
    raised: Mapping[str, Sequence[int]] = field(default_factory=dict)  # what TRL would die of -> rows of the call
    forms_known: bool = True  # False: a reward of the user's own may want a form that is not in our table


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Rows with the same prompt, as row numbers; pairs are (training row, held-out row)."""

    same: Sequence[Sequence[int]] = ()
    near: Sequence[Sequence[int]] = ()
    leaked: Sequence[tuple[int, int]] | None = None  # None: no held-out rows were named
    nearly_leaked: Sequence[tuple[int, int]] = ()
    held_out: int = 0
    method: str = ""
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What stands in the way of handing the columns on as they are."""

    faults: Sequence[tuple[str, int | None, str]] = ()  # kind, row, words: what `sample` will refuse
    pictures: Sequence[str] = ()  # columns that TRL takes for images
    needed: Sequence[str] = ()  # columns that rewards read
    dropped: bool = False  # `remove_unused_columns` is on
    changed: Mapping[str, tuple[str, Sequence[int]]] = field(default_factory=dict)  # column -> example, rows
    odd: Mapping[str, tuple[str, Sequence[int]]] = field(default_factory=dict)  # column -> what few rows hold, rows
    typed: Mapping[str, str] = field(default_factory=dict)  # column of the user's own rewards -> example
    padded: Mapping[str, Sequence[str]] = field(default_factory=dict)  # column -> keys that a table fills with nulls
    left_out: Mapping[str, str] = field(default_factory=dict)  # column -> type that is no JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """How many completions TRL draws at once, and what it refuses of that."""

    words: str  # what is drawn
    refused: tuple[Literal["batch-options", "too-few-rows"], str, str] | None = None  # code, what, how to mend it


def audit(
    rows: Sequence[Row],
    *,
    gold_column: str | None,
    golds: GoldReading,
    overlap: Overlap,
    columns: Columns,
    batch: Batch | None,
    of_tokens: Sequence[Finding] = (),
    prompt_tokens: Mapping[str, int] | None = None,
    ready_action: str,
    notes: Sequence[str] = (),
) -> AuditReport:
    """Return every finding, the blocking ones first and with its rows in words, and the one next action.

    `of_tokens` are the findings of `audit_tokens`, `prompt_tokens` its spread; without a tokenizer there are none.
    """
    findings = [
        *_rows(columns),
        *(_golds(rows, gold_column) if gold_column is not None else ()),
        *_read_golds(golds, len(rows), chat=any(is_chat(row.prompt) for row in rows)),
        *_overlap(overlap, len(rows)),
        *_columns(columns),
        *(_batch(batch) if batch is not None else ()),
        *of_tokens,
    ]
    order = {"blocks": 0, "insufficient": 1, "warns": 2, "fine": 3}
    findings.sort(key=lambda finding: order[finding.weight])
    first = next((found for found in findings if found.weight == "blocks" and found.next_action), None)
    return AuditReport(
        findings=[_with_rows(finding) for finding in findings],
        rows=len(rows),
        prompt_tokens=dict(prompt_tokens) if prompt_tokens is not None else None,
        notes=list(notes),
        next_action=with_commands(str(first.next_action), f"audit-{first.code}", last="audit")
        if first
        else ready_action,
    )


def blocks(report: AuditReport) -> bool:
    """Tell whether the data set has to be mended before sampling."""
    return any(finding.weight == "blocks" for finding in report.findings)


def _found(
    code: str,
    weight: Literal["blocks", "warns", "fine"],
    text: str,
    next_action: str | None = None,
    rows: Sequence[int] = (),
) -> Finding:
    return Finding(code=code, weight=weight, text=text, next_action=next_action, data_rows=list(rows))


def _with_rows(finding: Finding) -> Finding:
    if not finding.data_rows:
        return finding
    return dataclasses.replace(finding, text=f"{finding.text} ({rows_in_words(finding.data_rows)})")


def rows_in_words(rows: Sequence[int]) -> str:
    """Return row numbers as `rows 1-3, 7 and 12 more`."""
    runs: list[list[int]] = []
    for row in sorted(set(rows)):
        if runs and row == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], row]
        else:
            runs.append([row])
    shown = ", ".join("-".join(map(str, run)) for run in runs[:SHOWN_ROWS])
    rest = sum(run[-1] - run[0] + 1 for run in runs[SHOWN_ROWS:])
    return f"row{'s' if len(set(rows)) > 1 else ''} {shown}" + (f" and {rest} more" if rest else "")


def _rows(columns: Columns) -> Iterator[Finding]:
    codes = {"prompt": "prompt-unusable", "id": "id-empty", "mixed_forms": "prompt-forms", "column": "column-reserved"}
    for kind, code in codes.items():
        found = [(row, words) for fault, row, words in columns.faults if fault == kind]
        if found:
            rows = [row for row, _ in found if row is not None]
            yield _found(code, "blocks", f"{len(found)} refused: {found[0][1]}", found[0][1].rpartition("; ")[2], rows)


def _golds(rows: Sequence[Row], column: str) -> Iterator[Finding]:
    empty = [row.row for row in rows if is_empty(row.columns.get(column))]
    if empty:
        text = f"{len(empty)}/{len(rows)} golds empty in column `{column}`"
        yield _found("gold-empty", "blocks", text, f"fill column `{column}` or take these rows out", empty)
    else:
        yield _found("gold-empty", "fine", f"0/{len(rows)} golds empty in column `{column}`")
    yield from _contradictions(rows, column)
    values = Counter(_canonical(row.columns.get(column)) for row in rows if not is_empty(row.columns.get(column)))
    if len(values) == 1 and values.total() >= SAME_GOLD_ROWS:
        text = f"all {values.total()} golds are the same: {_short(next(iter(values)))}"
        yield _found("gold-constant", "warns", text, "add rows with other answers, or one answer is all it learns")
    told = [row.row for row in rows if _tells(row, column)]
    if told:
        text = f"{len(told)}/{len(rows)} prompts end with their own answer"
        yield _found("gold-in-prompt", "warns", text, "take the answer out of the prompt", told)


def _contradictions(rows: Sequence[Row], column: str) -> Iterator[Finding]:
    by_id = _grouped(rows, lambda row: row.prompt_id)
    repeated = [group for group in by_id if len(group) > 1]
    other = [group for group in repeated if len(_answers(group, column)) > 1]
    if other:
        text = f"{len(other)} ids stand for different golds, such as {_example(other[0], column)}"
        yield _found("id-contradicts", "blocks", text, "give every row its own id", _numbers(other))
    same = [group for group in repeated if len(_answers(group, column)) <= 1]
    if same:
        text = f"{len(same)} ids stand in several rows"
        yield _found("id-repeated", "blocks", text, "make ids unique, or leave `dataset.id` out", _numbers(same))
    by_prompt = _grouped(rows, lambda row: " ".join(said(row.prompt).split()))
    torn = [group for group in by_prompt if len(_answers(group, column)) > 1]
    if torn:
        text = f"{len(torn)} equal prompts have different golds, such as {_example(torn[0], column)}"
        yield _found("gold-contradicts", "blocks", text, "keep the row with the right gold", _numbers(torn))


def _grouped(rows: Sequence[Row], key: Any) -> list[list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.values())


def _answers(group: Sequence[Row], column: str) -> set[Any]:
    if len(group) == 1:
        return set()
    return {_canonical(row.columns.get(column)) for row in group if not is_empty(row.columns.get(column))}


def _example(group: Sequence[Row], column: str) -> str:
    first = next(row for row in group if not is_empty(row.columns.get(column)))
    own = _canonical(first.columns.get(column))
    other = next(
        row for row in group if not is_empty(row.columns.get(column)) and _canonical(row.columns.get(column)) != own
    )
    return " and ".join(f"{_short(row.columns.get(column))} (row {row.row})" for row in (first, other))


def _numbers(groups: Sequence[Sequence[Row]]) -> list[int]:
    return sorted({row.row for group in groups for row in group})


def is_empty(gold: Any) -> bool:
    """Tell whether a gold cell holds nothing; an empty list is a gold where no call of a tool is right."""
    return gold is None or (isinstance(gold, str) and not gold.strip()) or (isinstance(gold, float) and gold != gold)  # noqa: PLR0124  NaN alone is not itself


def _canonical(gold: Any) -> Any:
    """Return what two golds share that mean the same number, or the same text but for case and space."""
    if isinstance(gold, dict | list | bool):
        return json.dumps(gold, sort_keys=True)
    text = " ".join(str(gold).rpartition("####")[2].casefold().replace(",", "").split())
    return Fraction(text) if _NUMBER.fullmatch(text) else text


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 40 else text[:37] + "..."  # noqa: PLR2004


def said(prompt: Any) -> str:
    """Return all that a prompt says, roles included."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(f"{message.get('role')}: {message.get('content') or ''}" for message in prompt)


def _tells(row: Row, column: str) -> bool:
    """Tell whether the last words of a prompt announce an answer and are the gold."""
    gold = row.columns.get(column)
    if is_empty(gold) or isinstance(gold, dict | list):
        return False
    answer = str(gold).rpartition("####")[2].strip()
    # No pattern is made of the answer: to compile one for each row takes longer than all the rest of the audit.
    text = said(row.prompt).rstrip()
    ends = (text, text[:-1]) if text.endswith((".", "!")) else (text,)
    for end in ends:
        start = len(end) - len(answer)
        is_last = start >= 0 < len(answer) and end[start:].casefold() == answer.casefold()
        if is_last and _TOLD.search(end[max(0, start - _TOLD_WITHIN) : start]):
            return True
    return False


def _read_golds(golds: GoldReading, n: int, *, chat: bool) -> Iterator[Finding]:
    for words, rows in golds.raised.items():
        yield _found("reward-raises", "blocks", f"TRL would die of {words}", "mend the reward or the column", rows)
    for reason, rows in golds.unreadable.items():
        text = f"{len(rows)}/{n} rows cannot be scored, {reason}"
        few = "mend or remove these rows, or choose another reward"
        action = few if len(rows) * 2 < n else "choose a reward, or an option of it, that reads most of these rows"
        yield _found("gold-unreadable", "blocks", text, action, rows)
    if golds.silent:
        text = (
            f"the reward abstains (returns None) on {len(golds.silent)}/{golds.tried} rows whose gold it scores, "
            f"as from {next(iter(golds.silent.values()))}; {COSTS_NOTHING}"
        )
        yield _found("reward-abstains", "blocks", text, f"mend the reward: {PAY_ZERO}", sorted(golds.silent))
    if golds.unscored:
        text = (
            f"{len(golds.unscored)}/{golds.tried} golds get no score when they are the answer themselves: "
            "the reward returns None, so that nothing is learnt from right work"
        )
        few = "mend or remove these rows: the reward scores most golds, but not theirs"
        action = mend_reward(len(golds.unscored), golds.tried, chat=chat, rows=few)
        yield _found("gold-unscored", "blocks", text, action, golds.unscored)
    if golds.unpaid:
        yield _unpaid(golds, chat=chat)
    elif golds.tried and not golds.unscored and not golds.silent:
        yield _found("gold-unpaid", "fine", f"{golds.tried} golds tried as answers, all paid more than wrong ones")


def _unpaid(golds: GoldReading, *, chat: bool) -> Finding:
    every = len(golds.unpaid) == golds.tried
    text = (
        f"the reward does not tell right from wrong here: {len(golds.unpaid)}/{golds.tried} golds, written in every "
        "form that is known, are paid no more than a wrong answer"
    )
    # A reward of one's own may want a form of its own; where some golds are paid, the form is not the reason.
    weight: Literal["blocks", "warns"] = "warns" if every and not golds.forms_known else "blocks"
    few = "mend or remove these rows: the reward pays most golds, but not theirs"
    action = mend_reward(len(golds.unpaid), golds.tried, chat=chat, rows=few)
    return _found("gold-unpaid", weight, text, action, golds.unpaid)


def _overlap(overlap: Overlap, n: int) -> Iterator[Finding]:
    for code, groups, word in (("prompt-repeated", overlap.same, "the same"), ("prompt-near", overlap.near, "nearly")):
        if groups:
            rows = sorted(row for group in groups for row in group)
            surplus = len(rows) - len(groups)
            how = "but for case and space" if code == "prompt-repeated" else f"the same; {overlap.method}"
            text = f"{surplus}/{n} prompts are {word} {how}: {len(groups)} groups"
            yield _found(code, "warns", text, "keep one row of each group, or weigh them so on purpose", rows)
    if not overlap.same and not overlap.near:
        yield _found("prompt-repeated", "fine", f"{n} prompts differ; {overlap.method}")
    if not overlap.complete:
        yield _found("overlap-incomplete", "warns", "too many prompts are alike: not all pairs were compared", None)
    if overlap.leaked is None:
        return
    for code, pairs, how in (
        ("held-out-leaked", overlap.leaked, "stand in the training data, but for case and space"),
        ("held-out-near", overlap.nearly_leaked, f"stand nearly so in the training data; {overlap.method}"),
    ):
        if pairs:
            held = len({other for _, other in pairs})
            text = f"{held}/{overlap.held_out} held-out prompts {how}, such as held-out row {pairs[0][1]}"
            rows = sorted({row for row, _ in pairs})
            yield _found(code, "blocks", text, "take these rows out of the training data", rows)
    if not overlap.leaked and not overlap.nearly_leaked:
        text = f"{overlap.held_out} held-out rows, none of whose prompts stands in the training data; {overlap.method}"
        yield _found("held-out-leaked", "fine", text)


def _columns(columns: Columns) -> Iterator[Finding]:
    for column in columns.pictures:
        text = f"column `{column}`: TRL takes it for pictures, which a text model's template does not know"
        yield _found("column-pictures", "blocks", text, f"rename column `{column}` or take it out")
    if columns.dropped and columns.needed:
        text = f"`remove_unused_columns: true` drops {_names(columns.needed)}, which rewards read"
        yield _found("columns-dropped", "blocks", text, "leave `remove_unused_columns` out of `training`")
    for column, (example, rows) in columns.changed.items():
        read = column in columns.needed or column == "prompt"
        text = f"column `{column}` holds other values in training than in the file: {example}"
        action = "save the data set as JSONL, dates and numbers in quotes, or as Parquet with the right types"
        if column in columns.odd:  # one type for all: a few rows decide how the others are read
            words, few = columns.odd[column]
            text += f" in {len(rows)} rows, because of {len(few)} {'row' if len(few) == 1 else 'rows'} with {words}"
            action = f"write column `{column}` of {rows_in_words(few)} as the other rows have it"
        named = columns.odd[column][1] if column in columns.odd else rows
        yield _found("column-changed", "blocks" if read else "warns", text, action, named)
    for column, example in columns.typed.items():
        text = f"column `{column}` is of another type in training: {example}, and a reward of your own reads it"
        yield _found("column-typed", "warns", text, "let the reward take both, or save the data set as JSONL")
    for column, keys in columns.padded.items():
        text = f"column `{column}`: table storage fills {_names(keys[:SHOWN_ROWS])} with nulls in rows that lack them"
        action = f"store column `{column}` as JSON text"
        yield _found("column-padded", "blocks" if column in columns.needed else "warns", text, action)
    for column, kind in columns.left_out.items():
        needed = column in columns.needed
        text = f"column `{column}` holds {kind}, which no record keeps"
        yield _found("column-left-out", "blocks" if needed else "warns", text, "store it as text")


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _batch(batch: Batch) -> Iterator[Finding]:
    if batch.refused is None:
        yield _found("too-few-rows", "fine", batch.words)
    else:
        code, what, mend = batch.refused
        yield _found(code, "blocks", what, mend)
