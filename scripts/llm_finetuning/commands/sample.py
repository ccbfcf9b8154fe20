"""`finetune sample`: draw completions of the base model, as training will."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import Refusal

if TYPE_CHECKING:
    from llm_finetuning.brief import LoadedBrief


FILE = "samples.jsonl"


@click.command("sample", short_help="Sample completions of the base model")
@options.run_dir
@options.python
@click.option("--fresh", is_flag=True, help="Set the samples that are there aside and begin anew.")
@options.as_json
def command(run_dir: Path, python: str | None, fresh: bool, as_json: bool) -> int:
    """Sample completions of the base model into samples.jsonl.

    Draws `num_generations` completions of each chosen prompt with the brief's sampling settings, and one more at low
    temperature. A killed run goes on where it stopped; the same seed gives the same samples on one engine.
    """
    from llm_finetuning.commands import status

    facts = run(run_dir, python=python, fresh=fresh)
    facts["next"] = status.next_command(run_dir)
    lines = [
        f"{facts['samples']} samples of {facts['prompts']} prompts with the {facts['engine']} engine",
        f"{facts['stopped']} ended by themselves, {facts['cut']} were cut at the cap",
        f"wrote: {facts['wrote']}" if facts["wrote"] else f"is there already: {run_dir / FILE}; nothing was drawn",
        f"next: {facts['next']}",
    ]
    console.finish(lines, facts, as_json=as_json)
    return 0


def run(run_dir: Path, *, python: str | None = None, fresh: bool = False) -> dict[str, Any]:
    """Draw what is missing and return the facts of the whole file."""
    from llm_finetuning import artifact, brief, lineage
    from llm_finetuning.rewards import composition
    from llm_finetuning.sampling import drawing

    loaded = brief.load(run_dir)
    if blocked := _blocked(loaded, run_dir):
        console.note(blocked)
    sampling = loaded.brief.sampling
    path = loaded.run_dir / FILE
    rows = _chosen(drawing.rows_of(loaded, python), sampling.prompts, sampling.seed)
    if loaded.brief.rewards:  # a reward that cannot be called is told before the sampling is paid for
        composition.compose(loaded, list(rows[0].columns), pays=False)
    low = ("low_temperature", 1, sampling.low_temperature)
    interpreter = [] if python is None else ["--python", python]
    batches = drawing.batches_of(rows, sampling.seed, [("policy", sampling.num_generations, sampling.temperature), low])
    wanted = drawing.Drawing(
        path=path,
        parents=lineage.of_samples(loaded),
        settings={"sampling": sampling.model_dump(mode="json"), "model": loaded.brief.model},
        anew=lineage.begin_anew(run_dir),
        again=artifact.shell_line("sample", run_dir, *interpreter),
    )
    source = drawing.Source(model=loaded.brief.model if sampling.engine == "endpoint" else loaded.model_source())
    before = path.stat().st_size if path.exists() and not fresh else None
    samples = drawing.draw(loaded, wanted, batches, source, python=python, fresh=fresh)
    drew = path.stat().st_size != before  # a file of samples only grows
    return _facts(run_dir / FILE if drew else None, samples, len(rows), sampling.engine)


def _blocked(loaded: "LoadedBrief", run_dir: Path) -> str | None:
    """Return what the audit of these very rows found to block; the gate weighs it, and a person may override that."""
    from llm_finetuning import artifact, lineage

    try:
        report = lineage.current_audit(loaded)
    except Refusal:
        return None
    found = next((finding for finding in report.findings if finding.weight == "blocks"), None)
    if found is None:
        return None
    again = artifact.shell_line("audit", run_dir)
    return (
        f"the audit BLOCKS, so the gate will too, and a changed data set makes these samples worthless: {found.text}\n"
        f"Ctrl-C ends the sampling; {found.next_action}, then `{again}`"
    )


def _chosen(rows: Sequence[Any], count: int, seed: int) -> list[Any]:
    """Return the prompts to inspect: a random part of the data set, so that rates speak for all of it."""
    if len(rows) <= count:
        return list(rows)
    places = sorted(random.Random(seed).sample(range(len(rows)), count))  # noqa: S311  not a secret
    return [rows[place] for place in places]


def _facts(wrote: Path | None, samples: Sequence[Any], prompts: int, engine: str) -> dict[str, Any]:
    cut = sum(sample.finish_reason == "length" for sample in samples)
    return {
        "samples": len(samples),
        "prompts": prompts,
        "engine": engine,
        "stopped": len(samples) - cut,
        "cut": cut,
        "wrote": None if wrote is None else str(wrote),
    }
