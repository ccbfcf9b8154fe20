"""A lenient reading of short answers: is the gold what a completion ends with, in whatever form?

It is no reward. It tells a model that cannot do the task from one that says the answer in another form than the
reward reads.
"""

import re
from collections.abc import Iterable, Sequence
from fractions import Fraction

from llm_finetuning.findings.evidence import Scored
from llm_finetuning.findings.wording import text_of

_SHORT = 40  # characters of a gold that can be looked for
_MOST = 0.9  # share of golds that have to be short
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:/\d+)?")
_LETTER = re.compile(r"(?<![\w'])([A-Z])(?!['\w])(?!\s+[a-z])")


def gold_of(scored: Scored) -> str | None:
    """Return the short gold answer of a completion; None where it has none that can be looked for."""
    answer = scored.sample.columns.get("answer")
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        return None
    text = str(answer).rpartition("####")[2].strip().strip("$").strip()
    return text if 0 < len(text) <= _SHORT and "\n" not in text else None


def has_short_golds(scores: Sequence[Scored]) -> bool:
    """Tell whether nearly all golds are short answers."""
    return bool(scores) and sum(gold_of(scored) is not None for scored in scores) >= _MOST * len(scores)


def says_gold(scored: Scored) -> bool:
    """Tell whether a completion ends with its gold: as its last number, last letter, or within its last line."""
    gold, text = gold_of(scored), text_of(scored.sample.completion)
    if gold is None:
        return False
    number = _number(gold)
    if number is not None:
        said = _NUMBER.findall(text)
        return bool(said) and _number(said[-1]) == number
    if re.fullmatch(r"\(?[A-Z]\)?", gold):
        letters = _LETTER.findall(text)
        return bool(letters) and letters[-1] == gold.strip("()")
    return re.search(rf"(?<!\w){re.escape(gold.casefold())}(?!\w)", _last_line(text.splitlines())) is not None


def _last_line(lines: Iterable[str]) -> str:
    return next((line.casefold() for line in reversed(list(lines)) if line.strip()), "")


def _number(text: str) -> Fraction | None:
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return Fraction(text.replace(",", ""))
    except (ValueError, ZeroDivisionError):  # 1.5/2, 3/0
        return None
