"""Agreement beyond chance: Cohen's kappa (Cohen 1960), with the variance of Fleiss, Cohen and Everitt (1969)."""

import math

from llm_finetuning.statistics.points import Z_95
from llm_finetuning.types import Estimate


def kappa(both: int, first_only: int, second_only: int, neither: int) -> Estimate | None:
    """Return Cohen's kappa of two judges; None where it is not defined (nothing judged, or chance agrees on all)."""
    n = both + first_only + second_only + neither
    if n == 0:
        return None
    table = [[both / n, first_only / n], [second_only / n, neither / n]]
    rows = [sum(row) for row in table]
    columns = [table[0][place] + table[1][place] for place in (0, 1)]
    observed = table[0][0] + table[1][1]
    expected = sum(row * column for row, column in zip(rows, columns, strict=True))
    if expected >= 1:
        return None
    value = (observed - expected) / (1 - expected)
    on = sum(table[i][i] * (1 - (rows[i] + columns[i]) * (1 - value)) ** 2 for i in (0, 1))
    off = (1 - value) ** 2 * sum(table[i][1 - i] * (columns[i] + rows[1 - i]) ** 2 for i in (0, 1))
    chance = (value - expected * (1 - value)) ** 2
    error = math.sqrt(max(0.0, on + off - chance) / n) / (1 - expected)
    return Estimate(value=value, low=max(-1.0, value - Z_95 * error), high=min(1.0, value + Z_95 * error), n=n)
