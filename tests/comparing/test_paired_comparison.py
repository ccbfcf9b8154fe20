"""The comparison of two evaluations, from rewards alone."""

import dataclasses
from collections.abc import Sequence

import pytest

import evaluations
from llm_finetuning.comparing.comparison import compare, parts
from llm_finetuning.comparing.table import Row
from llm_finetuning.types import Comparison, Estimate, Shift

Groups = Sequence[Sequence[float | None]]

HALF = [[1.0, 0.0, 0.0, 1.0]] * 20
QUARTER = [[1.0, 0.0, 0.0, 0.0]] * 10 + [[0.0, 0.0, 1.0, 0.0]] * 8 + [[0.0] * 4] * 2


def of(base: Groups, candidate: Groups) -> Comparison:
    return compare(evaluations.of_rewards(base), evaluations.of_rewards(candidate, name="tuned"))


@pytest.mark.parametrize(
    ("base", "candidate", "verdict"),
    [
        (QUARTER, HALF, "improved"),
        (HALF, QUARTER, "worse"),
        (HALF, HALF, "no-difference-shown"),
        ([[0.0] * 4] * 20, [[0.0] * 4] * 20, "no-difference-shown"),
        ([[0.0] * 4] * 20, [[1.0] * 4] * 20, "improved"),
        (
            [[0.0]] * 15,
            [[1.0]] * 5 + [[0.0]] * 10,
            "no-difference-shown",
        ),  # Tango says 0.06 to 0.58, McNemar p = 0.0625
        ([[0.0]] * 15, [[1.0]] * 6 + [[0.0]] * 9, "improved"),  # McNemar p = 0.031
        ([[1.0]] * 6 + [[0.0]] * 9, [[0.0]] * 15, "worse"),
        ([[0.0, 1.0]] * 3, [[1.0, 1.0]] * 3, "no-difference-shown"),  # three items cannot: 2 of 8 sign patterns
    ],
)
def test_the_verdict_needs_interval_and_test(base: Groups, candidate: Groups, verdict: str) -> None:
    """And the same counts the other way round give the other answer."""
    assert of(base, candidate).verdict == verdict


def test_every_number_of_a_comparison() -> None:
    """Worked by hand: 20 items, four completions each."""
    found = of(QUARTER, HALF)
    assert (found.success.base, found.success.candidate) == pytest.approx((18 / 80, 0.5))
    assert found.success.difference.value == pytest.approx(0.275)
    # scipy.stats.ttest_1samp of 18 times 0.25 and twice 0.5
    assert (found.success.difference.low, found.success.difference.high) == pytest.approx((0.239, 0.311), abs=5e-4)
    assert (found.won, found.lost, found.tied) == (20, 0, 0)
    assert found.test == "sign-flip"
    assert found.p_value == pytest.approx(2 / 2**20)
    assert found.smallest_shown == pytest.approx((2.0930 + 0.8416) * 0.0172062, abs=1e-4)
    assert found.passes["4"].base == pytest.approx(0.9)
    assert found.passes["2"].candidate == pytest.approx(1 - 1 / 6)
    assert found.components["r"].difference.value == pytest.approx(0.275)
    assert found.tokens is not None
    assert found.tokens.difference.value == 0


def test_items_are_matched_by_their_id_and_not_by_their_place() -> None:
    """The same answers in another order are no difference, item by item."""
    base = evaluations.of_rewards([[float(row % 2)] for row in range(20)])
    turned = dataclasses.replace(base, name="tuned", items=base.items[::-1])
    found = compare(base, turned)
    assert (found.won, found.lost, found.tied) == (0, 0, 20)


def test_an_item_that_was_not_scored_for_both_is_left_out_and_said() -> None:
    """An abstention is neither success nor failure of either model."""
    found = of([[None, None], [0.0, 1.0], [None, 0.0], [1.0] * 2], [[1.0] * 2, [1.0] * 2, [1.0, 0.0], [None, None]])
    assert found.success.difference.n == 2
    assert (found.success.base, found.success.candidate) == (0.25, 0.75)
    assert found.passes["2"].difference.n == 1
    assert any("2 of 4 items were not graded for both and are left out (0, 3)" in note for note in found.notes)


def test_one_completion_an_item_has_the_score_interval_of_paired_shares() -> None:
    """One row won and seven lost of 21: the published interval, where Student's would say -0.53 to -0.04."""
    found = of([[0.0]] + [[1.0]] * 7 + [[0.0]] * 13, [[1.0]] + [[0.0]] * 20)
    assert (found.success.difference.low, found.success.difference.high) == pytest.approx((-0.517, -0.026), abs=6e-4)
    assert (found.test, found.won, found.lost, found.tied) == ("exact McNemar", 1, 7, 13)
    assert found.verdict == "no-difference-shown"  # the exact test says p = 0.07


def test_nothing_scored_is_no_verdict() -> None:
    """No division by zero, and the next action is the rewards."""
    found = of([[None]] * 3, [[None]] * 3)
    assert (found.verdict, found.reward, found.p_value) == ("no-difference-shown", None, 1.0)


def test_grades_of_more_than_pass_and_fail_have_their_mean_compared() -> None:
    """By the bootstrap over items, in whatever order they stand; a pass and a fail say all there is by pass@1."""
    base = evaluations.of_rewards([[0.1, 0.6]] * 10 + [[0.2, 0.9]] * 20)
    candidate = evaluations.of_rewards([[0.3, 0.8]] * 30, name="tuned")
    found = compare(base, candidate)
    assert compare(dataclasses.replace(base, items=base.items[::-1]), candidate).grade == found.grade
    assert found.grade is not None
    assert found.grade.difference.value == pytest.approx((10 * 0.2 + 20 * 0.0) / 30)
    assert 0 < found.grade.difference.low < found.grade.difference.value < found.grade.difference.high
    assert of(HALF, QUARTER).grade is None
    assert of([[0.0, 0.5]] * 20, [[0.5, 1.0]] * 20).grade is not None


def test_what_is_left_out_is_no_part_of_any_number() -> None:
    """The rest is compared as if it were all there was; nothing left shows nothing."""
    whole = evaluations.of_rewards(QUARTER), evaluations.of_rewards(HALF, name="tuned")
    rest = evaluations.of_rewards(QUARTER[4:]), evaluations.of_rewards(HALF[4:], name="tuned")
    without = compare(*whole, without={"0", "1", "2", "3"})
    assert without.success == compare(*rest).success
    assert without.reward == compare(*rest).reward
    none = compare(*whole, without={str(item) for item in range(20)})
    assert (none.verdict, none.success.difference.n, none.tokens) == ("no-difference-shown", 0, None)
    assert (none.p_value, none.smallest_shown) == (1.0, 1.0)


def test_parts_are_compared_each_by_itself_and_adjusted_together() -> None:
    """By name; the smallest of three p-values is tripled, and an item of no bucket is no part."""
    base, candidate = evaluations.of_rewards(QUARTER), evaluations.of_rewards(HALF, name="tuned")
    names = ["b"] * 8 + ["a"] * 8 + ["c"] * 3 + [None]
    base = dataclasses.replace(
        base, items=[dataclasses.replace(item, bucket=name) for item, name in zip(base.items, names, strict=True)]
    )
    found = parts(base, candidate)
    assert [(part.name, part.success.difference.n) for part in found] == [("a", 8), ("b", 8), ("c", 3)]
    assert found[0].p_value == pytest.approx(2 / 2**8)
    assert found[0].adjusted == pytest.approx(3 * found[0].p_value)


@pytest.mark.parametrize(
    ("name", "value", "tone"),
    [
        ("pass@1", 0.2, "good"),
        ("pass@1", -0.2, "bad"),
        ("drift suite", 0.05, "level"),
        ("cut at the cap", -0.2, "good"),
        ("cut at the cap", 0.2, "bad"),
        ("tokens", 0.2, "level"),
        ("tokens", -0.2, "level"),
    ],
)
def test_a_shift_is_for_the_better_or_not(name: str, value: float, tone: str) -> None:
    """Fewer cuts are better, and a length by itself is neither."""
    gap = Estimate(value=value, low=value - 0.1, high=value + 0.1, n=40)

    assert Row(name=name, shift=Shift(base=0.5, candidate=0.5 + value, difference=gap), form=".3f").tone == tone
