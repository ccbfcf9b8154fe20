"""`finetune status`: where a run stands and the next command."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import Refusal


@click.command("status", short_help="Show where a run stands and the next command")
@options.run_dir
@options.as_json
def command(run_dir: Path, as_json: bool) -> int:
    """Show each artifact of a run, whether it is there and still true, and the next command."""
    facts = run(run_dir)
    lines = [f"{row['file']:<16}{row['state']:<12}{row['detail']}".rstrip() for row in facts["artifacts"]]
    console.finish([*lines, f"next: {facts['next']}"], facts, as_json=as_json)
    return 0


def run(run_dir: Path) -> dict[str, Any]:
    """Return the state of every artifact and the next command."""
    from llm_finetuning import artifact
    from llm_finetuning.pipeline import STAGES

    if not run_dir.is_dir():
        raise Refusal(f"{run_dir}: no such run directory; make one with `finetune new {run_dir}`")
    rows = []
    next_command = None
    for stage in STAGES:
        state, detail = _state(run_dir, stage.writes)
        rows.append({"file": stage.writes, "state": state, "detail": detail})
        if next_command is None and state not in ("done", "demo") and not _goes_on(stage.verb, state, run_dir):
            # Samples of another brief are set aside, never written over: that is asked for in words.
            options = ["--fresh"] if (stage.verb, state) == ("sample", "stale") else []
            next_command = artifact.shell_line(stage.verb, run_dir, *options)
    return {"run_dir": str(run_dir), "artifacts": rows, "next": next_command or _after_gate(run_dir)}


def _goes_on(verb: str, state: str, run_dir: Path) -> bool:
    """Tell whether the road goes on without this verb; what an audit found is the gate's to weigh after sampling."""
    return verb == "preflight" or ((verb, state) == ("audit", "blocked") and (run_dir / "samples.jsonl").exists())


def _state(run_dir: Path, file: str) -> tuple[str, str]:
    """Return done, missing, unfinished, stale or broken for one file, with the reason."""
    path = run_dir / file
    if not path.exists():
        return "missing", ""
    try:
        return _CHECKS[file](run_dir)
    except Refusal as refusal:
        text = refusal.lines[0]
        if file not in text:
            return "stale", f"waits for what comes before it ({text})"
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


def _env_report(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import artifact, brief
    from llm_finetuning.commands import preflight
    from llm_finetuning.types import EnvReport

    report = artifact.read_json(run_dir / "env-report.json", EnvReport)
    artifact.check_parents(report.path, report.header, preflight.parents_of(brief.load(run_dir)))
    return "done", report.records[0].verdict


_CHECKS: dict[str, Callable[[Path], tuple[str, str]]] = {
    "brief.yaml": _brief,
    "audit.json": _audit,
    "samples.jsonl": _samples,
    "scores.jsonl": _scores,
    "probe.json": _probe,
    "labels.jsonl": _labels,
    "gate.json": _gate,
    "env-report.json": _env_report,
}


def _after_gate(run_dir: Path) -> str:
    """Return the gate's own next action; an open gate is followed by a look at the machine."""
    from llm_finetuning import artifact, lineage
    from llm_finetuning.types import EnvReport, GateReport

    gate = artifact.read_json(run_dir / "gate.json", GateReport).records[0]
    if gate.verdict != "open" and not lineage.is_overridden(gate):
        return gate.next_action
    if _state(run_dir, "env-report.json")[0] != "done":
        return artifact.shell_line("preflight", run_dir)
    report = artifact.read_json(run_dir / "env-report.json", EnvReport).records[0]
    return gate.next_action if report.verdict == "ready" else report.next_action
