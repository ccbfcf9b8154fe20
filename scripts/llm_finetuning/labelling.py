"""What the terminal form, the page and the import of `review` have in common: what is read, and a label of it."""

import contextlib
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from llm_finetuning import lineage
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.errors import Refusal
from llm_finetuning.findings.readings import standing_labels
from llm_finetuning.stages import reading
from llm_finetuning.types import Label, Reading, Sample, Score, Verdict


def label_for(sample: Sample, verdict: Verdict, **rest: Any) -> Label:
    """Return a label of this sample as it is shown now."""
    now = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
    kind = {"note": "", "reader_kind": "person", **rest}
    return Label(
        sample_id=sample.sample_id,
        verdict=verdict,
        at=now,
        seen_sha256=lineage.seen_digest(sample),
        **kind,
    )


def to_read(
    loaded: LoadedBrief, samples: list[Sample], labels: Sequence[Label], reader: str, count: int
) -> list[Reading]:
    """Return what this reader is asked to read, in order: first what was judged already, as it still stands."""
    scores = list(scores_of(loaded, samples).values())
    seen = lineage.seen_digests(sample for sample in samples if sample.pass_name == "policy")
    read = [
        Reading(sample_id=label.sample_id, part=label.part, why="")
        for label in standing_of(reader, labels, seen).values()
    ]
    return reading.choose(samples, scores, count, read)


def standing_of(reader: str, labels: Sequence[Label], seen: Mapping[str, str]) -> dict[str, Label]:
    """Return a reader's last label of each sample among those that still show what was read."""
    return {label.sample_id: label for label in standing_labels(labels, seen) if label.reader == reader}


def scores_of(loaded: LoadedBrief, samples: list[Sample]) -> dict[str, Score]:
    """Return what the rewards paid by sample; nothing where it is not there or is stale, which may still be read."""
    with contextlib.suppress(Refusal):
        return {score.sample_id: score for score in lineage.current_scores(loaded, samples)}
    return {}
