"""`finetune new`: a commented brief to edit."""

import json
from pathlib import Path
from string import Template

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import Refusal

TEMPLATES = Path(__file__).resolve().parents[1] / "templates" / "brief"

METHODS = ("grpo", "sft", "dpo", "kto", "orpo", "simpo")


@click.command("new", short_help="Write a commented brief for a method")
@options.run_dir
@click.option("--method", type=click.Choice(METHODS), default="grpo", show_default=True)
@click.option("--model", default="HuggingFaceTB/SmolLM2-135M-Instruct", show_default=True, help="Hub id or folder.")
@click.option("--dataset", default="data/train.jsonl", show_default=True, help="JSONL, CSV, Parquet or hub id.")
@options.as_json
def command(run_dir: Path, method: str, model: str, dataset: str, as_json: bool) -> int:
    """Write RUN_DIR/brief.yaml, the one file of a run that you edit.

    Relative paths in a brief start from the folder that it stands in.
    """
    from llm_finetuning import artifact

    path = write(run_dir, method=method, model=model, dataset=dataset)
    facts = {"wrote": str(path), "method": method}
    console.finish(
        [f"wrote: {path}", f"next: edit it, then {artifact.shell_line('sample', run_dir)}"], facts, as_json=as_json
    )
    return 0


def write(run_dir: Path, *, method: str, model: str, dataset: str) -> Path:
    """Write the brief and return its path; refuses to overwrite one."""
    from llm_finetuning import artifact, brief

    path = run_dir / brief.FILE_NAME
    if path.exists():
        raise Refusal(f"{path}: is there already; edit it, or choose another folder")
    values = {"name": _name(run_dir), "method": method, "model": json.dumps(model), "dataset": json.dumps(dataset)}
    text = "".join(
        Template((TEMPLATES / part).read_text("utf-8")).substitute(values)
        for part in ("head.yaml", f"{method}.yaml", "tail.yaml")
    )
    brief.parse(text, path)  # a brief of ours that we would refuse is a defect
    artifact.write_text(path, text)
    return path


def _name(run_dir: Path) -> str:
    kept = "".join(
        letter if (letter.isalnum() and letter.isascii()) or letter in "_.-" else "-"
        for letter in run_dir.resolve().name
    )
    return kept.strip("-._") or "run"
