"""`finetune diagnose`: what a training log says of its run, and the one change that it gives a reason for."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import EXIT_DONE, EXIT_INSUFFICIENT, EXIT_NO, Refusal

if TYPE_CHECKING:
    from llm_finetuning.brief import LoadedBrief
    from llm_finetuning.diagnosis.log import Completion, RunLog
    from llm_finetuning.diagnosis.record import Diagnosis

EXIT_OF = {"healthy": EXIT_DONE, "failure": EXIT_NO, "undecided": EXIT_INSUFFICIENT}

SHOWN_OTHERS = 6

PAGE = "diagnosis.html"

NUMBERS = frozenset(
    (
        *("beta", "epsilon", "epsilon_high", "entropy_coef", "num_iterations", "steps_per_generation", "learning_rate"),
        *("gradient_accumulation_steps", "max_grad_norm", "max_completion_length", "num_generations", "temperature"),
        *("top_p", "top_k", "max_steps", "per_device_train_batch_size", "generation_batch_size"),
    )
)
"""Options of which a verdict takes the number."""

_RECORD = frozenset(("verdict", "findings", "advice", "excluded", "missing"))
"""Keys by which a file is known for an earlier diagnosis."""


@click.command("diagnose", short_help="Say what a training log shows")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--goal", metavar="NAME", help="The component of the reward that is wanted.")
@click.option("--moe/--dense", "moe", default=None, help="Whether the model is a mixture of experts.")
@click.option("--option", "given", multiple=True, metavar="KEY=VALUE", help="A training argument that the log lacks.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Also write the record here."
)
@options.python
@options.as_json
def command(path: Path, given: tuple[str, ...], out: Path | None, as_json: bool, **known: Any) -> int:
    """Diagnose a run of GRPO from its log: a run directory, a trainer's output folder or a log file.

    Names the first cause in time with its evidence, what follows from it, at most one change in TRL's options, what
    would confirm or refute it, and what the log cannot tell. In a run directory it writes diagnosis.json, and
    diagnosis.html with the curves. Exit code 0 healthy, 1 a failure mode was found, 3 too short or inconclusive.
    """
    import dataclasses

    from llm_finetuning import live_view
    from llm_finetuning.commands import status

    found = run(path, given=given, out=out, **known)
    facts = dataclasses.asdict(found)
    ends = []
    if _is_run(path):
        facts["next"] = status.next_command(path)
        ends = [f"page: {path / PAGE}", f"next: {facts['next']}"]
    lines = [live_view.one_line(line) for line in [*lines_of(found), *ends]]
    console.finish(lines, facts, as_json=as_json)
    return EXIT_OF[found.state]


def run(
    path: Path,
    *,
    goal: str | None = None,
    moe: bool | None = None,
    given: Sequence[str] = (),
    out: Path | None = None,
    python: str | None = None,
) -> Any:
    """Return the diagnosis of a log; writes both files in a run directory, and `out` where it is named."""
    import dataclasses

    from llm_finetuning import artifact, brief, diagnosis, strict_json
    from llm_finetuning.diagnosis import reading
    from llm_finetuning.web import diagnosis_report

    if not path.exists():
        raise Refusal(f"{path}: no such file or folder; name a run directory, a trainer's output folder or a log")
    if out is not None:
        _check_out(out, path)
    about = _run_about(path)
    if about is not None:
        _check_method(about)
    loaded = brief.load(path) if _is_run(path) else None
    log = reading.read(path, options=_options(given))
    if not log.is_paid:
        raise _no_grpo(f"{log.source}: no reward is logged", path)
    _check_goal(log, goal)
    if moe is None and loaded is not None:
        moe = has_experts(loaded)
    completions, notes = _completions(path, log, python)
    found = diagnosis.diagnose(log, goal=goal, moe=moe, completions=completions)
    found = dataclasses.replace(found, notes=[*found.notes, *notes])
    if loaded is not None:
        path = loaded.run_dir / "diagnosis.json"
        settings = {"goal": goal, "moe": moe, "options": list(given)}
        artifact.write_json(path, artifact.header_for(path, parents_of(loaded), settings), found)
        artifact.write_text(loaded.run_dir / PAGE, diagnosis_report.render(log, found))
    if out is not None:
        import json

        record = strict_json.strict(dataclasses.asdict(found))
        artifact.write_text(out, json.dumps(record, indent=1, allow_nan=False) + "\n")
    return found


def _is_run(path: Path) -> bool:
    """Tell whether a path is a run directory; its folder `train` holds a copy of the brief as well."""
    return (path / "brief.yaml").is_file() and not (path / "guards").is_dir()


def _run_about(path: Path) -> Path | None:
    """Return the run directory that a path is, or lies in."""
    from llm_finetuning.diagnosis.reading import folders

    if _is_run(path):
        return path
    train = folders.run_about(path)
    return train.parent if train is not None and _is_run(train.parent) else None


def _check_method(run_dir: Path) -> None:
    from llm_finetuning import brief

    try:
        method = brief.load(run_dir).brief.method
    except Refusal:
        return  # a brief that was changed since says nothing; the log is still there
    if method != "grpo":
        raise _no_grpo(f"{run_dir}: trains with {method}", run_dir)


def _no_grpo(what: str, path: Path) -> Refusal:
    from llm_finetuning import artifact

    return Refusal(
        f"{what}, and diagnose reads runs of GRPO; `{artifact.shell_line('watch', path)}` shows its loss, "
        "`finetune evaluate` what it learned"
    )


def _check_out(out: Path, path: Path) -> None:
    """Refuse to write over anything but an earlier diagnosis, and to make a folder that may be a slip."""
    import json

    if not out.parent.is_dir():
        raise Refusal(f"--out {out}: there is no folder {out.parent}; make it, or name another file")
    if not out.exists():
        return
    run_dir = _run_about(path)
    if run_dir is not None and (run_dir / "diagnosis.json").exists() and out.samefile(run_dir / "diagnosis.json"):
        raise Refusal(f"--out {out}: is written in any case, with a header; leave --out away")
    try:
        held = json.loads(out.read_text("utf-8")) if out.is_file() and not out.samefile(path) else None
    except (OSError, ValueError, RecursionError):
        held = None
    if not isinstance(held, dict) or not set(held) >= _RECORD:
        raise Refusal(f"--out {out}: is there and is no earlier diagnosis; name a new file, or move that one away")


def parents_of(loaded: "LoadedBrief") -> dict[str, str]:
    """Return what `diagnosis.json` depends on: the build, and the log as far as it was written."""
    from llm_finetuning import artifact

    files = {"train/build.json", "train/logs/progress.jsonl"}
    return {
        name: artifact.digest_file(loaded.run_dir / name) if (loaded.run_dir / name).exists() else "absent"
        for name in sorted(files)
    }


def current(loaded: "LoadedBrief") -> "Diagnosis":
    """Return the diagnosis of a run as it is now; refuses without one, or when the log or the build has changed."""
    from llm_finetuning import artifact
    from llm_finetuning.diagnosis.record import Diagnosis

    found = artifact.read_json(loaded.run_dir / "diagnosis.json", Diagnosis)
    artifact.check_parents(found.path, found.header, parents_of(loaded))
    return found.records[0]


def _options(given: Sequence[str]) -> dict[str, Any]:
    """Return what the caller knows of the training arguments; refuses a misspelt name."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    from llm_finetuning import trl_options
    from llm_finetuning.brief import nearest

    known = trl_options.names("grpo")
    found: dict[str, Any] = {}
    faults = []
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not value:
            faults.append(f"--option {text}: write KEY=VALUE, such as num_iterations=4")
        elif key not in known:
            faults.append(f"--option {text}: no option of TRL's GRPO; {nearest(key, known)}")
        else:
            try:
                found[key] = YAML(typ="safe", pure=True).load(value)
            except YAMLError:
                faults.append(f"--option {text}: the value cannot be read; write a number, a word or [a, list]")
    # YAML 1.2 takes 1e-6 for a word, since it has no point.
    found = {key: _number(value) if isinstance(value, str) else value for key, value in found.items()}
    faults += [
        f"--option {key}={value}: takes a number, such as {key}=1"
        for key, value in found.items()
        if key in NUMBERS and value is not None and (isinstance(value, bool) or not isinstance(value, int | float))
    ]
    if faults:
        raise Refusal(*faults)
    return found


def _number(value: str) -> Any:
    try:
        return float(value)
    except ValueError:
        return value


def _check_goal(log: "RunLog", goal: str | None) -> None:
    from llm_finetuning.brief import nearest

    if goal is not None and log.components and goal not in log.components:
        raise Refusal(f"--goal {goal}: no component of the reward in {log.source}; {nearest(goal, log.components)}")


def has_experts(loaded: "LoadedBrief") -> bool | None:
    """Return whether the brief's model is a mixture of experts; None where its config is not on this machine."""
    from llm_finetuning.planning.fields import Fields
    from llm_finetuning.sizing import situation
    from llm_finetuning.sizing.unknown import Unknown

    try:
        values = situation.config_of(loaded).values
    except Unknown:
        return None
    text = values.get("text_config")
    held: Mapping[str, Any] = {**values, **(text if isinstance(text, dict) else {})}
    return Fields(held, {}).number("num_experts", 0) > 1


def _completions(path: Path, log: "RunLog", python: str | None) -> tuple[list["Completion"], list[str]]:
    """Return the kept completions, and why there are none where the run kept some."""
    from llm_finetuning import interpreter
    from llm_finetuning.diagnosis import reading

    places = (path / "train" / "completions", path / "completions")
    if not path.is_dir() or not any(place.is_dir() and any(place.glob("*.parquet")) for place in places):
        return [], []
    program = interpreter.at_hand(python, ["pyarrow"])
    if program is None:
        return [], ["the kept completions were not read: name an interpreter with pyarrow, --python PATH"]
    return reading.completions(path, python=program, log=log), []


def lines_of(found: Any) -> list[str]:
    """Return a diagnosis as a person reads it in a terminal."""
    first, *others = found.findings
    head = f"{found.source}: {found.rows} rows, steps {found.first_step:g} to {found.last_step:g}, TRL {found.era}"
    lines = [head, "", f"verdict: {_words(found.verdict)} ({_state_words(first, found.state)})", f"  {first.text}"]
    lines += [f"  {_role(other)}: {_words(other.code)}: {other.text}" for other in others[:SHOWN_OTHERS]]
    lines += ["", f"advice: {found.advice.change}"]
    if found.advice.options:
        lines.append(f"  options: {', '.join(f'{key}={_value(value)}' for key, value in found.advice.options.items())}")
    lines.append(f"  because {found.advice.because}")
    lines += [f"  {found.advice.carries}"] if found.advice.carries else []
    if found.checkpoint:
        step, why = found.checkpoint["step"], found.checkpoint["why"]
        lines.append(f"  go back to: a checkpoint at or before step {step:g} ({why})")
    lines += [f"would confirm: {first.confirm}"] if first.confirm else []
    lines += [f"would refute: {first.refute}"] if first.refute else []
    for side, quotes in found.quotes.items():
        lines += [f"  paid most {side}, step {quote.step}, {quote.paid:.3g}: {quote.completion!r}" for quote in quotes]
    lines += _power(found)
    looked = [f"{other.family} ({other.text})" for other in found.excluded if other.state == "excluded"]
    lines += [f"excluded: {'; '.join(looked)}"] if looked else []
    unknown = [other.family for other in found.excluded if other.state == "unknown"]
    lines += [f"could not be looked for: {', '.join(unknown)}"] if unknown else []
    lines += ["not in the log, which would say:", *(f"  {line}" for line in found.missing)] if found.missing else []
    return [*lines, *(f"note: {note}" for note in found.notes)]


def _power(found: Any) -> list[str]:
    if not found.power:
        return []
    rows = ", ".join(f"{power.smallest:.3g} with {power.rows} rows" for power in found.power)
    return [f"smallest change of the mean reward shown in four of five tries: {rows}"]


def _state_words(first: Any, state: str) -> str:
    words = {"healthy": "no failure mode", "failure": "failure mode", "undecided": "undecided"}[state]
    since = f" from step {first.since:g}" if state == "failure" and first.since is not None else ""
    return f"{words}{since}; confidence: {first.confidence}"


def _role(finding: Any) -> str:
    return "follows" if finding.role == "consequence" else str(finding.role)


def _words(code: str) -> str:
    return code.replace("_", " ")


def _value(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)
