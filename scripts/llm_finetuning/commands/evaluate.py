"""`finetune evaluate`: how well a model or checkpoint does on the held-out rows, and what it still can do beside."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from llm_finetuning import console, pipeline
from llm_finetuning.commands import options
from llm_finetuning.errors import Refusal

NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
LONGEST_NAME = 150  # bytes; a file's name may have 255 bytes, and those of drafts, locks and transcripts are longer

SUITES = ("goldens", "drift", "both")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one call of `evaluate` measured, or found measured."""

    goldens: Any  # Evaluation; None where it was not asked for
    drift: Any
    power: Any  # of a comparison on the goldens; None without them
    notes: list[str]
    wrote: list[str]


@click.command("evaluate", short_help="Measure a model on the held-out rows")
@options.run_dir
@click.option("--model", metavar="PATH_OR_HUB_ID", help="Another model than the brief's, or a LoRA adapter's folder.")
@click.option("--checkpoint", metavar="STEP", help="A checkpoint of this run: its step, `last` or `final`.")
@click.option("--endpoint", metavar="URL", help="Ask this OpenAI-compatible server, for the model it knows as --model.")
@click.option("--api-key-env", metavar="VARIABLE", help="The environment variable that holds the server's key.")
@click.option(
    "--name", help="What the evaluation is called; base, checkpoint-N, final or the folder's name when left out."
)
@click.option(
    "--suite",
    type=click.Choice(SUITES),
    default="both",
    show_default=True,
    help="The held-out rows (goldens), the drift suite, or both.",
)
@click.option("--samples", type=click.IntRange(1), help="Completions a held-out row; `num_generations` if left out.")
@click.option("--greedy", is_flag=True, help="One completion a held-out row at temperature 0.")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Take what lm-evaluation-harness or inspect-ai wrote in place of measuring; needs --name.",
)
@click.option("--task", help="With --results: the task, where there are several.")
@click.option("--metric", help="With --results: the metric that decides, where there are several.")
@click.option("--success", type=float, help="With --results: the value from which on a completion is a success.")
@options.python
@options.as_json
def command(run_dir: Path, as_json: bool, **choice: Any) -> int:
    """Sample the held-out rows, grade them, and write eval/NAME.json; then the drift suite into eval/NAME.drift.json.

    The base model, unless `--model`, `--checkpoint` or `--endpoint` names another. `evaluation.graders` of the brief
    decide what is a success, or its rewards where it names none. The drift suite is small and general, and asks what
    the model still can do beside the task. The completions are kept in eval/NAME.samples.jsonl; a killed evaluation
    goes on where it stopped. An evaluation that is there is never overwritten by another one: give another `--name`.
    With `--results` another program has measured: its items and its metric become an evaluation, nothing is sampled.
    """
    imports = {key: choice.pop(key) for key in ("results", "task", "metric", "success")}
    if imports["results"] is not None:
        found = taken(run_dir, imports, choice)
    elif any(value is not None for value in imports.values()):
        raise Refusal("--task, --metric and --success: say what is taken of --results; name that as well")
    else:
        found = run(run_dir, **choice)
    console.finish(lines_of(found, run_dir), facts_of(found, run_dir), as_json=as_json)
    return 0


def run(
    run_dir: Path,
    *,
    model: str | None = None,
    checkpoint: str | None = None,
    endpoint: str | None = None,
    api_key_env: str | None = None,
    name: str | None = None,
    suite: str = "both",
    samples: int | None = None,
    greedy: bool = False,
    python: str | None = None,
) -> Measured:
    """Measure one model on the suites that are asked for; what is there already is returned as it is."""
    from llm_finetuning import brief, checkpoints
    from llm_finetuning.evaluating import general, goldens, subject, turn

    if greedy and samples not in (None, 1):
        raise Refusal("--greedy: draws the same completion every time; leave --samples out")
    loaded = brief.load(run_dir)
    if suite != "drift":
        goldens.check_brief(loaded)
    sampled, candidate = subject.subject_of(
        loaded, model=model, checkpoint=checkpoint, endpoint=endpoint, api_key_env=api_key_env
    )
    name = _checked_name(name or candidate.name)
    subject.check_base(sampled, candidate, name)
    digest = checkpoints.digest(sampled, candidate)
    asked = subject.Subject(loaded=loaded, sampled=sampled, candidate=candidate, digest=digest, python=python)
    suites: list[Any] = [goldens.Goldens(asked, samples=samples, greedy=greedy)] if suite != "drift" else []
    if suite != "goldens":
        is_chat = suites[0].is_chat if suites else general.prompts_are_chat(asked)
        suites.append(general.General(asked, is_chat=is_chat))
    paths = {kind: loaded.run_dir / pipeline.evaluation_file(name, kind) for kind in ("goldens", "drift")}
    missing = [one for one in suites if not paths[one.suite].exists()]
    with turn.turn(paths["goldens"], needed=bool(missing)):
        subject.check_same_model(asked, *(paths[kind] for kind in paths if suite not in (kind, "both")))
        return _Sitting(asked, name, run_dir).measure(suites)


def taken(run_dir: Path, imports: Mapping[str, Any], choice: Mapping[str, Any]) -> Measured:
    """Make an evaluation of what another program measured; refuses options of a measurement of ours."""
    from llm_finetuning import brief, checkpoints
    from llm_finetuning.evaluating import imported, turn

    others = {**choice, "suite": None if choice["suite"] == "both" else choice["suite"]}
    given = [f"--{key.replace('_', '-')}" for key, value in others.items() if value and key != "name"]
    if given:
        raise Refusal(f"{', '.join(given)}: with --results nothing is sampled; leave it out")
    if choice["name"] is None:
        raise Refusal("--results: needs a name for what it becomes: --name NAME")
    name = _checked_name(choice["name"])
    if name == checkpoints.BASE:
        raise Refusal(
            f"--name {name}: is the name of the brief's own model as it is measured here; give it another name"
        )
    loaded = brief.load(run_dir)
    source = imports["results"].expanduser()
    result = imported.read(source, task=imports["task"], metric=imports["metric"])
    made = imported.evaluation_of(source, result, name=name, success=imports["success"])
    with turn.turn(loaded.run_dir / pipeline.evaluation_file(name, "goldens"), needed=True):
        _write_imported(loaded, name, made)
    wrote = [str(run_dir / pipeline.evaluation_file(name, "goldens"))]
    return Measured(goldens=made.evaluation, drift=None, power=None, notes=[], wrote=wrote)


def _write_imported(loaded: Any, name: str, made: Any) -> None:
    """Write an imported evaluation and its completions, never over those that are there."""
    from llm_finetuning import artifact

    path = loaded.run_dir / f"eval/{name}.json"
    transcripts, parents = pipeline.transcripts_of(path), dict(made.parents)
    for there in (path, transcripts):
        if there.exists():
            raise Refusal(f"{there}: is there already and is never overwritten; give this one a --name of its own")
    if made.samples:
        of_samples = {key: parents[key] for key in made.of_samples}
        artifact.write_lines(transcripts, artifact.header_for(transcripts, of_samples, made.settings), made.samples)
        parents[transcripts.name] = artifact.digest_file(transcripts)
    artifact.write_json(path, artifact.header_for(path, parents, made.settings), made.evaluation)


class _Sitting:
    """One model under one name, suite after suite."""

    def __init__(self, subject: Any, name: str, run_dir: Path) -> None:
        self._subject, self._name, self._run_dir = subject, name, run_dir

    def measure(self, suites: Sequence[Any]) -> Measured:
        """Return what is there of the suites, and what is not, once it is made and written."""
        from llm_finetuning import checkpoints

        found = {suite.suite: self._there(suite) for suite in suites}  # all refusals come before the first completion
        goldens = next((suite for suite in suites if suite.suite == "goldens"), None)
        notes, told = self._before(goldens, is_there=bool(found.get("goldens"))) if goldens else ([], None)
        general = next((suite for suite in suites if suite.suite == "drift" and not found["drift"]), None)
        if general:
            console.note(_drift_words(general.items, alone=goldens is None))
        for suite in suites:
            found[suite.suite] = found[suite.suite] or self._made(suite)
        if goldens and self._name == checkpoints.BASE:
            told = self._power(goldens, found["goldens"])
        wrote = [str(self._run_dir / pipeline.evaluation_file(self._name, kind)) for kind in found]
        return Measured(goldens=found.get("goldens"), drift=found.get("drift"), power=told, notes=notes, wrote=wrote)

    def _before(self, goldens: Any, *, is_there: bool) -> tuple[list[str], Any]:
        """Say how large a gain these goldens can show, and which evaluations stand on others."""
        from llm_finetuning.evaluating import power

        folder = self._subject.loaded.run_dir / "eval"
        told = self._power(goldens, power.measured_base(folder, goldens.fingerprint))
        if not is_there:
            console.note(power.line_of(told))
        others = power.on_other_goldens(folder, goldens.fingerprint)
        words = f"on other held-out rows than this, and not to be compared with it: {', '.join(others)}"
        return [words] if others else [], told

    def _power(self, goldens: Any, base: Any) -> Any:
        from llm_finetuning.evaluating import power

        return power.power_of(goldens.items, goldens.samples, self._subject.loaded.brief.evaluation.gain, base)

    def _there(self, suite: Any) -> Any:
        path = self._subject.loaded.run_dir / pipeline.evaluation_file(self._name, suite.suite)
        return _there_already(path, pipeline.transcripts_of(path), suite.parents()) if path.exists() else None

    def _made(self, suite: Any) -> Any:
        """Draw, grade and write one suite."""
        from llm_finetuning import artifact

        loaded, parents = self._subject.loaded, suite.parents()
        name = f"{self._name}{pipeline.DRIFT if suite.suite == 'drift' else ''}"
        path = loaded.run_dir / f"eval/{name}.json"
        transcripts = pipeline.transcripts_of(path)
        suite.make_ready()
        anew = f"give this one another name (--name {self._name}-2), or move the file away"
        drawn = suite.draw(transcripts, anew=anew)
        found = suite.evaluation(self._name, drawn)
        if changed := artifact.changed_parents(parents, suite.parents()):
            raise Refusal(
                f"{self._run_dir}: {changed} changed while it was scored; evaluate again, the completions are kept"
            )
        parents = {**parents, transcripts.name: artifact.digest_file(transcripts)}
        artifact.write_json(path, artifact.header_for(path, parents, suite.completions.settings), found)
        return found


def _drift_words(items: int, *, alone: bool) -> str:
    """Return how much the drift suite is, before it begins."""
    from llm_finetuning import drift

    words = f"drift suite: {items} items of up to {drift.MAX_TOKENS} tokens each, which may take minutes"
    if alone:
        return words
    return f"{words}; `--suite goldens` leaves it out, but `compare` wants it of both models"


def _checked_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise Refusal(f"--name: {name!r} is not a name; use letters, digits, `.`, `_` and `-`")
    if (size := len(name.encode())) > LONGEST_NAME:
        raise Refusal(
            f"--name: {name[:20]}... has {size} bytes, too many for a file's name; use at most {LONGEST_NAME}"
        )
    if name.endswith(".json"):
        raise Refusal(f"--name: {name}: `compare` would read it as the path of a file; leave `.json` out")
    if pipeline.names_artifact(name):
        raise Refusal(f"--name: {name}.json is a file of the run; choose another name")
    if name.endswith(pipeline.DRIFT):
        raise Refusal(
            f"--name: {name}: the ending `{pipeline.DRIFT}` is that of the drift suite's own files; choose another name"
        )
    return name


def _there_already(path: Path, transcripts: Path, parents: dict[str, str]) -> Any:
    """Return the evaluation of this very thing; refuses to put another one in its place."""
    from llm_finetuning import artifact
    from llm_finetuning.evaluating.completions import scored_anew
    from llm_finetuning.types import Evaluation

    found = artifact.read_json(path, Evaluation)
    if transcripts.exists():
        parents = {**parents, transcripts.name: artifact.digest_file(transcripts)}
    else:
        parents = {transcripts.name: found.header.parents.get(transcripts.name, ""), **parents}
    changed = artifact.changed_parents(found.header.parents, parents)
    if changed:
        name = path.stem.removesuffix(pipeline.DRIFT)
        raise Refusal(
            f"{path}: is there already and differs in {changed}, and is never overwritten; "
            f"give this one a name of its own: --name {name}-2{scored_anew(changed, path)}"
        )
    console.note(f"{path} is there already; nothing was sampled")
    return found.records[0]


def facts_of(found: Measured, run_dir: Path) -> dict[str, Any]:
    """Return what `--json` prints: the goldens' numbers, or the drift suite's where it alone was asked for."""
    import dataclasses

    goldens, drift = (
        None if one is None else {**dataclasses.asdict(one), "items": len(one.items)}
        for one in (found.goldens, found.drift)
    )
    first = goldens or drift or {}
    return {
        **first,
        "drift": drift if goldens is not None else None,
        "power": None if found.power is None else dataclasses.asdict(found.power),
        "notes": [*first["notes"], *found.notes],
        "wrote": found.wrote,
        "next": _next(run_dir, first["name"]),
    }


def lines_of(found: Measured, run_dir: Path) -> list[str]:
    """Return what was measured as a person reads it in a terminal."""
    from llm_finetuning.evaluating import power, text

    lines: list[str] = []
    for one in (found.goldens, found.drift):
        if one is not None:
            lines += [*text.lines_of(one), ""]
    lines += [f"power: {power.line_of(found.power)}"] if found.power is not None else []
    lines += [f"note: {note}" for note in found.notes]
    lines += [f"wrote: {path}" for path in found.wrote]
    first = found.goldens or found.drift
    return [*lines, f"next: {_next(run_dir, first.name)}"]


def _next(run_dir: Path, name: str) -> str:
    from llm_finetuning import artifact, checkpoints
    from llm_finetuning.commands import status

    if name == checkpoints.BASE:
        return status.next_command(run_dir)
    if not (run_dir / "eval" / f"{checkpoints.BASE}.json").exists():
        return artifact.shell_line("evaluate", run_dir)
    return artifact.shell_line("compare", run_dir, checkpoints.BASE, name)
