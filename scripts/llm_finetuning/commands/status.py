"""`finetune status`: where a run stands and the next command."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import Refusal

OF_REWARDS = ("sample", "score", "probe", "review", "gate")
"""Verbs of the road to an open gate, which method grpo alone has."""

UNJUDGED = ("unknown", "cannot be judged without a valid brief.yaml")
"""State and detail of what is there but stands on a brief that cannot be read; the brief's own row says why."""

_ROW = "{file:<15} {state:<12}"


@click.command("status", short_help="Show where a run stands and the next command")
@options.run_dir
@options.as_json
def command(run_dir: Path, as_json: bool) -> int:
    """Show each artifact of a run, whether it is there and still true, and the next command."""
    facts = run(run_dir)
    lines = [_line(row) for row in facts["artifacts"]]
    console.finish([*lines, f"next: {facts['next']}"], facts, as_json=as_json)
    return 0


def _line(row: dict[str, str]) -> str:
    """Return a row of the table; further lines of its detail stand below the first."""
    head = _ROW.format(**row)
    return (head + row["detail"].replace("\n", "\n" + " " * len(head))).rstrip()


def run(run_dir: Path) -> dict[str, Any]:
    """Return the state of every artifact and the next command."""
    from llm_finetuning import artifact
    from llm_finetuning.pipeline import STAGES

    if not run_dir.is_dir():
        raise Refusal(f"{run_dir}: no such run directory; make one with `finetune new {run_dir}`")
    rows: list[dict[str, str]] = []
    next_command = None
    method, faults = _method(run_dir)
    for stage in STAGES:
        if stage.verb in (*OF_REWARDS, "diagnose") and method not in (None, "grpo"):
            continue
        state, detail = _state(run_dir, stage.writes)
        if faults and stage.verb != "new" and (run_dir / stage.writes).exists():
            state, detail = UNJUDGED
        if state == "waits":
            state, detail = "stale", _waiting(detail, rows)
        if (stage.verb, state) in (("pairs", "missing"), ("calibrate", "none")):  # beside the road
            continue
        rows.append({"file": stage.writes, "state": state, "detail": detail})
        if next_command is None and state not in ("done", "demo") and not _goes_on(stage.verb, state, run_dir):
            # Samples of another brief are set aside, never written over: that is asked for in words.
            options = ["--fresh"] if (stage.verb, state) == ("sample", "stale") else []
            broken_brief = stage.verb == "new" and state != "missing"
            line = artifact.shell_line(stage.verb, run_dir, *options)
            next_command = _mending(run_dir, faults[0]) if broken_brief else line
            if stage.verb == "calibrate":  # the labels may be another run's
                next_command = _awaited_judge(run_dir)
    if training := _training(run_dir):
        rows.append(training)
    return {"run_dir": str(run_dir), "artifacts": rows, "next": next_command or _after_gate(run_dir, method)}


def _waiting(reason: str, rows: list[dict[str, str]]) -> str:
    """Return for what a file waits: where a row has said the reason already, that row's file."""
    said = next((row["file"] for row in rows if row["detail"] == reason), None)
    return f"waits for {said}" if said else f"waits for what comes before it ({reason})"


def _training(run_dir: Path) -> dict[str, str] | None:
    """Return how far the training is, or how it ended; None where nothing was started."""
    from llm_finetuning.commands.train import progress_line, reason_of
    from llm_finetuning.training_run import TrainingRun

    training = TrainingRun(run_dir / "train")
    if training.is_running():
        return {"file": "train/", "state": "running", "detail": progress_line(training)}
    if ended := training.outcome():
        return {"file": "train/", "state": str(ended["state"]), "detail": reason_of(ended)}
    return None


def _method(run_dir: Path) -> tuple[str | None, tuple[str, ...]]:
    """Return the brief's method; where the brief is not there or not valid, None and what is wrong with it."""
    from llm_finetuning import brief

    try:
        return brief.load(run_dir).brief.method, ()
    except Refusal as refusal:
        return None, refusal.lines


def _mending(run_dir: Path, fault: str) -> str:
    """Return what to do about a fault that a row of the table spells out: its place, and what to call then."""
    from llm_finetuning import artifact, brief

    path = str(run_dir / brief.FILE_NAME)
    line = fault.removeprefix(path).partition(" ")[0].rstrip(":")  # `:3`; nothing where the fault names no line
    return f"mend {path}{line}, then `{artifact.shell_line('status', run_dir)}`"


def _goes_on(verb: str, state: str, run_dir: Path) -> bool:
    """Tell whether the road goes on without this verb; what an audit found is the gate's to weigh after sampling."""
    if verb in ("score", "probe"):  # a judge that is not measured refuses to
        return _awaited_judge(run_dir) is not None
    if verb == "calibrate":
        return _awaited_judge(run_dir) is None
    return verb in ("pairs", "plan", "preflight", "build", "diagnose", "evaluate", "compare") or (
        (verb, state) == ("audit", "blocked") and (run_dir / "samples.jsonl").exists()
    )


def _awaited_judge(run_dir: Path) -> str | None:
    """Return the command that measures a judge, until which the rewards pay nothing; None where there is none."""
    from llm_finetuning import brief, judging

    try:
        loaded = brief.load(run_dir)
    except Refusal:
        return None
    return judging.awaited(loaded) if loaded.brief.method == "grpo" else None


def _state(run_dir: Path, file: str) -> tuple[str, str]:
    """Return done, missing, unfinished, stale or broken for one file, with the reason; `waits` with another's."""
    if file == "eval/NAME.json":
        return _evaluations(run_dir)
    if file == "judge.jsonl":
        return _judges(run_dir)
    path = run_dir / file
    if not path.exists():
        return "missing", ""
    try:
        return _CHECKS[file](run_dir)
    except Refusal as refusal:
        text = "\n".join(refusal.lines) if file == "brief.yaml" else refusal.lines[0]
        if file not in text:
            return "waits", text
        kind = "stale" if "changed since" in text else "unfinished" if "to continue" in text else "broken"
        return kind, text


def _brief(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import brief

    loaded = brief.load(run_dir)
    return "done", f"{loaded.brief.method}, {loaded.brief.model}"


def _audit(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import brief, lineage

    blocking = [found.code for found in lineage.current_audit(brief.load(run_dir)).findings if found.weight == "blocks"]
    return ("blocked", f"mend {', '.join(dict.fromkeys(blocking))}") if blocking else ("done", "nothing blocks")


def _samples(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import brief, lineage

    return "done", f"{len(lineage.complete_samples(brief.load(run_dir)).records)} samples"


def _scores(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import brief, lineage

    loaded = brief.load(run_dir)
    return "done", f"{len(lineage.current_scores(loaded, lineage.complete_samples(loaded).records))} scores"


def _probe(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import brief, lineage

    return "done", lineage.current_probe(brief.load(run_dir)).verdict


def _labels(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import brief, lineage
    from llm_finetuning.findings.evidence import Rule

    loaded = brief.load(run_dir)
    labels = lineage.labels(loaded)
    judged = len(lineage.judged(lineage.complete_samples(loaded).records, labels))
    needed = Rule(success=0.0).labels
    if any(label.source == "demo" for label in labels):
        return "demo", "read by the demo's program"
    return ("done" if judged >= needed else "unfinished"), f"{judged} samples judged by a person, {needed} needed"


def _gate(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import artifact, brief, lineage
    from llm_finetuning.types import GateReport

    gate = artifact.read_json(run_dir / "gate.json", GateReport)
    readers = gate.header.parents.get("readers", "")
    artifact.check_parents(gate.path, gate.header, lineage.of_gate(brief.load(run_dir), readers=readers))
    report = gate.records[0]
    if readers != lineage.PERSONS:
        return "demo", f"{report.verdict}; counts for the demo alone"
    return "done", f"{report.verdict}{'; overridden' if lineage.is_overridden(report) else ''}"


def _judges(run_dir: Path) -> tuple[str, str]:
    """Return whether the judges of the brief may pay, which their records say; `none` where it names none."""
    from llm_finetuning import brief
    from llm_finetuning.judging import entries

    try:
        loaded = brief.load(run_dir)
    except Refusal:
        return "none", ""
    from llm_finetuning.rewards.judges.calibration import MEND

    named = entries.entries(loaded)
    faults = [f"{entry.name}: {fault}" for entry in named if (fault := entries.fault(loaded, entry)) is not None]
    if not named:
        return "none", ""
    faults = [words.removesuffix(f": {MEND}") for words in faults]
    state = "done" if not faults else "unfinished" if (run_dir / "judge.jsonl").exists() else "missing"
    return state, "; ".join(faults) or f"{', '.join(entry.name for entry in named)} may pay"


def _pairs(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import artifact, brief
    from llm_finetuning.commands import pairs
    from llm_finetuning.stages.pairs import PairsReport

    loaded = brief.load(run_dir)
    report = artifact.read_json(run_dir / "pairs.json", PairsReport)
    artifact.check_parents(report.path, report.header, pairs.parents_of(loaded))
    sets = report.records[0].sets
    return "done", ", ".join(f"{one.method} {one.records} in {Path(one.file).name}" for one in sets)


def _env_report(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import artifact, brief
    from llm_finetuning.commands import preflight
    from llm_finetuning.types import EnvReport

    report = artifact.read_json(run_dir / "env-report.json", EnvReport)
    artifact.check_parents(report.path, report.header, preflight.parents_of(brief.load(run_dir)))
    return "done", report.records[0].verdict


def _plan(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import brief
    from llm_finetuning.commands import plan

    (found,) = plan.current(brief.load(run_dir)).records
    return "done", f"{found.verdict}: {found.reason}"


def _diagnosis(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import brief
    from llm_finetuning.commands import diagnose

    found = diagnose.current(brief.load(run_dir))
    return "done", f"{found.verdict.replace('_', ' ')}: {found.text}"


def _promotion(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import brief
    from llm_finetuning.commands import compare

    found = compare.current(brief.load(run_dir))
    return "done", f"{found.candidate} against {found.base}: {found.verdict}; {found.reason}"


def _evaluations(run_dir: Path) -> tuple[str, str]:
    """Return each evaluation with its pass@1, beside it the drift suite's, and those that a kill left unfinished."""
    from llm_finetuning import artifact, pipeline
    from llm_finetuning.types import Evaluation

    folder = run_dir / "eval"
    done = sorted(folder.glob("*.json"))
    begun = {path.name.removesuffix(pipeline.TRANSCRIPTS) for path in folder.glob(f"*{pipeline.TRANSCRIPTS}")}
    left = sorted(begun - {path.stem for path in done})
    if not done and not left:
        return "missing", ""
    try:
        records = [artifact.read_json(path, Evaluation).records[0] for path in done]
    except Refusal as refusal:
        return "broken", refusal.lines[0]
    shares = {path.stem: f"{found.passes['1'].value:.3f}" for path, found in zip(done, records, strict=True)}
    names = dict.fromkeys(name.removesuffix(pipeline.DRIFT) for name in shares)
    words = [
        " ".join(
            [
                name,
                *([shares[name]] if name in shares else []),
                *([f"(drift {shares[name + pipeline.DRIFT]})"] if name + pipeline.DRIFT in shares else []),
            ]
        )
        for name in names
    ]
    words += [f"{name} unfinished" for name in left]
    return ("unfinished" if left else "done"), f"pass@1: {', '.join(words)}"


def _build(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import brief, lineage

    build = lineage.current_build(brief.load(run_dir), demo=True)
    words = f"{build.method}, {build.rows} rows, {build.shape.get('kind')}"
    return ("demo", f"{words}; counts for the demo alone") if build.demo else ("done", words)


_CHECKS: dict[str, Callable[[Path], tuple[str, str]]] = {
    "brief.yaml": _brief,
    "audit.json": _audit,
    "samples.jsonl": _samples,
    "scores.jsonl": _scores,
    "probe.json": _probe,
    "labels.jsonl": _labels,
    "gate.json": _gate,
    "pairs.json": _pairs,
    "plan.json": _plan,
    "env-report.json": _env_report,
    "train/build.json": _build,
    "diagnosis.json": _diagnosis,
    "promotion.json": _promotion,
}


def _after_gate(run_dir: Path, method: str | None) -> str:
    """Return the gate's own next action where it is not open; then come the machine, the build and training."""
    from llm_finetuning import artifact, lineage
    from llm_finetuning.types import EnvReport, GateReport

    if method == "grpo":
        gate = artifact.read_json(run_dir / "gate.json", GateReport)
        report = gate.records[0]
        demo = gate.header.parents.get("readers") != lineage.PERSONS
        if demo:
            return "finetune new my-run"  # the demo's answer counts for nothing else
        if report.verdict != "open" and not lineage.is_overridden(report):
            return report.next_action
    if _state(run_dir, "env-report.json")[0] != "done":
        planned = _state(run_dir, "plan.json")[0] == "done"
        return artifact.shell_line("preflight" if planned else "plan", run_dir)
    machine = artifact.read_json(run_dir / "env-report.json", EnvReport).records[0]
    return machine.next_action if machine.verdict == "blocked" else _after_preflight(run_dir)


def _after_preflight(run_dir: Path) -> str:
    from llm_finetuning import artifact
    from llm_finetuning.commands.train import after
    from llm_finetuning.training_run import TrainingRun

    training = TrainingRun(run_dir / "train")
    if training.is_running():
        return artifact.shell_line("train", run_dir, "--stop") + " ends it early; else wait"
    if _state(run_dir, "train/build.json")[0] not in ("done", "demo"):
        return artifact.shell_line("build", run_dir)
    ended = training.outcome()
    if ended and ended["state"] == "finished" and _method(run_dir)[0] == "grpo" and _diagnose_first(run_dir):
        return artifact.shell_line("diagnose", run_dir)
    if ended and ended["state"] == "finished" and _state(run_dir, "promotion.json")[0] == "done":
        from llm_finetuning.types import Promotion

        return artifact.read_json(run_dir / "promotion.json", Promotion).records[0].next_action
    return after(run_dir, ended) if ended else artifact.shell_line("train", run_dir)


def _diagnose_first(run_dir: Path) -> bool:
    """Tell whether a log of the training is there that nobody has diagnosed yet."""
    there = (run_dir / "train" / "logs" / "progress.jsonl").exists()
    return there and _state(run_dir, "diagnosis.json")[0] != "done"
