"""`finetune score`: what the composed reward pays, as the trainer will compute it."""

from pathlib import Path
from typing import Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import Refusal


@click.command("score", short_help="Score the samples as the trainer will")
@options.run_dir
@options.as_json
def command(run_dir: Path, as_json: bool) -> int:
    """Score samples.jsonl with the brief's rewards into scores.jsonl.

    Every reward is called with TRL's keyword arguments and batches, and once more with each batch reversed: a value
    that moves is a finding of the gate.
    """
    facts = run(run_dir)
    lines = [f"{'reward':<24} {'mean':>8} {'low':>8} {'high':>8} {'abstained':>10} {'faults':>7}"]
    lines.extend(
        f"{row['name']:<24} {_number(row['mean']):>8} {_number(row['min']):>8} {_number(row['max']):>8} "
        f"{row['abstained']:>10} {row['faults']:>7}"
        for row in facts["rewards"]
    )
    lines += [f"weighted sum over {facts['samples']} samples: mean {_number(facts['mean'])}"]
    lines += [f"fault: {text}" for text in facts["faults"]]
    lines += [f"wrote: {facts['wrote']}", f"next: {facts['next']}"]
    console.finish(lines, facts, as_json=as_json)
    return 0


def run(run_dir: Path) -> dict[str, Any]:
    """Score every sample and return the facts; refuses for a reward that TRL would die of."""
    from llm_finetuning import artifact, brief, lineage
    from llm_finetuning.findings.evidence import Rule
    from llm_finetuning.rewards import composition

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
    artifact.write_lines(path, artifact.header_for(path, parents), scores)
    needed = Rule(success=0.0).labels
    reads_on = len(lineage.judged(samples, lineage.labels(loaded))) < needed
    facts = _facts(path, scores)
    follow = artifact.shell_line("review" if reads_on else "gate", run_dir)
    return {**facts, "next": "mend the reward, then score again" if facts["faults"] else follow}


def scores_of(
    loaded: Any,
    components: list[Any],
    samples: list[Any],
    *,
    mend: str = "TRL would stop there, so mend the reward and score again",
) -> list[Any]:
    """Return what the composed reward pays for each sample; refuses for a reward that TRL would die of.

    `mend` is the mending half of that refusal.
    """
    import contextlib
    import sys

    from llm_finetuning import lineage, watching
    from llm_finetuning.rewards import composition
    from llm_finetuning.stages import score as stage

    check_ids(loaded, components, samples)
    composition.make_ready(components)
    aggregation = stage.Aggregation(**lineage.objective_options(loaded))
    with contextlib.ExitStack() as stack:
        for folder in composition.folders_of(loaded):  # a reward may import its neighbours when it is called
            stack.enter_context(composition.importable_from(folder))
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))  # a reward that prints must not spoil --json
        told = [stack.enter_context(console.progress("scoring", len(samples)))]
        if any(wanted.file is not None for wanted in loaded.brief.rewards):
            told.append(stack.enter_context(watching.watched(str(loaded.run_dir), len(samples))))

        def tell(count: int) -> None:
            for one in told:
                one(count)

        try:
            return stage.score(
                samples,
                components,
                completions_per_call=completions_per_call(loaded),
                aggregation=aggregation,
                on_progress=tell,
            )
        except stage.RewardFault as fault:
            raise Refusal(f"{_fault_line(loaded, fault)}; {mend}") from None


def completions_per_call(loaded: Any) -> int:
    """Return how many completions a reward is called with: what one trainer process draws at once, or one group."""
    from llm_finetuning.recipes import layout

    return max(int(loaded.brief.sampling.num_generations), layout.of_brief(loaded.brief).completions_per_call)


def check_ids(loaded: Any, components: list[Any], samples: list[Any]) -> None:
    """Refuse a reward that names `completion_ids` when the server did not say them."""
    import inspect

    if all(sample.completion_ids is not None for sample in samples):
        return
    for component in components:
        try:
            names = inspect.signature(component.function).parameters
        except (TypeError, ValueError):
            continue
        if "completion_ids" in names:
            raise Refusal(
                f"{loaded.run_dir / 'samples.jsonl'}: `{component.name}` reads completion_ids, which this server does "
                "not return; sample with `engine: vllm` or `engine: transformers`"
            )


def _fault_line(loaded: Any, fault: Any) -> str:
    from llm_finetuning.rewards.composition import place_of

    place = f"reward `{fault.reward}`"
    for wanted in loaded.brief.rewards:
        if wanted.file is not None and fault.cause is not None:
            path = loaded.resolve(wanted.file.rpartition(":")[0])
            found = place_of(fault.cause, path)
            if found != str(path):
                place = f"{found}: reward `{fault.reward}`"
    first = fault.samples[0]
    which = f"sample {first.sample_id} (data set row {first.row})"
    if len(fault.samples) > 1:
        which += f" and {len(fault.samples) - 1} more in one call"
    return f"{place}: {fault.words}: on {which}"


def _facts(path: Path, scores: list[Any]) -> dict[str, Any]:
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
    return {"samples": len(scores), "mean": mean, "rewards": rows, "faults": _faults(scores), "wrote": str(path)}


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
