"""Do completions end, are they alike, and what do the rewards cost."""

import dataclasses
from typing import Any

import pytest

from evidence_records import evidence, named, scored, value
from llm_finetuning.findings import lengths
from llm_finetuning.findings.evidence import Plan
from llm_finetuning.statistics import quantile

PLAN = Plan(max_completion_length=256, completions_per_batch=32)


def lines(tokens: list[int], cut: int, text: str = "some words") -> list[Any]:
    """Return one completion for each length, the last `cut` of them cut at 256."""
    ends = len(tokens) - cut
    return [
        scored(
            place // 4,
            place % 4,
            0.0,
            tokens=count if place < ends else 256,
            finish_reason="stop" if place < ends else "length",
            completion=f"{text} {place}",
        )
        for place, count in enumerate(tokens)
    ]


def test_the_cap_that_the_lengths_ask_for_has_an_interval() -> None:
    """95% of 100 completions of 1 to 100 tokens end within 95, by order statistics 90 to 100."""
    finding = lengths.truncation_finding(evidence(lines(list(range(1, 101)), 0), plan=PLAN))

    assert quantile(list(range(1, 101)), 0.95) == (95, 90, 100)
    assert "95% end within 95 tokens (95% interval 90 to 100)" in finding.text
    assert finding.weight == "fine"


def test_cut_completions_are_longer_than_anything_seen() -> None:
    """With 4 of 100 cut the 95th percentile is known and its upper end is not."""
    finding = lengths.truncation_finding(evidence(lines(list(range(1, 101)), 4), plan=PLAN))

    assert "95% end within 95 tokens (95% interval 90 to more than was seen)" in finding.text


@pytest.mark.parametrize("cut", [6, 30, 99])
def test_the_needed_cap_is_unknown_where_more_are_cut(cut: int) -> None:
    """No percentile of the finished ones stands in for it: they are the short ones."""
    finding = lengths.truncation_finding(evidence(lines(list(range(1, 101)), cut), plan=PLAN))

    assert "the cap that 95% need is unknown, since more are cut" in finding.text
    assert finding.code == "truncated"
    if cut > 20:
        assert "raise `max_completion_length` to 1024 and sample again" in str(finding.next_action)


def test_never_ending_is_apart_from_too_short_a_cap() -> None:
    """None of 48 ended: the end token is looked at first, and whether the greedy pass ended is told."""
    policy = lines([256] * 48, 48)
    low = [scored(0, 0, 0.0, pass_name="low_temperature", sample_id="low", finish_reason="stop")]
    finding = lengths.truncation_finding(evidence(policy, plan=PLAN))

    assert (finding.code, finding.weight) == ("never-ends", "blocks")
    assert str(finding.next_action).startswith("check the end token first")
    assert "`max_completion_length: 1024`" in str(finding.next_action)
    assert "nor at low temperature" in finding.text
    assert "it did at low temperature" in lengths.truncation_finding(evidence(policy, low=low, plan=PLAN)).text


def test_texts_that_run_in_a_circle_are_counted() -> None:
    """No cap mends them."""
    circle = [scored(9, 0, 0.0, completion="and then we add the next number again. " * 20, finish_reason="length")]
    straight = lines([256] * 4, 4, text="".join(f"step {place} is another one; " for place in range(40)))

    assert "1 run in a circle" in lengths.truncation_finding(evidence(circle, plan=PLAN)).text
    assert "0 run in a circle" in lengths.truncation_finding(evidence(straight, plan=PLAN)).text


@pytest.mark.parametrize(("texts", "weight", "hits"), [("aaab", "fine", 8), ("aaaa", "warns", 12), ("abcd", "fine", 0)])
def test_copies_within_a_group_are_counted(texts: str, weight: str, hits: int) -> None:
    """Above half, the temperature is too low to learn from; copies of another prompt's completion are none."""
    policy = [scored(prompt, place, 0.0, completion=text) for prompt in range(4) for place, text in enumerate(texts)]
    finding = named(lengths.diversity_findings(evidence(policy)), "duplicates")

    assert (finding.weight, finding.rate.hits, finding.rate.n) == (weight, hits, 16)
    assert f"{4 - hits / 4:.1f} distinct ones a group of 4.0" in finding.text


@pytest.mark.parametrize(("empty", "weight"), [(1, "fine"), (2, "warns"), (15, "warns"), (16, "blocks")])
def test_completions_that_say_nothing_are_counted(empty: int, weight: str) -> None:
    """Up to a tenth is the model's own silence; more is a prompt not taken for its turn; all leave nothing."""
    policy = [scored(place // 4, place % 4, 0.0, completion="\n" if place < empty else "a") for place in range(16)]
    finding = named(lengths.empty_findings(evidence(policy)), "empty")

    assert (finding.weight, finding.rate.hits, finding.rate.n) == (weight, empty, 16)
    assert (finding.next_action is None) == (weight == "fine")
    assert not lengths.empty_findings(evidence(policy[empty:]))


def test_rewards_are_timed_over_a_generation_batch() -> None:
    """A hundredth of a second a completion is a third of a second for the 32 of a batch."""
    finding = named(lengths.cost_findings(evidence(lines([10] * 8, 0), plan=PLAN)), "reward-time")
    slow = Plan(completions_per_batch=1001)

    assert "rewards take 0.32 s for the 32 completions" in finding.text
    assert "how long generation takes was not recorded" in finding.text
    assert finding.weight == "fine"
    assert lengths.cost_findings(evidence(lines([10] * 8, 0), plan=slow))[0].weight == "warns"


@pytest.mark.parametrize(
    ("seconds", "generation", "share", "weight"),
    [
        ([0.04] * 8, "1.3 s", "20%", "fine"),
        ([0.039] * 8, "1.2 s", "20%", "warns"),
        ([0.5] * 8, "16 s", "2%", "fine"),
        ([2.0] * 8, "64 s", "under 1%", "fine"),
        ([9.0, 9.0, *[0.04] * 6], "1.3 s", "20%", "fine"),
        ([None] * 7 + [0.01], "0.32 s", "50%", "warns"),
    ],
    ids=["at the limit", "past it", "long", "very long", "first batch waited", "one was timed"],
)
def test_reward_time_is_a_share_of_generation_and_rewards(
    seconds: list[float | None], generation: str, share: str, weight: str
) -> None:
    """A hundredth of a second a completion beside what the sampler took; its median, since the first batch warms up."""
    policy = [scored(0, place, 0.0, seconds=took) for place, took in enumerate(seconds)]
    finding = named(lengths.cost_findings(evidence(policy, plan=PLAN)), "reward-time")

    assert f"generation of that batch takes about {generation} on the machine that sampled" in finding.text
    assert f"rewards are {share} of generation and rewards together; training itself is not in it" in finding.text
    assert finding.weight == weight
    assert finding.next_action == ("make `r` faster: it is paid in every step" if weight == "warns" else None)


def test_long_rewards_beside_longer_generation_are_fine() -> None:
    """Where generation was timed the share decides, not the seconds; the slowest reward is the one to mend."""
    values = [dataclasses.replace(value("a", 0.0), seconds=1.0), value("b", 0.0)]

    def finding(took: float) -> Any:
        policy = [scored(0, place, 0.0, values=values, seconds=took) for place in range(4)]
        return named(lengths.cost_findings(evidence(policy, plan=PLAN)), "reward-time")

    assert "rewards take 32 s" in finding(100.0).text
    assert finding(100.0).weight == "fine"
    assert finding(1.0).next_action == "make `a` faster: it is paid in every step"
