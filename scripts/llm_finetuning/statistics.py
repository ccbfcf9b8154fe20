"""Shares, agreement and predictions with their 95% intervals: pure functions over counts.

Sources: Wilson (1927) for a share, with Brown, Cai and DasGupta (2001) for when to use it; Clopper and Pearson (1934)
for counts of none and of all; Korn and Graubard (1998) for shares of a sample drawn with unequal chances; Fleiss, Cohen
and Everitt (1969) for the variance of Cohen's kappa (Cohen 1960); Hoeffding (1948) for the unbiased estimate of how
often a subset of a group is of one value.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence

from llm_finetuning.types import Estimate, Rate

Z_95 = 1.959963984540054  # 97.5% point of the normal distribution


def rate(hits: int, n: int) -> Rate:
    """Return a share with its 95% interval: Wilson's, and the exact one for none and for all; 0..1 for n = 0."""
    if n == 0:
        return Rate(hits=0, n=0, low=0.0, high=1.0)
    if hits in (0, n):
        bound = 0.025 ** (1 / n)  # Clopper and Pearson's in closed form
        return Rate(hits=hits, n=n, low=bound if hits else 0.0, high=1.0 if hits else 1 - bound)
    low, high = _wilson(hits / n, n)
    return Rate(hits=hits, n=n, low=low, high=high)


def _wilson(share: float, n: float) -> tuple[float, float]:
    z2 = Z_95**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def stratified_share(strata: Sequence[tuple[int, int, int]]) -> Estimate:
    """Return the share over a whole from parts that were read unequally; each stratum is (its size, hits, read).

    A stratum of which nothing was read is left out of the whole: nothing is known of it. The interval is Wilson's at
    the effective sample size, that is the size of a simple random sample with the same variance.
    """
    known = [(size, hits, n) for size, hits, n in strata if n > 0 and size > 0]
    whole = sum(size for size, _, _ in known)
    read = sum(n for _, _, n in known)
    if not known:
        return Estimate(value=0.0, low=0.0, high=1.0, n=0)
    share = sum(size / whole * hits / n for size, hits, n in known)
    # What was read of a stratum as a whole adds no variance: the correction for a finite population.
    variance = sum((size / whole) ** 2 * _variance(hits, n) * _unread(size, n) for size, hits, n in known)
    if 0 < share < 1 and variance > 0:
        effective = share * (1 - share) / variance
    else:
        spread = sum((size / whole) ** 2 / n * _unread(size, n) for size, _, n in known)
        effective = 1 / spread if spread > 0 else math.inf
    if math.isinf(effective):
        return Estimate(value=share, low=share, high=share, n=read)
    if share in (0.0, 1.0):
        bound = 0.025 ** (1 / effective)
        return Estimate(value=share, low=bound if share else 0.0, high=1.0 if share else 1 - bound, n=read)
    low, high = _wilson(share, effective)
    return Estimate(value=share, low=low, high=high, n=read)


def _variance(hits: int, n: int) -> float:
    """Return the variance of a stratum's share; a stratum of one value has not shown that it has no other."""
    shown = hits / n if 0 < hits < n else (hits + 0.5) / (n + 1)
    return shown * (1 - shown) / n


def _unread(size: int, n: int) -> float:
    return max(0, size - n) / max(1, size - 1)


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


def share_with_signal(groups: Sequence[Sequence[Hashable]], size: int) -> Estimate:
    """Return the share of groups of `size` completions whose rewards will differ, predicted from drawn groups.

    `groups` holds one sequence of rewards (or successes) a prompt. Prompts with at least `size` values are counted
    without a model: the share of their subsets that are mixed. With fewer values a prompt the success of all prompts
    together stands for each, which is the upper end when prompts differ. The interval speaks of new prompts like these.
    """
    filled = [group for group in groups if group]
    full = [group for group in filled if len(group) >= size]
    if full and len(full) * 2 >= len(filled):
        mixed = [1 - _alike(group, size) for group in full]
        return _mean(mixed)
    values = Counter(value for group in filled for value in group)
    n = values.total()
    if n == 0:
        return Estimate(value=0.0, low=0.0, high=1.0, n=0)
    share = 1 - sum((count / n) ** size for count in values.values())
    most = max(values.values())
    ends = [_mixed(end, size) for end in _ends(most, n)]
    middle = 0.5 if ends[0][0] <= 0.5 <= ends[1][0] else None  # noqa: PLR2004  where a mixed group is likeliest
    outcomes = [end[1] for end in ends] + ([_mixed(middle, size)[1]] if middle is not None else [])
    return Estimate(value=share, low=min(*outcomes, share), high=max(*outcomes, share), n=n)


def _alike(group: Sequence[Hashable], size: int) -> float:
    """Return the share of the subsets of `size` that hold one value alone."""
    whole = math.comb(len(group), size)
    return sum(math.comb(count, size) for count in Counter(group).values()) / whole


def _ends(hits: int, n: int) -> tuple[float, float]:
    found = rate(hits, n)
    return found.low, found.high


def _mixed(share: float, size: int) -> tuple[float, float]:
    return share, 1 - share**size - (1 - share) ** size


def _mean(values: Sequence[float]) -> Estimate:
    """Return a mean of numbers in 0..1 over prompts, with Wilson's interval at their effective number."""
    n = len(values)
    mean = sum(values) / n
    spread = sum((value - mean) ** 2 for value in values) / max(1, n - 1) / n
    effective = min(mean * (1 - mean) / spread, 1e9) if spread > 0 and 0 < mean < 1 else float(n)
    low, high = _wilson(mean, max(effective, 1.0))
    return Estimate(value=mean, low=low, high=high, n=n)
