"""Shares, agreement and predictions with their 95% intervals: pure functions over counts.

Sources: Wilson (1927) for a share, with Brown, Cai and DasGupta (2001) for when to use it; Clopper and Pearson (1934)
for counts of none and of all; Korn and Graubard (1998) for shares of a sample drawn with unequal chances; Fleiss, Cohen
and Everitt (1969) for the variance of Cohen's kappa (Cohen 1960); Hoeffding (1948) for the unbiased estimate of how
often a subset of a group is of one value; Skellam (1948) for successes whose chance differs from prompt to prompt;
David and Nagaraja (2003), section 7.1, for a quantile's interval from order statistics; Chen et al. (2021),
"Evaluating Large Language Models Trained on Code", section 2.1, for pass@k; Miller (2024), "Adding Error Bars to
Evals", for differences item by item and what so many items can show; Tango (1998) for the difference of two paired
shares; Fisher (1935) for the sign-flip test, which is McNemar's exact one where an item has one completion.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from functools import cache

from llm_finetuning.types import Estimate, Rate

Z_95 = 1.959963984540054  # 97.5% point of the normal distribution
Z_80 = 0.8416212335729143  # 80% point

_CERTAIN = 1e9  # an effective number beyond which an interval is a point to any reader
EXACT_ITEMS = 500  # differing items up to which signs are counted out; beyond, the normal approximation is as good
_FINEST = 1000  # parts of one that differences may come in to be counted out


def rate(hits: int, n: int) -> Rate:
    """Return a share with its 95% interval: Wilson's, and the exact one for none and for all; 0..1 for n = 0."""
    if n == 0:
        return Rate(hits=0, n=0, low=0.0, high=1.0)
    low, high = _interval(hits / n, n)
    return Rate(hits=hits, n=n, low=low, high=high)


def _interval(share: float, effective: float) -> tuple[float, float]:
    """Return Wilson's interval at an effective sample size, and the exact one at its ends."""
    if share in (0.0, 1.0):
        bound = 0.025 ** (1 / effective)  # Clopper and Pearson's in closed form
        return (bound if share else 0.0), (1.0 if share else 1 - bound)
    return _wilson(share, effective)


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
    low, high = _interval(share, effective)
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
        low, high = _interval(share, count)
        return Estimate(value=share, low=low, high=high, n=total)
    variance = count / (count - 1) * sum((hits - share * n) ** 2 for hits, n in known) / total**2
    effective = min(share * (1 - share) / variance, total) if variance > 0 else total
    low, high = _interval(share, effective)
    return Estimate(value=share, low=low, high=high, n=total)


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


def predicted_mixed(groups: Sequence[tuple[int, int]], size: int) -> Estimate:
    """Return the share of groups of `size` that will hold both successes and failures, for any size.

    A group is (successes, completions) of one prompt. Success is taken as beta distributed over prompts, fitted by
    moments, so that prompts that always or never succeed stay without a signal however large the group; the interval
    is the jackknife's over prompts.
    """
    known = [(hits, n) for hits, n in groups if n > 0]
    if not known:
        return Estimate(value=0.0, low=0.0, high=1.0, n=0)
    value = _mixed_over_prompts(known, size)
    count = len(known)
    if count < 3 or value <= 0 or value >= 1:  # noqa: PLR2004  nothing to leave out, or nothing that differs
        low, high = _interval(min(1.0, max(0.0, value)), count)
        return Estimate(value=value, low=min(low, value), high=max(high, value), n=count)
    kinds = Counter(known)
    without = {kind: _mixed_over_prompts(list((kinds - Counter([kind])).elements()), size) for kind in kinds}
    middle = sum(without[kind] * times for kind, times in kinds.items()) / count
    variance = (count - 1) / count * sum((without[kind] - middle) ** 2 * times for kind, times in kinds.items())
    low, high = _interval(value, min(value * (1 - value) / variance, _CERTAIN) if variance > 0 else count)
    return Estimate(value=value, low=low, high=high, n=count)


def intraclass(groups: Sequence[tuple[int, int]]) -> float:
    """Return how much completions of one prompt resemble each other, in 0..1: the analysis of variance's estimate."""
    known = [(hits, n) for hits, n in groups if n > 0]
    total, count = sum(n for _, n in known), len(known)
    if count < 2 or total <= count:  # noqa: PLR2004  one prompt, or one completion each: nothing to compare
        return 0.0
    share = sum(hits for hits, _ in known) / total
    between = sum(n * (hits / n - share) ** 2 for hits, n in known) / (count - 1)
    within = sum(hits * (1 - hits / n) for hits, n in known) / (total - count)
    usual = (total - sum(n * n for _, n in known) / total) / (count - 1)
    spread = between + (usual - 1) * within
    return min(1.0, max(0.0, (between - within) / spread)) if spread > 0 else 0.0


def _mixed_over_prompts(groups: Sequence[tuple[int, int]], size: int) -> float:
    share = sum(hits for hits, _ in groups) / sum(n for _, n in groups)
    alike = intraclass(groups)
    return 1 - _all_same(share, alike, size) - _all_same(1 - share, alike, size)


def _all_same(share: float, alike: float, size: int) -> float:
    """Return the chance that all of `size` are successes when success is beta distributed with this mean."""
    chance = 1.0
    for place in range(size):
        chance *= (share * (1 - alike) + place * alike) / (1 - alike + place * alike) if place or alike < 1 else share
    return chance


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


def mean_over_items(values: Sequence[float]) -> Estimate:
    """Return a mean of one number an item, of any range, with Student's interval; a point for a single item."""
    n = len(values)
    mean = math.fsum(values) / n
    half = student(n - 1) * standard_error(values) if n > 1 else 0.0
    return Estimate(value=mean, low=mean - half, high=mean + half, n=n)


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean of independent values, of which there are at least two."""
    n = len(values)
    mean = math.fsum(values) / n
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)


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
        low, high = _interval(min(1.0, max(0.0, share)), count)
        return Estimate(value=share, low=low, high=high, n=count)
    most = sum(n for _, n in known) / k  # so many disjoint sets of k completions there are
    variance = standard_error(values) ** 2
    effective = min(share * (1 - share) / variance, most) if variance > 0 else most
    low, high = _interval(share, effective * (Z_95 / student(count - 1)) ** 2)
    return Estimate(value=share, low=low, high=high, n=count)


def paired_mean(differences: Sequence[float]) -> Estimate:
    """Return the mean of differences in -1..1, one an item, with Student's interval.

    Items that all differ by the same (mostly: by nothing) still allow what as many items may fail to show: the exact
    bound of a share of none.
    """
    found = mean_over_items(differences)
    mean = found.value
    half = _unseen(found.n) if found.n == 1 or standard_error(differences) == 0 else found.high - mean
    return Estimate(value=mean, low=max(-1.0, mean - half), high=min(1.0, mean + half), n=found.n)


def _unseen(n: int) -> float:
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


def sign_flip(differences: Sequence[Fraction]) -> float:
    """Return the two-sided p-value of a sum of differences when each could as well have had the other sign.

    Counted out over all signs for up to `EXACT_ITEMS` items that differ, else by the normal distribution.
    """
    unequal = [value for value in differences if value]
    if not unequal:
        return 1.0
    parts = math.lcm(*(value.denominator for value in unequal))
    if len(unequal) > EXACT_ITEMS or parts > _FINEST:
        spread = math.sqrt(math.fsum(float(value) ** 2 for value in unequal))
        return math.erfc(abs(float(sum(unequal))) / spread / math.sqrt(2))
    steps = [int(value * parts) for value in unequal]
    width = len(steps)  # bits in which one count fits: the big number is a row of counts, one for each sum
    counts = 1
    for step in steps:
        counts += counts << (2 * abs(step) * width)
    whole, seen = sum(map(abs, steps)), abs(sum(steps))
    row = f"{counts:0{(2 * whole + 1) * width}b}"
    far = [place for place in range(2 * whole + 1) if abs(place - whole) >= seen]
    as_far = sum(int(row[place * width : (place + 1) * width], 2) for place in far)
    return float(Fraction(as_far, 1 << len(steps)))


def smallest_shown(differences: Sequence[float]) -> float:
    """Return the difference that so many items with this spread would show in four of five tries."""
    n = len(differences)
    error = standard_error(differences) if n > 1 else 0.0
    return min(1.0, (student(n - 1) + Z_80) * error) if error > 0 else _unseen(n)
