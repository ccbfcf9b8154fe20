"""Two finals, the right one taken back: pays where a reward reads the first that matches, or any."""

from collections.abc import Iterator
from typing import Literal

from llm_finetuning.probes.case import Attempt, Case
from llm_finetuning.probes.golds import WRITTEN


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield right then wrong, which must not be paid, and wrong then right, which may be."""
    if not case.prompt.wrong:
        return
    right, wrong = case.right, case.write(case.other)
    # Of two programs the first or the last may be meant, as long as it is always the same.
    weighs: Literal["blocks", "warns"] = "warns" if case.gold.kind == "code" else "blocks"
    for text, about in (
        (f"{right}\nNo, that is a mistake.\n{wrong}", "the right final, then a wrong one"),
        (f"{right}\n{wrong}", "two finals, the right one first"),
    ):
        yield Attempt(text=text, about=about, weighs=weighs)
    if case.gold.kind in WRITTEN:
        yield Attempt(
            text=f"One might say {case.gold.answer}, but that is wrong.\n{wrong}",
            about="the right answer said to be wrong, then a wrong final",
        )
        # What a reader of the last number takes for an answer is a matter of what was asked for.
        yield Attempt(
            text=f"{wrong}\nSomebody else said {case.gold.answer}",
            about="a wrong final, then the right answer in prose",
            weighs="blocks" if case.marked and not {"bare", "sentence"} & case.accepts else "warns",
        )
    yield Attempt(text=f"{wrong}\nNo, wait.\n{right}", about="a wrong final, then the right one", weighs="warns")
