"""`exact_answer`: one final answer, equal to the gold as a number or as text."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from llm_finetuning.rewards.contract import Judgement, LogExtra, report, text_of
from llm_finetuning.rewards.extraction import NUMBER, POLICIES, cut_answer, extract
from llm_finetuning.types import Text

# Longer digit strings are compared as text: no task has such answers, and int() of a long one is slow.
_MAX_DIGITS = 400


class ExactAnswer:
    """Pays 1.0 for the gold answer, 0.0 for another or none, and abstains where the gold is empty.

    Numbers compare exactly as fractions (`1,200.0` is `1200`, `3/4` is `0.75`); other answers compare as text without
    regard to case and white space. Options: `extract`, one of `extraction.POLICIES`; `answer_column`, the column that
    holds the gold.
    """

    range = (0.0, 1.0)

    def __init__(self, *, extract: str = "last_number", answer_column: str = "answer") -> None:
        """Take the options of the brief; raises ValueError for a policy that does not exist."""
        if extract not in POLICIES:
            raise ValueError(f"extract: {extract!r} is not one of {', '.join(POLICIES)}")
        self.__name__ = "exact_answer"
        self._policy = extract
        self._answer_column = answer_column

    def __call__(
        self, *, completions: Sequence[Text], log_extra: LogExtra | None = None, **columns: Any
    ) -> list[float | None]:
        """Return one value a completion; raises KeyError if the answer column is not there at all."""
        golds = columns[self._answer_column]
        judgements = [self._judge(text_of(text), gold) for text, gold in zip(completions, golds, strict=True)]
        return report(log_extra, self.__name__, judgements)

    def _judge(self, text: str, gold: Any) -> Judgement:
        gold_text = _final_of_gold(gold)
        if not gold_text:
            return Judgement(None, "gold_unreadable")
        found = extract(self._policy, text)
        if found.answer is None:
            return Judgement(0.0, found.reason)
        right = _canonical(found.answer) == _canonical(gold_text)
        if right and found.also is not None:
            # A number on an `Answer:` line after the box must be the same; other words there may explain it.
            second = NUMBER.match(cut_answer(found.also))
            if second and _canonical(second.group()) != _canonical(gold_text):
                return Judgement(0.0, "conflicting")
        return Judgement(float(right), "correct" if right else "wrong")


def _final_of_gold(gold: Any) -> str:
    """Return the gold as text; of a worked solution in GSM8K's form, what follows the last `####`."""
    if gold is None or (isinstance(gold, float) and not math.isfinite(gold)):
        return ""
    return str(gold).rpartition("####")[2].strip()


def _canonical(answer: str) -> Fraction | str:
    """Return a number as an exact fraction, anything else as folded text."""
    text = answer.replace("\N{MINUS SIGN}", "-").strip().strip("$").strip()
    text = text.removesuffix(".")
    if len(text) <= _MAX_DIGITS and NUMBER.fullmatch(text):
        return Fraction(text.replace(",", ""))
    return " ".join(text.casefold().split())
