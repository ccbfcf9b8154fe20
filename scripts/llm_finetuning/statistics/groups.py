"""How often the completions of one prompt differ, and how much they resemble each other.

Sources: Hoeffding (1948) for the unbiased estimate of how often a subset of a group is of one value; Skellam (1948) for
successes whose chance differs from prompt to prompt.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence

from llm_finetuning.statistics.shares import rate, share_interval, wilson
from llm_finetuning.types import Estimate

_CERTAIN = 1e9  # an effective number beyond which an interval is a point to any reader


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
        low, high = share_interval(min(1.0, max(0.0, value)), count)
        return Estimate(value=value, low=min(low, value), high=max(high, value), n=count)
    kinds = Counter(known)
    without = {kind: _mixed_over_prompts(list((kinds - Counter([kind])).elements()), size) for kind in kinds}
    middle = sum(without[kind] * times for kind, times in kinds.items()) / count
    variance = (count - 1) / count * sum((without[kind] - middle) ** 2 * times for kind, times in kinds.items())
    low, high = share_interval(value, min(value * (1 - value) / variance, _CERTAIN) if variance > 0 else count)
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
    low, high = wilson(mean, max(effective, 1.0))
    return Estimate(value=mean, low=low, high=high, n=n)
