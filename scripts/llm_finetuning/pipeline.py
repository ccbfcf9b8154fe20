"""The road from brief to verdict as a table; `status`, the documentation and the tests read it.

One run is one directory. A person writes `brief.yaml`, the data set and reward files; every other file has one writer.
"""

from dataclasses import dataclass
from pathlib import Path, PurePath


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One verb with the files of the run directory it reads and the file it alone writes."""

    verb: str
    reads: tuple[str, ...]
    writes: str
    schema: str | None  # tag in the artifact's header; None for the brief, which has none


STAGES: tuple[Stage, ...] = (
    Stage(verb="new", reads=(), writes="brief.yaml", schema=None),
    Stage(verb="audit", reads=("brief.yaml",), writes="audit.json", schema="audit/1"),
    Stage(verb="sample", reads=("brief.yaml",), writes="samples.jsonl", schema="samples/1"),
    Stage(verb="score", reads=("brief.yaml", "samples.jsonl"), writes="scores.jsonl", schema="scores/1"),
    Stage(verb="probe", reads=("brief.yaml", "samples.jsonl", "scores.jsonl"), writes="probe.json", schema="probe/1"),
    Stage(verb="review", reads=("samples.jsonl",), writes="labels.jsonl", schema="labels/1"),
    Stage(
        verb="calibrate",
        reads=("brief.yaml", "samples.jsonl", "labels.jsonl"),
        writes="judge.jsonl",
        schema="judge/1",
    ),
    Stage(
        verb="gate",
        reads=("brief.yaml", "audit.json", "samples.jsonl", "scores.jsonl", "probe.json", "labels.jsonl"),
        writes="gate.json",
        schema="gate/1",
    ),
    Stage(
        verb="pairs",
        reads=("brief.yaml", "samples.jsonl", "scores.jsonl", "gate.json"),
        writes="pairs.json",
        schema="pairs/1",
    ),
    Stage(
        verb="plan",
        reads=("brief.yaml", "audit.json", "samples.jsonl", "scores.jsonl"),
        writes="plan.json",
        schema="plan/1",
    ),
    Stage(verb="preflight", reads=("brief.yaml", "plan.json"), writes="env-report.json", schema="env-report/1"),
    Stage(verb="build", reads=("brief.yaml", "gate.json"), writes="train/build.json", schema="build/1"),
    Stage(verb="diagnose", reads=("train/build.json",), writes="diagnosis.json", schema="diagnosis/1"),
    Stage(verb="evaluate", reads=("brief.yaml",), writes="eval/NAME.json", schema="evaluation/2"),
    Stage(verb="compare", reads=("brief.yaml", "eval/NAME.json"), writes="promotion.json", schema="promotion/1"),
)

TRANSCRIPTS = ".samples.jsonl"
"""Ending of the file beside an evaluation that `evaluate` keeps its completions in: samples like those of `sample`."""


DRIFT = ".drift"
"""Ending of an evaluation's name in the file of the drift suite, measured on the same model."""


def evaluation_file(name: str, suite: str) -> str:
    """Return where an evaluation of this name stands in its run, for one of the suites `goldens` and `drift`."""
    return f"eval/{name}{DRIFT if suite == 'drift' else ''}.json"


def transcripts_of(evaluation: Path) -> Path:
    """Return the file beside an evaluation that holds its completions."""
    return evaluation.with_name(evaluation.name.removesuffix(".json") + TRANSCRIPTS)


def schema_of(path: PurePath) -> str:
    """Return the schema tag of an artifact; raises StopIteration for a file that is not one."""
    if path.name.endswith(TRANSCRIPTS):
        return schema_of(PurePath("samples.jsonl"))
    return next(tag for stage in STAGES if (tag := stage.schema) and _writes(stage, path))


def verb_for(path: PurePath) -> str:
    """Return the one verb that writes this file."""
    return _stage_of(path).verb


def run_of(path: PurePath) -> PurePath:
    """Return the run directory that an artifact stands in."""
    return path.parents[len(PurePath(_stage_of(path).writes).parts) - 1]


def names_artifact(name: str) -> bool:
    """Tell whether NAME.json is another artifact of a run, so that no evaluation may be called NAME."""
    return any(PurePath(stage.writes).name == f"{name}.json" for stage in STAGES)


def _stage_of(path: PurePath) -> Stage:
    return next(stage for stage in STAGES if _writes(stage, path))


def _writes(stage: Stage, path: PurePath) -> bool:
    """Tell by the last name alone: a build stands in a folder of another name until it is whole."""
    if stage.verb == "evaluate":  # under a name that its caller chose, and `names_artifact` did not refuse
        return path.parent.name == "eval" and not names_artifact(path.stem)
    return PurePath(stage.writes).name == path.name
