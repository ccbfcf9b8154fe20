"""Numbers with their intervals, and findings that rest on them."""

from dataclasses import dataclass, field
from typing import Literal

Weight = Literal["blocks", "insufficient", "warns", "fine"]
"""What a finding does to a verdict, the gravest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A share with its count and its 95% interval."""

    hits: int
    n: int
    low: float  # 0..1
    high: float  # 0..1


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number that is not a plain share, with its 95% interval and how many observations it rests on."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found, with its numbers."""

    code: str
    weight: Weight
    text: str  # one line: what, with n and interval
    next_action: str | None  # what to do about it, in the imperative
    rate: Rate | None = None
    estimate: Estimate | None = None  # where it is no plain share of what was counted
    sample_ids: list[str] = field(default_factory=list)
    data_rows: list[int] = field(default_factory=list)  # rows of the dataset that it speaks of, from 1
