"""`finetune status`: where a run stands and the next command."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_finetuning import console
from llm_finetuning.commands import artifact_states, options
from llm_finetuning.commands.artifact_states import State
from llm_finetuning.errors import Refusal

if TYPE_CHECKING:
    from llm_finetuning import artifact
    from llm_finetuning.types import GateReport

OF_REWARDS = ("sample", "score", "probe", "review", "gate")
"""Verbs of the road to an open gate, which method grpo alone has."""

WEIGHED = {"audit": "audit.json", "probe": "probe.json", "gate": "gate.json"}
"""Verbs whose verdict may hold a run back, with the file that holds it."""

UNJUDGED = State("unknown", "cannot be judged without a valid brief.yaml")
"""What is there but stands on a brief that cannot be read; the brief's own row says why."""

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
    """Return a row of the table; further lines of its detail stand below the first, one that is its state nowhere."""
    head = _ROW.format(**row)
    detail = "" if row["detail"] == row["state"] else row["detail"]
    return (head + detail.replace("\n", "\n" + " " * len(head))).rstrip()


def run(run_dir: Path) -> dict[str, Any]:
    """Return the state of every artifact and the next command."""
    from llm_finetuning import as_given
    from llm_finetuning.pipeline import STAGES

    if not run_dir.is_dir():
        raise Refusal(f"{run_dir}: no such run directory; make one with `finetune new {run_dir}`")
    rows: list[dict[str, str]] = []
    stated: dict[str, State] = {}
    method, faults = _method(run_dir)
    for stage in STAGES:
        if stage.verb in (*OF_REWARDS, "diagnose") and method not in (None, "grpo"):
            continue
        found = artifact_states.of(run_dir, stage.writes)
        if faults and stage.verb != "new" and (run_dir / stage.writes).exists():
            found = UNJUDGED
        found = _in_its_row(found, stated)
        if (stage.verb, found.state) in (("pairs", "missing"), ("calibrate", "none")):  # beside the road
            continue
        stated[stage.writes] = found
        rows.append({"file": stage.writes, "state": found.state, "detail": found.detail})
    if training := _training(run_dir):
        rows.append(training)
    states = {file: found.state for file, found in stated.items()}
    following = as_given.said_with_followers(_next(run_dir, states, method, faults), run_dir)
    rows = [{**row, "detail": as_given.said_with_followers(row["detail"], run_dir)} for row in rows]
    return {"run_dir": str(run_dir), "artifacts": rows, "next": following}


def next_command(run_dir: Path) -> str:
    """Return the one next action of a run: a command to paste, or what a verdict that blocks asks for.

    Every verb of the road ends with it, unless what it found asks for something of its own.
    """
    return str(run(run_dir)["next"])


def from_the_first(run_dir: Path, stale: "artifact.Stale") -> Refusal:
    """Return the refusal of a stale file with what the run asks for first: more than the file itself may be stale."""
    from llm_finetuning import artifact

    action = next_command(run_dir)
    again = f"run `{action}`" if action.startswith("finetune ") else action
    return artifact.Stale(stale.path, ", ".join(stale.changed), again)


def _in_its_row(found: State, before: Mapping[str, State]) -> State:
    """Return what a row says of a file; a reason that an earlier row has said is told by that row's file."""
    if found.state == "waits":
        said = next((file for file in before if f"/{file}:" in found.detail), None)
        words = f"waits for {said}" if said else f"waits for what comes before it ({found.detail})"
        return State("stale", words)
    if found.changed:
        said = next((file for file, other in before.items() if set(found.changed) <= set(other.changed)), None)
        return found._replace(detail=f"the same as {said}") if said else found
    return found


def _next(run_dir: Path, states: Mapping[str, str], method: str | None, faults: Sequence[str]) -> str:
    """Return the next action: that of the first file of the road which is not as it should be."""
    from llm_finetuning import artifact, as_given
    from llm_finetuning.pipeline import STAGES

    for stage in STAGES:
        state = states.get(stage.writes)
        if state in (None, "done", "demo") or _goes_on(stage.verb, str(state), run_dir, states):
            continue
        if stage.verb == "new" and state != "missing":
            return _mending(run_dir, faults[0]) if faults else _writing(run_dir, str(state))
        if stage.verb == "calibrate" and (judge := _awaited_judge(run_dir)):  # the labels may be another run's
            return judge
        if action := _own_action(run_dir, stage.verb, states):
            return action
        if stage.verb == "evaluate" and (outdated := artifact_states.outdated_evaluation(run_dir)):
            return as_given.said(outdated[1].calls[0], run_dir)
        # Samples of another brief are set aside, never written over: that is asked for in words.
        options = ["--fresh"] if (stage.verb, state) == ("sample", "stale") else []
        return artifact.shell_line(stage.verb, run_dir, *options)
    return _after_gate(run_dir, method)


def _own_action(run_dir: Path, verb: str, states: Mapping[str, str]) -> str | None:
    """Return what a verdict asks for that holds a run back; a person is asked to read only where none does."""
    from llm_finetuning import artifact
    from llm_finetuning.findings.success import for_run
    from llm_finetuning.types import AuditReport, ProbeReport

    if verb != "review" and not (verb in WEIGHED and states[WEIGHED[verb]] == "blocked"):
        return None
    if (report := _current_gate(run_dir, states)) is not None:  # it has weighed audit and probe
        asking = [found.code for found in report.findings if found.next_action == report.next_action]
        reading = bool(asking) and all(code.startswith("labels") for code in asking)
        return None if reading else for_run(report.next_action, str(run_dir))
    if states["audit.json"] == "blocked":
        return for_run(artifact.read_json(run_dir / "audit.json", AuditReport).records[0].next_action, str(run_dir))
    if states.get("probe.json") == "blocked":
        return for_run(artifact.read_json(run_dir / "probe.json", ProbeReport).records[0].next_action, str(run_dir))
    return None


def _current_gate(run_dir: Path, states: Mapping[str, str]) -> "GateReport | None":
    """Return the answer of a gate that counts and judged what is there now."""
    from llm_finetuning import artifact
    from llm_finetuning.types import GateReport

    if states.get("gate.json") not in ("done", "blocked"):
        return None
    return artifact.read_json(run_dir / "gate.json", GateReport).records[0]


def _training(run_dir: Path) -> dict[str, str] | None:
    """Return how far the training is, or how it ended; None where nothing was started."""
    from llm_finetuning.commands.train import progress_line, reason_of
    from llm_finetuning.training_run import TrainingRun

    training = TrainingRun(run_dir / "train")
    if training.is_running():
        return {"file": "train/", "state": "running", "detail": progress_line(training)}
    if ended := training.outcome():
        merged = [f"merged: {path}" for path in artifact_states.merged(run_dir)]
        return {"file": "train/", "state": str(ended["state"]), "detail": "; ".join([reason_of(ended), *merged])}
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


def _writing(run_dir: Path, state: str) -> str:
    """Return what a person has to write before anything can be looked at: the brief, its data set, or both."""
    from llm_finetuning import artifact, brief

    lacking = artifact_states.lacking_rows(run_dir, brief.load(run_dir))
    parts = [f"edit {run_dir / brief.FILE_NAME}"] if state == "unedited" else []
    parts += [f"write its data set, {lacking}"] if lacking else []
    return f"{' and '.join(parts)}, then `{artifact.shell_line('audit', run_dir)}`"


def _goes_on(verb: str, state: str, run_dir: Path, states: Mapping[str, str]) -> bool:
    """Tell whether the road goes on without this verb; what an audit found is the gate's to weigh after sampling."""
    from llm_finetuning import lineage

    if verb in ("score", "probe") and state != "blocked":  # a judge that is not measured refuses to
        return _awaited_judge(run_dir) is not None
    if verb == "calibrate":
        return _awaited_judge(run_dir) is None
    if verb in ("pairs", "plan", "preflight", "build", "diagnose", "evaluate", "compare"):
        # While it trains, a checkpoint is on its way to be another one.
        return (verb, state) != ("evaluate", "stale") or (_training(run_dir) or {}).get("state") == "running"
    if (verb, state) == ("audit", "blocked") and (run_dir / "samples.jsonl").exists():
        return True
    if state not in ("blocked", "unfinished", "missing") or verb not in ("audit", "probe", "review"):
        return False
    gate = _current_gate(run_dir, states)  # one that is open, or overridden, has weighed all of it
    return gate is not None and (gate.verdict == "open" or lineage.is_overridden(gate))


def _awaited_judge(run_dir: Path) -> str | None:
    """Return the command that measures a judge, until which the rewards pay nothing; None where there is none."""
    from llm_finetuning import brief, judging

    try:
        loaded = brief.load(run_dir)
    except Refusal:
        return None
    return judging.awaited(loaded) if loaded.brief.method == "grpo" else None


def _after_gate(run_dir: Path, method: str | None) -> str:
    """Return the gate's own next action where it is not open; then come the machine, the build and training."""
    from llm_finetuning import artifact, lineage
    from llm_finetuning.findings.success import for_run
    from llm_finetuning.types import EnvReport, GateReport

    if method == "grpo":
        gate = artifact.read_json(run_dir / "gate.json", GateReport)
        report = gate.records[0]
        demo = gate.header.parents.get("readers") != lineage.PERSONS
        if demo:
            from llm_finetuning.commands.demo import own_run_after

            return own_run_after(run_dir)  # the demo's answer counts for nothing else
        if report.verdict != "open" and not lineage.is_overridden(report):
            return for_run(report.next_action, str(run_dir))
    if _has_trained(run_dir):
        return _after_preflight(run_dir)
    if first := _unfinished_evaluation(run_dir) or _plan_first(run_dir):
        return first
    if artifact_states.of(run_dir, "env-report.json").state != "done":
        return artifact.shell_line("preflight", run_dir)
    machine = artifact.read_json(run_dir / "env-report.json", EnvReport).records[0]
    return machine.next_action if machine.verdict == "blocked" else _after_preflight(run_dir)


def _plan_first(run_dir: Path) -> str | None:
    """Return what the plan asks for; None where it holds nothing back.

    One that was not made holds back until the machine was looked at without it, a stale one until it is made again or
    the run is built, and one that does not fit until the machine was looked at nonetheless.
    """
    from llm_finetuning import artifact
    from llm_finetuning.types import Plan

    if artifact_states.of(run_dir, "train/build.json").state in ("done", "demo"):
        return None
    state = artifact_states.of(run_dir, "plan.json").state
    looked = artifact_states.of(run_dir, "env-report.json").state == "done"
    if state != "done":
        return None if state == "missing" and looked else artifact.shell_line("plan", run_dir)
    plan = artifact.read_json(run_dir / "plan.json", Plan).records[0]
    return plan.next_action if plan.verdict == "does not fit" and not looked else None


def _unfinished_evaluation(run_dir: Path) -> str | None:
    """Return the command that goes on with an evaluation that a kill left: what is compared later stands on it."""
    from llm_finetuning import brief
    from llm_finetuning.evaluating import unfinished

    return unfinished.command(run_dir, brief.load(run_dir))


def _has_trained(run_dir: Path) -> bool:
    """Tell whether what was built has been started: the machine showed then what it can do."""
    built = artifact_states.of(run_dir, "train/build.json").state in ("done", "demo")
    return built and _training(run_dir) is not None


def _after_preflight(run_dir: Path) -> str:
    from llm_finetuning import artifact
    from llm_finetuning.commands.train import after
    from llm_finetuning.training_run import TrainingRun

    training = TrainingRun(run_dir / "train")
    if training.is_running():
        ends, shows = artifact.shell_line("train", run_dir, "--stop"), artifact.shell_line("watch", run_dir)
        return f"wait; `{shows}` shows it, `{ends}` ends it early"
    if artifact_states.of(run_dir, "train/build.json").state not in ("done", "demo"):
        return artifact.shell_line("build", run_dir)
    ended = training.outcome()
    if ended and ended["state"] == "finished" and _method(run_dir)[0] == "grpo" and _diagnose_first(run_dir):
        return artifact.shell_line("diagnose", run_dir)
    if left := _unfinished_evaluation(run_dir):
        return left
    if ended and ended["state"] == "finished" and artifact_states.of(run_dir, "promotion.json").state == "done":
        return _after_promotion(run_dir)
    return after(run_dir, ended) if ended else artifact.shell_line("train", run_dir)


def _after_promotion(run_dir: Path) -> str:
    """Return what a promotion asks for; where that is a merge which was made, to judge what is in use then."""
    from llm_finetuning import artifact, brief
    from llm_finetuning.evaluating import calls
    from llm_finetuning.types import Promotion

    found = artifact.read_json(run_dir / "promotion.json", Promotion).records[0]
    loaded = brief.load(run_dir)
    for merged, adapter in artifact_states.merged(run_dir).items():
        if f"`{calls.merge(loaded, adapter)}`" not in found.next_action:
            continue
        if not (run_dir / "eval" / f"{merged.name}.json").exists():
            return artifact.shell_line("evaluate", run_dir, "--model", str(merged))
        return artifact.shell_line("compare", run_dir, found.base, merged.name)
    return found.next_action


def _diagnose_first(run_dir: Path) -> bool:
    """Tell whether a log of the training is there that nobody has diagnosed yet."""
    there = (run_dir / "train" / "logs" / "progress.jsonl").exists()
    return there and artifact_states.of(run_dir, "diagnosis.json").state != "done"
