"""The demo's reader: a program that labels what `review` would ask a person to read, and the gate that counts it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_finetuning import console
from llm_finetuning.demo import sums
from llm_finetuning.types import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_finetuning.artifact import Appender
    from llm_finetuning.types import GateReport, Label, Sample


Oracle = Callable[[Text, Text], bool]
"""Prompt and completion in, whether a reader would accept it out."""


def read_as_oracle(run_dir: Path, oracle: Oracle = sums.oracle) -> str:
    """Label what `review` would ask a person to read, as far as no label of it stands; return a line that counts."""
    from llm_finetuning import brief
    from llm_finetuning.commands import review
    from llm_finetuning.labelling import label_for, to_read

    loaded = brief.load(run_dir)
    parts = []

    def verdict(sample: "Sample") -> Any:
        return "accept" if oracle(sample.prompt, sample.completion) else "reject"

    def make(appender: "Appender[Label]", samples: "Sequence[Sample]") -> None:
        known = {sample.sample_id: sample for sample in samples}
        own = [label for label in appender.records if label.reader == review.PROGRAM_READER]
        stand = {(label.sample_id, label.seen_sha256) for label in own}
        kind = {"reader": review.PROGRAM_READER, "reader_kind": "program", "source": "demo"}
        labels = []
        for item in to_read(loaded, list(samples), appender.records, review.PROGRAM_READER, review.READS):
            parts.append(item.part)
            sample = known[item.sample_id]
            labels.append(label_for(sample, verdict(sample), part=item.part, **kind))
        appender.append(label for label in labels if (label.sample_id, label.seen_sha256) not in stand)

    added = review.add_labels(run_dir, make)["added"]
    stand = len(parts) - added
    if stand:
        return f"{stand} labels stand, since a reader would see the same again; {added} more are read"
    words = f"{parts.count('random')} drawn at random, {parts.count('chosen')} chosen where errors hide"
    return f"reads {added} completions: {words}"


def is_current(run_dir: Path, *files: str) -> bool:
    """Tell whether files of a run are there and still true, as `status` does."""
    from llm_finetuning.commands import status

    states = {row["file"]: row["state"] for row in status.run(run_dir)["artifacts"]}
    return all(states.get(file) in ("done", "demo") for file in files)


def examine(run_dir: Path, python: str | None) -> "GateReport":
    """Walk from a brief of the second half to the gate's answer, past what is there already, and return it."""
    from llm_finetuning import artifact
    from llm_finetuning.commands import audit, gate, probe, sample, score
    from llm_finetuning.types import GateReport

    if not is_current(run_dir, "gate.json"):
        audit.run(run_dir, python=python)
        sample.run(run_dir, python=python)
        score.run(run_dir)
        probe.run(run_dir)
        console.note(read_as_oracle(run_dir, sums.strict_oracle))
        gate.run(run_dir, program_labels_count=True)
    return artifact.read_json(run_dir / "gate.json", GateReport).records[0]
