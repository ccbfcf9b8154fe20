"""Intervals of a mean by resampling the items, for graded scores of any range and shape."""

import math
from collections.abc import Sequence
from typing import Any

from llm_finetuning.types import Estimate

_AT_ONCE = 1_000_000  # numbers drawn in one go: 8 MB


def paired_bootstrap(differences: Sequence[float], *, seed: int, draws: int = 10_000) -> Estimate:
    """Return the mean of differences of any range, one an item, with its bias-corrected and accelerated interval.

    Efron (1987), "Better bootstrap confidence intervals", J. Am. Stat. Assoc. 82:171. Items are drawn anew `draws`
    times with numpy's default generator from `seed`: the same numbers, seed and numpy give the same interval. It
    follows a lopsided spread, where Student's interval is symmetric. As every bootstrap it is too short for few items:
    of exponential ones it covered 88% for 10, 90% for 20, 93% for 60 and 95% for 200 (Student's: 90, 92, 93 and 95), so
    below about 50 take `mean_over_items`. Items that do not differ, or a single one, give a point: resampling cannot
    know what they did not show (`paired_mean` bounds it where differences lie in -1..1). Raises ValueError for no
    items, for numbers that are not finite, and for fewer than 1,000 draws, whose ends would be noise.
    """
    if not differences or not all(map(math.isfinite, differences)):
        raise ValueError("bootstrap: give at least one difference, each a finite number")
    if draws < 1000:  # noqa: PLR2004
        raise ValueError(f"bootstrap: {draws} draws: the ends of an interval need 1000 or more")
    from statistics import NormalDist

    import numpy as np

    values: Any = np.asarray(differences, dtype=float)
    n, mean = len(values), float(values.mean())
    if values.min() == values.max():
        return Estimate(value=mean, low=mean, high=mean, n=n)
    means = _resampled_means(values, seed, draws)
    normal = NormalDist()
    below = float((means < mean).mean() + (means <= mean).mean()) / 2
    bias = normal.inv_cdf(min(max(below, 0.5 / draws), 1 - 0.5 / draws))
    off = values - mean
    skew = float((off**3).sum() / (off**2).sum() ** 1.5) / 6  # the jackknife's, in closed form for a mean

    def end(level: float) -> float:
        shift = bias + normal.inv_cdf(level)
        return float(np.quantile(means, normal.cdf(bias + shift / (1 - skew * shift))))

    return Estimate(value=mean, low=end(0.025), high=end(0.975), n=n)


def _resampled_means(values: Any, seed: int, draws: int) -> Any:
    import numpy as np

    source, n = np.random.default_rng(seed), len(values)
    rows = max(1, _AT_ONCE // n)
    parts = (min(rows, draws - done) for done in range(0, draws, rows))
    return np.concatenate([values[source.integers(0, n, (part, n))].mean(axis=1) for part in parts])
