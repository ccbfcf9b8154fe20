"""Quantiles with intervals from order statistics (David and Nagaraja 2003, section 7.1)."""

import math
from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> tuple[float, float | None, float | None]:
    """Return a quantile with the ends of its 95% interval by order statistics; an end out of the sample is None.

    Holds for any distribution. Values that were cut (censored) may stand in as infinity.
    """
    ordered = sorted(values)
    n = len(ordered)
    value = ordered[min(n, max(1, math.ceil(share * n - 1e-9))) - 1]
    below = _binomial_quantile(0.025, n, share)
    above = _binomial_quantile(0.975, n, share) + 1
    return value, (ordered[below - 1] if below >= 1 else None), (ordered[above - 1] if above <= n else None)


def _binomial_quantile(level: float, n: int, share: float) -> int:
    """Return the smallest count whose cumulated chance reaches `level`."""
    total = 0.0
    spread = 12 * math.sqrt(n * share * (1 - share)) + 12
    first = max(0, int(n * share - spread))  # what lies further below adds less than rounding does
    for count in range(first, n + 1):
        logarithm = math.lgamma(n + 1) - math.lgamma(count + 1) - math.lgamma(n - count + 1)
        total += math.exp(logarithm + count * math.log(share) + (n - count) * math.log1p(-share))
        if total >= level:
            return count
    return n
