"""`finetune pairs`: a data set of preferences out of samples that the rewards have graded."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import EXIT_DONE, EXIT_INSUFFICIENT, Refusal

if TYPE_CHECKING:
    from llm_finetuning.brief import LoadedBrief
    from llm_finetuning.stages.pairs import Choice, Made, PreferenceSet
    from llm_finetuning.types import Finding

METHODS = ("dpo", "kto", "orpo", "simpo")
OF_PAIRS = {"pairs_per_prompt": "--pairs-per-prompt", "seed": "--seed", "match_length": "--match-length"}
"""Options that KTO, which takes every graded completion, has no use for."""


@click.command("pairs", short_help="Write preference data from graded samples")
@options.run_dir
@click.option(
    "--method", type=click.Choice(METHODS), required=True, help="What trains on it; orpo and simpo take dpo's pairs."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    required=True,
    help="Where the data set is written; ends in .jsonl.",
)
@click.option("--pairs-per-prompt", type=click.IntRange(1), default=1, show_default=True, help="At most this many.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Draws among equal rewards.")
@click.option("--match-length", is_flag=True, help="Prefer a rejected completion about as long as the chosen one.")
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    run_dir: Path,
    method: str,
    out: Path,
    pairs_per_prompt: int,
    seed: int,
    match_length: bool,
    as_json: bool,
) -> int:
    """Write FILE, rows that TRL and `finetune build` train on, out of the samples of the policy pass and their scores.

    A completion passes where the gate counts it as a success. For dpo, orpo and simpo: the passing one with the highest
    reward is chosen, the failing one whose reward lies nearest to the mean less two standard deviations is rejected.
    For kto: every completion with its label. What is not scored in full, or passes though it was cut, is left out.
    A FILE that holds something else is never written over. Exit code 3: no pair, or one label alone; nothing written.
    """
    from llm_finetuning.stages.pairs import Choice

    for name, option in OF_PAIRS.items():
        if method == "kto" and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise Refusal(f"{option}: kto takes every graded completion, and chooses none; leave it out")
    choice = Choice(pairs_per_prompt=pairs_per_prompt, seed=seed, match_length=match_length)
    code, facts = run(run_dir, method=method, out=out, choice=choice)
    console.finish(lines_of(facts), facts, as_json=as_json)
    return code


def run(run_dir: Path, *, method: str, out: Path, choice: "Choice") -> tuple[int, dict[str, Any]]:
    """Make the data set and write it with the report; return the exit code and the facts."""
    import dataclasses

    from llm_finetuning import artifact, brief
    from llm_finetuning.stages.pairs import PairsReport

    loaded = brief.load(run_dir)
    _check_name(loaded, out)
    parents, made = _made(loaded, method, choice)
    report = dataclasses.replace(made.report, findings=[*made.report.findings, *_of_run(loaded, made)])
    if not made.rows:
        return EXIT_INSUFFICIENT, {**dataclasses.asdict(report), "wrote": None, "next": _more(report)}
    text = "".join(map(_line, made.rows))
    there, others = _is_there(out, text), _others(loaded, parents, out)
    if changed := artifact.changed_parents(parents, parents_of(loaded)):
        raise Refusal(f"{run_dir}: {changed} changed while preferences were chosen; run it again")
    report = dataclasses.replace(
        report,
        file=str(out.resolve()),
        sha256=artifact.digest_bytes(text.encode()),
        weights=_weights(report.labels) if report.labels else None,
    )
    if not there:
        artifact.write_text(out, text)
    path = loaded.run_dir / "pairs.json"
    artifact.write_json(path, artifact.header_for(path, parents), PairsReport(sets=[*others, report]))
    facts = {**dataclasses.asdict(report), "wrote": str(out), "columns": list(made.rows[0])}
    return EXIT_DONE, {**facts, "next": _next(loaded, run_dir, method, out)}


def parents_of(loaded: "LoadedBrief") -> dict[str, str]:
    """Return what `pairs.json` depends on; samples and scores are there."""
    from llm_finetuning import artifact, lineage

    scores = artifact.digest_file(loaded.run_dir / "scores.jsonl")
    return {**lineage.of_scores(loaded), "scores.jsonl": scores, **lineage.brief_part(loaded, "gate")}


def _made(loaded: "LoadedBrief", method: str, choice: "Choice") -> "tuple[dict[str, str], Made]":
    """Return what the data set is made from, and the data set; refuses samples or scores that are not current."""
    from llm_finetuning import artifact, gold_trial, lineage
    from llm_finetuning.findings.evidence import Rule, Scored
    from llm_finetuning.rewards import composition
    from llm_finetuning.scoring.success import success_of
    from llm_finetuning.stages import pairs as stage

    samples = lineage.complete_samples(loaded, without=["completion_ids"]).records
    scores = lineage.current_scores(loaded, samples)
    _check_numbers(
        loaded.run_dir / "samples.jsonl",
        ((one.sample_id, {"prompt": one.prompt, "completion": one.completion, **one.columns}) for one in samples),
        mend=f"restore its line, or {lineage.begin_anew(loaded.run_dir)}",
    )
    _check_numbers(
        loaded.run_dir / "scores.jsonl",
        ((one.sample_id, {"reward": one.reward, **{each.name: each.value for each in one.values}}) for one in scores),
        mend=f"run `{artifact.shell_line('score', loaded.run_dir)}`, and never edit it",
    )
    parents = parents_of(loaded)
    columns = lineage.columns_of(samples)
    components = composition.compose(loaded, columns)
    made = stage.make(
        [Scored(sample, score) for sample, score in zip(samples, scores, strict=True)],
        method=method,
        rule=Rule(success=success_of(loaded, components)),
        choice=choice,
        weights={component.name: component.weight for component in components},
        columns=gold_trial.columns_read(loaded, components, columns),
    )
    return parents, made


def _check_numbers(path: Path, parts: "Iterable[tuple[str, Mapping[str, Any]]]", *, mend: str) -> None:
    """Refuse NaN and infinity, which no verb writes: a reward that is no number would count as a failing completion's.

    `parts` are what a record of a completion holds, with the completion's id. What a reward paid that is no number is
    not among them: `score` writes it as a fault.
    """
    from llm_finetuning.strict_json import strict

    found = [(one, name, value) for one, held in parts for name, value in held.items() if strict(value) != value]
    if not found:
        return
    sample_id, name, value = found[0]
    what = f"is {value:g}" if isinstance(value, float) else "holds NaN or infinity"
    more = f", as {len(found) - 1} more" if len(found) > 1 else ""
    raise Refusal(f"{path}: `{name}` of {sample_id} {what}, no finite number{more}; {mend}")


def _check_name(loaded: "LoadedBrief", out: Path) -> None:
    """Refuse a name that no brief could read, or that an artifact of the run has."""
    from llm_finetuning.pipeline import STAGES, TRANSCRIPTS

    if out.suffix != ".jsonl":
        raise Refusal(f"--out {out}: holds one JSON object a line; name a .jsonl file")
    own = out.name.endswith(TRANSCRIPTS) or any(Path(stage.writes).name == out.name for stage in STAGES)
    if own and out.resolve().is_relative_to(loaded.run_dir):
        raise Refusal(f"--out {out}: is the name of an artifact of this run; choose another")


def _line(row: dict[str, Any]) -> str:
    import json

    text = json.dumps(row, ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate: escaped, it comes back as it was
        text = json.dumps(row, allow_nan=False)
    return text + "\n"


def _is_there(out: Path, text: str) -> bool:
    """Tell whether the file holds just this text; refuses one that holds something else."""
    try:
        found = out.read_bytes()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Refusal(f"--out {out}: {(error.strerror or str(error)).lower()}; name another file") from None
    if found != text.encode():
        raise Refusal(f"--out {out}: is there and holds something else; name another file, or move it away")
    return True


def _others(loaded: "LoadedBrief", parents: dict[str, str], out: Path) -> "list[PreferenceSet]":
    """Return what the report says of other files; those of other samples or scores drop out of it."""
    from llm_finetuning import artifact
    from llm_finetuning.stages.pairs import PairsReport

    path = loaded.run_dir / "pairs.json"
    if not path.exists():
        return []
    try:
        found = artifact.read_json(path, PairsReport)
    except Refusal as refusal:
        raise Refusal(f"{refusal.lines[0].rpartition(';')[0]}; move it away and run this again") from None
    if artifact.changed_parents(found.header.parents, parents):
        return []
    return [one for one in found.records[0].sets if one.file != str(out.resolve())]


def _weights(labels: dict[str, int]) -> dict[str, float]:
    """Return the weights that `build` gives to KTO's two sides for so many rows of each."""
    from llm_finetuning.recipes import preference

    own, _ = preference.weights_for(labels["desirable"], labels["undesirable"])
    names = ("desirable_weight", "undesirable_weight")
    return {name: float(own[name].value) if name in own else 1.0 for name in names}


def _of_run(loaded: "LoadedBrief", made: "Made") -> "list[Finding]":
    """Return what a person should know of the run that the samples are from."""
    from llm_finetuning import lineage
    from llm_finetuning.types import Finding

    found = []
    try:
        lineage.open_gate(loaded)
    except Refusal as refusal:
        found.append(
            Finding(
                code="reward-uninspected",
                weight="warns",
                text="rewards chose these, and no open gate says that they pay for what is meant",
                next_action=refusal.lines[0],
            )
        )
    kwargs = loaded.brief.sampling.chat_template_kwargs
    if kwargs and made.rows and not isinstance(made.rows[0]["prompt"], str):
        found.append(
            Finding(
                code="template-options",
                weight="warns",
                text=f"sampled with chat_template_kwargs {', '.join(kwargs)}, which training on the rows does not set",
                next_action="sample without them, or write what they add into the prompts",
            )
        )
    return found


def _more(report: "PreferenceSet") -> str:
    """Return what to do where nothing could be made."""
    kinds = report.prompts
    if kinds.get("only_failing", 0) > kinds.get("only_passing", 0):
        return "more completions a prompt (`sampling.num_generations`) or easier prompts, or teach it by SFT first"
    if kinds.get("only_passing"):
        return "harder prompts: on these the model succeeds whenever it ends"
    return "mend what left the completions out, as counted above, then score again"


def _next(loaded: "LoadedBrief", run_dir: Path, method: str, out: Path) -> str:
    from llm_finetuning import artifact

    folder = run_dir.with_name(f"{run_dir.resolve().name}-{method}")
    given = ["--method", method, "--model", loaded.model_source(), "--dataset", str(out.resolve())]
    return artifact.shell_line("new", folder, *given)


def lines_of(facts: dict[str, Any]) -> list[str]:
    """Return the facts as a person reads them in a terminal."""
    from llm_finetuning.findings.sides import LEFT_OUT

    kinds = facts["prompts"]
    what = "records" if facts["labels"] is not None else "pairs"
    n, threshold = sum(kinds.values()), facts["rule"]["success_threshold"]
    source = f"{facts['completions']} completions of {n} prompts, success from {threshold:g}"
    lines = [
        f"{facts['method']}: {facts['records']} {what} from {source}",
        "  prompts   " + ", ".join(f"{kind.replace('_', ' ')} {count}" for kind, count in sorted(kinds.items())),
    ]
    lines += [f"  left out  {count}: {LEFT_OUT[why]}" for why, count in facts["left_out"].items()]
    if facts["labels"] is not None:
        good, bad = facts["labels"]["desirable"], facts["labels"]["undesirable"]
        lines.append(f"  labels    {good} desirable, {bad} undesirable" + _balance(facts["weights"]))
    elif facts["margin"] is not None:
        margin = facts["margin"]
        lines += [
            f"  margin    {margin['value']:.3f} of reward (95% interval {margin['low']:.3f} to {margin['high']:.3f})",
            f"  rejected  {facts['lowest']} of {facts['records']} have the lowest reward of their prompt",
        ]
    for found in facts["findings"]:
        mark = "WARNS" if found["weight"] == "warns" else "fine"
        action = f"; {found['next_action']}" if found["next_action"] else ""
        lines.append(f"  {mark:<9} {found['text']}{action}")
    wrote = f"{facts['wrote']} ({', '.join(facts['columns'])})" if facts["wrote"] else "nothing"
    return [*lines, f"wrote: {wrote}", f"next: {facts['next']}"]


def _balance(weights: dict[str, float] | None) -> str:
    if weights is None:
        return ""
    return f"; `build` weighs them {weights['desirable_weight']:g} to {weights['undesirable_weight']:g}"
