"""Points of the normal distribution and of Student's t, without a library of numerics."""

import math
from functools import cache

Z_95 = 1.959963984540054  # 97.5% point of the normal distribution
Z_80 = 0.8416212335729143  # 80% point


@cache
def student(freedom: int) -> float:
    """Return the 97.5% point of Student's t distribution with `freedom` >= 1 degrees of freedom.

    Abramowitz and Stegun (1964), 26.7.3 and 26.7.4, turned round by bisection; from 1,000 on the first terms of 26.7.5.
    """
    if freedom >= 1000:  # noqa: PLR2004
        return Z_95 + (Z_95**3 + Z_95) / (4 * freedom)
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < 0.95 else (low, middle)  # noqa: PLR2004
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """Return the chance that t lies within plus and minus sqrt(freedom) * tan(angle)."""
    square = math.cos(angle) ** 2
    odd = freedom % 2
    term = total = (math.cos(angle) if odd else 1.0) if freedom > 1 else 0.0
    for place in range(2 + odd, freedom - 1, 2):
        term *= square * (place - 1) / place
        total += term
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total
