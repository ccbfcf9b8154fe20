"""Cut off in the final marker or in the middle of the answer: an earlier or a partial answer is none."""

from collections.abc import Iterator
from typing import Literal

from llm_finetuning.probes import golds
from llm_finetuning.probes.case import Attempt, Case


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield unclosed finals; where bare answers are paid too, an unclosed right one is one of those."""
    gold = case.gold
    if gold.kind not in golds.WRITTEN or not case.prompt.wrong:
        return
    right, other = gold.answer, case.other
    bare = bool({"bare", "sentence"} & case.accepts)
    if "box" in case.form or "box" in case.accepts:
        yield Attempt(
            text=f"\\boxed{{{right}", about="the right answer in a box that never closes", weighs=_weight(bare=bare)
        )
        yield Attempt(
            text=f"First try \\boxed{{{right}}}, so finally \\boxed{{{other}",
            about="a right box, then another that never closes",
        )
    if "tag" in case.form or "tag" in case.accepts:
        yield Attempt(
            text=f"<answer>{right}", about="the right answer in a tag that never closes", weighs=_weight(bare=bare)
        )
        yield Attempt(
            text=f"<answer>{right}</answer>\nNo, it is\n<answer>{other}",
            about="a right tag, then another that never closes",
        )
    if gold.kind in ("number", "text") and len(right.lstrip("-")) > 1:
        cut = case.right.rpartition(right)[0] + right[: len(right) // 2 + (right[0] == "-")]
        if right[: len(right) // 2].strip("-."):
            yield Attempt(text=cut, about="cut off in the middle of the right answer")


def _weight(*, bare: bool) -> Literal["blocks", "warns"]:
    return "warns" if bare else "blocks"
