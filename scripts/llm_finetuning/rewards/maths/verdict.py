"""From two texts to a verdict: the gold is typed once, literal equality decides first, size limits end the rest."""

import functools
from dataclasses import dataclass

from llm_finetuning.rewards.maths import comparison
from llm_finetuning.rewards.maths.answers import read_answer
from llm_finetuning.rewards.maths.comparison import EXACT, Tolerance
from llm_finetuning.rewards.maths.exact import UndefinedError
from llm_finetuning.rewards.maths.forms import Opaque, Value, Words
from llm_finetuning.rewards.maths.nodes import TooLargeError, UnreadableError
from llm_finetuning.rewards.maths.notation import clean, literal
from llm_finetuning.rewards.maths.values import UndecidedError


@dataclass(frozen=True, slots=True)
class Gold:
    """A gold answer as it is compared: cleaned, without spaces, and typed; `value` is None if it cannot be read."""

    text: str
    literal: str
    value: Value | None


@functools.lru_cache(maxsize=4096)
def read_gold(text: str) -> Gold:
    """Return the typed gold."""
    try:
        cleaned = clean(text)
        return Gold(cleaned, literal(cleaned), read_answer(cleaned))
    except (UnreadableError, TooLargeError, RecursionError):
        return Gold(text, "", None)


def verdict(gold: Gold, answer: str, tolerance: Tolerance = EXACT) -> str:  # noqa: PLR0911  one return a verdict
    """Return correct, wrong, unreadable, too_large, undefined, undecided or opaque for an answer; never raises."""
    try:
        cleaned = clean(answer)
        if not cleaned:
            return "unreadable"
        if literal(cleaned) == gold.literal:
            return "correct"
        value = read_answer(cleaned)
        assert gold.value is not None
        if isinstance(value, Words) and isinstance(gold.value, Words):
            return "correct" if comparison.says_the_same(gold.value, value, tolerance) else "wrong"
        if isinstance(value, Opaque) or isinstance(gold.value, Opaque):
            return "opaque"
        return "correct" if comparison.says_the_same(gold.value, value, tolerance) else "wrong"
    except UnreadableError:
        return "unreadable"
    except (TooLargeError, RecursionError, OverflowError, MemoryError):
        return "too_large"
    except UndefinedError:
        return "undefined"
    except UndecidedError:
        return "undecided"
