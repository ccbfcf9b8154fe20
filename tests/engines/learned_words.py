"""Rewards of the runs that are diagnosed, for a model that writes random words; copied into each run.

A completion that was cut is not paid by most of them: its last token is not the end.
"""

from collections.abc import Sequence
from typing import Any

END = 1  # id of `<end>` in tiny_model.py
DIGITS = "0123456789"


def digits(completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
    """Pay for the share of digits: easily learned, from a good start."""
    return [share(text, ids, DIGITS) for text, ids in zip(completions, completion_ids, strict=True)]


def correct(completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
    """Say the same, to be watched at weight 0."""
    return digits(completions, completion_ids)


def talk(completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
    """Pay for words that stand where digits would."""
    spoken = ("The", "answer", "is")
    return [share(text, ids, spoken) for text, ids in zip(completions, completion_ids, strict=True)]


def any_digits(completions: Sequence[str], **_: Any) -> list[float]:
    """Pay for the share of digits, also of what was cut: nothing ever teaches the policy to end."""
    return [sum(word in DIGITS for word in text.split()) / max(1, len(text.split())) for text in completions]


def unreachable(completions: Sequence[str], **_: Any) -> list[float]:
    """Pay for a text that random words never are."""
    return [float(text == "The answer is The sum is The answer .") for text in completions]


def half_paid(completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
    """Pay all for a sentence that is hardly ever met, half for one word alone, less for each other or further one."""
    found = []
    for text, ids in zip(completions, completion_ids, strict=True):
        whole = text == "The sum is 3 + 4" and ids[-1] == END
        found.append(1.0 if whole else 0.5 * share(text, ids, ("answer",)) * 0.9 ** (len(ids) - 2))
    return found


def share(text: str, ids: Sequence[int], wanted: Sequence[str]) -> float:
    """Return the share of wanted words in a text that ended by itself; 0 for one that was cut."""
    words = text.split()
    return sum(word in wanted for word in words) / len(words) if words and ids[-1] == END else 0.0
