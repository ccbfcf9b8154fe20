"""What intervals and p-values allow one to say: budgets, several comparisons, wins and losses."""

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.statistics import holm, non_inferior, paired_mean, sign_flip, sign_test
from llm_finetuning.types import Estimate


@pytest.mark.parametrize(
    ("low", "high", "margin", "standing"),
    [
        (-0.01, 0.03, 0.02, "within"),
        (-0.019, -0.011, 0.02, "within"),  # a drop is shown, and it is within the budget
        (-0.02, 0.03, 0.02, "unclear"),  # the end is the budget
        (-0.05, 0.01, 0.02, "unclear"),
        (-0.05, -0.02, 0.02, "unclear"),
        (-0.05, -0.021, 0.02, "beyond"),
        (0.001, 0.05, 0.0, "within"),
        (0.0, 0.0, 0.0, "unclear"),
        (-1.0, 1.0, 0.02, "unclear"),  # no items
    ],
)
def test_a_drop_is_within_a_budget_beyond_it_or_unclear(low: float, high: float, margin: float, standing: str) -> None:
    """The interval decides, and an interval that holds the budget does not."""
    assert non_inferior(Estimate(value=(low + high) / 2, low=low, high=high, n=100), margin) == standing


def test_a_negative_budget_is_refused() -> None:
    """A drop of -2% would be a gain that is asked for."""
    with pytest.raises(ValueError, match=r"margin -0\.02"):
        non_inferior(Estimate(value=0.0, low=-0.1, high=0.1, n=100), -0.02)


def test_a_drop_as_large_as_the_budget_is_rarely_called_within() -> None:
    """Two thousand comparisons with a true drop of 5 points: one in 40 is called within it, one in 40 beyond."""
    draw = random.Random(2)
    found = []
    for _ in range(2000):
        gains = draw.choices([0.5, 0.0, -0.5], [0.15, 0.6, 0.25], k=150)
        found.append(non_inferior(paired_mean(gains), 0.05))
    assert 0.014 <= found.count("within") / 2000 <= 0.036
    assert 0.014 <= found.count("beyond") / 2000 <= 0.036


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        # statsmodels 0.15.0, multipletests(method="holm")
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.0001, 0.5, 0.9, 0.02, 0.02, 0.013], [0.0006, 1.0, 1.0, 0.08, 0.08, 0.065]),
        ([0.5, 0.6], [1.0, 1.0]),
        ([0.2], [0.2]),
        ([], []),
    ],
)
def test_holms_adjustment(p_values: list[float], adjusted: list[float]) -> None:
    """In the order given; a later one is never adjusted to less than an earlier one."""
    assert holm(p_values) == pytest.approx(adjusted, abs=1e-12)


@given(st.lists(st.floats(0, 1), max_size=12), st.randoms())
def test_holm_rejects_what_stepping_down_rejects(p_values: list[float], shuffle: random.Random) -> None:
    """Smallest first, each against the level by how many are left, until one is kept; the order given says nothing."""
    adjusted = holm(p_values)
    ranked = sorted(p_values)
    rejected = 0
    while rejected < len(ranked) and ranked[rejected] * (len(ranked) - rejected) <= 0.05:
        rejected += 1
    assert sum(value <= 0.05 for value in adjusted) == rejected
    assert all(before <= after <= 1 for before, after in zip(p_values, adjusted, strict=True))
    places = list(range(len(p_values)))
    shuffle.shuffle(places)
    assert holm([p_values[place] for place in places]) == [adjusted[place] for place in places]


@pytest.mark.parametrize("wrong", [-0.1, 1.1, math.nan])
def test_holm_refuses_what_is_no_p_value(wrong: float) -> None:
    """The line names it."""
    with pytest.raises(ValueError, match=f"{wrong} is no p-value"):
        holm([0.5, wrong])


@pytest.mark.parametrize(
    ("won", "lost", "p_value"),
    [
        # scipy 1.17.1, stats.binomtest(won, won + lost).pvalue
        (1, 7, 0.0703125),
        (12, 10, 0.8318119049072266),
        (60, 40, 0.05688793364098089),
        (700, 620, 0.02963642932538485),
        (0, 3, 0.25),
        (0, 0, 1.0),
        (5, 5, 1.0),
    ],
)
def test_wins_and_losses_are_tested_exactly(won: int, lost: int, p_value: float) -> None:
    """More items than `sign_flip` counts out are counted out too."""
    assert sign_test(won, lost) == pytest.approx(p_value, rel=1e-9)
    assert sign_test(lost, won) == sign_test(won, lost)


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_sign_test_is_the_sign_flip_of_ones(won: int, lost: int) -> None:
    """Two ways to count the same."""
    assert sign_test(won, lost) == pytest.approx(sign_flip([Fraction(1)] * won + [Fraction(-1)] * lost), rel=1e-12)


@pytest.mark.parametrize(("won", "lost"), [(-1, 3), (3, -1)])
def test_negative_counts_are_refused(won: int, lost: int) -> None:
    """The line names both."""
    with pytest.raises(ValueError, match=f"{won} won, {lost} lost"):
        sign_test(won, lost)
