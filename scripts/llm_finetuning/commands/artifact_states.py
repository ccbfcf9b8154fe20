"""State of each artifact of a run as `finetune status` shows it: whether it is there, whole and still true."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from llm_finetuning.errors import Refusal

if TYPE_CHECKING:
    from llm_finetuning.brief import LoadedBrief
    from llm_finetuning.evaluating.calls import Outdated
    from llm_finetuning.types import Sample


class State(NamedTuple):
    """Where one file stands.

    `waits` is the state of a file that cannot be judged before another, which the detail names by its path.
    """

    state: str  # done, demo, blocked, missing, unedited, unfinished, stale, broken, unknown, none or waits
    detail: str
    changed: tuple[str, ...] = ()  # of a stale file: what it was made from and is another by now


def of(run_dir: Path, file: str) -> State:
    """Return the state of one file of `pipeline.STAGES`, with the reason."""
    if file == "eval/NAME.json":
        return State(*_evaluations(run_dir))
    if file == "judge.jsonl":
        return State(*_judges(run_dir))
    path = run_dir / file
    if not path.exists():
        return State("missing", "")
    try:
        return State(*_CHECKS[file](run_dir))
    except Refusal as refusal:
        return _refused(run_dir, file, refusal)


def _refused(run_dir: Path, file: str, refusal: Refusal) -> State:
    from llm_finetuning import artifact

    if file == "brief.yaml":
        return State("broken", "\n".join(refusal.lines))
    text = refusal.lines[0]
    if file not in text:
        return State("waits", text)
    if isinstance(refusal, artifact.Stale):
        return State("stale", f"{', '.join(refusal.changed)} changed since it was made", refusal.changed)
    for path in (run_dir.resolve() / file, run_dir / file):  # a brief that was read knows the first alone
        text = text.removeprefix(f"{path}: ")
    return State("unfinished" if "to continue" in text else "broken", text)


def _brief(run_dir: Path) -> tuple[str, str]:
    """Return whether the brief says what a person means: `unedited` as `new` wrote it, until an audit was asked for."""
    from llm_finetuning import brief
    from llm_finetuning.commands import new

    loaded = brief.load(run_dir)
    words = [f"{loaded.brief.method}, {loaded.brief.model}"]
    lacking = lacking_rows(run_dir, loaded)
    unedited = new.is_as_written(loaded) and not (run_dir / "audit.json").exists()
    words += ["as `new` wrote it"] if unedited else []
    words += [f"{lacking} is not there yet"] if lacking else []
    return "unedited" if unedited else "unfinished" if lacking else "done", "; ".join(words)


def lacking_rows(run_dir: Path, loaded: "LoadedBrief") -> Path | None:
    """Return where the data set belongs that is not there yet; None where it is there, or on a hub."""
    from llm_finetuning import dataset

    place = loaded.brief.dataset.path
    if not dataset.is_file(loaded) or loaded.resolve(place).exists():
        return None
    return run_dir / Path(place).expanduser()


def _audit(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import brief, lineage

    blocking = [found.code for found in lineage.current_audit(brief.load(run_dir)).findings if found.weight == "blocks"]
    return ("blocked", f"mend {', '.join(dict.fromkeys(blocking))}") if blocking else ("done", "nothing blocks")


def _drawn(loaded: "LoadedBrief") -> "list[Sample]":
    """Return the samples without their token ids, which are much to hold and not looked at."""
    from llm_finetuning import lineage

    return lineage.complete_samples(loaded, without=["completion_ids"]).records


def _samples(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import brief

    return "done", f"{len(_drawn(brief.load(run_dir)))} samples"


def _scores(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import brief, lineage

    loaded = brief.load(run_dir)
    return "done", f"{len(lineage.current_scores(loaded, _drawn(loaded)))} scores"


def _probe(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import brief, lineage

    verdict = lineage.current_probe(brief.load(run_dir)).verdict
    return ("done" if verdict == "held" else "blocked"), verdict


def _labels(run_dir: Path) -> tuple[str, str]:
    from llm_finetuning import brief, lineage
    from llm_finetuning.findings.evidence import Rule

    loaded = brief.load(run_dir)
    labels = lineage.labels(loaded)
    judged = len(lineage.judged(_drawn(loaded), labels))
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
    overridden = lineage.is_overridden(report)
    blocked = report.verdict == "blocked" and not overridden
    return ("blocked" if blocked else "done"), f"{report.verdict}{'; overridden' if overridden else ''}"


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


def outdated_evaluation(run_dir: Path) -> "tuple[str, Outdated] | None":
    """Return the name of the first evaluation of a folder that holds another model now, and what to do about it."""
    from llm_finetuning import artifact, brief
    from llm_finetuning.evaluating import calls
    from llm_finetuning.types import Evaluation

    loaded = brief.load(run_dir)
    for path in sorted((loaded.run_dir / "eval").glob("*.json")):
        if (found := calls.outdated(loaded, artifact.read_json(path, Evaluation))) is not None:
            return path.stem, found
    return None


def merged(run_dir: Path) -> dict[Path, Path]:
    """Return the folders that `merge` wrote, as the run was given, each with the adapter that it was made of.

    Whether that adapter was trained again since, which takes reading all of it, `evaluate` tells.
    """
    from llm_finetuning import checkpoints

    folder = run_dir / checkpoints.MERGED
    found = {path: checkpoints.merged_of(path) for path in sorted(folder.parent.glob(f"{folder.name}*"))}
    return {path: Path(record["adapter"]) for path, record in found.items() if record is not None}


def _evaluations(run_dir: Path) -> tuple[str, str] | State:
    """Return each evaluation with its pass@1, beside it the drift suite's, and those that a kill left unfinished."""
    from llm_finetuning import artifact, as_given, pipeline
    from llm_finetuning.evaluating import unfinished
    from llm_finetuning.types import Evaluation

    folder = run_dir / "eval"
    done = sorted(folder.glob("*.json"))
    left = unfinished.names(run_dir)
    if not done and not left:
        return "missing", ""
    try:
        records = [artifact.read_json(path, Evaluation).records[0] for path in done]
    except Refusal as refusal:
        return "broken", refusal.lines[0]
    if (outdated := outdated_evaluation(run_dir)) is not None:
        name, found = outdated
        return State("stale", as_given.said(f"{name}: {found.words}", run_dir), (found.folder,))
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
