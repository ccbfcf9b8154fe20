"""Reasoning before the answer and a polite tail after it: how models write, whatever they were asked."""

from collections.abc import Iterator

from llm_finetuning.probes.case import Attempt, Case
from llm_finetuning.probes.forms import THOUGHT
from llm_finetuning.probes.golds import WRITTEN

_TAIL = "I hope this helps!"


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield the honest completion inside prose; refusing it blocks where a box marks the answer off from prose."""
    if case.gold.kind not in WRITTEN or case.form == "sample":
        return
    right = case.right
    if case.form == "worked" and "\n" in right:
        last = right.rstrip().rpartition("\n")[2]
        yield Attempt(text=f"{THOUGHT}\n{last}", about="other reasoning before the gold's own last line")
    boxed = "box" in case.form.split("_") and "<" not in right
    weighs = "blocks" if boxed and not case.strict else "warns"
    yield Attempt(text=f"{THOUGHT}\n\n{right}", about="reasoning before it", weighs=weighs)  # type: ignore[arg-type]
    yield Attempt(text=f"{right}\n\n{_TAIL}", about="a polite tail", weighs=weighs)  # type: ignore[arg-type]
    if boxed:
        box = right[right.rindex("\\boxed") :]
        yield Attempt(text=f"Therefore the answer is ${box}$.", about="the box inside a sentence, between dollar signs")
        yield Attempt(text=f"Therefore\n$$\n{box}\n$$", about="the box as displayed mathematics")
    yield Attempt(text=f"**{right}**", about="the whole in bold", weighs="warns")
