"""How long the drift suite takes, from what was drawn before with the same engine; said before it begins."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from llm_finetuning import artifact, checkpoints, console, pipeline
from llm_finetuning.errors import Refusal
from llm_finetuning.sampling.drawing import COMPLETIONS_PER_BATCH
from llm_finetuning.types import Sample

LONGER = 2
"""Times that a step of the suite may take of one of held-out rows with short prompts: a batch is as long as its longest
prompt, a passage to read. On a CPU with SmolLM2-135M it took 1.7 to 2.5 times as long as with sums of a line."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """How long some completions took; batches of them were drawn one after another."""

    seconds: float
    steps: int  # decoding steps: the longest completion of each batch, summed

    @property
    def a_step(self) -> float:
        """Seconds of one decoding step of a batch."""
        return self.seconds / self.steps


def forecast(folder: Path, name: str, *, engine: str, items: int, longest: int) -> str:
    """Return in words how long the drift suite of an evaluation will take; empty where nothing is known.

    Another model's drift run in `folder` tells it, scaled by how much slower this model drew the held-out rows than
    that one; else the held-out rows of this model do, and every batch is taken to have one of `items` answers that is
    as long as it may be, which in a batch of many is the rule. `engine` is the parent of that name: a figure of another
    engine tells nothing, nor does one of a server, which answers many requests at a time.
    """
    own = drawn_in(folder / f"{name}{pipeline.TRANSCRIPTS}", engine)
    for other in _others(folder, name):
        before = drawn_in(folder / f"{other}{pipeline.DRIFT}{pipeline.TRANSCRIPTS}", engine)
        if before is None:
            continue
        words = f"`{other}` took {console.duration(before.seconds)} for it"
        theirs = drawn_in(folder / f"{other}{pipeline.TRANSCRIPTS}", engine)
        if own is None or theirs is None:
            return words
        times = own.a_step / theirs.a_step
        return f"about {console.duration(before.seconds * times)}: {words}, at {times:.2g} times the time a token"
    if own is None:
        return ""
    seconds = own.a_step * longest * math.ceil(items / COMPLETIONS_PER_BATCH)
    least, most = (console.duration(times * seconds) for times in (1, LONGER))
    return f"about {least} to {most} at the pace of the held-out rows"


def drawn_in(transcripts: Path, engine: str) -> Drawn | None:
    """Return what the completions in a file took; None where that is not known, or another engine drew them."""
    if not transcripts.exists():
        return None
    try:
        found = artifact.read_lines(transcripts, Sample, without=("completion_ids",))
    except Refusal:  # a figure beside the way: who needs the file itself refuses it
        return None
    return None if found.header.parents.get("engine") != engine else _took(found.records)


def _took(samples: Sequence[Sample]) -> Drawn | None:
    """Return what these took; the completions of a batch share their `seconds`, to the last digit."""
    batches: dict[float, list[int]] = {}
    for sample in samples:
        if sample.seconds is None or sample.seconds <= 0:
            return None
        batches.setdefault(sample.seconds, []).append(sample.tokens)
    seconds = math.fsum(each * len(tokens) for each, tokens in batches.items())
    return Drawn(seconds, sum(max(tokens) for tokens in batches.values())) if seconds else None


def _others(folder: Path, name: str) -> list[str]:
    """Return the names of the evaluations with a whole drift suite, the baseline first."""
    names = {path.stem.removesuffix(pipeline.DRIFT) for path in folder.glob(f"*{pipeline.DRIFT}.json")} - {name}
    return sorted(names, key=lambda one: (one != checkpoints.BASE, one))
