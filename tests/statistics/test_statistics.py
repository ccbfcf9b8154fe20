"""Every statistic against a published value, statsmodels 0.15.0, or plain enumeration."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning import statistics
from llm_finetuning.statistics import groups, shares


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [
        (3, 60, 0.017149502164395668, 0.1370051647634852),  # statsmodels, proportion_confint, wilson
        (1, 8, 0.022417491450056642, 0.47088818221285356),  # likewise
        (0, 50, 0.0, 0.07112173646419767),  # likewise, beta: Clopper and Pearson
        (50, 50, 0.9288782635358024, 1.0),  # likewise
        # Table I of Newcombe 1998, Statistics in Medicine 17:857-872: the score method, the exact one at the ends
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (1, 29, 0.0061, 0.1718),
        (0, 20, 0.0, 0.1684),
        (29, 29, 0.8806, 1.0),
        (0, 0, 0.0, 1.0),
    ],
)
def test_a_share_has_wilsons_interval_and_the_exact_one_at_its_ends(hits: int, n: int, low: float, high: float) -> None:
    """None of 50 still allows 7%."""
    found = statistics.rate(hits, n)
    assert (found.low, found.high) == pytest.approx(
        (low, high), abs=6e-5 if round(high + low, 4) == high + low else 1e-12
    )


@pytest.mark.parametrize(
    ("table", "value", "low", "high"),
    [
        ((20, 5, 10, 15), 0.4, 0.151092290476661, 0.6489077095233389),  # statsmodels, cohens_kappa
        ((45, 15, 25, 15), 0.13043478260869554, -0.06293827779258965, 0.3238078430099807),
        ((61, 2, 5, 32), 0.8472949389179757, 0.7385296748263419, 0.9560602030096095),
        ((88, 10, 14, 10), 0.33575317604355726, 0.12674698633961445, 0.5447593657475001),
    ],
)
def test_kappa_and_its_interval(table: tuple[int, int, int, int], value: float, low: float, high: float) -> None:
    """Agreement beyond chance, with the variance of Fleiss, Cohen and Everitt."""
    found = statistics.kappa(*table)
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((value, low, high), abs=1e-9)


@pytest.mark.parametrize("table", [(0, 0, 0, 0), (7, 0, 0, 0), (0, 0, 0, 7)])
def test_kappa_is_not_defined_where_chance_agrees_on_all(table: tuple[int, int, int, int]) -> None:
    """One that never says no has shown nothing."""
    assert statistics.kappa(*table) is None


@given(st.lists(st.sampled_from([0.0, 0.4, 1.0]), min_size=3, max_size=9), st.integers(2, 3))
def test_the_share_of_mixed_groups_is_that_of_all_subsets(group: list[float], size: int) -> None:
    """The estimate without a model is what enumeration gives."""
    subsets = list(itertools.combinations(group, size))
    mixed = sum(len(set(subset)) > 1 for subset in subsets) / len(subsets)

    assert statistics.share_with_signal([group], size).value == pytest.approx(mixed)


def test_two_generations_waste_most_groups() -> None:
    """At a success of 18% two completions differ in three groups of ten, eight in eight of ten."""
    singles = [[place < 18] for place in range(100)]
    two, eight = (statistics.share_with_signal(singles, size) for size in (2, 8))

    assert two.value == pytest.approx(2 * 0.18 * 0.82)
    assert eight.value == pytest.approx(1 - 0.82**8 - 0.18**8)
    success = statistics.rate(18, 100)
    assert two.low == pytest.approx(2 * success.low * (1 - success.low))
    assert two.high == pytest.approx(2 * success.high * (1 - success.high))


def test_an_even_success_is_the_likeliest_to_differ() -> None:
    """The interval reaches the top where the success may be one half."""
    found = statistics.share_with_signal([[place < 45] for place in range(100)], 2)
    assert found.high == pytest.approx(0.5)


def test_dead_groups_are_not_hidden_by_the_pooled_spread() -> None:
    """Prompts that always or never succeed give no signal, whatever the pool looks like."""
    found = statistics.share_with_signal([[1.0] * 8, [0.0] * 8, [1.0] * 8, [0.0] * 8], 4)
    assert found.value == 0.0
    assert found.high < 0.7


def test_unequal_reading_is_weighed() -> None:
    """What was read more of counts no more; a whole that was read has no interval left."""
    found = statistics.stratified_share([(900, 4, 40), (100, 15, 20)])
    assert found.value == pytest.approx(0.9 * 0.1 + 0.1 * 0.75)
    assert found.low < found.value < found.high
    whole = statistics.stratified_share([(40, 4, 40), (20, 15, 20)])
    assert whole.low == whole.high == pytest.approx(19 / 60)
    assert statistics.stratified_share([]).high == 1.0
    plain = statistics.stratified_share([(10**9, 3, 60)])
    assert (plain.low, plain.high) == pytest.approx((statistics.rate(3, 60).low, statistics.rate(3, 60).high), abs=1e-6)


def test_the_weighted_interval_covers_the_truth() -> None:
    """Of two thousand simulated readings at least nine in ten hold the true share."""
    draw = random.Random(0)
    wholes = [(900, 45), (100, 60)]  # size, true hits
    truth = sum(hits for _, hits in wholes) / sum(size for size, _ in wholes)
    covered = 0
    for _ in range(2000):
        strata = []
        for size, hits in wholes:
            read = draw.sample([True] * hits + [False] * (size - hits), 30)
            strata.append((size, sum(read), 30))
        found = statistics.stratified_share(strata)
        covered += found.low <= truth <= found.high
    assert covered / 2000 > 0.9


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50), st.integers(0, 50)), max_size=5))
def test_an_interval_holds_its_share(strata: list[tuple[int, int, int]]) -> None:
    """Any counts give ends in order, within 0 and 1."""
    sound = [(size + n, min(hits, n), n) for size, hits, n in strata]
    found = statistics.stratified_share(sound)
    assert 0.0 <= found.low <= found.value + 1e-12
    assert found.value - 1e-12 <= found.high <= 1.0
    assert math.isfinite(found.value)


CLUSTERS = [(3, 8), (0, 8), (8, 8), (5, 8), (1, 8), (2, 6)]


def test_a_clustered_share_has_the_variance_of_its_clusters() -> None:
    """Standard error of statsmodels (OLS on a constant, cov_type='cluster'), then Wilson's at the effective size."""
    found = statistics.clustered_share(CLUSTERS)
    error = 0.15336394341755633
    share = 19 / 46
    expected = shares.wilson(share, share * (1 - share) / error**2)

    assert (found.value, found.n) == (pytest.approx(share), 46)
    assert (found.low, found.high) == pytest.approx((0.17900996442982614, 0.6942944417190147), abs=1e-12)
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("clusters", "low", "high"),
    [
        ([(0, 8)] * 16, 0.0, 0.20590721420782276),  # scipy, binomtest(0, 16).proportion_ci(): prompts, not completions
        ([(8, 8)] * 16, 0.7940927857921772, 1.0),
        ([], 0.0, 1.0),
        ([(4, 8)], 0.0546, 0.9454),  # one prompt tells as one observation does: Wilson's for n = 1
        ([(4, 8)] * 10, 0.3930, 0.6070),  # prompts that do not differ: every completion counts
    ],
)
def test_a_clustered_share_at_its_ends(clusters: list[tuple[int, int]], low: float, high: float) -> None:
    """Where nothing differs, a prompt counts once."""
    found = statistics.clustered_share(clusters)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)


def test_the_clustered_interval_covers_the_truth() -> None:
    """Of a thousand simulated runs of 40 prompts nine in ten hold the truth; the plain interval holds far fewer."""
    draw = random.Random(0)
    covered = plain = 0
    for _ in range(1000):
        clusters = []
        for _ in range(40):
            chance = draw.betavariate(0.6, 1.4)
            clusters.append((sum(draw.random() < chance for _ in range(8)), 8))
        found = statistics.clustered_share(clusters)
        covered += found.low <= 0.3 <= found.high
        single = statistics.rate(sum(hits for hits, _ in clusters), 320)
        plain += single.low <= 0.3 <= single.high
    assert covered > 920
    assert plain < 800


@pytest.mark.parametrize(
    ("n", "share", "expected"),
    [
        # scipy.stats.quantile_test(range(1, n + 1), p=share).confidence_interval(0.95)
        (100, 0.95, (95, 90, 100)),
        (100, 0.5, (50, 40, 61)),
        (40, 0.95, (38, 35, None)),
        (1000, 0.95, (950, 936, 964)),
        (1, 0.95, (1, None, None)),
    ],
)
def test_a_quantile_has_the_interval_of_its_order_statistics(
    n: int, share: float, expected: tuple[float, float | None, float | None]
) -> None:
    """Any distribution; an end that the sample does not reach is not known."""
    assert statistics.quantile(range(1, n + 1), share) == expected


@pytest.mark.parametrize(
    ("size", "chance"),  # scipy.stats.betabinom.pmf(size, size, 0.7, 1.9)
    [(4, 0.04930497491638797), (8, 0.016455147197219258), (16, 0.004978885686999195)],
)
def test_all_of_a_group_succeed_as_in_the_beta_binomial(size: int, chance: float) -> None:
    """Success that differs from prompt to prompt: Skellam's distribution."""
    assert groups._all_same(0.7 / 2.6, 1 / 3.6, size) == pytest.approx(chance, rel=1e-12)


def test_prompts_of_one_kind_or_of_two_are_the_ends_of_the_prediction() -> None:
    """Alike prompts: the binomial. All or nothing: no size helps."""
    alike = statistics.predicted_mixed([(2, 8)] * 20, 16)
    split = statistics.predicted_mixed([(8, 8), (0, 8)] * 10, 64)

    assert alike.value == pytest.approx(1 - 0.25**16 - 0.75**16)
    assert split.value == pytest.approx(0.0)
    assert split.high < 0.2


def test_the_resemblance_of_completions_is_that_of_the_analysis_of_variance() -> None:
    """Mean squares of statsmodels' anova_lm, with the usual size of unequal clusters; and the two ends."""
    between, within, usual = 1.038768115942029, 0.14895833333333333, (46 - 356 / 46) / 5
    assert statistics.intraclass(CLUSTERS) == pytest.approx((between - within) / (between + (usual - 1) * within))
    assert statistics.intraclass([(8, 8), (0, 8)]) == 1.0
    assert statistics.intraclass([(4, 8)] * 4) == 0.0


def test_the_predicted_signal_is_right_for_new_groups() -> None:
    """From 60 prompts of 8, the share of mixed groups of 32 of the same prompts' kind is foretold, and covered."""
    draw = random.Random(1)
    truth = 1 - groups._all_same(0.3, 1 / 3, 32) - groups._all_same(0.7, 1 / 3, 32)
    covered, values = 0, []
    for _ in range(300):
        drawn = []
        for _ in range(60):
            chance = draw.betavariate(0.6, 1.4)
            drawn.append((sum(draw.random() < chance for _ in range(8)), 8))
        found = statistics.predicted_mixed(drawn, 32)
        values.append(found.value)
        covered += found.low <= truth <= found.high
    assert sum(values) / 300 == pytest.approx(truth, abs=0.03)
    assert covered / 300 > 0.88
