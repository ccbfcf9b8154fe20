"""Shares with their 95% intervals: of counts, of parts read unequally, of completions that come in groups, and pass@k.

Sources: Wilson (1927) for a share, with Brown, Cai and DasGupta (2001) for when to use it; Clopper and Pearson (1934)
for counts of none and of all; Korn and Graubard (1998) for shares of a sample drawn with unequal chances; Chen et al.
(2021), "Evaluating Large Language Models Trained on Code", section 2.1, for pass@k.
"""

import math
from collections.abc import Sequence

from llm_finetuning.statistics.means import standard_error
from llm_finetuning.statistics.points import Z_95, student
from llm_finetuning.types import Estimate, Rate


def rate(hits: int, n: int) -> Rate:
    """Return a share with its 95% interval: Wilson's, and the exact one for none and for all; 0..1 for n = 0."""
    if n == 0:
        return Rate(hits=0, n=0, low=0.0, high=1.0)
    low, high = share_interval(hits / n, n)
    return Rate(hits=hits, n=n, low=low, high=high)


def share_interval(share: float, effective: float) -> tuple[float, float]:
    """Return Wilson's interval at an effective sample size, and the exact one at its ends."""
    if share in (0.0, 1.0):
        bound = 0.025 ** (1 / effective)  # Clopper and Pearson's in closed form
        return (bound if share else 0.0), (1.0 if share else 1 - bound)
    return wilson(share, effective)


def wilson(share: float, n: float) -> tuple[float, float]:
    """Return Wilson's interval of a share of `n` > 0 observations, which need not be a whole number."""
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
    low, high = share_interval(share, effective)
    return Estimate(value=share, low=low, high=high, n=read)


def _variance(hits: int, n: int) -> float:
    """Return the variance of a stratum's share; a stratum of one value has not shown that it has no other."""
    shown = hits / n if 0 < hits < n else (hits + 0.5) / (n + 1)
    return shown * (1 - shown) / n


def _unread(size: int, n: int) -> float:
    return max(0, size - n) / max(1, size - 1)


def clustered_share(clusters: Sequence[tuple[int, int]]) -> Estimate:
    """Return the share over completions that come in groups of one prompt each; a cluster is (hits, n).

    Completions of one prompt resemble each other, so they tell less than as many prompts would. The interval is
    Wilson's at the effective sample size that the clustered variance gives, at most the number of completions; where
    nothing differs (none, or all) it is the exact one at the number of prompts, as if a prompt told only once.
    """
    known = [(hits, n) for hits, n in clusters if n > 0]
    total = sum(n for _, n in known)
    if not known:
        return Estimate(value=0.0, low=0.0, high=1.0, n=0)
    share = sum(hits for hits, _ in known) / total
    count = len(known)
    if count == 1 or share in (0.0, 1.0):
        low, high = share_interval(share, count)
        return Estimate(value=share, low=low, high=high, n=total)
    variance = count / (count - 1) * sum((hits - share * n) ** 2 for hits, n in known) / total**2
    effective = min(share * (1 - share) / variance, total) if variance > 0 else total
    low, high = share_interval(share, effective)
    return Estimate(value=share, low=low, high=high, n=total)


def pass_at(k: int, successes: int, n: int) -> float:
    """Return the unbiased estimate of the chance that one of `k` completions succeeds, from n >= k of one item."""
    return 1 - math.comb(n - successes, k) / math.comb(n, k)


def pass_at_k(counts: Sequence[tuple[int, int]], k: int) -> Estimate:
    """Return pass@k over items, each (successes, n); items with fewer than `k` completions are left out.

    The interval treats an item as one observation: Wilson's at the effective number that the spread over items gives,
    made smaller for few items as Korn and Graubard do; the exact one at the number of items where none or all succeed.
    """
    known = [(hits, n) for hits, n in counts if n >= k]
    if not known:
        return Estimate(value=0.0, low=0.0, high=1.0, n=0)
    values = [pass_at(k, hits, n) for hits, n in known]
    count = len(values)
    share = math.fsum(values) / count
    if count == 1 or not 0 < share < 1:
        low, high = share_interval(min(1.0, max(0.0, share)), count)
        return Estimate(value=share, low=low, high=high, n=count)
    most = sum(n for _, n in known) / k  # so many disjoint sets of k completions there are
    variance = standard_error(values) ** 2
    effective = min(share * (1 - share) / variance, most) if variance > 0 else most
    low, high = share_interval(share, effective * (Z_95 / student(count - 1)) ** 2)
    return Estimate(value=share, low=low, high=high, n=count)
