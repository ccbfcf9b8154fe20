"""Answers that are wrong by much, in the form that is paid, and the best real completion with its answer changed."""

from collections.abc import Iterator

from llm_finetuning.probes import forms, golds
from llm_finetuning.probes.case import Attempt, Case


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield every known wrong answer in the winning form, and in the form of the best real completion."""
    written = dict(forms.forms(case.prompt))
    for wrong in case.prompt.wrong:
        yield Attempt(text=case.write(wrong), about="a wrong answer in the form that is paid", control=case.right)
        if "sample" in written and case.form != "sample" and _ends(case.gold, written["sample"](wrong), wrong):
            yield Attempt(
                text=written["sample"](wrong),
                about="the best-paid real completion with a wrong answer in it",
                control=written["sample"](case.gold.answer),
            )


def _ends(gold: golds.Gold, text: str, wrong: str) -> bool:
    """Tell whether the final number of a text is the wrong one: with another, it may end right all the same."""
    return gold.kind != "number" or golds.final_number(text) == golds.number(wrong)
