"""`finetune audit`: is the data set sound, before anything is sampled?"""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import EXIT_DONE, EXIT_NO, MachineryFailure, Refusal

if TYPE_CHECKING:
    from llm_finetuning.brief import LoadedBrief
    from llm_finetuning.dataset import Reading
    from llm_finetuning.stages.audit import Batch, Columns, Overlap
    from llm_finetuning.stages.audit_tokens import Tokens
    from llm_finetuning.types import AuditReport, Component, Finding, Row

TOKEN_NEEDS = ("transformers",)
TABLE_NEEDS = ("datasets",)


@click.command("audit", short_help="Find the data set's faults before sampling")
@options.run_dir
@options.python
@options.as_json
def command(run_dir: Path, python: str | None, as_json: bool) -> int:
    """Look for the data set's faults: golds, ids, duplicates, leakage, columns, prompt lengths and the template.

    Exit code 0: nothing blocks; 1: something has to be mended before sampling. All findings, with their rows, stand in
    audit.json. What the tokenizer would show is left out where no training interpreter is at hand.
    """
    import dataclasses

    from llm_finetuning.commands import status
    from llm_finetuning.findings.success import for_run

    report = run(run_dir, python=python)
    blocked = any(finding.weight == "blocks" for finding in report.findings)
    action = for_run(report.next_action, str(run_dir)) if blocked else status.next_command(run_dir)
    report = dataclasses.replace(report, next_action=action)
    console.finish(lines_of(report, run_dir), facts_of(report, run_dir), as_json=as_json)
    return EXIT_NO if blocked else EXIT_DONE


def run(run_dir: Path, *, python: str | None = None) -> "AuditReport":
    """Judge the data set, write audit.json and return the report."""
    import sys

    from llm_finetuning import artifact, brief, dataset, gold_trial, lineage
    from llm_finetuning.rewards import composition
    from llm_finetuning.scoring.scores import completions_per_call
    from llm_finetuning.stages import audit as stage
    from llm_finetuning.stages import audit_tokens

    loaded = brief.load(run_dir)
    parents = lineage.of_audit(loaded)
    notes: list[str] = []
    reading = dataset.read(loaded, python=_table_reader(loaded, python))
    rows, columns = reading.rows, list(reading.rows[0].columns)
    tokens, settings, of_reader = _tokens(loaded, rows, python, notes)
    with contextlib.ExitStack() as stack:
        for folder in composition.folders_of(loaded):  # a reward may import its neighbours when it is called
            stack.enter_context(composition.importable_from(folder))
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))  # a reward that prints must not spoil --json
        components, of_rewards = _composed(loaded, columns)
        golds = stage.GoldReading(tried=0)
        usable = _of_one_form(rows)
        if components and usable:
            opened = list(tokens.facts["opened_thoughts"]) if tokens else []
            golds, left_out = gold_trial.read_golds(
                loaded, components, usable, per_call=completions_per_call(loaded), open_thought=bool(opened)
            )
            notes += left_out
            wants = gold_trial.wanting_open_thought(loaded, components, usable, opened) if opened else []
            tokens = _with_wants(tokens, wants)
    report = stage.audit(
        rows,
        gold_column=gold_trial.gold_column(loaded, components, rows),
        golds=golds,
        overlap=_overlap(loaded, rows, python),
        columns=_columns(loaded, reading, components, python, notes),
        batch=_batch(loaded, len(rows)) if loaded.brief.method == "grpo" else None,
        of_tokens=[*of_rewards, *of_reader, *(audit_tokens.findings(tokens) if tokens else ())],
        prompt_tokens=audit_tokens.spread(list(tokens.counts.values())) if tokens else None,
        ready_action=artifact.shell_line("status", run_dir),
        notes=notes,
    )
    changed = artifact.changed_parents(parents, lineage.of_audit(loaded))
    if changed:
        raise Refusal(f"{run_dir}: {changed} changed while the data set was read; audit again")
    path = loaded.run_dir / "audit.json"
    artifact.write_json(path, artifact.header_for(path, parents, settings), report)
    return report


def _composed(loaded: "LoadedBrief", columns: list[str]) -> "tuple[list[Component], list[Finding]]":
    """Return the brief's rewards, or a finding for each fault of theirs."""
    from llm_finetuning.rewards import composition
    from llm_finetuning.types import Finding

    try:
        return composition.compose(loaded, columns, pays=False), []
    except Refusal as refusal:
        return [], [
            Finding(code="reward-refused", weight="blocks", text=line, next_action=f"mend {line}")
            for line in refusal.lines
        ]


def _with_wants(tokens: "Tokens | None", wants: Sequence[str]) -> "Tokens | None":
    import dataclasses

    return dataclasses.replace(tokens, wants_open=wants) if tokens else None


def _table_reader(loaded: "LoadedBrief", python: str | None) -> str | None:
    """Return the interpreter that reads Parquet files and hub ids; None where none is needed."""
    from llm_finetuning import dataset, environment

    if not dataset.needs_program(loaded):
        return None
    return environment.training_python(python or loaded.brief.environment, TABLE_NEEDS)


def _at_hand(loaded: "LoadedBrief", python: str | None, needs: Sequence[str]) -> str | None:
    """Return the training interpreter if it has these modules; installing gigabytes for an audit is not asked for."""
    from llm_finetuning import interpreter

    return interpreter.at_hand(python or loaded.brief.environment, needs)


def _tokens(
    loaded: "LoadedBrief", rows: "Sequence[Row]", python: str | None, notes: list[str]
) -> "tuple[Tokens | None, dict[str, Any], list[Finding]]":
    """Return every prompt's tokens, what the header keeps of them, and what went wrong; None, with a note, without."""
    from llm_finetuning.types import Finding

    if loaded.brief.sampling.engine == "endpoint":
        notes.append("tokens and template were not looked at: the endpoint's server has the tokenizer")
        return None, {}, []
    interpreter = _at_hand(loaded, python, TOKEN_NEEDS)
    if interpreter is None:
        notes.append("tokens and template were not looked at: no transformers here; name an interpreter with --python")
        return None, {}, []
    try:
        tokens = _read_tokens(loaded, rows, interpreter)
    except (Refusal, MachineryFailure) as fault:
        line = fault.lines[0]
        text = f"tokens and template were not looked at: {line}"
        mend = line.rpartition("; ")[2]
        return None, {}, [Finding(code="tokenizer-unread", weight="warns", text=text, next_action=mend)]
    kept = ("tail", "end_tokens", "start_token", "context_length", "trl_version", "model")
    return tokens, {"tokenizer": {key: tokens.facts[key] for key in kept}}, []


def _read_tokens(loaded: "LoadedBrief", rows: "Sequence[Row]", interpreter: str) -> "Tokens":
    from llm_finetuning.program import run_program
    from llm_finetuning.recipes import variants
    from llm_finetuning.stages.audit_tokens import Tokens

    sampling, training = loaded.brief.sampling, variants.training_of(loaded.brief)
    prompts = _of_one_form(rows)
    if not prompts:
        raise Refusal("no row has a prompt that can be read; mend the prompts")
    job = {
        "model": loaded.model_source(),
        "prompts": [{"row": row.row, "prompt": row.prompt} for row in prompts],
        "chat_template_kwargs": sampling.chat_template_kwargs,
    }
    counts: dict[int, int] = {}
    refused: dict[int, str] = {}
    facts: Mapping[str, Any] = {}
    with contextlib.closing(run_program("prompt_reader", job, python=interpreter)) as records:
        for record in records:
            if record["kind"] == "tokens":
                counts.update(zip(record["rows"], record["counts"], strict=True))
            elif record["kind"] == "refused":
                refused.update(zip(record["rows"], record["words"], strict=True))
            else:
                facts = record["facts"]
    limits = [facts["context_length"], training.get("vllm_max_model_length") if training.get("use_vllm") else None]
    known = [limit for limit in limits if isinstance(limit, int)]
    return Tokens(
        counts=counts,
        refused=refused,
        facts=facts,
        chat=isinstance(prompts[0].prompt, list),
        cap=sampling.max_completion_length,
        window=min(known, default=None),
        ends_with_assistant=[
            row.row for row in rows if isinstance(row.prompt, list) and row.prompt[-1].get("role") == "assistant"
        ],
        masks_truncated=bool(training.get("mask_truncated_completions")),
        promised_open=[
            str(wanted.name or wanted.use)
            for wanted in loaded.brief.rewards
            if wanted.options.get("opened_by_template") is not None
        ],
    )


def _of_one_form(rows: "Sequence[Row]") -> "list[Row]":
    """Return the rows whose prompt has the first usable one's form; the others are findings of their own."""
    usable = [row for row in rows if row.prompt]
    return [row for row in usable if type(row.prompt) is type(usable[0].prompt)]


def _overlap(loaded: "LoadedBrief", rows: "Sequence[Row]", python: str | None) -> "Overlap":
    """Return which prompts are the same, nearly the same, and in the held-out rows too."""
    from llm_finetuning import overlap
    from llm_finetuning.stages.audit import Overlap, said

    texts = [overlap.folded(said(row.prompt)) for row in rows]
    first = {text: place for place, text in reversed(list(enumerate(texts))) if text}
    distinct = list(first)
    near = overlap.near(distinct)
    leaked, nearly, held_out, complete = None, [], [], True
    if loaded.brief.dataset.evaluation is not None:
        held_out = _held_out(loaded, python)
        found = overlap.across([overlap.folded(said(row.prompt)) for row in held_out], texts)
        leaked, nearly = (
            [(rows[there].row, held_out[here].row) for here, there in places] for places in (found.same, found.near)
        )
        complete = found.complete
    return Overlap(
        same=[[rows[place].row for place in group] for group in overlap.same(texts) if texts[group[0]]],
        near=[[rows[first[distinct[place]]].row for place in group] for group in near.groups],
        leaked=leaked,
        nearly_leaked=nearly,
        held_out=len(held_out),
        method=overlap.METHOD,
        complete=near.complete and complete,
    )


def _held_out(loaded: "LoadedBrief", python: str | None) -> "list[Row]":
    from llm_finetuning import dataset, lineage

    held_out = lineage.held_out(loaded)
    return dataset.read(held_out, python=_table_reader(held_out, python)).rows


def _columns(
    loaded: "LoadedBrief", reading: "Reading", components: "list[Component]", python: str | None, notes: list[str]
) -> "Columns":
    from llm_finetuning import dataset, gold_trial
    from llm_finetuning.stages.audit import Columns

    present = list(reading.rows[0].columns)
    changed: Mapping[str, tuple[str, Sequence[int]]] = {}
    typed: Mapping[str, str] = {}
    table = reading.table
    if not dataset.needs_program(loaded):
        interpreter = _at_hand(loaded, python, TABLE_NEEDS)
        if interpreter is None:
            notes.append("columns were not compared with what `datasets` reads: it is not installed here")
        else:
            try:
                changed, typed, table = _compared(loaded, reading, interpreter)
            except Refusal as refusal:
                changed = {"prompt": (f"`datasets` cannot read the file: {refusal.lines[0]}", [])}
    return Columns(
        faults=[(fault.kind, fault.row, fault.text) for fault in reading.faults],
        pictures=[column for column in present if column in ("image", "images")],
        needed=gold_trial.columns_read(loaded, components, present) if components else [],
        dropped=loaded.brief.training.get("remove_unused_columns") is True,
        changed=changed,
        odd=_odd(reading, list(changed)),
        typed={column: typed[column] for column in gold_trial.columns_of_own(loaded, components, list(typed))},
        padded=table.get("null_padded", {}),
        left_out=table.get("left_out", {}),
    )


def _compared(
    loaded: "LoadedBrief", reading: "Reading", interpreter: str
) -> tuple[dict[str, tuple[str, Sequence[int]]], dict[str, str], dict[str, Any]]:
    """Return the columns that `datasets` reads otherwise than we do, those of another type alone, and its facts."""
    from llm_finetuning import dataset

    theirs, table = dataset.read_as_table(loaded, python=interpreter)
    changed: dict[str, tuple[str, list[int]]] = {}
    typed: dict[str, str] = {}
    for row, cells in zip(reading.rows, theirs, strict=False):
        for column, ours in {**row.columns, "prompt": row.prompt}.items():
            read = cells.get(column)
            example = f"{_cell(ours)} is read as {_cell(read)}"
            if not (column == "prompt" and not ours) and not _same(ours, read):
                changed.setdefault(column, (example, []))[1].append(row.row)
            elif isinstance(ours, str) != isinstance(read, str):
                typed.setdefault(column, example)
    gone = len(reading.rows) - len(theirs)
    if gone:
        changed["prompt"] = (f"`datasets` reads {len(theirs)} rows, we read {len(reading.rows)}", [])
    padded = {column: keys for column, keys in table.get("null_padded", {}).items() if column in changed}
    return dict(changed), typed, {**table, "null_padded": padded}


def _odd(reading: "Reading", columns: Sequence[str]) -> dict[str, tuple[str, list[int]]]:
    """Return, of columns whose rows hold several types, what the fewer rows hold and which they are."""
    found = {}
    for column in columns:
        rows: dict[str, list[int]] = {}
        for row in reading.rows:
            value = row.prompt if column == "prompt" else row.columns.get(column)
            if value is not None:
                rows.setdefault(_kind(value), []).append(row.row)
        most, *others = sorted(rows, key=lambda kind: -len(rows[kind])) or [""]
        few = sorted(row for kind in others for row in rows[kind])
        if few and len(few) < len(rows[most]):
            found[column] = (f"{' and '.join(others)} where the others hold {most}", few)
    return found


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    kinds = ((str, "text"), (int | float, "a number"), (dict, "an object"), (list, "a list"))
    return next((words for kind, words in kinds if isinstance(value, kind)), type(value).__name__)


def _same(ours: Any, theirs: Any) -> bool:
    """Tell whether a reward would see the same; a number for the same digits in quotes is taken for the same."""
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return ours is theirs
    if isinstance(ours, dict | list) or isinstance(theirs, dict | list):
        return bool(ours == theirs)
    return ours is theirs or (ours is not None and theirs is not None and str(ours) == str(theirs))


def _cell(value: Any) -> str:
    import json

    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004


def _batch(loaded: "LoadedBrief", rows: int) -> "Batch":
    from llm_finetuning.recipes import layout
    from llm_finetuning.stages.audit import Batch

    training = loaded.brief.training
    batch = layout.of_brief(loaded.brief)
    words = layout.drawn_words(batch, rows)
    for fault in layout.faults(batch, training, rows):
        return Batch(words=words, refused=("too-few-rows" if fault.rows else "batch-options", fault.what, fault.mend))
    return Batch(words=words)


def facts_of(report: "AuditReport", run_dir: Path) -> dict[str, Any]:
    """Return the report as `--json` prints it."""
    import dataclasses

    return {**dataclasses.asdict(report), "wrote": str(run_dir / "audit.json")}


def lines_of(report: "AuditReport", run_dir: Path) -> list[str]:
    """Return the report as a person reads it: one line for each finding that is not fine, and a summary."""
    mark = {"blocks": "BLOCKS", "warns": "warns"}
    count = {weight: sum(found.weight == weight for found in report.findings) for weight in mark}
    lines = [f"  {mark[found.weight]:<8}{found.text}" for found in report.findings if found.weight in mark]
    spread = report.prompt_tokens
    tokens = f"; prompt tokens {', '.join(f'{name} {value}' for name, value in spread.items())}" if spread else ""
    fine = [found for found in report.findings if found.weight == "fine"]
    lines += [f"  fine    {found.text}" for found in fine if found.code == "held-out-leaked"]
    named = f" ({', '.join(dict.fromkeys(found.code for found in fine))})" if fine else ""
    lines += [f"{report.rows} rows: {count['blocks']} block, {count['warns']} warn, {len(fine)} fine{named}{tokens}"]
    lines += [f"note: {text}" for text in report.notes]
    return [*lines, f"wrote: {run_dir / 'audit.json'}", f"next: {report.next_action}"]
