"""Values that can or cannot be trained on: machinery, components, and TRL's own advantages."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import pytest

from evidence_records import codes, evidence, named, of_rewards, scored, value
from llm_finetuning.findings import values
from llm_finetuning.findings.evidence import Plan
from llm_finetuning.stages.score import Aggregation, advantages_of
from llm_finetuning.types import HonestWork, ProbeReport


def dry(table: Any, weights: Any, sizes: Any, mode: Any) -> list[float]:
    return advantages_of(table, weights, sizes, Aggregation(multi_objective_aggregation=mode))


@pytest.mark.parametrize(
    ("reason", "machinery"),
    [
        ("judge_unreachable", True),
        ("judge_unparsed", True),
        ("infrastructure", True),
        ("not_installed", True),
        ("out_of_time", True),
        ("gold_unreadable", False),
        (None, False),
    ],
)
def test_failed_machinery_is_apart_from_faulty_golds(reason: str | None, *, machinery: bool) -> None:
    """A sandbox that is down is no fault of the rows, and no zero."""
    down = scored(0, 0, None, values=[value("r", None, reason)])
    found = values.abstention_findings(evidence([down, *of_rewards([[1.0, 0.0]] * 5)[1:]]))

    assert machinery == ("infrastructure" in codes(found))
    assert named(found, "unscored").rate.hits == (0 if machinery else 1)
    assert named(found, "unscored").data_rows == ([] if machinery else [1])


def test_a_reason_beside_a_value_is_no_abstention() -> None:
    """A program that took too long was paid 0: that is its own fault."""
    paid = scored(0, 0, 0.0, values=[value("r", 0.0, "out_of_time")])

    assert "infrastructure" not in codes(values.abstention_findings(evidence([paid, scored(0, 1, 1.0)])))


def test_machinery_that_fails_beside_another_reward_counts() -> None:
    """The sum is a number then, but not the one that was meant."""
    half = scored(0, 0, 1.0, values=[value("r", None, "judge_timeout"), value("s", 1.0)])
    finding = named(values.abstention_findings(evidence([half, scored(0, 1, 0.0)])), "infrastructure")

    assert finding.weight == "blocks"
    assert "(judge_timeout 1)" in finding.text
    assert "no zeros" in finding.next_action


@pytest.mark.parametrize(("n", "weight"), [(100, "warns"), (99, "blocks")])
def test_a_hundredth_of_failed_machinery_is_allowed(n: int, weight: str) -> None:
    """1 of 100 is at the limit, 1 of 99 above it; both are said."""
    down = scored(0, 0, None, values=[value("r", None, "infrastructure")])
    rest = [scored(place, 1, 1.0) for place in range(1, n)]

    assert named(values.abstention_findings(evidence([down, *rest])), "infrastructure").weight == weight


def two(group: int, index: int, first: float, second: float) -> Any:
    return scored(group, index, first + second, values=[value("a", first), value("b", second)])


def test_shares_are_of_the_variance_within_groups() -> None:
    """`b` differs from prompt to prompt alone, which no advantage sees; `a` is all of it."""
    policy = [two(group, index, index % 2, 10.0 * group) for group in range(4) for index in range(4)]

    assert values.component_shares(evidence(policy)) == pytest.approx({"a": 1.0, "b": 0.0})


def test_shares_follow_the_weights_and_sum_to_one() -> None:
    """Independent components of equal spread share by the square of their weights."""
    policy = [two(0, 2 * first + second, first, second) for first in (0, 1) for second in (0, 1)]
    shares = values.component_shares(evidence(policy, plan=Plan(weights={"a": 2.0})))

    assert shares == pytest.approx({"a": 0.8, "b": 0.2})


def test_a_sum_that_form_decides_warns() -> None:
    """Nine tenths and more of the variance from form: training would follow form."""
    for small, names, weight in ((0.1, ["b"], "warns"), (0.1, ["a"], "fine"), (0.5, ["b"], "fine")):
        policy = [two(0, index, small * (index % 2), float(index // 2)) for index in range(4)]
        plan = Plan(form_rewards=frozenset(names))
        assert named(values.component_findings(evidence(policy, plan=plan)), "component-shares").weight == weight


@pytest.mark.parametrize(
    ("form", "weights", "blocks"),
    [
        (["a", "b"], {}, True),
        (["a"], {}, False),
        (["a"], {"b": 0.0}, True),  # a weight of 0 only watches
        ([], {}, False),
        ([], {"a": 0.0, "b": 0.0}, False),  # nothing is paid at all, which the groups say
    ],
)
def test_form_alone_is_no_reward(form: list[str], weights: dict[str, float], *, blocks: bool) -> None:
    """It can be earned with no content, so GRPO needs something that tells right from wrong."""
    policy = [two(0, index, float(index % 2), float(index // 2)) for index in range(4)]
    plan = Plan(form_rewards=frozenset(form), weights=weights)

    assert blocks == ("format-only" in codes(values.component_findings(evidence(policy, plan=plan))))


def test_advantages_of_sound_rewards_are_finite_in_both_modes() -> None:
    """Also with an abstention in one of eight rows (which normalising each reward first once made NaN)."""
    rows = [two(group, index, index % 2, (index // 2) % 2) for group in range(2) for index in range(4)]
    values_of = [value("a", 1.0), value("b", None, "gold_unreadable")]
    rows[5] = scored(1, 1, 1.0, values=values_of)
    found = values.advantage_findings(evidence(rows, plan=Plan(advantages=dry)))

    assert named(found, "advantages").weight == "fine"
    assert "sum_then_normalize: 4 of 8 are not zero" in named(found, "advantages").text


def nan_in_one_mode(table: Any, weights: Any, sizes: Any, mode: Any) -> list[float]:
    got = dry(table, weights, sizes, mode)
    return [math.nan] * len(got) if mode == "normalize_then_sum" else got


def zero(table: Sequence[Any], *_: Any) -> list[float]:
    return [0.0] * len(table)


@pytest.mark.parametrize(
    ("advantages", "aggregation", "weight"),
    [
        (nan_in_one_mode, "normalize_then_sum", "blocks"),
        (nan_in_one_mode, "sum_then_normalize", "warns"),
        (zero, "sum_then_normalize", "blocks"),
        (dry, "sum_then_normalize", "fine"),
    ],
)
def test_advantages_that_teach_nothing_block_in_the_planned_mode(
    advantages: Any, aggregation: Any, weight: str
) -> None:
    """NaN stops learning silently; so does zero for all though rewards differ."""
    plan = Plan(advantages=advantages, aggregation=aggregation)
    found = values.advantage_findings(evidence(of_rewards([[1.0, 0.0]] * 3), plan=plan))

    assert named(found, "advantages").weight == weight


def test_constant_groups_are_no_fault_of_the_advantages() -> None:
    """The groups themselves say so."""
    found = values.advantage_findings(evidence(of_rewards([[1.0, 1.0]] * 3), plan=Plan(advantages=zero)))

    assert named(found, "advantages").weight == "fine"


def honest(empty: float | None, failure: float) -> ProbeReport:
    work = HonestWork(
        prompt_id="0",
        row=1,
        gold="1",
        form="sentence",
        right="1",
        wrong="2",
        success=1.0,
        failure=failure,
        empty=empty,
        problem=None,
    )
    return ProbeReport(verdict="held", next_action="", findings=[], honest=[work], results=[], notes=[])


@pytest.mark.parametrize(
    ("empty", "failure", "weight", "words"),
    [
        (0.0, -1.0, "warns", "nothing +1.50, failed -0.50"),  # a default of 0 is the best of the group
        (0.0, 0.0, "fine", "nothing +0.00, failed +0.00"),
        (-1.0, 0.0, "fine", "nothing -1.50, failed +0.50"),
        (None, -1.0, "fine", "nothing +0.00, failed +0.00"),  # TRL leaves an abstention out of the mean
    ],
)
def test_doing_nothing_is_shown_beside_trying(empty: float | None, failure: float, weight: str, words: str) -> None:
    """As advantages, not only as rewards: what training would do with it."""
    given = evidence(of_rewards([[1.0, 0.0, 0.0, 0.0]]), plan=Plan(advantages=dry), probe=honest(empty, failure))
    finding = named(values.advantage_findings(given), "did-nothing")

    assert finding.weight == weight
    assert f"sum_then_normalize: {words}" in finding.text


def test_a_fault_names_its_reward_and_its_first_sample() -> None:
    """One finding a reward and fault, over both passes."""
    broken = scored(0, 0, None, values=[value("r", None, fault="infinite")])
    (finding,) = values.fault_findings(evidence([scored(1, 0, 1.0)], low=[broken]))

    assert (finding.code, finding.weight, finding.sample_ids) == ("reward-infinite", "blocks", ["0/0"])
    assert "1 of 2" in finding.text
    assert dataclasses.astuple(finding.rate)[:2] == (1, 2)
