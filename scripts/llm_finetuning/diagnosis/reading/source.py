"""What a reader of one form gets, and what it hands on."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))
_LOOKED_AT = 4096  # bytes; text has no NUL among its first ones


@dataclass(frozen=True)  # without slots, for the cached text
class Source:
    """A file with its bytes, read once."""

    path: Path
    data: bytes

    @functools.cached_property
    def text(self) -> str | None:
        """The file as text, whatever newlines it has; None where it is no text. Letters that are none are replaced."""
        encoding = next((name for mark, name in _MARKS if self.data.startswith(mark)), "utf-8")
        if encoding != "utf-16" and b"\0" in self.data[:_LOOKED_AT]:
            return None
        return self.data.decode(encoding, "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of a log as they were written, under the names that they had."""

    form: str
    rows: Sequence[Mapping[str, Any]]
    options: Mapping[str, Any] = field(default_factory=dict)
    begins: Mapping[int, float] = field(default_factory=dict)  # row -> the step from which training goes on before it
    notes: tuple[str, ...] = ()
    era: str | None = None  # the TRL release, where it is known without looking at names


BAD_WORDS = frozenset(
    {"nan", "+nan", "-nan", "none", "null", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"}
)


def number(value: Any) -> tuple[float, bool]:
    """Return a logged value as a number, and whether it was logged as null, NaN or infinity.

    NaN with False is what is no number at all, such as a duration in words or "No Log": nothing was logged.
    """
    if value is None:
        return math.nan, True
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in BAD_WORDS:
            return math.nan, True
        value = text
    if not isinstance(value, str | int | float):
        return math.nan, False
    try:
        found = float(value)
    except ValueError:
        return math.nan, False
    except OverflowError:  # a whole number beyond the largest float
        return math.nan, True
    return (found, False) if math.isfinite(found) else (math.nan, True)
