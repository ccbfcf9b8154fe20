"""How many items a paired comparison needs to show a gain, and what gain so many items show.

Shown means: a sign-flip test at the 5% level, two-sided, and a 95% interval that leaves out zero (`paired_shares` for
one completion an item, `paired_mean` for several). The planned power is 80%.

Sources: Connor (1987), "Sample size for testing differences in proportions for the paired-sample design", Biometrics
43:207, for one completion an item (McNemar's test); Miller (2024), "Adding Error Bars to Evals", for the
variance of a difference with several. With several completions Connor's formula is used with Miller's variance: it is
Miller's own for a small gain, and for a large one it counts that the test of a difference that does not exist has the
gain in its spread. The correction for counting in whole steps has the form of Fleiss, Tytun and Ury (1980), Biometrics
36:343. Simulated with those tests the power at the returned number is 0.79 to 0.83, up to 0.86 below 50 items, and 0.93
where the base never succeeds or the candidate always does.
"""

import math
from collections.abc import Sequence

from llm_finetuning.statistics.groups import intraclass
from llm_finetuning.statistics.points import Z_80, Z_95

CORRELATION = 0.5
"""Assumed correlation over items of two models' success rates. Miller (2024) reports 0.3 to 0.7 between frontier
models; a model and what was trained from it are more alike, so that this asks for too many items rather than
too few."""

_ROUNDING = 1e-9  # 0.9 and 0.1 are 1 to a person


def items_needed(
    gain: float, *, base: float | Sequence[tuple[int, int]], completions: int = 1, correlation: float = CORRELATION
) -> int:
    """Return how many items show a gain in pass@1 in four of five comparisons, `completions` of each item a model.

    `base` is what is known of the base model: before anything is measured a guess of its pass@1; afterwards its
    evaluation, one (successes, completions) an item, which tells how much of the spread lies between items and how much
    within. Where it cannot tell (a guess, or one completion an item) the share between items is the one that asks for
    most items: with one completion that is two models whose answers are independent, with more than two a spread that
    more completions do not bring down.

    Raises ValueError for a gain outside 0..1 - pass@1, no completions, or a correlation outside 0..1.
    """
    rate, alike = _known(base, completions, correlation)
    if not 0 < gain <= 1 - rate + _ROUNDING:
        raise ValueError(f"a gain of {gain} from a pass@1 of {rate:.3g}: it lies above 0 and at most at 1 - pass@1")
    return math.ceil(_needed(gain, _variance(rate, gain, completions, alike, correlation), completions) - _ROUNDING)


def gain_shown(
    items: int, *, base: float | Sequence[tuple[int, int]], completions: int = 1, correlation: float = CORRELATION
) -> float | None:
    """Return the smallest gain in pass@1 that so many items show in four of five comparisons: `items_needed` reversed.

    None where not even a gain to a pass@1 of 1 would be shown.
    """
    rate, alike = _known(base, completions, correlation)

    def enough(gain: float) -> bool:
        return _needed(gain, _variance(rate, gain, completions, alike, correlation), completions) <= items

    low, high = 0.0, 1 - rate
    if high <= 0 or not enough(high):
        return None
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _known(base: float | Sequence[tuple[int, int]], completions: int, correlation: float) -> tuple[float, float | None]:
    """Return the base's pass@1, and the share of the spread that lies between items; None where that is not known."""
    if completions < 1 or not 0 <= correlation <= 1:
        raise ValueError(f"{completions} completions, correlation {correlation}: at least 1, and in 0..1")
    if isinstance(base, (int, float)):
        if not 0 <= base <= 1:
            raise ValueError(f"a pass@1 of {base}: it lies in 0..1")
        return base, None
    known = [(hits, n) for hits, n in base if n > 0]
    if not known:
        raise ValueError("the base's evaluation has no scored item: guess its pass@1 instead")
    rate = math.fsum(hits / n for hits, n in known) / len(known)
    return rate, intraclass(known) if len(known) > 1 and any(n > 1 for _, n in known) else None


def _variance(rate: float, gain: float, completions: int, alike: float | None, correlation: float) -> float:
    """Return the variance over items of the difference of two models' mean successes."""
    before, after = rate * (1 - rate), (rate + gain) * max(0.0, 1 - rate - gain)
    between = before + after - 2 * correlation * math.sqrt(before * after)
    within = (before + after) / completions
    found = max(between, within) if alike is None else alike * between + (1 - alike) * within
    return max(found, gain / completions - gain**2, 0.0)  # differences come in steps: the rarest that reach this gain


def _needed(gain: float, variance: float, completions: float) -> float:
    """Return the number of items, in fractions; without the correction for steps where `completions` is infinite."""
    reach = Z_95 * math.sqrt(variance + gain**2) + Z_80 * math.sqrt(variance)
    return ((reach + math.sqrt(reach**2 + 4 * gain / completions)) / (2 * gain)) ** 2
