"""`finetune export`: an evaluation for other programs to read."""

from pathlib import Path
from typing import Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import Refusal

FORMS = {".json": "a log of inspect-ai", ".parquet": "a Parquet table"}


@click.command("export", short_help="Write an evaluation for inspect-ai or as Parquet")
@options.run_dir
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@options.python
@options.as_json
def command(run_dir: Path, name: str, file: Path, python: str | None, as_json: bool) -> int:
    """Write eval/NAME.json with its completions to FILE: a log of inspect-ai (.json), or a Parquet table (.parquet).

    One sample, or one row, a completion: what was asked, what was answered, whether it counts as a success, and what
    each reward paid. FILE is never overwritten.
    """
    facts = run(run_dir, name, file, python=python)
    console.finish(
        [f"wrote: {facts['wrote']} ({facts['form']}, {facts['completions']} completions)"], facts, as_json=as_json
    )
    return 0


def run(run_dir: Path, name: str, file: Path, *, python: str | None = None) -> dict[str, Any]:
    """Write the file and return what was written; refuses where it is there already, or the completions are not."""
    from llm_finetuning import artifact
    from llm_finetuning.exchange import inspect_out, table
    from llm_finetuning.findings.evidence import Rule, is_paid
    from llm_finetuning.strict_json import strict

    if file.suffix not in FORMS:
        raise Refusal(
            f"{file}: the ending decides the form: {', '.join(f'{end} for {what}' for end, what in FORMS.items())}"
        )
    if file.exists():
        raise Refusal(f"{file}: is there already and is not overwritten; name another file")
    found, samples = read(run_dir, name)
    evaluation = found.records[0]
    rule = Rule(success=evaluation.success_threshold)
    grades = {(item.prompt_id, index): grade for item in evaluation.items for index, grade in enumerate(item.grades)}
    paid = [grades[sample.prompt_id, sample.index] for sample in samples]
    success = [None if grade is None else is_paid(grade, rule) for grade in paid]
    if file.suffix == ".json":
        log = inspect_out.log_of(evaluation, found.header, samples, success=success)
        import json

        artifact.write_text(file, json.dumps(strict(log), ensure_ascii=True, allow_nan=False) + "\n")
    else:
        _write_table(file, table.rows_of(evaluation, samples, success=success), python)
    return {"wrote": str(file), "form": FORMS[file.suffix], "completions": len(samples)}


def read(run_dir: Path, name: str) -> tuple[Any, list[Any]]:
    """Return an evaluation and its completions in the order of its items; refuses where they do not belong together."""
    from llm_finetuning import artifact
    from llm_finetuning.commands import compare
    from llm_finetuning.pipeline import TRANSCRIPTS
    from llm_finetuning.types import Sample

    found = compare.evaluation_of(run_dir, name)
    transcripts = found.path.with_name(f"{found.path.stem}{TRANSCRIPTS}")
    if not transcripts.exists():
        raise Refusal(f"{transcripts}: the completions are not there; an evaluation without them cannot be exported")
    if found.header.parents.get(transcripts.name) != artifact.digest_file(transcripts):
        raise Refusal(f"{transcripts}: changed since {found.path.name} was made; evaluate again under another --name")
    places = {item.prompt_id: place for place, item in enumerate(found.records[0].items)}
    samples = artifact.read_lines(transcripts, Sample, without=("completion_ids",)).records
    return found, sorted(samples, key=lambda sample: (places[sample.prompt_id], sample.index))


def _write_table(file: Path, rows: list[dict[str, Any]], python: str | None) -> None:
    from contextlib import closing

    from llm_finetuning import environment
    from llm_finetuning.program import run_program

    interpreter = environment.training_python(python, ("datasets",))
    draft = file.resolve().with_name(f".{file.name}.new")
    try:
        with closing(run_program("parquet_writer", {"rows": rows, "path": str(draft)}, python=interpreter)) as records:
            for _ in records:
                pass
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
