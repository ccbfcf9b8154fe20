"""`finetune evaluate`: how well a model or checkpoint does on the held-out rows, and what it still can do beside."""

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from llm_finetuning import console, pipeline
from llm_finetuning.commands import options
from llm_finetuning.errors import Refusal

NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
SUITES = ("goldens", "drift", "both")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one call of `evaluate` measured, or found measured."""

    goldens: Any  # Evaluation; None where it was not asked for
    drift: Any
    power: Any  # of a comparison on the goldens; None without them
    notes: list[str]
    wrote: list[str]  # files that this call made
    there: list[str]  # files that were made before, and are returned as they are


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
@click.option("--fresh", is_flag=True, help="Set aside what is there under this name, both suites, and measure anew.")
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
    goes on where it stopped. An evaluation that is there is never overwritten by another one: give another `--name`, or
    set it aside with `--fresh`.
    With `--results` another program has measured: its items and its metric become an evaluation, nothing is sampled.
    """
    from llm_finetuning import as_given

    imports = {key: choice.pop(key) for key in ("results", "task", "metric", "success")}
    with as_given.refusals(run_dir):
        if imports["results"] is not None:
            found = taken(run_dir, imports, choice)
        elif any(value is not None for value in imports.values()):
            raise Refusal("--task, --metric and --success: say what is taken of --results; name that as well")
        else:
            goes_on = _goes_on_line(run_dir, choice) if choice["fresh"] else None
            with console.goes_on_with(goes_on):
                found = run(run_dir, **choice)
    lines = [as_given.said(line, run_dir) for line in lines_of(found, run_dir)]
    console.finish(lines, facts_of(found, run_dir), as_json=as_json)
    return 0


def _goes_on_line(run_dir: Path, choice: Mapping[str, Any]) -> str:
    """Return the line that goes on with what `--fresh` began; once more it would set that aside too."""
    from llm_finetuning import artifact

    given = {name: value for name, value in choice.items() if value and name != "fresh"}
    options = [
        word
        for name, value in given.items()
        if (name, value) != ("suite", "both")
        for word in (f"--{name.replace('_', '-')}", *([] if value is True else [str(value)]))
    ]
    return artifact.shell_line("evaluate", run_dir, *options)


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
    fresh: bool = False,
    python: str | None = None,
) -> Measured:
    """Measure one model on the suites that are asked for; what is there already is returned as it is."""
    from llm_finetuning import brief, checkpoints
    from llm_finetuning.evaluating import general, goldens, kept, subject, turn

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
    checkpoints.check_merged(sampled, candidate)
    digest = checkpoints.digest(sampled, candidate)
    asked = subject.Subject(loaded=loaded, sampled=sampled, candidate=candidate, digest=digest, python=python)
    suites: list[Any] = [goldens.Goldens(asked, samples=samples, greedy=greedy)] if suite != "drift" else []
    if suite != "goldens":
        is_chat = suites[0].is_chat if suites else general.prompts_are_chat(asked)
        suites.append(general.General(asked, is_chat=is_chat))
    paths = {kind: loaded.run_dir / pipeline.evaluation_file(name, kind) for kind in ("goldens", "drift")}
    missing = [one for one in suites if fresh or not paths[one.suite].exists()]
    with ExitStack() as stack:
        stack.enter_context(turn.turn(paths["goldens"], needed=bool(missing)))
        aside = stack.enter_context(kept.set_aside(loaded.run_dir / "eval", name)) if fresh else None
        if aside is not None:
            console.note(f"what was there of {name} is in {run_dir / 'eval' / aside.name}")
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
    return Measured(goldens=made.evaluation, drift=None, power=None, notes=[], wrote=wrote, there=[])


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
        made = [suite.suite for suite in suites if not found[suite.suite]]
        goldens = next((suite for suite in suites if suite.suite == "goldens"), None)
        notes, told = self._before(goldens, is_there="goldens" not in made) if goldens else ([], None)
        general = next((suite for suite in suites if suite.suite == "drift" and suite.suite in made), None)
        if general:
            self._say_drift(general, is_later="goldens" in made)
        for suite in suites:
            if suite.suite not in made:
                continue
            if suite is general and "goldens" in made:
                self._say_drift(general, is_later=False)
            found[suite.suite] = self._made(suite)
        if goldens and self._name == checkpoints.BASE:
            told = self._power(goldens, found["goldens"])
        return Measured(
            goldens=found.get("goldens"),
            drift=found.get("drift"),
            power=told,
            notes=notes,
            wrote=[self._shown(kind) for kind in found if kind in made],
            there=[self._shown(kind) for kind in found if kind not in made],
        )

    def _shown(self, kind: str) -> str:
        return str(self._run_dir / pipeline.evaluation_file(self._name, kind))

    def _say_drift(self, general: Any, *, is_later: bool) -> None:
        """Say how much the drift suite is and how long it takes, first and again when it begins."""
        from llm_finetuning import drift
        from llm_finetuning.evaluating import general as drift_suite
        from llm_finetuning.evaluating import pace

        folder = self._subject.loaded.run_dir / "eval"
        transcripts = folder / f"{self._name}{pipeline.DRIFT}{pipeline.TRANSCRIPTS}"
        if transcripts.exists() or drift_suite.drawn_before(self._subject, general, transcripts):
            return  # little is left to draw, or nothing
        took = pace.forecast(
            folder,
            self._name,
            engine=general.completions.parents["engine"],
            items=general.items,
            longest=drift.MAX_TOKENS,
        )
        console.note(_drift_words(general.items, took, is_later=is_later))

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
        if not path.exists():
            return None
        found = _there_already(path, pipeline.transcripts_of(path), suite.parents())
        console.note(f"{self._shown(suite.suite)} is there already; nothing was sampled")
        return found

    def _made(self, suite: Any) -> Any:
        """Draw, grade and write one suite."""
        from llm_finetuning import artifact
        from llm_finetuning.evaluating import calls

        loaded, parents = self._subject.loaded, suite.parents()
        name = f"{self._name}{pipeline.DRIFT if suite.suite == 'drift' else ''}"
        path = loaded.run_dir / f"eval/{name}.json"
        transcripts = pipeline.transcripts_of(path)
        suite.make_ready()
        other = calls.another_name(path.parent, self._name)
        anew = f"give this one another name (--name {other}), or set that one aside with --fresh"
        drawn = suite.draw(transcripts, anew=anew)
        found = suite.evaluation(self._name, drawn)
        if changed := artifact.changed_parents(parents, suite.parents()):
            raise Refusal(
                f"{self._run_dir}: {changed} changed while it was scored; evaluate again, the completions are kept"
            )
        parents = {**parents, transcripts.name: artifact.digest_file(transcripts)}
        settings = {**suite.completions.settings, **self._subject.facts}
        artifact.write_json(path, artifact.header_for(path, parents, settings), found)
        return found


def _drift_words(items: int, took: str, *, is_later: bool) -> str:
    """Return how much the drift suite is: before all that is drawn, or when it begins."""
    from llm_finetuning import drift

    size = f"{items} items of up to {drift.MAX_TOKENS} tokens each"
    if not is_later:
        return f"drift suite: {size}, {took or 'at a pace that nothing here tells yet'}; a killed one goes on later"
    return (
        f"drift suite, after the held-out rows: {size}, {took or 'how long is said when they are drawn'}; "
        "`--suite goldens` leaves it for later, and until `--suite drift` has measured it `compare` promotes nothing"
    )


def _checked_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise Refusal(f"--name: {name!r} is not a name; use letters, digits, `.`, `_` and `-`")
    from llm_finetuning.evaluating.calls import LONGEST_NAME

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
    from llm_finetuning.evaluating import calls
    from llm_finetuning.evaluating.completions import scored_anew
    from llm_finetuning.types import Evaluation

    found = artifact.read_json(path, Evaluation)
    if transcripts.exists():
        parents = {**parents, transcripts.name: artifact.digest_file(transcripts)}
    else:
        parents = {transcripts.name: found.header.parents.get(transcripts.name, ""), **parents}
    changed = artifact.changed_parents(found.header.parents, parents)
    if changed:
        other = calls.another_name(path.parent, path.stem.removesuffix(pipeline.DRIFT))
        raise Refusal(
            f"{path}: is there already and differs in {changed}, and is never overwritten; "
            f"give this one a name of its own: --name {other}, which `compare` takes as it takes any name; or set that "
            f"one aside with --fresh{scored_anew(changed, path)}"
        )
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
        "there": found.there,
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
    lines += [f"is there already: {path}" for path in found.there]
    lines += [f"wrote: {path}" for path in found.wrote]
    first = found.goldens or found.drift
    return [*lines, f"next: {_next(run_dir, first.name)}"]


def _next(run_dir: Path, name: str) -> str:
    from llm_finetuning import as_given, brief, checkpoints
    from llm_finetuning.commands import status
    from llm_finetuning.promoting import opponents

    following = None if name == checkpoints.BASE else opponents.following(brief.load(run_dir), name)
    return status.next_command(run_dir) if following is None else as_given.said(following, run_dir)
