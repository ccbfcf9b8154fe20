"""The road from brief to verdict as a table; `status`, the documentation and the tests read it.

One run is one directory. `brief.yaml` is the only file a person writes; every other file has one writer.
"""

from dataclasses import dataclass


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
        verb="gate",
        reads=("brief.yaml", "audit.json", "samples.jsonl", "scores.jsonl", "probe.json", "labels.jsonl"),
        writes="gate.json",
        schema="gate/1",
    ),
    Stage(verb="preflight", reads=("brief.yaml",), writes="env-report.json", schema="env-report/1"),
)


def schema_of(file_name: str) -> str:
    """Return the schema tag of an artifact; raises StopIteration for a file that is not one."""
    return next(stage.schema for stage in STAGES if stage.writes == file_name and stage.schema)


def verb_for(file_name: str) -> str:
    """Return the one verb that writes this file."""
    return next(stage.verb for stage in STAGES if stage.writes == file_name)
