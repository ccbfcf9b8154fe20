"""`finetune new`: a commented brief to edit, or the brief of the run that follows on another."""

import json
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import EXIT_DONE, EXIT_NO, Refusal

if TYPE_CHECKING:
    from llm_finetuning.diagnosis.record import Diagnosis

TEMPLATES = Path(__file__).resolve().parents[1] / "templates" / "brief"

METHODS = ("grpo", "sft", "dpo", "kto", "orpo", "simpo")


@click.command("new", short_help="Write a commented brief for a method")
@options.run_dir
@click.option("--method", type=click.Choice(METHODS), default="grpo", show_default=True)
@click.option("--model", default="HuggingFaceTB/SmolLM2-135M-Instruct", show_default=True, help="Hub id or folder.")
@click.option("--dataset", default="data/train.jsonl", show_default=True, help="JSONL, CSV, Parquet or hub id.")
@click.option("--from", "source", type=options.RUN_DIR, metavar="RUN", help="Copy the brief of this run.")
@click.option("--apply", "applies", is_flag=True, help="With --from: make the one change that its diagnosis advises.")
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    run_dir: Path,
    method: str,
    model: str,
    dataset: str,
    source: Path | None,
    applies: bool,
    as_json: bool,
) -> int:
    """Write RUN_DIR/brief.yaml, which you edit; the data set and reward files of your own are yours to write too.

    Relative paths in a brief start from the folder that it stands in. With --from the brief is that of another run,
    whose files it names where they are; with --apply too, the next run differs from it by what `finetune diagnose`
    advised, and by nothing else. Exit code 1: the advice is to change nothing, or nothing that a brief says.
    """
    from llm_finetuning import artifact

    if source is not None:
        given = [name for name in ("method", "model", "dataset") if _is_given(context, name)]
        if given:
            raise Refusal(f"--{given[0]}: comes with the brief of --from; leave it out, and edit the new brief")
        code, facts = follow(run_dir, source, applies=applies)
        console.finish(_lines(facts), facts, as_json=as_json)
        return code
    if applies:
        raise Refusal("--apply: needs the run whose diagnosis it applies; add `--from RUN`")
    path = write(run_dir, method=method, model=model, dataset=dataset)
    facts = {"wrote": str(path), "method": method}
    console.finish(
        [f"wrote: {path}", f"next: edit it, then {artifact.shell_line('audit', run_dir)}"], facts, as_json=as_json
    )
    return EXIT_DONE


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def follow(run_dir: Path, source: Path, *, applies: bool) -> tuple[int, dict[str, Any]]:
    """Write the brief of a run that follows on another; return the exit code and the facts.

    Refuses to overwrite a brief, and to apply a diagnosis that is not there or is of another state of the run.
    """
    from llm_finetuning import artifact, brief, next_brief
    from llm_finetuning.commands import diagnose

    path = _free(run_dir)
    loaded = brief.load(source)
    text = (loaded.run_dir / brief.FILE_NAME).read_text("utf-8-sig")
    facts: dict[str, Any] = {"from": str(source)}
    changes: list[str] = []
    if applies:
        found = diagnose.current(loaded)
        advice = found.advice
        facts |= {"verdict": found.verdict, "advice": advice.change, "checkpoint": found.checkpoint}
        changed = next_brief.advised(text, advice, found.text)
        if not changed.changes:
            return EXIT_NO, {
                **facts,
                "because": advice.because,
                "wrote": None,
                **_by_hand(run_dir, source, found),
            }
        text, changes = changed.text, changed.changes
    moved = next_brief.moved(text, loaded, run_dir)
    brief.parse(moved.text, path)  # a brief of ours that we would refuse is a defect
    artifact.write_text(path, moved.text)
    facts |= {"wrote": str(path), "changed": changes, "paths": moved.changes}
    return EXIT_DONE, {**facts, "next": artifact.shell_line("audit", run_dir)}


def _by_hand(run_dir: Path, source: Path, found: "Diagnosis") -> dict[str, str]:
    """Return the command that follows on advice that changes no option of the brief, and why it does."""
    from llm_finetuning import artifact
    from llm_finetuning.diagnosis.advice import KEEP

    if found.advice.change == KEEP:
        return {"next": artifact.shell_line("evaluate", source, "--checkpoint", "last")}
    if found.advice.options or found.advice.variant:
        return {"why": "the brief says so already", "next": artifact.shell_line("diagnose", source)}
    return {
        "why": "it is no option of a brief: copy the brief, then make that change yourself",
        "next": artifact.shell_line("new", run_dir, "--from", str(source)),
    }


def _lines(facts: dict[str, Any]) -> list[str]:
    lines = []
    if "advice" in facts:
        lines.append(f"advice for {facts['from']} ({facts['verdict'].replace('_', ' ')}): {facts['advice']}")
    if facts["wrote"] is None:
        why = f": {facts['why']}" if "why" in facts else ""
        lines += [f"  because {facts['because']}", f"wrote nothing{why}"]
    else:
        lines.append(f"wrote: {facts['wrote']}")
        lines += [f"  changed: {change}" for change in facts["changed"]]
        lines += [f"  {path} (where it was)" for path in facts["paths"]]
        if facts.get("checkpoint"):
            step, why = facts["checkpoint"]["step"], facts["checkpoint"]["why"]
            lines.append(f"  to go on from a checkpoint: one at or before step {step:g} as `model:` ({why})")
    return [*lines, f"next: {facts['next']}"]


def write(run_dir: Path, *, method: str, model: str, dataset: str) -> Path:
    """Write the brief and return its path; refuses to overwrite one."""
    from llm_finetuning import artifact, brief

    path = _free(run_dir)
    values = {"name": _name(run_dir), "method": method, "model": json.dumps(model), "dataset": json.dumps(dataset)}
    text = "".join(
        Template((TEMPLATES / part).read_text("utf-8")).substitute(values)
        for part in ("head.yaml", f"{method}.yaml", "tail.yaml")
    )
    brief.parse(text, path)  # a brief of ours that we would refuse is a defect
    artifact.write_text(path, text)
    return path


def _free(run_dir: Path) -> Path:
    from llm_finetuning import brief

    path = run_dir / brief.FILE_NAME
    if path.exists():
        raise Refusal(f"{path}: is there already; edit it, or choose another folder")
    return path


def _name(run_dir: Path) -> str:
    kept = "".join(
        letter if (letter.isalnum() and letter.isascii()) or letter in "_.-" else "-"
        for letter in run_dir.resolve().name
    )
    return kept.strip("-._") or "run"
