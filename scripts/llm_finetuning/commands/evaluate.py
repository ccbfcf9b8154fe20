"""`finetune evaluate`: how well a model or checkpoint does on the held-out rows."""

import re
from pathlib import Path
from typing import Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import Refusal

NAME = re.compile(r"[A-Za-z0-9][\w.-]*")

OF_COMPLETIONS = ("held-out rows", "sampling settings", "model", "seed", "engine")
"""Parents that decide what is drawn; any other decides only how it is scored."""


@click.command("evaluate", short_help="Measure a model on the held-out rows")
@options.run_dir
@click.option("--model", metavar="PATH_OR_HUB_ID", help="Another model than the brief's, or a LoRA adapter's folder.")
@click.option("--checkpoint", metavar="STEP", help="A checkpoint of this run: its step, `last` or `final`.")
@click.option(
    "--name", help="What the evaluation is called; base, checkpoint-N, final or the folder's name when left out."
)
@click.option("--samples", type=click.IntRange(1), help="Completions an item; `num_generations` when left out.")
@click.option("--greedy", is_flag=True, help="One completion an item at temperature 0.")
@options.python
@options.as_json
def command(run_dir: Path, python: str | None, as_json: bool, **choice: Any) -> int:
    """Sample the held-out rows, score them with the brief's rewards and write eval/NAME.json.

    The base model, unless `--model` or `--checkpoint` names another. The completions are kept beside it, in
    eval/NAME.samples.jsonl; a killed evaluation goes on where it stopped. One that is there is never overwritten by
    that of something else: give another `--name`.
    """
    import dataclasses

    found = run(run_dir, python=python, **choice)
    facts = dataclasses.asdict(found)
    facts["items"] = len(found.items)
    facts["wrote"] = str(run_dir / "eval" / f"{found.name}.json")
    facts["next"] = _next(run_dir, found.name)
    console.finish([*lines_of(found), f"wrote: {facts['wrote']}", f"next: {facts['next']}"], facts, as_json=as_json)
    return 0


def run(
    run_dir: Path,
    *,
    model: str | None = None,
    checkpoint: str | None = None,
    name: str | None = None,
    samples: int | None = None,
    greedy: bool = False,
    python: str | None = None,
) -> Any:
    """Evaluate one model and return the `Evaluation`; one that is there already is returned as it is."""
    from llm_finetuning import artifact, brief, checkpoints, pipeline
    from llm_finetuning.commands import gate, score
    from llm_finetuning.rewards import composition
    from llm_finetuning.stages import evaluate as stage
    from llm_finetuning.types import Evaluation

    if model is not None and checkpoint is not None:
        raise Refusal("--model and --checkpoint: name one of them")
    if greedy and samples not in (None, 1):
        raise Refusal("--greedy: draws the same completion every time; leave --samples out")
    loaded = brief.load(run_dir)
    _check_brief(loaded)
    if checkpoint is not None:
        candidate = checkpoints.checkpoint(loaded, checkpoint)
    else:
        candidate = checkpoints.base_model(loaded) if model is None else checkpoints.named(loaded, model)
    name = _checked_name(name or candidate.name)
    plan = Plan(loaded, candidate, samples=samples, greedy=greedy, python=python)
    components = composition.compose(loaded, plan.columns)
    threshold = gate.success_of(loaded, components)
    parents = {**plan.parents, **_reward_parents(loaded, threshold)}
    path = loaded.run_dir / f"eval/{name}.json"
    transcripts = path.with_name(f"{name}{pipeline.TRANSCRIPTS}")
    if path.exists():
        return _there_already(path, transcripts, parents)
    composition.make_ready(components)
    drawn = plan.draw(transcripts)
    scores = score.scores_of(loaded, components, drawn)
    changed = artifact.changed_parents(parents, {**plan.parents, **_reward_parents(loaded, threshold)})
    if changed:
        raise Refusal(f"{run_dir}: {changed} changed while it was scored; evaluate again, the completions are kept")
    setting = stage.Setting(
        name=name,
        model=candidate.shown,
        greedy=greedy,
        samples=plan.samples,
        success_threshold=threshold,
        fingerprint=plan.parents["held-out rows"],
    )
    found: Evaluation = stage.evaluate(drawn, scores, setting)
    header = artifact.header_for(path, {**parents, transcripts.name: artifact.digest_file(transcripts)}, plan.settings)
    artifact.write_json(path, header, found)
    return found


class Plan:
    """What is drawn from which model."""

    def __init__(self, loaded: Any, candidate: Any, *, samples: int | None, greedy: bool, python: str | None) -> None:
        """Read the held-out rows, by the training interpreter where they are no text file."""
        from llm_finetuning import artifact, checkpoints, lineage
        from llm_finetuning.commands import sample

        sampling = loaded.brief.sampling
        self._loaded, self._python, self._candidate = loaded, python, candidate
        self._rows = sample.rows_of(lineage.held_out(loaded), python)
        self.columns = list(self._rows[0].columns)
        self.samples = 1 if greedy else samples or sampling.num_generations
        temperature = 0.0 if greedy else sampling.temperature
        wanted = ("low_temperature" if greedy else "policy", self.samples, temperature)
        self._batches = sample.batches_of(self._rows, sampling.seed, [wanted])
        self.settings = {
            "samples": self.samples,
            "temperature": temperature,
            **{
                key: getattr(sampling, key)
                for key in ("max_completion_length", "top_p", "top_k", "min_p", "repetition_penalty")
            },
            "chat_template_kwargs": sampling.chat_template_kwargs,
        }
        self.parents = {
            "held-out rows": artifact.digest_value([[row.prompt_id, row.prompt, row.columns] for row in self._rows]),
            "sampling settings": artifact.digest_value(self.settings),
            "model": checkpoints.digest(loaded, candidate),
            "seed": artifact.digest_value(sampling.seed),
            "engine": artifact.digest_value(sampling.engine),
        }

    def draw(self, transcripts: Path) -> list[Any]:
        """Draw what is missing of the completions, and return all of them."""
        from llm_finetuning.commands import sample

        name = transcripts.name.partition(".samples.")[0]
        drawing = sample.Drawing(
            path=transcripts,
            parents=self.parents,
            settings={"sampling": self.settings, "model": self._candidate.shown},
            anew=f"give this one another name (--name {name}-2), or move the file away",
        )
        source = sample.Source(model=self._candidate.model, adapter=self._candidate.adapter)
        return list(sample.draw(self._loaded, drawing, self._batches, source, python=self._python))


def _check_brief(loaded: Any) -> None:
    place = loaded.run_dir / "brief.yaml"
    if loaded.brief.dataset.evaluation is None:
        raise Refusal(
            f"{place}: no `dataset.evaluation`; name a file of held-out rows with the columns of the data set: "
            "`dataset: {path: data/train.jsonl, evaluation: data/held-out.jsonl, ...}`"
        )
    if not loaded.brief.rewards:
        raise Refusal(f"{place}: no `rewards` to score with; add one")


def _checked_name(name: str) -> str:
    from llm_finetuning.pipeline import names_artifact

    if not NAME.fullmatch(name):
        raise Refusal(f"--name: {name!r} is not a name; use letters, digits, `.`, `_` and `-`")
    if names_artifact(name):
        raise Refusal(f"--name: {name}.json is a file of the run; choose another name")
    return name


def _reward_parents(loaded: Any, threshold: float) -> dict[str, str]:
    from llm_finetuning import artifact, lineage
    from llm_finetuning.rewards import composition

    return {
        **lineage.brief_part(loaded, "rewards"),
        **composition.source_digests(loaded),
        "success threshold": artifact.digest_value(threshold),
    }


def _there_already(path: Path, transcripts: Path, parents: dict[str, str]) -> Any:
    """Return the evaluation of this very thing; refuses to put another one in its place."""
    from llm_finetuning import artifact
    from llm_finetuning.types import Evaluation

    found = artifact.read_json(path, Evaluation)
    if transcripts.exists():
        parents = {**parents, transcripts.name: artifact.digest_file(transcripts)}
    else:
        parents = {transcripts.name: found.header.parents.get(transcripts.name, ""), **parents}
    changed = artifact.changed_parents(found.header.parents, parents)
    if changed:
        raise Refusal(
            f"{path}: is there already and differs in {changed}, and is never overwritten; "
            f"give this one a name of its own: --name {path.stem}-2{scored_anew(changed, path)}"
        )
    console.note(f"{path} is there already; nothing was sampled")
    return found.records[0]


def scored_anew(changed: str, path: Path) -> str:
    """Return the cheaper way to an evaluation that differs in these parents alone, in words; none where it is drawn."""
    if any(parent in changed.split(", ") for parent in OF_COMPLETIONS):
        return ""
    return f" (or move {path.name} away and evaluate again: the kept completions are scored anew)"


def lines_of(found: Any) -> list[str]:
    """Return an evaluation as a person reads it in a terminal."""
    how = "greedy" if found.greedy else f"{found.samples} completions each"
    lines = [f"{found.name}: {found.model} on {len(found.items)} held-out rows, {how}", ""]
    for k, share in found.passes.items():
        lines.append(f"  {'pass@' + k:<24}{share.value:>8.3f}   {share.low:.3f} to {share.high:.3f}")
    means = {**({"reward": found.reward} if found.reward else {}), **found.components, "tokens": found.tokens}
    for name, mean in means.items():
        lines.append(f"  {name:<24}{mean.value:>8.3g}   {mean.low:.3g} to {mean.high:.3g}")
    lines.append(f"  {'cut at the cap':<24}{found.cut.value:>8.3f}   {found.cut.low:.3f} to {found.cut.high:.3f}")
    lines += ["", "  the second column is the 95% interval over rows"]
    return [*lines, *(f"  note: {note}" for note in found.notes)]


def _next(run_dir: Path, name: str) -> str:
    from llm_finetuning import artifact, checkpoints

    if name == checkpoints.BASE:
        return artifact.shell_line("status", run_dir)
    if not (run_dir / "eval" / f"{checkpoints.BASE}.json").exists():
        return artifact.shell_line("evaluate", run_dir)
    return artifact.shell_line("compare", run_dir, checkpoints.BASE, name)
