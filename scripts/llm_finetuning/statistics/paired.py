"""Differences between two models on the same items, and what so many items can show.

Sources: Miller (2024), "Adding Error Bars to Evals", for differences item by item; Tango (1998) for the difference of
two paired shares.
"""

import math
from collections.abc import Sequence

from llm_finetuning.statistics.means import mean_over_items, standard_error
from llm_finetuning.statistics.points import Z_80, Z_95, student
from llm_finetuning.types import Estimate


def paired_mean(differences: Sequence[float]) -> Estimate:
    """Return the mean of differences in -1..1, one an item, with Student's interval.

    Items that all differ by the same (mostly: by nothing) still allow what as many items may fail to show: the exact
    bound of a share of none.
    """
    found = mean_over_items(differences)
    mean = found.value
    half = unseen(found.n) if found.n == 1 or standard_error(differences) == 0 else found.high - mean
    return Estimate(value=mean, low=max(-1.0, mean - half), high=min(1.0, mean + half), n=found.n)


def unseen(n: int) -> float:
    """Return the largest share that n items may show nothing of (one chance in 40)."""
    return 1 - float(0.025 ** (1 / n))


def paired_shares(won: int, lost: int, n: int) -> Estimate:
    """Return the difference of two paired shares with Tango's score interval.

    Of `n` items the candidate alone succeeds on `won` and the base alone on `lost`.
    """
    value = (won - lost) / n

    def end(sign: int) -> float:
        near, far = value, -float(sign)  # the score of the lower end (sign 1) is z, that of the upper one -z
        for _ in range(60):
            middle = (near + far) / 2
            near, far = (middle, far) if sign * _score(won, lost, n, middle) < Z_95 else (near, middle)
        return near

    return Estimate(value=value, low=end(1), high=end(-1), n=n)


def _score(won: int, lost: int, n: int, difference: float) -> float:
    """Return how many standard errors the counts lie above a difference of the two shares."""
    linear = -won - lost + (2 * n - won + lost) * difference
    constant = -lost * difference * (1 - difference)
    root = math.sqrt(max(0.0, linear**2 - 8 * n * constant))
    lost_share = (root - linear) / (4 * n)  # likeliest under this difference
    variance = n * (2 * lost_share + difference * (1 - difference))
    above = won - lost - n * difference
    if variance <= 0:
        return math.copysign(math.inf, above) if above else 0.0
    return above / math.sqrt(variance)


def smallest_shown(differences: Sequence[float]) -> float:
    """Return the difference that so many items with this spread would show in four of five tries."""
    n = len(differences)
    error = standard_error(differences) if n > 1 else 0.0
    return min(1.0, (student(n - 1) + Z_80) * error) if error > 0 else unseen(n)
