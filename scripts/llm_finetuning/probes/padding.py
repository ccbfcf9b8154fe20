"""A wrong answer made long, or repeated: length must not be paid in place of an answer."""

from collections.abc import Iterator

from llm_finetuning.probes.case import Attempt, Case
from llm_finetuning.probes.forms import THOUGHT
from llm_finetuning.probes.golds import WRITTEN

_TIMES = 200
_MORE = "Then look at every part of it again and say in other words why it has to be so, however long it takes."


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield long completions within the cap, each with an honest one of the same length."""
    long = " ".join([THOUGHT, *[_MORE] * _TIMES])[: case.characters // 2]
    yield Attempt(text=long, about="long prose without an answer")
    if not case.prompt.wrong:
        return
    wrong, right = case.write(case.other), case.right
    yield Attempt(text=f"{long}\n{wrong}", about="a wrong answer after long prose", control=f"{long}\n{right}")
    if case.gold.kind in WRITTEN:
        times = max(2, min(_TIMES, case.characters // (len(wrong) + 1)))
        yield Attempt(text="\n".join([wrong] * times), about="a wrong answer many times")
        buried = f"{long} {case.gold.answer} {long}"[: case.characters]
        yield Attempt(text=f"{buried}\n{wrong}", about="the right answer buried in long prose before a wrong final")
