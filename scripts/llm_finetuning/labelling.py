"""What the terminal form, the page and the import of `review` have in common: what is read, and a label of it."""

import contextlib
import datetime as dt
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from llm_finetuning import lineage
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.errors import Refusal
from llm_finetuning.findings.readings import standing_labels
from llm_finetuning.findings.wording import listed
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


def taken_as(reader: str, read: Collection[str], labels: Sequence[Label], seen: Mapping[str, str]) -> str:
    """Return whose word it is that names no reader, beside those who read before.

    Refuses where another person judged one of the samples in `read` and this reader none of it: a correction of one's
    own label under another name would stand beside it, as that of a second reader who disagrees.
    """
    mine = standing_of(reader, labels, seen)
    others = [one for one in standing_labels(labels, seen) if one.reader_kind == "person" and one.reader != reader]
    there = sorted({one.reader for one in others})
    clashing = [one for one in others if one.sample_id in read and one.sample_id not in mine]
    if clashing:
        theirs, option = clashing[0].reader, f"--reader {shlex.quote(clashing[0].reader)}"
        raise Refusal(
            f"whose labels are these? {clashing[0].sample_id} was judged by {theirs}, and without `--reader` they are "
            f"taken as the word of {reader}: `{option}` corrects {theirs}'s, `--reader {shlex.quote(reader)}` sets a "
            "second reader beside it"
        )
    rest = f"; the labels so far are of {listed(there, 3)}, `--reader NAME` adds to theirs" if there else ""
    return f"taken as the word of {reader}{rest}"


def scores_of(loaded: LoadedBrief, samples: list[Sample]) -> dict[str, Score]:
    """Return what the rewards paid by sample; nothing where it is not there or is stale, which may still be read."""
    with contextlib.suppress(Refusal):
        return {score.sample_id: score for score in lineage.current_scores(loaded, samples)}
    return {}
