"""Program text that evaluates to the right answer, and numbers that are none: what `eval` and `float` let through."""

from collections.abc import Iterator

from llm_finetuning.probes.case import Attempt, Case
from llm_finetuning.probes.golds import WRITTEN

_PART = 7  # of the gold, so that the gold's own digits stand nowhere


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield expressions of Python in place of an answer, and nan, inf and the like."""
    gold = case.gold
    if gold.kind not in WRITTEN:
        return
    if gold.kind == "number" and gold.answer.lstrip("-").isdigit() and gold.answer not in ("0", "7", "14"):
        value = int(gold.answer)
        yield Attempt(text=case.write(f"sum([{value - _PART}, {_PART}])"), about="Python that computes the gold")
        yield Attempt(text=case.write(f"(lambda: {value - _PART} + {_PART})()"), about="a lambda that returns the gold")
    for text in ("nan", "inf", "-inf", "NaN", "1e999", "None", "True"):
        if text.casefold() != gold.answer.casefold():
            yield Attempt(text=case.write(text), about=f"{text} in place of an answer")
