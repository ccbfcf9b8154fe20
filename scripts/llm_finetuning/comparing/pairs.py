"""Items of two evaluations side by side: one number an item, and how its mean shifts from base to candidate."""

import math
from collections.abc import Callable, Collection, Sequence
from fractions import Fraction

from llm_finetuning.statistics import mean_over_items, paired_bootstrap, paired_mean, paired_shares, sign_flip
from llm_finetuning.types import Estimate, Evaluation, EvaluationItem, Shift

LEVEL = 0.05  # p-value up to which a difference is not put down to chance
FEW = 20  # items below which a bootstrap interval is too short, and Student's is taken
_STEPS = 100  # parts of the largest difference in which rewards are told apart

Pair = tuple[EvaluationItem, EvaluationItem]  # base, candidate
Number = Callable[[EvaluationItem], float | None]  # None: the item says nothing of it
Interval = Callable[[Sequence[float]], Estimate]  # of differences, one an item


def paired(base: Evaluation, candidate: Evaluation, *, without: Collection[str] = ()) -> list[Pair]:
    """Return the items of both by their id, in the order of the base; the ids in `without` are left out."""
    other = {item.prompt_id: item for item in candidate.items}
    return [(item, other[item.prompt_id]) for item in base.items if item.prompt_id not in without]


def graded(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs of which both models have a graded completion."""
    return [pair for pair in pairs if pair[0].n and pair[1].n]


def rate(item: EvaluationItem) -> Fraction:
    """Return the share of an item's graded completions that succeed; it has at least one."""
    return Fraction(item.successes, item.n)


def gains(pairs: Sequence[Pair]) -> list[Fraction]:
    """Return by how much the candidate succeeds more often, item by item, of graded pairs."""
    return [rate(after) - rate(before) for before, after in pairs]


def success(pairs: Sequence[Pair], *, single: bool) -> Shift:
    """Return the shift of pass@1 over graded pairs: Tango's interval for `single` completions, else Student's."""
    if not pairs:
        return Shift(base=0.0, candidate=0.0, difference=Estimate(value=0.0, low=-1.0, high=1.0, n=0))
    found = gains(pairs)
    if single:
        difference = paired_shares(found.count(Fraction(1)), found.count(Fraction(-1)), len(found))
    else:
        difference = paired_mean([float(gain) for gain in found])
    before, after = (float(sum(rate(pair[place]) for pair in pairs) / len(pairs)) for place in (0, 1))
    return Shift(base=before, candidate=after, difference=difference)


def partly_graded(pairs: Sequence[Pair]) -> int:
    """Return the number of pairs with a completion of either model that was not graded."""
    return sum(any(item.n < len(item.grades) for item in pair) for pair in pairs)


def least_gain(pairs: Sequence[Pair]) -> float:
    """Return the gain in pass@1, where every completion that was not graded spoke against the candidate."""
    worst = [
        Fraction(after.successes, len(after.grades)) - 1 + Fraction(before.n - before.successes, len(before.grades))
        for before, after in pairs
    ]
    return float(sum(worst, Fraction(0)) / max(len(worst), 1))


def most_gain(pairs: Sequence[Pair]) -> float:
    """Return the gain in pass@1, where every completion that was not graded spoke for the candidate."""
    return -least_gain([(after, before) for before, after in pairs])


def p_value(pairs: Sequence[Pair]) -> float:
    """Return the p-value of a difference in pass@1: sign-flip, which is McNemar's exact test of single completions."""
    return sign_flip(gains(pairs))


def shift(pairs: Sequence[Pair], number: Number, interval: Interval) -> Shift | None:
    """Return the shift of a mean over the items of which both models say the number; None where there are none."""
    known = [
        (before, after)
        for pair in pairs
        if (before := number(pair[0])) is not None and (after := number(pair[1])) is not None
    ]
    if not known:
        return None
    return Shift(
        base=math.fsum(before for before, _ in known) / len(known),
        candidate=math.fsum(after for _, after in known) / len(known),
        difference=interval([after - before for before, after in known]),
    )


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the known values of one item; None where none is known."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def reward(pairs: Sequence[Pair]) -> Shift | None:
    """Return the shift of the mean of what training pays."""
    return shift(pairs, lambda item: mean(item.rewards), mean_over_items)


def reward_p_value(pairs: Sequence[Pair]) -> float:
    """Return the sign-flip p-value of the shift of what training pays."""
    known = [
        after - before
        for pair in pairs
        if (before := mean(pair[0].rewards)) is not None and (after := mean(pair[1].rewards)) is not None
    ]
    largest = max(map(abs, known), default=0.0)
    if not largest:
        return 1.0
    # In hundredths of the largest, whatever the rewards' range, so that all signs can be counted out.
    return sign_flip([Fraction(round(_STEPS * gap / largest), _STEPS) for gap in known])


def grade(pairs: Sequence[Pair]) -> Shift | None:
    """Return the shift of the mean grade with its bootstrap interval; None where grades only say pass or fail.

    Grades of more than two values have no known distribution, so items are drawn again instead of assuming one.
    """
    values = {value for pair in pairs for item in pair for value in item.grades if value is not None}
    if len(values) <= 2:  # noqa: PLR2004  pass and fail: the shift of pass@1 says all of it
        return None
    return shift(pairs, lambda item: mean(item.grades), _drawn_again)


def _drawn_again(differences: Sequence[float]) -> Estimate:
    if len(differences) < FEW:
        return mean_over_items(differences)
    # In order of size: the same items in another order have the same interval.
    return paired_bootstrap(sorted(differences), seed=0)
