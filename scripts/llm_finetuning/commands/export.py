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
    from llm_finetuning.evaluating import kept
    from llm_finetuning.exchange import inspect_out, table
    from llm_finetuning.findings.evidence import Rule, is_paid
    from llm_finetuning.strict_json import strict

    if file.suffix not in FORMS:
        raise Refusal(
            f"{file}: the ending decides the form: {', '.join(f'{end} for {what}' for end, what in FORMS.items())}"
        )
    if _is_own(run_dir, file):
        raise Refusal(f"{file}: is the place of an artifact of this run; name a file elsewhere")
    if file.exists():
        raise Refusal(f"{file}: is there already and is not overwritten; name another file")
    found = kept.evaluation_of(run_dir.resolve(), name)
    samples = kept.completions_of(found)
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


def _is_own(run_dir: Path, file: Path) -> bool:
    """Tell whether a file would stand where the run's own artifacts do, and be taken for one of them."""
    from llm_finetuning import pipeline

    folder = file.resolve().parent
    own = run_dir.resolve()
    return folder == own / "eval" or (folder in (own, own / "train") and pipeline.names_artifact(file.stem))


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
