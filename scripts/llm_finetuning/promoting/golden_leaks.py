"""Which goldens stand in the training data: the search of `audit`, asked for the goldens' side.

The prompts of the data set are searched, and what SFT and preference methods train on beside them: a golden that is
itself a demonstration is no less known.
"""

from collections.abc import Mapping
from typing import Any

from llm_finetuning import artifact, dataset, environment, interpreter, lineage, overlap
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.comparing.evidence import Leakage
from llm_finetuning.errors import Refusal
from llm_finetuning.findings.wording import text_of
from llm_finetuning.stages.audit import said
from llm_finetuning.types import Leak, Row

COLUMNS = ("completion", "chosen", "rejected")
"""Columns, in TRL's names, that are trained on beside the prompt."""

TABLE_NEEDS = ("datasets",)


def search(loaded: LoadedBrief, goldens: Mapping[str, Any], *, python: str | None) -> Leakage:
    """Return the goldens (id -> prompt) that stand in the training data, exactly or nearly.

    Nothing is installed or fetched for it: a table or a hub id is read by `python`, or a table by an interpreter that
    is at hand. Where that cannot be, what a current audit found is taken.
    """
    try:
        rows = rows_of(loaded, python)
    except Refusal as refusal:
        return _as_audited(loaded, refusal.lines[0])
    ids = list(goldens)
    found: dict[str, Leak] = {}
    complete = True
    for column in ("prompt", *COLUMNS):
        text = said if column == "prompt" else text_of
        held = [(row.row, overlap.folded(cell)) for row in rows if (cell := _cell(row, column))]
        across = overlap.across([overlap.folded(text(goldens[name])) for name in ids], [text for _, text in held])
        complete = complete and across.complete
        for how, places in (("same", across.same), ("near", across.near)):
            for here, there in places:
                leak = Leak(prompt_id=ids[here], row=held[there][0], column=column, how=how)  # type: ignore[arg-type]
                found.setdefault(ids[here], leak)
    cut = None if complete else "so many prompts are alike that not all could be compared"
    return Leakage(
        found=[found[name] for name in ids if name in found],
        unread=cut,
        mend=f"take the copies that `{artifact.shell_line('audit', loaded.run_dir)}` names out of the training data, "
        "then compare again",
    )


def rows_of(loaded: LoadedBrief, python: str | None) -> list[Row]:
    """Return the rows of a data set, faulty ones too; refuses one that cannot be read without installing or fetching.

    A hub id is read by `python` alone, a table also by the brief's interpreter, or this one, if it can.
    """
    if not dataset.needs_program(loaded):
        return dataset.read(loaded).rows
    program = None
    if python is not None:
        program = environment.training_python(python, TABLE_NEEDS)
    elif dataset.is_file(loaded):
        program = interpreter.at_hand(loaded.brief.environment, TABLE_NEEDS)
    if program is None:
        raise Refusal(
            f"{loaded.brief.dataset.path} is read by an interpreter that has `datasets`; name it: --python PATH"
        )
    return dataset.read(loaded, python=program).rows


def _cell(row: Row, column: str) -> str:
    if column == "prompt":
        return said(row.prompt)
    value: Any = row.columns.get(column)
    return text_of(value) if isinstance(value, str) or _is_chat(value) else ""


def _is_chat(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(message, dict) for message in value)


def _as_audited(loaded: LoadedBrief, why: str) -> Leakage:
    """Return what a current audit says of the held-out rows; it knows rows of the training data, and no goldens."""
    what, _, mend = why.rpartition("; ")
    try:
        report = lineage.current_audit(loaded)
    except Refusal:
        return Leakage(unread=what or why, mend=mend or artifact.shell_line("audit", loaded.run_dir))
    found = [one for one in report.findings if one.code.startswith("held-out-")]
    if found and all(one.weight == "fine" for one in found):
        return Leakage()
    action = next((one.next_action for one in found if one.weight == "blocks"), None)
    return Leakage(unread=f"the audit says: {found[0].text}" if found else what or why, mend=action or mend)
