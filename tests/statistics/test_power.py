"""How many items show a gain: published numbers, and comparisons drawn and decided by the product's own tests."""

import functools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.statistics import gain_shown, items_needed, paired_mean, paired_shares, power, sign_flip

LEVEL = 0.05

Counts = Sequence[tuple[int, int]]


@pytest.mark.parametrize(
    ("won", "lost", "items"),
    [
        (0.45, 0.05, 23),  # powerandsamplesize.com, McNemar's Z-test, 2-sided: Connor (1987), page 209
        (0.30, 0.15, 155),  # clinicaltrials-tools, McNemar, Connor (1987): odds ratio 2, discordant 0.45
    ],
)
def test_without_the_correction_it_is_connors_number(won: float, lost: float, items: int) -> None:
    """One completion an item: the variance of the difference follows from how often the two differ."""
    gain = won - lost
    assert math.ceil(power._needed(gain, won + lost - gain**2, math.inf)) == items


@pytest.mark.parametrize("variance", [0.1, 0.4])
def test_for_a_small_gain_it_is_millers_number(variance: float) -> None:
    """(z + z)^2 times the variance of a difference, by the square of the gain (Miller 2024, on sample sizes)."""
    gain = 0.002
    assert power._needed(gain, variance, math.inf) == pytest.approx(
        (1.959964 + 0.841621) ** 2 * variance / gain**2, 1e-3
    )


def shown(gains: Sequence[Fraction], *, single: bool) -> bool:
    """Tell whether both the test and the interval show a gain."""
    if single:
        difference = paired_shares(gains.count(Fraction(1)), gains.count(Fraction(-1)), len(gains))
    else:
        difference = paired_mean([float(gain) for gain in gains])
    return difference.low > 0 and sign_flip(gains) <= LEVEL


@functools.cache
def shown_by_counts(won: int, lost: int, n: int) -> bool:
    return shown([Fraction(1)] * won + [Fraction(-1)] * lost + [Fraction(0)] * (n - won - lost), single=True)


@pytest.mark.parametrize(
    ("base", "gain", "most"),
    [(0.3, 0.1, 0.83), (0.5, 0.1, 0.83), (0.8, 0.1, 0.84), (0.1, 0.1, 0.84), (0.5, 0.2, 0.84), (0.1, 0.3, 0.88)],
)
def test_a_guess_gives_enough_items_for_independent_answers(base: float, gain: float, most: float) -> None:
    """Two thousand comparisons with one completion an item: four of five show the gain, and a tenth fewer items do not.

    `most` leaves room for small numbers, which an exact test takes in steps.
    """
    draw = np.random.default_rng(5)

    def power_at(items: int) -> float:
        won, lost = (1 - base) * (base + gain), base * (1 - base - gain)
        drawn = draw.multinomial(items, [won, lost, 1 - won - lost], 2000).tolist()
        return sum(shown_by_counts(up, down, items) for up, down, _ in drawn) / 2000

    items = items_needed(gain, base=base)
    assert 0.8 - 0.027 <= power_at(items) <= most + 0.025  # three standard errors
    assert power_at(round(items * 0.8)) < 0.8


def evaluated(draw: np.random.Generator, rates: np.ndarray, completions: int) -> list[tuple[int, int]]:
    return [(hits, completions) for hits in draw.binomial(completions, rates).tolist()]


@pytest.mark.parametrize(
    ("shape", "gain", "completions"),
    [((0.5, 0.5), 0.1, 4), ((2, 3), 0.1, 4), ((0.3, 0.7), 0.1, 2), ((0.3, 0.7), 0.15, 8), ((0.3, 0.7), 0.12, 1)],
)
def test_a_measured_base_gives_just_enough_items(shape: tuple[float, float], gain: float, completions: int) -> None:
    """Rates of items that differ, half of them kept by the candidate: four of five comparisons show the gain.

    The base was evaluated on 2,000 items; a base that is only guessed asks for at least as many items.
    """
    draw = np.random.default_rng(6)

    def rates(*size: int) -> np.ndarray:
        return draw.beta(*shape, size) * (1 - gain)

    measured = rates(2000)
    items = items_needed(gain, base=evaluated(draw, measured, 16), completions=completions)
    tries = 600
    before = rates(tries, items)
    after = np.where(draw.random((tries, items)) < 0.5, before, rates(tries, items)) + gain
    gains = (draw.binomial(completions, after) - draw.binomial(completions, before)).tolist()
    found = sum(shown([Fraction(gain, completions) for gain in row], single=completions == 1) for row in gains) / tries
    assert 0.8 - 0.05 <= found <= 0.84 + 0.045  # three standard errors, and small numbers of items
    assert items_needed(gain, base=float(measured.mean()), completions=completions) >= items * 0.98


def test_a_guess_is_the_worst_of_all_spreads() -> None:
    """With four completions an item no spread of a base with this pass@1 asks for more items than a guess of it."""
    spreads: list[Counts] = [[(2, 8)] * 40, [(0, 8)] * 30 + [(8, 8)] * 10, [(0, 8), (1, 8), (2, 8), (5, 8)] * 10]
    found = [items_needed(0.1, base=spread, completions=4) for spread in spreads]
    assert max(found) == items_needed(0.1, base=0.25, completions=4)
    assert min(found) < 0.6 * max(found)


def test_one_completion_an_item_does_not_tell_the_spread() -> None:
    """Such an evaluation says no more than its pass@1."""
    for completions in (1, 4):
        guessed = items_needed(0.1, base=0.25, completions=completions)
        assert items_needed(0.1, base=[(1, 1), (0, 1), (0, 1), (0, 1)], completions=completions) == guessed
    assert items_needed(0.1, base=[(2, 8), (0, 0)]) == items_needed(0.1, base=0.25)


def test_more_completions_help_until_the_items_spread_is_left() -> None:
    """Half a spread between items: eight completions need fewer items than one, but never half as few again."""
    base = [(0, 8), (1, 8), (3, 8), (4, 8), (6, 8), (8, 8)] * 10
    one, four, many = (items_needed(0.05, base=base, completions=completions) for completions in (1, 4, 10_000))
    assert one > four > many > 0.2 * one
    assert items_needed(0.05, base=base, completions=4, correlation=0.9) < four


def test_a_gain_has_at_least_the_spread_of_wins_alone() -> None:
    """Models alike in every item that is all or nothing still gain by winning whole items: as from a base of none."""
    base = [(0, 8)] * 7 + [(8, 8)] * 3
    assert items_needed(0.2, base=base, correlation=1.0) == items_needed(0.2, base=0.0)


@given(st.integers(5, 5000), st.floats(0.0, 0.99), st.sampled_from([1, 2, 8]), st.sampled_from([0.0, 0.5, 1.0]))
def test_the_gain_that_is_shown_is_the_reverse(items: int, base: float, completions: int, correlation: float) -> None:
    """So many items show that gain, and hardly less; None says that they show no gain at all."""
    gain = gain_shown(items, base=base, completions=completions, correlation=correlation)

    def needed(wanted: float) -> int:
        return items_needed(wanted, base=base, completions=completions, correlation=correlation)

    if gain is None:
        assert needed(1 - base) > items
    else:
        assert needed(gain) <= items <= needed(gain * 0.999)


def test_nothing_is_shown_by_five_items_or_of_a_perfect_base() -> None:
    """Five wins of five leave a p-value of 0.0625."""
    assert sign_flip([Fraction(1)] * 5) > LEVEL
    assert gain_shown(5, base=0.0) is None
    assert gain_shown(1000, base=1.0) is None
    assert gain_shown(9, base=0.0) is not None


@pytest.mark.parametrize(
    ("gain", "options", "words"),
    [
        (0.0, {"base": 0.5}, "a gain of 0.0"),
        (0.6, {"base": 0.5}, "a gain of 0.6 from a pass@1 of 0.5"),
        (0.1, {"base": 1.2}, "^a pass@1 of 1.2: it lies in 0..1"),
        (0.1, {"base": -0.1}, "^a pass@1 of -0.1"),
        (0.1, {"base": 0.5, "completions": 0}, "0 completions"),
        (0.1, {"base": 0.5, "correlation": 1.5}, "correlation 1.5"),
        (0.1, {"base": [(0, 0)]}, "no scored item"),
    ],
)
def test_impossible_wishes_are_refused(gain: float, options: dict[str, float], words: str) -> None:
    """The line names the number."""
    with pytest.raises(ValueError, match=words):
        items_needed(gain, **options)
    assert items_needed(0.1, base=0.9) == items_needed(1 - 0.9, base=0.9)  # rounding is no impossible wish
