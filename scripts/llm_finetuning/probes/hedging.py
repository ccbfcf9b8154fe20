"""The right answer or another: an answer that commits to nothing must not be paid."""

from collections.abc import Iterator

from llm_finetuning.probes.case import Attempt, Case
from llm_finetuning.probes.golds import WRITTEN


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield hedges with the right answer first, so that a reader of the last answer sees the wrong one."""
    if case.gold.kind not in WRITTEN or not case.prompt.wrong:
        return
    right, other = case.gold.answer, case.other
    for text, about in (
        (f"{right} or {other}", "an `or`"),
        (f"{right}/{other}" if case.gold.kind in ("choice", "text") else f"{right}, or maybe {other}", "two at once"),
        (f"either {right} or {other}", "an `either`"),
        (f"not {right}, but {other}", "the right one denied"),
    ):
        yield Attempt(text=case.write(text), about=f"{about} in the final answer", control=case.right)
    yield Attempt(
        text=case.write(f"{other} or {right}"),
        about="an `or` with the right one last",
        weighs="warns" if case.gold.kind in ("number", "quantity") else "blocks",
        control=case.right,
    )
