"""The statistics: what counts as a course, what as noise, and what a log could have shown."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_logs import noise, ramp

from llm_finetuning.diagnosis import trends

DRAWS = 200
FALSE = 0.02  # share of false courses that is allowed


def steps_up(rows: int) -> np.ndarray:
    return np.where(np.arange(rows) < rows // 2, 0.0, 1.0)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("rows", [24, 100])
def test_noise_has_no_course(rows: int, correlation: float) -> None:
    """Stationary noise, neighbours alike by up to a half: a course is seen in at most two of a hundred logs a side."""
    rng = np.random.default_rng(rows)
    found = [trends.trend(noise(rng, rows, correlation)).direction for _ in range(DRAWS)]
    assert found.count("up") <= FALSE * DRAWS
    assert found.count("down") <= FALSE * DRAWS


@pytest.mark.parametrize(
    "course",
    [ramp(0, 1), 1 - np.exp(-np.arange(100) / 8), np.exp(np.arange(100) / 25), steps_up(100), ramp(0, 1) ** 4],
    ids=["straight", "early", "late", "step", "slow start"],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_course_is_seen_whatever_its_shape(course: np.ndarray, sign: int) -> None:
    """Correlation that the course itself makes does not hide it."""
    rng = np.random.default_rng(0)
    found = trends.trend(sign * course / np.ptp(course) + noise(rng, 100, 0.3, size=0.1))
    assert found.direction == ("up" if sign > 0 else "down")
    assert found.p < trends.P_TREND


def test_the_change_of_a_straight_course_lies_in_its_interval() -> None:
    """In about 95 of 100 logs; at least 85 of 100 here."""
    rng = np.random.default_rng(3)
    found = [trends.trend(ramp(0, 1) + noise(rng, 100, size=0.3)) for _ in range(100)]
    # Twenty block means span 19 twentieths of the run.
    held = [one.low <= 0.95 <= one.high for one in found]
    assert np.mean(held) >= 0.85
    assert abs(np.median([one.change for one in found]) - 0.95) < 0.05


@pytest.mark.parametrize(("batch", "rows"), [(8, 100), (64, 50), (64, 250)])
def test_the_smallest_change_is_one_that_such_a_log_shows(batch: int, rows: int) -> None:
    """A gain of the size that a flat log names is seen in three to five of five logs, half of it in fewer than half."""
    rng = np.random.default_rng(batch + rows)
    said = float(np.median([trends.trend(rng.binomial(batch, 0.4, rows) / batch).smallest for _ in range(50)]))

    def seen(gain: float) -> float:
        chance = 0.4 + gain * np.linspace(0, 1, rows)
        return float(np.mean([trends.trend(rng.binomial(batch, chance) / batch).direction == "up" for _ in range(50)]))

    assert seen(said) >= 0.6
    assert seen(said / 2) <= 0.5


def test_a_longer_log_shows_less() -> None:
    """Four times the rows, half the change."""
    found = trends.trend(noise(np.random.default_rng(0), 100))
    assert trends.longer(found, 4) == pytest.approx(found.smallest / 2)


@pytest.mark.parametrize("correlation", [0.3, 0.6])
def test_correlation_of_few_rows_is_not_underrated(correlation: float) -> None:
    """A parabola takes some of it along, which is given back."""
    rng = np.random.default_rng(0)
    found = np.mean([trends.autocorrelation(noise(rng, 30, correlation)) for _ in range(DRAWS)])
    assert abs(found - correlation) < 0.15


def test_strong_correlation_makes_few_courses() -> None:
    """Neighbours alike by four fifths look like a course to a test of independent rows; here to 4 in 100."""
    rng = np.random.default_rng(0)
    found = [trends.trend(noise(rng, 100, 0.8)).direction for _ in range(2 * DRAWS)]
    assert found.count("flat") >= 0.96 * len(found)


def test_a_loss_is_a_fall_that_stays() -> None:
    """From the best stretch to a last quarter that is down; a dip that is over is none, and noise is none."""
    rng = np.random.default_rng(0)
    gone = np.concatenate([ramp(0.3, 0.9, 60), np.full(40, 0.05)]) + noise(rng, 100, size=0.03)
    found = trends.loss(gone)
    assert found is not None
    assert (found.direction, round(found.tail, 1)) == ("down", 0.1)
    assert 0.8 < found.start < 0.9
    back = gone.copy()
    back[85:] = 0.8
    assert trends.loss(back) is None
    assert sum(trends.loss(noise(rng, 100, 0.5)) is not None for _ in range(DRAWS)) <= FALSE * DRAWS


def test_few_rows_have_no_course() -> None:
    """Nineteen rows are not judged, twenty are."""
    assert trends.trend(ramp(0, 1, 19)).direction == "unknown"
    assert trends.trend(ramp(0, 1, 20)).direction == "up"


def test_a_change_within_the_first_rows_is_seen_where_a_course_is_not() -> None:
    """A policy can be lost in one update: one row of ninety-nine is no course."""
    rng = np.random.default_rng(0)
    lost = np.concatenate([[0.6], np.abs(noise(rng, 99, size=0.02))])
    found = trends.jump(lost)
    assert found is not None
    assert (found.direction, round(found.start, 1)) == ("down", 0.6)
    assert trends.jump(np.abs(noise(rng, 100, size=0.02))) is None


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_noise_has_no_change_within_its_first_rows(correlation: float) -> None:
    """In at most two of a hundred logs."""
    rng = np.random.default_rng(5)
    assert sum(trends.jump(noise(rng, 100, correlation)) is not None for _ in range(DRAWS)) <= FALSE * DRAWS


@given(st.lists(st.one_of(st.floats(), st.integers(-3, 3).map(float)), max_size=80))
def test_any_numbers_are_judged(values: list[float]) -> None:
    """Gaps, infinities, ties and numbers near the largest ones end in a verdict and a chance between 0 and 1."""
    with np.errstate(all="ignore"):
        found = trends.trend(np.array(values, dtype=float))
        trends.jump(np.array(values, dtype=float))
    assert found.direction in ("up", "down", "flat", "unknown")
    assert 0 <= found.p <= 1


@given(st.lists(st.floats(-100, 100), min_size=20, max_size=60), st.floats(0.1, 10), st.floats(-50, 50))
def test_a_course_has_no_unit(values: list[float], scale: float, shift: float) -> None:
    """Reversing the rows turns the direction round; another unit leaves it."""
    rounded = np.round(np.array(values), 2)
    found = trends.trend(rounded).direction
    turned = {"up": "down", "down": "up"}.get(found, found)
    assert trends.trend(-rounded).direction == turned
    if found == trends.trend(np.round(rounded * scale + shift, 6)).direction:
        return
    assert math.isclose(trends.trend(rounded).p, trends.P_TREND, rel_tol=0.5)  # rounding moved it across the bound


def test_medians_of_the_neighbourhood() -> None:
    """The first medians are of the rows there are; the surroundings of an end are those of the nearest whole window."""
    values = np.array([5.0, 1.0, 3.0, 9.0, 7.0, 2.0])
    assert trends.smooth(values, 3).tolist() == [5, 3, 3, 3, 7, 7]
    assert trends.surroundings(np.arange(30.0), 10).tolist()[:2] == [10, 10]
    assert trends.surroundings(np.arange(30.0), 10).tolist()[15] == 15


def test_what_begins_and_stays() -> None:
    """A lone high row begins nothing, and one low row ends nothing."""
    values = np.array([0, 1, 0, 0, 0, 1, 1, 1, 0.9, 1, 1, 1], dtype=float)
    assert trends.begins(values, 0.8) == 5
    assert trends.begins(np.zeros(4), 0.8) is None
