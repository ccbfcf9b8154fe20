"""The true rate behind an imperfect judge: a published example, the equations its ends solve, and simulated judges."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.statistics import Z_95, clustered_share, corrected_rate, rate, stratified_share
from llm_finetuning.types import Estimate, Rate

Counts = tuple[int, int, int, int]  # true positives of positives, true negatives of negatives


def corrected(apparent: Rate | Estimate, counts: Counts) -> Estimate | None:
    passes, positives, fails, negatives = counts
    return corrected_rate(
        apparent, true_positives=passes, positives=positives, true_negatives=fails, negatives=negatives
    )


def known(apparent: Rate | Estimate, counts: Counts) -> Estimate:
    found = corrected(apparent, counts)
    assert found is not None
    return found


def test_a_published_example_with_a_known_judge() -> None:
    """23 of 150 cows positive, sensitivity 96%, specificity 89%: 5.1% ill, 0 to 13% (epiR, manual of epi.prev).

    A million labels a class stand for a judge that is known.
    """
    found = known(rate(23, 150), (960_000, 10**6, 890_000, 10**6))
    assert found.value == pytest.approx(0.051, abs=5e-4)
    assert found.low == 0.0
    assert found.high == pytest.approx(0.13, abs=5e-3)
    assert found.n == 150


@pytest.mark.parametrize(("hits", "n"), [(0, 30), (3, 60), (45, 90), (30, 30)])
def test_a_judge_without_faults_changes_nothing(hits: int, n: int) -> None:
    """A million labels without an error: the share and the interval that the judge's verdicts have by themselves."""
    plain, found = rate(hits, n), known(rate(hits, n), (10**6, 10**6, 10**6, 10**6))
    assert found.value == pytest.approx(hits / n)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), abs=1e-4)


def lang_and_reiczigel(passed: int, judged: int, counts: Counts) -> tuple[float, float]:
    """Return the limits of Lang and Reiczigel (2014), Preventive Veterinary Medicine 113:13, equations 4, 6, 7, 16, 17.

    Read from the R package asht, prevSeSp, which corrects the sign in the variance.
    """
    passes, positives, fails, negatives = counts
    n, seen = judged + Z_95**2, (passed + Z_95**2 / 2) / (judged + Z_95**2)
    sensitivity, specificity = (passes + 1) / (positives + 2), (fails + 1) / (negatives + 2)
    told = sensitivity + specificity - 1
    share = (seen + specificity - 1) / told
    of_passes = sensitivity * (1 - sensitivity) / (positives + 2)
    of_fails = specificity * (1 - specificity) / (negatives + 2)
    middle = share + 2 * Z_95**2 * (share * of_passes - (1 - share) * of_fails)
    error = math.sqrt(seen * (1 - seen) / n + share**2 * of_passes + (1 - share) ** 2 * of_fails) / told
    return max(0.0, middle - Z_95 * error), min(1.0, middle + Z_95 * error)


@pytest.mark.parametrize(
    ("passed", "judged", "counts"),
    [
        (300, 1000, (270, 300, 276, 300)),
        (700, 1000, (560, 600, 520, 600)),
        (520, 1000, (380, 400, 320, 400)),
        (150, 1000, (880, 1000, 900, 1000)),
    ],
)
def test_with_many_labels_it_is_the_interval_of_lang_and_reiczigel(passed: int, judged: int, counts: Counts) -> None:
    """Another way to the same 95%: they agree within a twentieth of their length."""
    found, ends = known(rate(passed, judged), counts), lang_and_reiczigel(passed, judged, counts)
    assert (found.low, found.high) == pytest.approx(ends, abs=(ends[1] - ends[0]) / 20)


COUNTS = st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60)).map(
    lambda parts: (parts[0], parts[0] + parts[1], parts[2], parts[2] + parts[3])
)


@given(st.integers(0, 80), st.integers(0, 80), COUNTS)
def test_an_end_lies_where_the_three_intervals_just_allow_it(passed: int, failed: int, counts: Counts) -> None:
    """At an end inside 0..1 the rates differ from the true rate's by just their deviations, squared and added.

    An apparent rate that no true rate gives is moved to the nearest that one does, with its deviations.
    """
    apparent, found = rate(passed, passed + failed), corrected(rate(passed, passed + failed), counts)
    if found is None:
        return
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high
    passes, fails = rate(counts[0], counts[1]), rate(counts[2], counts[3])
    right, wrong = counts[0] / counts[1], counts[2] / counts[3]
    share = passed / (passed + failed)
    moved = min(max(share, 1 - wrong), right)
    for end, own, of_right, of_wrong in (
        (found.low, share - apparent.low, passes.high - right, wrong - fails.low),
        (found.high, apparent.high - share, right - passes.low, fails.high - wrong),
    ):
        off = abs(moved - end * right - (1 - end) * (1 - wrong))
        allowed = math.sqrt(own**2 + (end * of_right) ** 2 + ((1 - end) * of_wrong) ** 2)
        if 0 < end < 1:
            assert off == pytest.approx(allowed, abs=1e-9)
        else:
            assert off <= allowed + 1e-9


@given(st.integers(0, 80), st.integers(0, 80), COUNTS)
def test_the_share_that_fails_mirrors_the_share_that_passes(passed: int, failed: int, counts: Counts) -> None:
    """To count failures with a judge of failures is the same question."""
    one = corrected(rate(passed, passed + failed), counts)
    other = corrected(rate(failed, passed + failed), (*counts[2:], *counts[:2]))
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert (one.low, one.value, one.high) == pytest.approx((1 - other.high, 1 - other.value, 1 - other.low))


@pytest.mark.parametrize(
    ("apparent", "counts"),
    [
        (rate(0, 0), (40, 50, 40, 50)),
        (rate(30, 60), (0, 0, 40, 50)),
        (rate(30, 60), (40, 50, 0, 0)),
        (rate(30, 60), (25, 50, 25, 50)),  # a coin
        (rate(30, 60), (10, 50, 10, 50)),  # says the opposite
        (rate(30, 60), (29, 50, 29, 50)),  # TPR + TNR - 1 is 0.16, and could as well be -0.03
        (rate(30, 60), (3, 3, 2, 3)),  # too few labels to tell
    ],
    ids=["nothing judged", "no positives", "no negatives", "coin", "opposite", "hardly", "few"],
)
def test_a_judge_that_tells_nothing_gives_no_rate(apparent: Rate, counts: Counts) -> None:
    """Nothing is known of the true rate, and no number says so better than none."""
    assert corrected(apparent, counts) is None


def test_a_judge_that_tells_a_little_gives_a_rate_that_may_be_anything() -> None:
    """TPR + TNR - 1 of 0.2 is just shown to lie above 0."""
    found = known(rate(30, 60), (30, 50, 30, 50))
    assert (found.low, found.high) == (0.0, 1.0)
    assert found.value == pytest.approx(0.5)


@pytest.mark.parametrize("counts", [(51, 50, 40, 50), (40, 50, 51, 50), (-1, 50, 40, 50), (40, 50, -1, 50)])
def test_counts_that_contradict_each_other_are_refused(counts: Counts) -> None:
    """The line names both pairs."""
    with pytest.raises(ValueError, match=f"{counts[0]} of {counts[1]} and {counts[2]} of {counts[3]}"):
        corrected(rate(30, 60), counts)


def test_a_rate_beyond_what_the_judge_gives_is_no_certainty() -> None:
    """The judge passes 80% of right work and all of the judged: the rate is 1, its interval as long as at 80%."""
    beyond, at = known(rate(100, 100), (80, 100, 95, 100)), known(rate(80, 100), (80, 100, 95, 100))
    assert beyond.value == at.value == beyond.high == 1.0
    assert at.low < 0.95
    assert beyond.low < 0.98


# True rate, TPR, TNR, labelled positives and negatives, judged
SETTINGS = [
    (0.0, 0.90, 0.90, 60, 60, 200),
    (0.02, 0.90, 0.95, 25, 75, 200),
    (0.05, 0.75, 0.95, 20, 60, 500),
    (0.05, 0.99, 0.99, 500, 500, 30),
    (0.3, 0.80, 0.90, 20, 20, 1000),
    (0.5, 0.95, 0.85, 60, 60, 50),
    (0.5, 0.80, 0.80, 500, 500, 3000),
    (0.5, 0.99, 0.99, 30, 30, 300),
    (0.8, 0.98, 0.80, 20, 60, 3000),
    (0.9, 0.85, 0.99, 100, 100, 500),
    (0.95, 0.85, 0.99, 500, 500, 3000),
    (0.98, 0.95, 0.80, 30, 30, 200),
    (0.99, 0.99, 0.99, 10, 10, 3000),
    (1.0, 0.90, 0.80, 60, 20, 1000),
]
AT_LEAST = 928  # of 1,000 at 95%: fewer in one run of a thousand (scipy.stats.binom.ppf(0.001, 1000, 0.95))


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_interval_holds_the_truth(setting: tuple[float, float, float, int, int, int]) -> None:
    """Of a thousand judges, each calibrated and then let loose on other items, 95% of the intervals hold the true rate.

    They are no longer than they need be: on average at most a fifth longer than those of Lang and Reiczigel.
    """
    truth, right, wrong, positives, negatives, judged = setting
    draw = np.random.default_rng(11)
    passed = draw.binomial(judged, truth * right + (1 - truth) * (1 - wrong), 1000).tolist()
    passes, fails = draw.binomial(positives, right, 1000).tolist(), draw.binomial(negatives, wrong, 1000).tolist()
    covered, length, theirs = 0, 0.0, 0.0
    for of_judged, of_right, of_wrong in zip(passed, passes, fails, strict=True):
        counts = (of_right, positives, of_wrong, negatives)
        found = corrected(rate(of_judged, judged), counts)
        if found is None:  # anywhere in 0..1
            covered += 1
            continue
        covered += found.low <= truth <= found.high
        low, high = lang_and_reiczigel(of_judged, judged, counts)
        length, theirs = length + found.high - found.low, theirs + high - low
    assert covered >= AT_LEAST
    assert length <= 1.2 * theirs


def test_completions_in_clusters_widen_the_interval_and_it_holds_the_truth() -> None:
    """Sixty items with eight completions each that resemble each other: as one sample of 480 it would hold far less."""
    draw = np.random.default_rng(12)
    truth = 0.4
    covered = plain = 0
    for _ in range(1000):
        chances = draw.beta(0.8, 1.2, 60)
        passed = draw.binomial(8, chances * 0.9 + (1 - chances) * 0.1).tolist()
        counts = (int(draw.binomial(200, 0.9)), 200, int(draw.binomial(200, 0.9)), 200)
        found = known(clustered_share([(hits, 8) for hits in passed]), counts)
        single = known(rate(sum(passed), 480), counts)
        covered += found.low <= truth <= found.high
        plain += single.low <= truth <= single.high
        assert found.value == pytest.approx(single.value)
        assert found.n == 480
    assert covered >= AT_LEAST
    assert plain < 850


def test_a_share_that_was_read_whole_leaves_the_judges_uncertainty() -> None:
    """An apparent rate without an interval of its own: what is left comes from the labels, and more of them end it."""
    whole = stratified_share([(100, 40, 100)])
    few, many = known(whole, (45, 50, 45, 50)), known(whole, (450_000, 500_000, 450_000, 500_000))
    assert whole.low == whole.high == 0.4
    assert few.low < many.low < few.value < many.high < few.high
    assert few.value == pytest.approx(0.375)
    assert many.high - many.low < 0.01
