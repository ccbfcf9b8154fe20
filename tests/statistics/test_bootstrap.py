"""Intervals of a mean by resampling, against scipy and against drawn truths."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from llm_finetuning.statistics import mean_over_items, paired_bootstrap

SKEWED = [round(math.exp(place / 6) - 4, 3) for place in range(30)]
GRADES = [0.5, -1.0, 0.0, 2.0, 0.0, 0.5, 1.5, -0.5, 0.0, 3.0, 0.5, 0.0, 1.0, -1.5, 0.0, 0.5, 4.0, 0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        # scipy 1.17.1: stats.bootstrap((values,), np.mean, n_resamples=10_000, method="BCa", rng=default_rng(7))
        (SKEWED, 13.361998656041736, 37.77772401029396),
        (GRADES, 0.15, 1.275),
    ],
    ids=["skewed", "grades"],
)
def test_it_is_scipys_interval(values: Sequence[float], low: float, high: float) -> None:
    """The same generator draws the same items, so the ends are the same."""
    found = paired_bootstrap(values, seed=7)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)
    assert found.value == pytest.approx(math.fsum(values) / len(values))
    assert found.n == len(values)


@pytest.mark.parametrize("n", [2, 30, 3000])
def test_it_is_the_interval_of_the_scipy_that_is_here(n: int) -> None:
    """Any number of items, also where they are drawn in several goes."""
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(n).exponential(2.0, n) - 1
    theirs = stats.bootstrap((values,), np.mean, n_resamples=2000, method="BCa", rng=np.random.default_rng(3))
    found = paired_bootstrap(values.tolist(), seed=3, draws=2000)
    ends = theirs.confidence_interval
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), abs=1e-9)


def test_the_seed_decides() -> None:
    """The same seed gives the same interval, another one nearly the same."""
    first, again, other = (paired_bootstrap(GRADES, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert (first.low, first.high) == pytest.approx((other.low, other.high), abs=0.05)


def test_it_follows_a_lopsided_spread() -> None:
    """Reaching further up than down where the long tail is up, as Student's cannot; the mirror image mirrors."""
    found, student = paired_bootstrap(SKEWED, seed=1), mean_over_items(SKEWED)
    assert found.high - found.value > 1.2 * (found.value - found.low)
    assert student.high - student.value == pytest.approx(student.value - student.low)
    mirrored = paired_bootstrap([-value for value in SKEWED], seed=1)
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low), abs=1e-9)


def test_the_interval_holds_the_truth() -> None:
    """Grades of 60 items, lopsided: of 600 intervals between 91% and 97% hold the true mean.

    Of 3,000 it was 93.4%.
    """
    draw = np.random.default_rng(9)
    held = 0
    for seed in range(600):
        found = paired_bootstrap((draw.exponential(1.0, 60) - 0.7).tolist(), seed=seed, draws=1000)
        held += found.low <= 0.3 <= found.high
    assert 0.91 <= held / 600 <= 0.97


@pytest.mark.parametrize("values", [[0.25], [2.0, 2.0, 2.0]])
def test_items_that_do_not_differ_give_a_point(values: list[float]) -> None:
    """Resampling cannot know what they did not show."""
    found = paired_bootstrap(values, seed=0)
    assert found.low == found.value == found.high == values[0]
    assert found.n == len(values)


@pytest.mark.parametrize(
    ("values", "draws", "words"),
    [([], 10_000, "at least one"), ([0.5, math.nan], 10_000, "finite"), ([0.5, 1.0], 999, "999 draws")],
)
def test_what_cannot_be_resampled_is_refused(values: list[float], draws: int, words: str) -> None:
    """One line says what is missing."""
    with pytest.raises(ValueError, match=words):
        paired_bootstrap(values, seed=0, draws=draws)
