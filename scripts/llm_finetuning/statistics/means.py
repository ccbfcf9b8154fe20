"""Means of one number an item, with Student's interval."""

import math
from collections.abc import Sequence

from llm_finetuning.statistics.points import student
from llm_finetuning.types import Estimate


def mean_over_items(values: Sequence[float]) -> Estimate:
    """Return a mean of one number an item, of any range, with Student's interval; a point for a single item."""
    n = len(values)
    mean = math.fsum(values) / n
    half = student(n - 1) * standard_error(values) if n > 1 else 0.0
    return Estimate(value=mean, low=mean - half, high=mean + half, n=n)


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean of independent values, of which there are at least two."""
    n = len(values)
    mean = math.fsum(values) / n
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)
