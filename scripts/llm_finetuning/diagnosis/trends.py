"""Whether one metric of a training log moved, by how much, and what a log of this length could have shown.

Rows of a log are neither normal nor independent, so every test is on ranks and its variance is widened by the
autocorrelation that is left once the course itself is taken out. Sources: Mann (1945) and Kendall (1975) for the trend
test; Sen (1968) for the slope and its interval; Mann and Whitney (1947) for head against tail; Hamed and Rao (1998) for
widening the variance by autocorrelation; Marriott and Pope (1954) for the bias of an autocorrelation of a short series.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from llm_finetuning.statistics import Z_80, Z_95

if TYPE_CHECKING:
    from llm_finetuning.diagnosis.log import Column, Mask

ROWS_OF_TREND = 20
"""Rows from which a course is judged: with fewer, a permutation test at 1 % has next to no power."""

P_TREND = 0.01
"""Chance of a false trend. Two tests share it, as each sees a shape that the other misses."""

_MOST_BLOCKS = 20
_FEWEST_BLOCKS = 8
_LASTING_CORRELATION = 0.35  # between block means; wider blocks are taken until it is lower
_CLEAR = 0.9
"""Share of the variance of block means that one monotone course explains, which stationary noise does not reach."""

_START_ROWS = 3
_STARTS = ((3, 3.0, 0.9), (1, 4.0, 1.0))  # first rows; deviations of the second half; its quantile that they lie beyond
_ESTIMATED = 1.2
_Z_TREND = 2.807  # two-sided 0.5 %, each test's half of P_TREND


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The course of one metric over the rows that hold it."""

    n: int
    direction: Literal["up", "down", "flat", "unknown"]  # unknown: fewer than ROWS_OF_TREND rows
    start: float  # mean of the first quarter
    end: float  # mean of the last quarter
    change: float  # Theil-Sen slope of the block means, over the whole log
    low: float  # 95 % interval of the change
    high: float
    p: float  # of the two tests together
    smallest: float  # change that a log of this length and noise shows in four of five tries
    noise: float  # deviation of one row about its course

    @property
    def moved(self) -> float:
        """Return the difference between the last and the first quarter."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """A change within the first rows that stayed, which a test for a trend would miss."""

    direction: Literal["up", "down"]
    start: float  # mean of the first rows
    tail: float  # mean of the second half
    share: float  # of the range of the whole series that it crossed, in 0..1


def present(values: "Column") -> "Mask":
    """Tell where a metric has a number."""
    import numpy as np

    there: Mask = np.isfinite(values)
    return there


def smooth(values: "Column", rows: int = 5) -> "Column":
    """Return the running median of each value and the `rows` - 1 before it; the first are medians of fewer."""
    import numpy as np

    course: Column = np.empty(len(values))
    for at in range(min(rows - 1, len(values))):
        course[at] = np.median(values[: at + 1])
    if len(values) >= rows:
        course[rows - 1 :] = np.median(np.lib.stride_tricks.sliding_window_view(values, rows), axis=1)
    return course


def surroundings(values: "Column", reach: int = 10) -> "Column":
    """Return the median of the values up to `reach` places about each one; at the ends the nearest whole window's."""
    import numpy as np

    width = 2 * reach + 1
    if len(values) <= width:
        return np.full(len(values), float(np.median(values)) if len(values) else np.nan)
    medians = np.median(np.lib.stride_tricks.sliding_window_view(values, width), axis=1)
    around: Column = np.pad(medians, reach, mode="edge")
    return around


def trend(values: "Column") -> Trend:
    """Judge the course of a metric; rows without a number are left out."""
    import numpy as np

    held = values[np.isfinite(values)]
    n = len(held)
    if n < _FEWEST_BLOCKS or n < ROWS_OF_TREND:
        start, end = (float(held[0]), float(held[-1])) if n else (math.nan, math.nan)
        return Trend(
            n=n, direction="unknown", start=start, end=end, change=end - start, low=-math.inf, high=math.inf, p=1.0,
            smallest=math.inf, noise=float(np.std(held)) if n else math.nan,
        )  # fmt: skip
    means, correlation = _blocks(held)
    rows_correlation = autocorrelation(held)
    if _explained(means) >= _CLEAR:  # what is left about a parabola is then the course's own shape, such as a step
        correlation = rows_correlation = 0.0
    slopes, score, variance = _mann_kendall(means, correlation)
    steady = _two_sided((abs(score) - 1) / math.sqrt(variance)) if variance > 0 and abs(score) > 1 else 1.0
    quarter = max(_START_ROWS, n // 4)
    sooner, side = head_against_tail(held[:quarter], held[n // 2 :], rows_correlation)
    p = min(1.0, 2 * min(steady, sooner))
    rising = score > 0 if steady <= sooner else side > 0
    low, high = _interval(slopes, variance)
    span = len(means) - 1
    return Trend(
        n=n,
        direction=("up" if rising else "down") if p < P_TREND else "flat",
        start=float(np.mean(held[:quarter])),
        end=float(np.mean(held[-quarter:])),
        change=float(np.median(slopes)) * span,
        low=low * span,
        high=high * span,
        p=p,
        smallest=_smallest(means, correlation),
        noise=float(np.std(_residuals(held))),
    )


def autocorrelation(values: "Column") -> float:
    """Return the lag-1 autocorrelation about a parabola in 0..0.9, with what a short series underrates added."""
    import numpy as np

    left = _residuals(values)
    power = float(np.sum(left**2))
    if len(left) < _FEWEST_BLOCKS or power <= 0:
        return 0.0
    found = float(np.sum(left[1:] * left[:-1])) / power
    return min(0.9, max(0.0, found + (2 + 4 * found) / len(left)))


def head_against_tail(head: "Column", tail: "Column", correlation: float) -> tuple[float, float]:
    """Return the two-sided p of the Mann-Whitney test, and the sign of tail less head.

    Both are thinned to rows that lie one correlation length apart; of the thinnings that are possible the mean over
    their scores is taken, so that no row is dropped by the luck of its place.
    """
    import numpy as np

    stride = max(1, math.ceil((1 + correlation) / (1 - correlation)))
    scores = []
    for offset in range(stride):
        first, last = head[offset::stride], tail[offset::stride]
        if len(first) < 2 or len(last) < 2:  # noqa: PLR2004  nothing to rank
            continue
        both = np.concatenate([first, last])
        places = ranks(both)
        a, b = len(first), len(last)
        ties = np.unique(both, return_counts=True)[1].astype(float)
        n = a + b
        variance = a * b / 12 * (n + 1 - float(np.sum(ties**3 - ties)) / (n * (n - 1)))
        shift = float(np.sum(places[a:])) - b * (n + 1) / 2
        scores.append(math.copysign(max(0.0, abs(shift) - 0.5), shift) / math.sqrt(variance) if variance > 0 else 0.0)
    z = float(np.mean(scores)) if scores else 0.0
    return _two_sided(z), z


def jump(values: "Column", *, surer: bool = False) -> Jump | None:
    """Return a change within the first rows that stayed; None without one.

    Either the first three rows lie beyond nine tenths of the second half, on one side, and their mean is off by three
    deviations of it; or the first row alone lies beyond all of the second half, and is off by four: a policy can be
    lost in one update. A stationary series does so in fewer than one log in a hundred, also where neighbours are
    correlated by a half (tests/bench_diagnosis.py). `surer` is for a change that another metric shows as well: then
    three deviations do for the first row too.
    """
    import numpy as np

    held = values[np.isfinite(values)]
    if len(held) < _FEWEST_BLOCKS:
        return None
    later = held[len(held) // 2 :]
    tail, spread, width = float(np.mean(later)), float(np.std(later)), float(np.ptp(held))
    found: Jump | None = None
    for rows, far, beyond in _STARTS:
        first = held[:rows]
        start = float(np.mean(first))
        down = bool(np.min(first) > np.quantile(later, beyond))
        up = bool(np.max(first) < np.quantile(later, 1 - beyond))
        share = abs(tail - start) / width if width > 0 else 0.0
        if (
            (down or up)
            and abs(tail - start) > (_STARTS[0][1] if surer else far) * spread
            and (found is None or share > found.share)
        ):
            found = Jump(direction="up" if up else "down", start=start, tail=tail, share=share)
    return found


def begins(values: "Column", least: float) -> int | None:
    """Return the first row from which a metric is at least so high, in the mean of what follows as well; or None."""
    import numpy as np

    n = len(values)
    if n == 0:
        return None
    rest = np.cumsum(values[::-1])[::-1] / np.arange(n, 0, -1)
    total = np.concatenate([[0.0], np.cumsum(values)])
    until = np.minimum(np.arange(n) + 5, n)
    near = (total[until] - total[:-1]) / (until - np.arange(n))
    found = np.flatnonzero((values >= least) & (rest >= least - 1e-9) & (near >= least - 1e-9))
    return int(found[0]) if len(found) else None


def crossing(values: "Column", level: float, *, upward: bool) -> int:
    """Return the first row whose running median is past a level; the last row where none is."""
    import numpy as np

    course = smooth(values)
    found = np.flatnonzero(course >= level if upward else course <= level)
    return int(found[0]) if len(found) else len(values) - 1


def loss(values: "Column") -> Jump | None:
    """Return a fall from the best stretch of a tenth of the rows to a last quarter that stays down; None without one.

    The last quarter lies below the middle between the two in 19 of 20 rows, and the fall is above four deviations of
    what neighbouring rows differ by. Noise does not: the best tenth of it is little above its mean.
    """
    import numpy as np

    held = values[np.isfinite(values)]
    n = len(held)
    if n < ROWS_OF_TREND:
        return None
    width, rest = max(_START_ROWS, n // 10), held[-max(_START_ROWS, n // 4) :]
    total = np.concatenate([[0.0], np.cumsum(held)])
    best = float(np.max(total[width:] - total[:-width])) / width
    tail, extent = float(np.median(rest)), float(np.ptp(held))
    between = float(np.std(np.diff(held))) / math.sqrt(2)
    stays = float(np.quantile(rest, 0.95)) < (best + tail) / 2
    if extent <= 0 or not stays or best - tail < 4 * between:
        return None
    return Jump(direction="down", start=best, tail=tail, share=(best - tail) / extent)


def below_for_good(values: "Column", level: float) -> int:
    """Return the row after the last whose running median is above a level; the last row where that is none."""
    import numpy as np

    above = np.flatnonzero(smooth(values) > level)
    return min(int(above[-1]) + 1, len(values) - 1) if len(above) else 0


def falls(values: "Column") -> float:
    """Return the two-sided p of Kendall's test for a course that falls, of as few as four values; 1 where it rises."""
    _, score, variance = _mann_kendall(values, 0.0)
    return _two_sided((abs(score) - 1) / math.sqrt(variance)) if score < -1 and variance > 0 else 1.0


def longer(found: Trend, times: float) -> float:
    """Return the smallest change that a log so many times as long would show: noise of a mean falls with its root."""
    return found.smallest / math.sqrt(times)


def _blocks(held: "Column") -> tuple["Column", float]:
    """Return block means, and the autocorrelation that is left between them."""
    import numpy as np

    count = min(_MOST_BLOCKS, max(_FEWEST_BLOCKS, len(held) // 2))
    while True:
        means = np.array([part.mean() for part in np.array_split(held, count)])
        left = autocorrelation(means)
        if left < _LASTING_CORRELATION or count <= _FEWEST_BLOCKS + 2:
            return means, left
        count -= 2


def _explained(means: "Column") -> float:
    """Return how much of the variance a course that only rises, or only falls, explains: isotonic regression.

    By pooling adjacent violators (Ayer et al., 1955).
    """
    import numpy as np

    total = float(np.sum((means - means.mean()) ** 2))
    if total <= 0:
        return 0.0
    best = 0.0
    for course in (means, means[::-1]):
        pools: list[tuple[float, int]] = []
        for value in course.tolist():
            level, count = value, 1
            while pools and pools[-1][0] > level:
                before, times = pools.pop()
                level, count = (level * count + before * times) / (count + times), count + times
            pools.append((level, count))
        fitted: Column = np.repeat([level for level, _ in pools], [count for _, count in pools])
        best = max(best, 1 - float(np.sum((course - fitted) ** 2)) / total)
    return best


def _mann_kendall(means: "Column", correlation: float) -> tuple["Column", float, float]:
    """Return the slopes of all pairs, the score, and its variance with ties and autocorrelation."""
    import numpy as np

    k = len(means)
    later, earlier = np.triu_indices(k, 1)[::-1]
    rises = means[later] - means[earlier]
    ties = np.unique(means, return_counts=True)[1].astype(float)
    variance = (k * (k - 1) * (2 * k + 5) - float(np.sum(ties * (ties - 1) * (2 * ties + 5)))) / 18
    widened = variance * (1 + correlation) / (1 - correlation)
    return rises / (later - earlier), float(np.sum(np.sign(rises))), widened


def _interval(slopes: "Column", variance: float) -> tuple[float, float]:
    """Return Sen's 95 % interval of the slope: order statistics of the pairs' slopes."""
    import numpy as np

    ordered = np.sort(slopes)
    reach = Z_95 * math.sqrt(max(0.0, variance))
    last = len(ordered) - 1
    low = min(last, max(0, math.floor((len(ordered) - reach) / 2)))
    return float(ordered[low]), float(ordered[last - low])


def _smallest(means: "Column", correlation: float) -> float:
    """Return the straight change that these block means would show in four of five tries.

    The slope's error under least squares, whose efficiency the trend test reaches to within 2 % (Stuart, 1956), and a
    fifth more for a correlation that is estimated (tests/bench_diagnosis.py, part power).
    """
    import numpy as np

    k = len(means)
    error = float(np.std(_residuals(means), ddof=3)) * math.sqrt((1 + correlation) / (1 - correlation))
    return _ESTIMATED * (_Z_TREND + Z_80) * error * (k - 1) * math.sqrt(12 / (k * (k * k - 1)))


def _residuals(values: "Column") -> "Column":
    import numpy as np

    at = np.linspace(-1, 1, len(values))
    basis = np.stack([np.ones_like(at), at, at**2], axis=1)
    scale = float(np.max(np.abs(values))) if len(values) else 0.0
    if len(values) < 4 or not 0 < scale < 1e150:  # noqa: PLR2004  a parabola fits three points; squares overflow beyond
        return np.zeros_like(values)
    left = values - basis @ np.linalg.lstsq(basis, values, rcond=None)[0]
    rest: Column = np.where(np.abs(left) < scale * 1e-12, 0.0, left)
    return rest


def ranks(values: "Column") -> "Column":
    """Return ranks from 1, the mean of its places for each tie."""
    import numpy as np

    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    places: Column = (ends - (counts - 1) / 2)[inverse.reshape(-1)]
    return places


def _two_sided(z: float) -> float:
    return math.erfc(abs(z) / math.sqrt(2))
