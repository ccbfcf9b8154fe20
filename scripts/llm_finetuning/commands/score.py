"""`finetune score`: what the composed reward pays, as the trainer will compute it."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import Refusal

if TYPE_CHECKING:
    from llm_finetuning.artifact import Header
    from llm_finetuning.types import Score


@click.command("score", short_help="Score the samples as the trainer will")
@options.run_dir
@options.as_json
def command(run_dir: Path, as_json: bool) -> int:
    """Score samples.jsonl with the brief's rewards into scores.jsonl.

    Every reward is called with TRL's keyword arguments and batches, and once more with each batch reversed: a value
    that moves is a finding of the gate.
    """
    from llm_finetuning.commands import status

    facts = run(run_dir)
    mended = "mend the reward, then score again"
    facts["next"] = mended if facts["faults"] else status.next_command(run_dir)
    lines = [f"{'reward':<24} {'mean':>8} {'low':>8} {'high':>8} {'abstained':>10} {'faults':>7}"]
    lines.extend(
        f"{row['name']:<24} {_number(row['mean']):>8} {_number(row['min']):>8} {_number(row['max']):>8} "
        f"{row['abstained']:>10} {row['faults']:>7}"
        for row in facts["rewards"]
    )
    lines += [f"weighted sum over {facts['samples']} samples: mean {_number(facts['mean'])}"]
    lines += [f"fault: {text}" for text in facts["faults"]]
    stands = f"as before, so that nothing is stale: {run_dir / 'scores.jsonl'}"
    lines += [f"wrote: {facts['wrote']}" if facts["wrote"] else stands, f"next: {facts['next']}"]
    console.finish(lines, facts, as_json=as_json)
    return 0


def run(run_dir: Path) -> dict[str, Any]:
    """Score every sample and return the facts; refuses for a reward that TRL would die of."""
    from llm_finetuning import artifact, brief, lineage
    from llm_finetuning.rewards import composition
    from llm_finetuning.scoring.scores import scores_of

    loaded = brief.load(run_dir)
    samples = lineage.complete_samples(loaded).records
    if not loaded.brief.rewards:
        raise Refusal(f"{run_dir / 'brief.yaml'}: no `rewards` to score with; add one")
    components = composition.compose(loaded, lineage.columns_of(samples))
    parents = lineage.of_scores(loaded)
    scores = scores_of(loaded, components, samples)
    changed = artifact.changed_parents(parents, lineage.of_scores(loaded))
    if changed:
        raise Refusal(f"{run_dir}: {changed} changed while it was scored; score again")
    path = loaded.run_dir / "scores.jsonl"
    header = artifact.header_for(path, parents)
    stands = _stands(path, header, scores)
    if not stands:
        artifact.write_lines(path, header, scores)
    return {**_facts(scores), "wrote": None if stands else str(run_dir / path.name)}


def _stands(path: Path, header: "Header", scores: "Sequence[Score]") -> bool:
    """Tell whether the file holds these scores but for the seconds they took: written anew, it closed the gate."""
    from llm_finetuning import artifact
    from llm_finetuning.types import Score

    def untimed(score: Score) -> Score:
        return dataclasses.replace(score, values=[dataclasses.replace(value, seconds=0.0) for value in score.values])

    try:
        before = artifact.read_lines(path, Score)
    except Refusal:
        return False
    return (before.header, [untimed(one) for one in before.records]) == (header, [untimed(one) for one in scores])


def _facts(scores: list[Any]) -> dict[str, Any]:
    rows = []
    for place, first in enumerate(scores[0].values):
        values = [score.values[place] for score in scores]
        paid = [value.value for value in values if value.value is not None]
        rows.append(
            {
                "name": first.name,
                "mean": sum(paid) / len(paid) if paid else None,
                "min": min(paid, default=None),
                "max": max(paid, default=None),
                "abstained": sum(value.value is None for value in values),
                "faults": sum(value.fault is not None for value in values),
                "seconds": sum(value.seconds for value in values),
            }
        )
    rewards = [score.reward for score in scores if score.reward is not None]
    mean = sum(rewards) / len(rewards) if rewards else None
    return {"samples": len(scores), "mean": mean, "rewards": rows, "faults": _faults(scores)}


def _faults(scores: list[Any]) -> list[str]:
    """Return one line for each kind of fault of each reward, with the first sample that shows it."""
    found: dict[tuple[str, str], list[str]] = {}
    for score in scores:
        for value in score.values:
            if value.fault:
                found.setdefault((value.name, value.fault.replace("_", " ")), []).append(score.sample_id)
    return [f"`{name}` is {fault} for {len(ids)} samples (first {ids[0]})" for (name, fault), ids in found.items()]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
