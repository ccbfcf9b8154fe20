"""What an interval or a set of p-values allows one to say."""

from collections.abc import Sequence
from typing import Literal

from llm_finetuning.types import Estimate

Standing = Literal["within", "beyond", "unclear"]
"""Where a drop stands against a budget: shown to stay within it, shown to exceed it, or neither."""


def non_inferior(difference: Estimate, margin: float) -> Standing:
    """Tell whether a drop stays within a budget, from the interval of candidate less base.

    `within`: the whole interval lies above -margin, so a drop as large as the budget is left out; `beyond`: the whole
    interval lies below -margin; `unclear`: it holds -margin, so that more items are needed to say. With a 95% interval
    `within` is wrong in at most one of 40 comparisons whose drop is the budget (Piaggio et al. 2012, "Reporting of
    noninferiority and equivalence randomized trials", JAMA 308:2594). Both are in the unit of the difference. An
    interval of no items is `unclear` as long as it spans what a difference can be. Raises ValueError for a negative
    margin.
    """
    if margin < 0:
        raise ValueError(f"non-inferiority: margin {margin}: give the largest drop that is allowed, 0 or more")
    if difference.low > -margin:
        return "within"
    return "beyond" if difference.high < -margin else "unclear"


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for how many comparisons were made, in the order given (Holm 1979).

    Whatever the comparisons have to do with each other, what is at most 0.05 after adjustment is in at most one of 20
    families a false alarm ("A simple sequentially rejective multiple test procedure", Scand. J. Stat. 6:65). Raises
    ValueError for a number outside 0..1.
    """
    wrong = [value for value in p_values if not 0 <= value <= 1]
    if wrong:
        raise ValueError(f"holm: {wrong[0]} is no p-value: each lies in 0..1")
    adjusted = [0.0] * len(p_values)
    least = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = least
    return adjusted
