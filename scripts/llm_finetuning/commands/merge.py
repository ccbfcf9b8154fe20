"""`finetune merge`: a trained LoRA adapter as a model of its own, to go on from or to serve."""

import json
from pathlib import Path
from typing import Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import MachineryFailure, Refusal

LOST = 0.5  # of what the adapter changed; a merge that is farther off may have lost its gain
NEEDS = ("torch", "transformers", "peft")


@click.command("merge", short_help="Write a trained LoRA adapter into its base model")
@options.run_dir
@click.option("--checkpoint", metavar="STEP", default="final", show_default=True, help="Its step, `last` or `final`.")
@click.option(
    "--dtype",
    type=click.Choice(["bfloat16", "float16", "float32"]),
    help="The format of the weights; the base model's own when left out.",
)
@options.python
@options.as_json
def command(run_dir: Path, checkpoint: str, dtype: str | None, python: str | None, as_json: bool) -> int:
    """Write train/merged: the base model with the adapter in its weights, tokenizer and chat template beside it.

    A model like any other: `new --from RUN --model` and every engine and server take it, and an adapter they do not.
    It is loaded again and compared with base and adapter, and not kept where it is another model. On the CPU, in as
    much memory as the base model takes.
    """
    facts = run(run_dir, checkpoint, dtype=dtype, python=python)
    console.finish(_lines(facts), facts, as_json=as_json)
    return 0


def run(run_dir: Path, step: str = "final", *, dtype: str | None = None, python: str | None = None) -> dict[str, Any]:
    """Write the folder and return what was written; one that is there of the same adapter is left as it is."""
    from llm_finetuning import artifact, brief, checkpoints
    from llm_finetuning.commands import status

    loaded = brief.load(run_dir)
    candidate = checkpoints.checkpoint(loaded, step)
    if candidate.adapter is None:
        raise Refusal(f"{candidate.model}: is a whole model; there is nothing to merge, name it as it is")
    merged = loaded.run_dir / checkpoints.MERGED
    target = merged if candidate.name == "final" else merged.with_name(f"{merged.name}-{candidate.name}")
    of = {
        "adapter": candidate.adapter,
        "model": candidate.model,
        "sha256": checkpoints.digest(loaded, candidate),
        "asked_dtype": dtype,
    }
    record = _record(target)
    if record is None or not _is_of(record, of):
        record = _merged(of, target, python or loaded.brief.environment)
    shown = run_dir / target.relative_to(loaded.run_dir)
    is_unmeasured = loaded.brief.dataset.evaluation and not (run_dir / "eval" / f"{target.name}.json").exists()
    return {
        **record,
        "wrote": str(shown),
        "from_4_bit": loaded.brief.training.get("adapter") == "qlora",
        "measure": artifact.shell_line("evaluate", run_dir, "--model", str(shown)) if is_unmeasured else None,
        "next": status.next_command(run_dir),
    }


def _is_of(record: dict[str, Any], of: dict[str, Any]) -> bool:
    """Tell whether what is there was made of the same bytes, in the wanted format."""
    same = all(record.get(key) == of[key] for key in ("adapter", "model", "sha256"))
    return same and of["asked_dtype"] in (record.get("asked_dtype"), record.get("dtype"))


def _lines(facts: dict[str, Any]) -> list[str]:
    kl, moved = facts["kl"], facts["moved"]
    lines = [
        f"wrote: {facts['wrote']} ({facts['bytes'] / 1e9:.2f} GB, {facts['dtype']})",
        f"  {facts['adapter']} in {facts['model']}",
        (
            f"  loaded again and asked: {kl:.1e} nats a token from base and adapter, which are {moved:.1e} from the "
            f"base alone; the same first choice after {facts['agreeing']:.0%} of {facts['tokens']} tokens"
        ),
    ]
    if kl > LOST * moved and facts["dtype"] != "float32":
        lines.append(
            f"  rounding to {facts['dtype']} may take the adapter's gain: measure it, or merge with --dtype float32"
        )
    if facts["from_4_bit"]:
        lines.append("  it was trained on the base model in 4 bits, and this is the base model as it is: measure it")
    if facts["measure"] not in (None, facts["next"]):
        lines.append(f"  to measure it on the held-out rows: `{facts['measure']}`")
    return [*lines, f"next: {facts['next']}"]


def _record(target: Path) -> dict[str, Any] | None:
    """Return what a merged folder was made of; None where there is none. Refuses a folder of somebody else's."""
    from llm_finetuning import checkpoints

    found = checkpoints.merged_of(target)
    if found is None and target.exists():
        raise Refusal(f"{target}: is there, and `finetune merge` did not write it; move it away")
    return found


def _merged(of: dict[str, Any], target: Path, python: str | None) -> dict[str, Any]:
    """Merge into a draft beside the target, which then takes its place; return what is recorded of it."""
    import shutil
    from contextlib import closing

    from llm_finetuning import artifact, checkpoints, environment
    from llm_finetuning.program import run_program

    interpreter = environment.training_python(python, NEEDS)
    draft, old = (target.with_name(f".{target.name}.{end}") for end in ("new", "old"))
    job = {"model": of["model"], "adapter": of["adapter"], "dtype": of["asked_dtype"], "path": str(draft)}
    try:
        for folder in (draft, old):
            shutil.rmtree(folder, ignore_errors=True)
        console.note(f"merging {of['adapter']} into {of['model']}")
        with closing(run_program("merger", job, python=interpreter)) as records:
            (found,) = records
        record = of | {key: value for key, value in found.items() if key != "kind"}
        artifact.write_text(draft / checkpoints.MERGE_RECORD, json.dumps(record) + "\n")
        if target.exists():
            target.rename(old)
        draft.rename(target)
    except OSError as error:
        raise MachineryFailure(f"{target}: cannot be written ({error.strerror or error})") from None
    finally:
        for folder in (draft, old):
            shutil.rmtree(folder, ignore_errors=True)
    return record
