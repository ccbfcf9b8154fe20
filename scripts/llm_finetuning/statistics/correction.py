"""The true rate behind an imperfect judge: what it passes, corrected by how it judges work of known worth.

Sources: Rogan and Gladen (1978), "Estimating prevalence from the results of a screening test", Am. J. Epidemiol.
107:71, for the rate; for its interval the square-and-add combination of three intervals (Newcombe 1998, Stat. Med.
17:873, method 10; Zou and Donner 2008, Stat. Med. 27:1693), turned round as Fieller (1954) does for a ratio.

Why this interval: in the settings of `tests/statistics/test_corrected_rate.py` it holds the true rate as often as it
says, at most a fifth longer than that of Lang and Reiczigel (2014), Prev. Vet. Med. 113:13, whose ends can meet at 0 or
1. This one never shrinks to a point, and takes any interval of the apparent rate: Wilson's, or that of completions in
clusters.
"""

import math
from collections.abc import Callable

from llm_finetuning.statistics.shares import rate
from llm_finetuning.types import Estimate, Rate


def corrected_rate(
    apparent: Rate | Estimate, *, true_positives: int, positives: int, true_negatives: int, negatives: int
) -> Estimate | None:
    """Return the true pass rate from what an imperfect judge passes, in 0..1, with a 95% interval of all three rates.

    `apparent` is the share that the judge passed, with its interval: `rate(passed, judged)` for one completion an item,
    `clustered_share(counts)` for several. The judge passed `true_positives` of the `positives` completions that people
    passed, and failed `true_negatives` of the `negatives` that people failed; these are other items than the judged
    ones, of the same kind. `n` is that of `apparent`.

    None where nothing is known of the true rate, which is then anywhere in 0..1: nothing judged, no labels of a class,
    or a judge not shown to tell right from wrong (the lower end of TPR + TNR - 1 is not above 0). An apparent rate
    outside 1 - TNR..TPR, which no true rate gives, counts as the nearer of the two, so that the interval keeps its
    length. Raises ValueError for counts that contradict each other.
    """
    if not (0 <= true_positives <= positives and 0 <= true_negatives <= negatives):
        raise ValueError(
            f"judge's counts: {true_positives} of {positives} and {true_negatives} of {negatives}: a part is 0 or more "
            "and at most its whole"
        )
    if not (apparent.n and positives and negatives):
        return None
    passes, fails = rate(true_positives, positives), rate(true_negatives, negatives)
    sensitivity, specificity = true_positives / positives, true_negatives / negatives
    told = sensitivity + specificity - 1  # Youden's J: how far apart the judge holds right and wrong work
    if told <= math.hypot(sensitivity - passes.low, specificity - fails.low):
        return None
    seen = apparent.value if isinstance(apparent, Estimate) else apparent.hits / apparent.n
    up, down = apparent.high - seen, seen - apparent.low
    share = (min(max(seen, 1 - specificity), sensitivity) + specificity - 1) / told

    def below(true: float) -> bool:  # the counts are not shown to lie under what this true rate gives
        spread = (up, true * (sensitivity - passes.low), (1 - true) * (fails.high - specificity))
        return (true - share) * told <= math.hypot(*spread)

    def above(true: float) -> bool:
        spread = (down, true * (passes.high - sensitivity), (1 - true) * (specificity - fails.low))
        return (share - true) * told <= math.hypot(*spread)

    return Estimate(value=share, low=_last(share, 0.0, above), high=_last(share, 1.0, below), n=apparent.n)


def _last(inside: float, end: float, holds: Callable[[float], bool]) -> float:
    """Return the furthest rate towards an end of 0..1 that holds, or the end itself where it does."""
    if holds(end):
        return end
    # A length (convex in the rate) less a line is below 0 on one stretch alone: from here to there it is crossed once.
    for _ in range(50):
        middle = (inside + end) / 2
        inside, end = (middle, end) if holds(middle) else (inside, middle)
    return inside
