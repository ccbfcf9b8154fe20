"""The planner's times beside public measurements of speed."""

import statistics

import pytest
import time_points
from time_points import POINTS, Compared

pytestmark = pytest.mark.skipif(not POINTS.is_file(), reason=f"{POINTS} is not there; set FINETUNE_CASES")

UNREADABLE = 0.2
"""The most records, of those that can be true, that may say too little of model, card or work to be compared."""


@pytest.fixture(scope="module")
def points() -> list[Compared]:
    """Every public measurement that says what it depends on, beside the estimate."""
    return list(time_points.points())


def test_nine_of_ten_measurements_are_met_within_a_factor_of_two(points: list[Compared]) -> None:
    """Decoding, prompts, training, whole steps of GRPO and loading, from a T4 to thirty-two H100s."""
    far = {point.record["id"]: round(point.ratio, 2) for point in points if point.factor > 2}
    assert len(points) > 20
    assert len(far) <= 0.1 * len(points), far


def test_the_middle_measurement_is_met_closely(points: list[Compared]) -> None:
    """Half of them lie within 40%, and estimates are neither high nor low on the whole."""
    assert statistics.median(point.factor for point in points) <= 1.4
    assert 0.8 <= statistics.median(point.seconds_ratio for point in points) <= 1.25


def test_the_bottleneck_is_that_of_the_record(points: list[Compared]) -> None:
    """Where a record says what held it up, the answer says the same."""
    told = [point for point in points if point.wanted]
    assert told
    for point in told:
        assert point.wanted is not None
        assert point.wanted in point.bottleneck, point.record["id"]


def test_most_records_can_be_read(points: list[Compared]) -> None:
    """What is passed over names no model, no card of the table, or no lengths."""
    assert len(points) >= (1 - UNREADABLE) * len(time_points.trusted())
