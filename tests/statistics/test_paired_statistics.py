"""pass@k, paired differences and their tests against scipy 1.17.1, published values, or plain enumeration."""

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning import statistics
from llm_finetuning.statistics import signs

# scipy.stats.t.ppf(0.975, df)
STUDENT = {
    1: 12.706204736174694,
    2: 4.302652729749462,
    3: 3.1824463052837078,
    4: 2.7764451051977934,
    10: 2.2281388519862735,
    29: 2.0452296421327034,
    59: 2.000995378088267,
    120: 1.979930405082422,
    999: 1.9623414611334487,
    1000: 1.9623390808264083,
    100000: 1.9599877075346095,
}


@pytest.mark.parametrize(("freedom", "point"), STUDENT.items())
def test_students_point_is_scipys(freedom: int, point: float) -> None:
    """To a hundred-thousandth, for few and for many degrees of freedom."""
    assert statistics.student(freedom) == pytest.approx(point, abs=1e-5 if freedom >= 1000 else 1e-9)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([1.0, 2.0, 4.0, 7.0], -0.7099807, 7.7099807),  # scipy.stats.t.interval(0.95, 3, mean, sem)
        ([0.5, 0.5, 0.75], 0.2247789, 0.9418877),  # likewise
        ([3.0, 3.0], 3.0, 3.0),
        ([3.0], 3.0, 3.0),
    ],
)
def test_a_mean_over_items_has_students_interval(values: list[float], low: float, high: float) -> None:
    """Every item is one observation."""
    found = statistics.mean_over_items(values)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-6)
    assert found.n == len(values)


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_all_draws_of_k_that_hold_a_success(case: tuple[int, int, int]) -> None:
    """Counted out over every subset."""
    n, hits, k = case
    draws = list(itertools.combinations([True] * hits + [False] * (n - hits), k))
    assert statistics.pass_at(k, hits, n) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_pass_at_k_is_not_one_less_the_failures_to_the_power() -> None:
    """The plug-in estimate that Chen et al. warn of is biased: 1 of 4 gives 0.5 for k = 2, not 0.4375."""
    assert statistics.pass_at_k([(1, 4)] * 30, 2).value == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("counts", "k", "n", "value"),
    [
        ([(1, 2), (2, 2), (0, 2)], 1, 3, 0.5),
        ([(1, 2), (0, 1)], 2, 1, 1.0),  # one completion of the second could not be scored
        ([(0, 0)], 1, 0, 0.0),
        ([(0, 8)] * 20, 8, 20, 0.0),
        ([(8, 8)] * 20, 1, 20, 1.0),
    ],
)
def test_items_without_k_completions_are_left_out(counts: list[tuple[int, int]], k: int, n: int, value: float) -> None:
    """And the number says how many items are left."""
    found = statistics.pass_at_k(counts, k)
    assert (found.n, found.value) == (n, pytest.approx(value))
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0


def test_none_of_twenty_items_is_bounded_by_the_items_and_not_by_their_completions() -> None:
    """20 items with 8 completions each tell as much as 20: Clopper and Pearson's bound."""
    assert statistics.pass_at_k([(0, 8)] * 20, 1).high == pytest.approx(1 - 0.025 ** (1 / 20))


def test_items_of_one_rate_tell_no_more_than_their_completions() -> None:
    """Ten items with one success of two each show no spread between items; they are 20 completions all the same."""
    found, plain = statistics.pass_at_k([(1, 2)] * 10, 1), statistics.rate(10, 20)
    assert found.low < plain.low < plain.high < found.high
    assert found.high - found.low < 1.2 * (plain.high - plain.low)


@pytest.mark.parametrize(("k", "items", "shape"), [(1, 10, (0.3, 0.7)), (4, 20, (0.3, 0.7)), (1, 20, (2.0, 2.0))])
def test_the_interval_covers_when_items_differ(k: int, items: int, shape: tuple[float, float]) -> None:
    """Success is drawn anew for each item; counted as independent completions it would cover far less often."""
    draw = random.Random(3)

    def chance() -> float:
        return draw.betavariate(*shape)

    truth = sum(1 - (1 - chance()) ** k for _ in range(100_000)) / 100_000
    covered, rounds = 0, 600
    for _ in range(rounds):
        counts = [(sum(draw.random() < p for _ in range(8)), 8) for p in (chance() for _ in range(items))]
        found = statistics.pass_at_k(counts, k)
        covered += found.low <= truth <= found.high
    assert covered / rounds >= 0.93


@pytest.mark.parametrize(
    ("won", "lost", "n", "low", "high"),
    [
        # The children of Bentur et al. (2009), in Fagerland, Lydersen and Laake (2014), Statistics in Medicine 33:2850
        (1, 7, 21, -0.517, -0.026),
        (7, 1, 21, 0.026, 0.517),
        (0, 0, 20, -0.1611, 0.1611),  # z^2 / (n + z^2), from the score equation in closed form
        (20, 0, 20, 0.6777, 1.0),  # likewise
    ],
)
def test_paired_shares_have_tangos_interval(won: int, lost: int, n: int, low: float, high: float) -> None:
    """A published table, its mirror image, and the ends."""
    found = statistics.paired_shares(won, lost, n)
    assert (found.low, found.high) == pytest.approx((low, high), abs=6e-4)
    assert found.value == (won - lost) / n


@given(st.lists(st.sampled_from([1, -1, 0]), min_size=1, max_size=40))
def test_tangos_ends_solve_the_score_equation(signs: list[int]) -> None:
    """At each end the counts lie 1.96 standard errors away, with the share of losses found by a search."""
    won, lost, n = signs.count(1), signs.count(-1), len(signs)
    found = statistics.paired_shares(won, lost, n)
    assert found.low <= found.value <= found.high
    for end, side in ((found.low, 1), (found.high, -1)):
        if abs(end) < 0.9999:
            best = max((_likelihood(won, lost, n, end, q / 4000), q / 4000) for q in range(4001))[1]
            error = math.sqrt(n * (2 * best + end * (1 - end)))
            assert side * (won - lost - n * end) / error == pytest.approx(1.96, abs=0.06)


def _likelihood(won: int, lost: int, n: int, difference: float, q: float) -> float:
    shares = (q + difference, q, 1 - 2 * q - difference)
    counts = (won, lost, n - won - lost)
    if min(shares) < 0 or any(count and not share for count, share in zip(counts, shares, strict=True)):
        return -math.inf
    return sum(count * math.log(share) for count, share in zip(counts, shares, strict=True) if count)


@pytest.mark.parametrize(
    ("won", "lost", "p_value"),
    [
        (1, 7, 0.0703125),  # the same children, exact conditional test
        (5, 0, 0.0625),  # scipy.stats.binomtest(5, 5)
        (10, 12, 0.8318119049072266),  # scipy.stats.binomtest(10, 22)
        (59, 6, 4.96465e-12),  # likewise
        (0, 0, 1.0),
    ],
)
def test_with_one_completion_an_item_sign_flips_are_mcnemars_exact_test(won: int, lost: int, p_value: float) -> None:
    """Equal items say nothing; the others are a fair coin's."""
    differences = [Fraction(1)] * won + [Fraction(-1)] * lost + [Fraction(0)] * 5
    assert statistics.sign_flip(differences) == pytest.approx(p_value, rel=1e-4)


@given(
    st.lists(st.fractions(-1, 1, max_denominator=8), min_size=1, max_size=9),
)
def test_sign_flips_are_counted_out(differences: list[Fraction]) -> None:
    """Against all signs, one by one."""
    seen = abs(sum(differences))
    sums = [
        abs(sum(sign * value for sign, value in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    assert statistics.sign_flip(differences) == pytest.approx(sum(found >= seen for found in sums) / len(sums))


def test_many_items_take_the_normal_distribution_and_agree_with_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the number of items where the way changes, both ways say nearly the same."""
    draw = random.Random(5)
    differences = [Fraction(draw.choice([-3, -1, 1, 2, 3]), 8) for _ in range(statistics.EXACT_ITEMS)]
    counted = statistics.sign_flip(differences)
    monkeypatch.setattr(signs, "EXACT_ITEMS", 10)
    assert statistics.sign_flip(differences) == pytest.approx(counted, abs=0.005)
    assert statistics.sign_flip(differences) != counted


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([0.25, -0.125, 0.5, 0.0], -0.2847885, 0.5972885),  # scipy.stats.ttest_1samp(...).confidence_interval()
        ([0.0] * 30, -0.1157033, 0.1157033),  # 1 - 0.025 ** (1 / 30)
        ([1.0] * 30, 0.8842967, 1.0),
        ([0.5], -0.475, 1.0),
    ],
)
def test_paired_means_have_students_interval_and_a_bound_where_nothing_differs(
    values: Sequence[float], low: float, high: float
) -> None:
    """Thirty items without a difference do not prove that there is none."""
    found = statistics.paired_mean(values)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-6)


def test_the_smallest_difference_is_shown_in_four_of_five_tries() -> None:
    """Simulated: a true difference of that size leaves zero outside the interval about 80 times in 100."""
    draw = random.Random(7)
    spread = [draw.choice([-0.25, 0.0, 0.0, 0.25, 0.5]) for _ in range(40)]
    smallest = statistics.smallest_shown(spread)
    middle = sum(spread) / len(spread)
    centred = [value - middle + smallest for value in spread]
    tries = [statistics.paired_mean(draw.choices(centred, k=40)) for _ in range(1500)]
    assert sum(found.low > 0 for found in tries) / len(tries) == pytest.approx(0.8, abs=0.06)
    assert statistics.smallest_shown([0.0] * 30) == pytest.approx(1 - 0.025 ** (1 / 30))
