r"""`math_answer`: one final answer that equals the gold as mathematics.

Method: facts measured on 706 cases beside eight verifiers; see docs/benchmarks.md. Precedents: Math-Verify
(https://github.com/huggingface/Math-Verify), the grading rules of MATH (Hendrycks et al., 2021, arXiv:2103.03874) and
of Minerva (Lewkowycz et al., 2022, arXiv:2206.14858, appendix G). Random-point identity testing after Schwartz (1980).
"""

import functools
import re
import time
from collections.abc import Sequence
from typing import Any

from llm_finetuning.rewards.choices import choice_verdict, read_choice
from llm_finetuning.rewards.contract import Judgement, LogExtra, report, text_of
from llm_finetuning.rewards.extraction import POLICIES, Extracted, extract
from llm_finetuning.rewards.maths.comparison import Tolerance
from llm_finetuning.rewards.maths.forms import Opaque
from llm_finetuning.rewards.maths.notation import clean
from llm_finetuning.rewards.maths.symbolic import Comparer, SymbolicError, comparable
from llm_finetuning.rewards.maths.verdict import Gold, read_gold, verdict
from llm_finetuning.types import Text

_Known = dict[tuple[str, str, str | None], Judgement]

_PROSE = re.compile(r"\\boxed|\\fbox|####|\banswer\b|<answer>", re.IGNORECASE)


class MathAnswer:
    """Pays 1.0 for a final answer equal to the gold, 0.0 for another or none; abstains where the gold is unreadable.

    Options: `extract`, one of `extraction.POLICIES`; `answer_column`, the column that holds the gold;
    `relative_tolerance` and `absolute_tolerance`, how far a number may lie from the gold, 0 by default;
    `batch_limit_s`, the seconds after which what is left of a batch is not judged any more but abstained from, so that
    no flood of hostile answers holds a training step (honest batches take a fraction of a second).
    """

    range = (0.0, 1.0)

    def __init__(
        self,
        *,
        extract: str = "final",
        answer_column: str = "answer",
        relative_tolerance: float = 0.0,
        absolute_tolerance: float = 0.0,
        batch_limit_s: float = 60.0,
    ) -> None:
        """Take the options of the brief; raises ValueError for one that does not exist or is out of its range."""
        if extract not in POLICIES:
            raise ValueError(f"extract: {extract!r} is not one of {', '.join(POLICIES)}")
        if not 0 <= relative_tolerance < 1 or not absolute_tolerance >= 0:
            raise ValueError("relative_tolerance is at least 0 and below 1, absolute_tolerance at least 0")
        if not batch_limit_s > 0:
            raise ValueError(f"batch_limit_s: {batch_limit_s!r} is not a number of seconds above 0")
        self.__name__ = "math_answer"
        self._policy = extract
        self._answer_column = answer_column
        self._tolerance = Tolerance(relative_tolerance, absolute_tolerance)
        self._batch_limit_s = batch_limit_s
        self._symbolic = Comparer()

    def __call__(
        self, *, completions: Sequence[Text], log_extra: LogExtra | None = None, **columns: Any
    ) -> list[float | None]:
        """Return one value a completion; raises KeyError if the answer column is not there at all."""
        golds = columns[self._answer_column]
        known: _Known = {}
        deadline = time.monotonic() + self._batch_limit_s
        judgements = [self._judge(text, gold, known, deadline) for text, gold in zip(completions, golds, strict=True)]
        return report(log_extra, self.__name__, judgements)

    def _judge(self, completion: Text, gold: Any, known: _Known, deadline: float) -> Judgement:
        text = gold_text(gold)
        if text is None:
            return Judgement(None, "gold_unreadable")
        if time.monotonic() > deadline:
            return Judgement(None, "out_of_time")
        found = extract(self._policy, text_of(completion))
        key = (text, found.answer if found.answer is not None else "\0" + found.reason, found.also)
        judgement = known.get(key)
        if judgement is None:
            judgement = known[key] = self._compare(text, found)
        return judgement

    def _compare(self, gold: str, found: Extracted) -> Judgement:
        choice = read_choice(gold)
        typed = read_gold(gold)
        if typed.value is None and choice is None:
            return Judgement(None, "gold_unreadable")
        if found.answer is None:
            return Judgement(0.0, found.reason)
        try:
            said = choice_verdict(choice, found.answer) if choice is not None else self._verdict(typed, found.answer)
        except SymbolicError:
            return Judgement(None, "not_installed")
        if said == "correct" and found.also is not None and choice is None:
            said = said if self._verdict(typed, found.also) == "correct" else "conflicting"
        return Judgement(float(said == "correct"), said)

    def _verdict(self, gold: Gold, answer: str) -> str:
        said = verdict(gold, answer, self._tolerance)
        if said == "opaque" and isinstance(gold.value, Opaque) and comparable(gold.text):
            same = self._symbolic.same(gold.text, clean(answer))
            return said if same is None else ("correct" if same else "wrong")
        return said


def gold_text(gold: Any) -> str | None:
    """Return the answer that a gold cell holds, which may be a whole solution; None if it holds none."""
    return None if gold is None else _answer_in(str(gold))


@functools.lru_cache(maxsize=4096)
def _answer_in(gold: str) -> str | None:
    text = gold.strip()
    if not text:
        return None
    if _PROSE.search(text):
        found = extract("final", text)
        return found.answer
    return text
