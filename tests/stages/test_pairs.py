"""Preference data: which completions make a pair, which are left out, and what is said of the whole."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_records import RULE, scored, value
from llm_finetuning.findings.evidence import Scored, is_paid
from llm_finetuning.findings.sides import said
from llm_finetuning.stages.pairs import Choice, Made, make

ONE = {"r": 1.0}


def made_of(completions: Sequence[Scored], method: str = "dpo", **choice: Any) -> Made:
    return make(completions, method=method, rule=RULE, choice=Choice(**choice), weights=ONE)


def group(rewards: Sequence[float | None], number: int = 0, **change: Any) -> list[Scored]:
    """Return one prompt's completions with these rewards; a list in `change` has one entry a completion."""
    return [
        scored(number, at, reward, **{key: one[at] if isinstance(one, list) else one for key, one in change.items()})
        for at, reward in enumerate(rewards)
    ]


def places(made: Made) -> list[tuple[int, int]]:
    """Return where the sides of each pair stand in their groups."""
    return [tuple(int(row[f"{side}_sample"].partition("/")[2]) for side in ("chosen", "rejected")) for row in made.rows]  # type: ignore[misc]


def codes(made: Made, weight: str) -> list[str]:
    return [found.code for found in made.report.findings if found.weight == weight]


# --- which pair ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rewards", "chosen", "rejected"),
    [
        pytest.param([1.0, 0.0], 1.0, 0.0, id="one of each"),
        pytest.param([0.6, 0.4, 1.0, 0.9], 1.0, 0.4, id="the highest is chosen"),
        pytest.param([1.0, 0.4, 0.0, 0.2], 1.0, 0.0, id="in a small group the lowest is nearest"),
        pytest.param([0.7] * 20 + [0.0, 0.2, 0.45], 0.7, 0.2, id="the lowest of many is passed over: position 0.28"),
        pytest.param([0.9] * 9 + [0.17, 0.46], 0.9, 0.17, id="the deviation divides by N-1: 0.30, and not 0.33"),
        pytest.param([0.5, 0.499], 0.5, 0.499, id="the threshold passes"),
        pytest.param([0.1 + 0.2 + 0.2 - 1e-9, 0.3], 0.5, 0.3, id="what float32 cannot tell from it too"),
    ],
)
def test_the_pair_of_a_group(rewards: list[float], chosen: float, rejected: float) -> None:
    """Chosen has the highest reward; rejected fails, nearest to the mean less two standard deviations."""
    (row,) = made_of(group(rewards)).rows
    assert (row["chosen_reward"], row["rejected_reward"]) == pytest.approx((chosen, rejected))


def test_how_often_the_lowest_is_rejected_is_said() -> None:
    """Mostly in small groups, which is what makes the rule differ from `lowest` in large ones alone."""
    completions = [*group([1.0, 0.0]), *group([0.7] * 20 + [0.0, 0.2, 0.45], 1)]
    report = made_of(completions).report
    assert (report.records, report.lowest) == (2, 1)
    assert report.margin is not None
    assert report.margin.value == pytest.approx((1.0 + 0.5) / 2)


def test_equal_rewards_are_drawn_without_regard_to_length_and_place() -> None:
    """Over many prompts each of four equal completions is taken about as often, on both sides."""
    rewards, tokens = [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0], [1, 2, 3, 4, 1, 2, 3, 4]
    completions = [one for number in range(400) for one in group(rewards, number, tokens=tokens)]
    first, second = zip(*places(made_of(completions)), strict=True)
    for side in (first, second):
        assert all(70 < count < 130 for count in Counter(side).values()), Counter(side)  # 100, deviation 8.7
        assert len(set(side)) == 4
    assert places(made_of(completions, seed=1)) != places(made_of(completions))


def test_a_text_that_came_often_is_drawn_often() -> None:
    """The model's common mistake is worth more than one that came once."""
    texts = ["right", *["common"] * 6, "rare"]
    rejected = [
        row["rejected"]
        for number in range(200)
        for row in made_of(group([1.0] + [0.0] * 7, number, completion=texts)).rows
    ]
    assert rejected.count("rare") < 50  # a seventh of them is 29; one of two texts would be 100


def test_no_text_stands_in_two_pairs_of_a_prompt() -> None:
    """As many pairs as both sides have texts, by reward, and never more than asked for."""
    rewards = [0.8, 1.0, 1.0, 0.9, 0.1, 0.1, 0.0]
    texts = ["b", "a", "a", "c", "x", "x ", "y"]
    completions = group(rewards, completion=texts)
    made = made_of(completions, pairs_per_prompt=5)
    assert [row["chosen_reward"] for row in made.rows] == [1.0, 0.9]
    assert {said(row["rejected"]) for row in made.rows} == {"x", "y"}
    assert [row["id"] for row in made.rows] == ["0/1", "0/2"]
    assert len(made_of(completions, pairs_per_prompt=1).rows) == 1


@pytest.mark.parametrize(
    ("rewards", "tokens", "rejected"),
    [
        pytest.param([1.0, 0.0, 0.0, 0.0], [100, 60, 119, 200], 2, id="the only one within a fifth"),
        pytest.param([1.0, 0.0, 0.0, 0.0], [100, 119, 90, 95], 3, id="the nearest of equal ones"),
        pytest.param([1.0, 0.0, 0.0], [100, 121, 130], 1, id="none within a fifth: the nearest in length"),
        pytest.param([1.0, 0.0, 0.3], [100, 120, 100], 1, id="within a fifth the reward decides"),
        pytest.param([10.0, 0.0, 0.3], [4, 5, 4], 2, id="whatever the size of rewards and lengths"),
        pytest.param([1.0, 0.0, 0.3], [100, 121, 80], 2, id="a length within a fifth goes before the reward"),
    ],
)
def test_lengths_are_matched_where_that_is_asked_for(rewards: list[float], tokens: list[int], rejected: int) -> None:
    """A rejected completion within a fifth of the chosen one's tokens comes first."""
    assert places(made_of(group(rewards, tokens=tokens), match_length=True)) == [(0, rejected)]


# --- who is left out -------------------------------------------------------------------------------------------------

CUT: Any = ["length", "stop", "stop", "length"]
ABSTAINED: Any = [[value("r", 0.0), value("s", None)], [value("r", 1.0), value("s", 0.0)], [value("r", 0.0)]]


@pytest.mark.parametrize(
    ("completions", "pairs", "left_out"),
    [
        pytest.param(group([None, 1.0, 0.0]), [(1, 2)], {"unscored": 1}, id="abstained"),
        pytest.param(group([1.0, 0.9, 0.0, 0.0], finish_reason=CUT), [(1, 2), (1, 3)], {"cut": 1}, id="cut passing"),
        pytest.param(group([1.0, 0.0, 0.1], completion=["a", "", "b"]), [(0, 2)], {"empty": 1}, id="empty"),
        pytest.param(
            group([1.0, 0.0, 0.9, 0.1], completion=["a b", "a  b\n", "c", "d"]),
            [(2, 3)],
            {"contradicted": 2},
            id="one text that passes and fails",
        ),
        pytest.param(
            group([1.0, 0.0, 0.1], completion=["a", "b", "b"]), [(0, 1), (0, 2)], {"repeated": 1}, id="repeated"
        ),
        pytest.param(
            group([0.8, 1.0, 0.0], completion=["a", "a", "b"]), [(1, 2)], {"repeated": 1}, id="the best paid of a text"
        ),
        pytest.param(
            group([0.0, 1.0, 0.0], values=ABSTAINED),
            [(1, 2)],
            {"partly_unscored": 1},
            id="a sibling's reward abstained",
        ),
        pytest.param(
            group([0.0, 1.0], values=[[value("r", 0.0), value("s", None)]] * 2),
            [(1, 0)],
            {},
            id="abstained from all alike",
        ),
        pytest.param(
            group([1.0, 0.8, 0.0], values=[[value("r", 1.0, fault="unstable")], [value("r", 0.8)], [value("r", 0.0)]]),
            [(1, 2)],
            {"faulty": 1},
            id="a value that moves",
        ),
        pytest.param(
            group([1.0, 0.0], values=[[value("r", 1.0), value("w", None, fault="nan")], [value("w", 3.0)]]),
            [(0, 1)],
            {},
            id="a reward of no weight only watches",
        ),
        pytest.param(
            [*group([1.0, 0.0]), *group([1.0, 0.0], 1, pass_name="low_temperature")], [(0, 1)], {}, id="another pass"
        ),
    ],
)
def test_who_is_left_out_and_counted(
    completions: list[Scored], pairs: list[tuple[int, int]], left_out: dict[str, int]
) -> None:
    """With the reason; the pair is made of the others, and where several would do it is one of them."""
    made = make(completions, method="dpo", rule=RULE, choice=Choice(), weights={"w": 0.0})
    (found,) = places(made)
    assert found in pairs
    assert made.report.left_out == left_out


def test_what_is_left_out_for_its_text_still_tells_how_rewards_lie() -> None:
    """Mean and deviation are those of all that was drawn and scored: without the cut ones 0.0 would be the nearest."""
    rewards = [0.7] * 20 + [0.0, 0.2, 0.45]
    ends: Any = ["length"] * 19 + ["stop"] * 4
    (row,) = made_of(group(rewards, finish_reason=ends)).rows
    assert row["rejected_reward"] == 0.2


@pytest.mark.parametrize(
    ("completion", "other", "same"),
    [
        pytest.param([{"role": "assistant", "content": "a  b"}], [{"role": "assistant", "content": "a b"}], True),
        pytest.param(
            [{"role": "assistant", "content": "", "tool_calls": [{"name": "f"}]}],
            [{"role": "assistant", "content": "", "tool_calls": [{"name": "g"}]}],
            False,
        ),
    ],
    ids=["white space", "tool calls"],
)
def test_chat_completions_are_held_against_each_other_by_all_they_say(completion: Any, other: Any, same: bool) -> None:
    """A call of a tool is said too, and is not empty."""
    assert (said(completion) == said(other)) is same
    assert said(completion)


# --- properties ------------------------------------------------------------------------------------------------------

REWARDS = st.sampled_from([None, 0.0, 0.1, 0.3, 0.5, 0.8, 1.0])
COMPLETIONS = st.tuples(
    REWARDS,
    st.sampled_from(["a", "b", "b ", "c", "d e", "", "f"]),
    st.integers(1, 99),
    st.sampled_from(["stop", "length"]),
)
GROUPS = st.lists(st.lists(COMPLETIONS, min_size=1, max_size=8), min_size=1, max_size=4)
CHOICES = st.builds(Choice, pairs_per_prompt=st.integers(1, 4), seed=st.integers(0, 9), match_length=st.booleans())


def drawn(groups: Any) -> list[Scored]:
    return [
        scored(number, at, reward, values=[value("r", reward)], completion=text, tokens=tokens, finish_reason=end)
        for number, members in enumerate(groups)
        for at, (reward, text, tokens, end) in enumerate(members)
    ]


@settings(deadline=None)  # the machine may be busy
@given(groups=GROUPS, choice=CHOICES, data=st.data())
def test_what_holds_of_every_pair(groups: Any, choice: Choice, data: st.DataObject) -> None:
    """Chosen passes and is whole, rejected fails, of one prompt and two texts; the order of samples is no matter."""
    completions = drawn(groups)
    by_id = {one.sample.sample_id: one for one in completions}
    made = make(completions, method="dpo", rule=RULE, choice=choice, weights=ONE)
    for row in made.rows:
        chosen, rejected = by_id[row["chosen_sample"]], by_id[row["rejected_sample"]]
        assert chosen.reward is not None
        assert rejected.reward is not None
        assert is_paid(chosen.reward, RULE)
        assert not is_paid(rejected.reward, RULE)
        assert chosen.sample.finish_reason == "stop"
        assert said(row["chosen"]) != said(row["rejected"])
        assert said(row["rejected"])
        assert (row["chosen"], row["rejected"]) == (chosen.sample.completion, rejected.sample.completion)
        assert chosen.sample.prompt == rejected.sample.prompt == row["prompt"]
    assert len({row["id"] for row in made.rows}) == len(made.rows) == made.report.records
    assert max(Counter(row["prompt"] for row in made.rows).values(), default=0) <= choice.pairs_per_prompt
    turned = data.draw(st.permutations(completions))
    assert make(turned, method="dpo", rule=RULE, choice=choice, weights=ONE) == made


@settings(deadline=None)  # the machine may be busy
@given(groups=GROUPS, data=st.data())
def test_what_holds_of_every_single_record(groups: Any, data: st.DataObject) -> None:
    """The label is whether it passes, nothing unscored has one, and every completion is a record or left out."""
    completions = drawn(groups)
    by_id = {one.sample.sample_id: one for one in completions}
    made = made_of(completions, "kto")
    for row in made.rows:
        one = by_id[row["id"]]
        assert one.reward is not None
        assert row["label"] is is_paid(one.reward, RULE)
        assert not (row["label"] and one.sample.finish_reason == "length")
    assert len({(row["prompt"], said(row["completion"])) for row in made.rows}) == len(made.rows)
    assert made.report.labels is not None
    assert sum(made.report.labels.values()) + sum(made.report.left_out.values()) == len(completions)
    assert len(made.rows) in (0, sum(made.report.labels.values()))
    assert made_of(data.draw(st.permutations(completions)), "kto") == made


# --- single records --------------------------------------------------------------------------------------------------


def test_single_records_need_both_labels_and_no_pair() -> None:
    """Prompts of one side alone count too; with one label in all there is nothing to learn from."""
    made = made_of([*group([1.0, 1.0]), *group([0.0, 0.0, 0.0], 1)], "kto")
    assert [row["label"] for row in made.rows] == [True, True, False, False, False]
    assert made.report.labels == {"desirable": 2, "undesirable": 3}
    assert made_of(group([1.0, 1.0]), "kto").rows == []
    assert made_of(group([0.0]), "kto").rows == []


def test_a_label_of_its_own_needs_every_reward() -> None:
    """Compared with siblings a reward that abstained from all is no matter; judged alone its part is missing."""
    values = [[value("r", 0.0), value("s", None)]]
    made = made_of([*group([1.0, 0.0]), *group([0.0], 1, values=values)], "kto")
    assert made.report.left_out == {"partly_unscored": 1}
    assert [row["prompt_id"] for row in made.rows] == ["0", "0"]


# --- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["dpo", "kto"])
def test_rows_keep_the_columns_that_are_asked_for(method: str) -> None:
    """But none whose name a trainer or the report reads otherwise."""
    columns = {"answer": "4", "label": "easy", "chosen": "x", "id": "mine", "other": 1}
    made = make(
        group([1.0, 0.0], columns=columns),
        method=method,
        rule=RULE,
        choice=Choice(),
        weights=ONE,
        columns=[*columns][:4],
    )
    assert made.rows[0]["answer"] == "4"
    assert "other" not in made.rows[0]
    assert made.rows[0].get("label") in (None, True)
    assert made.rows[0]["id"] != "mine"
    assert made.rows[0].get("chosen") in (None, "text 0 0")


# --- what is said ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "rejected", "said_of_it"),
    [(120, 100, None), (121, 100, "length"), (100, 120, None), (100, 121, "brevity")],
)
@pytest.mark.parametrize("method", ["dpo", "kto"])
def test_a_side_longer_by_more_than_a_fifth_is_warned_of(
    chosen: int, rejected: int, said_of_it: str | None, method: str
) -> None:
    """Either way round, with both means and their intervals over prompts."""
    made = made_of(
        [one for number in range(5) for one in group([1.0, 0.0], number, tokens=[chosen + number, rejected + number])],
        method,
    )
    shown = f"{chosen + 2:.1f} tokens (95% interval {chosen + 0.04:.1f} to {chosen + 3.96:.1f})"
    (found,) = [one for one in made.report.findings if one.code in ("lengths", "length-bias")]
    assert shown in found.text
    assert found.weight == ("warns" if said_of_it else "fine")
    assert (said_of_it or "") in found.text


def test_one_sided_prompts_are_counted_and_warned_of_where_they_are_most() -> None:
    """Each kind by itself, with the interval of its share."""
    mixed = [one for number in range(2) for one in group([1.0, 0.0], number)]
    failing = [one for number in range(2, 5) for one in group([0.0, 0.0], number)]
    made = made_of([*mixed, *failing, *group([1.0], 9), *group([None], 10)])
    assert made.report.prompts == {"both": 2, "only_failing": 3, "only_passing": 1, "neither": 1}
    by_code = {found.code: found for found in made.report.findings}
    assert (by_code["prompts-failing"].weight, by_code["prompts-passing"].weight) == ("fine", "fine")
    assert "3 of 7 (43%" in by_code["prompts-failing"].text
    assert "prompts-failing" in codes(made_of([*mixed, *failing]), "warns")


@pytest.mark.parametrize(("cut", "warned"), [(1, False), (2, True)])
@pytest.mark.parametrize("method", ["dpo", "kto"])
def test_rejected_completions_cut_at_the_cap_are_warned_of(cut: int, warned: bool, method: str) -> None:
    """From more than a fifth on."""
    ends: Any = [["stop", "length" if number < cut else "stop"] for number in range(5)]
    completions = [one for number in range(5) for one in group([1.0, 0.0], number, finish_reason=ends[number])]
    assert ("rejected-cut" in codes(made_of(completions, method), "warns")) is warned


@pytest.mark.parametrize(
    ("first", "second", "warned"),
    [
        pytest.param("a b c d e f g h i 5", "a b c d e f g h i 6", True, id="nine of ten words"),
        pytest.param("5 a b c d e f g h i", "6 a b c d e f g h i", True, id="at the beginning"),
        pytest.param("a b c d 5 e f g h i", "a b c d 6 e f g h i", True, id="in the middle"),
        pytest.param("a b c d e f g h 4 5", "a b c d e f g h 5 6", False, id="eight of ten"),
        pytest.param("a b c d e f g h i", "a b c d e f g h j", False, id="short texts share most of it always"),
        pytest.param("a " * 18 + "a b", "a " * 18 + "c", True, id="of different lengths"),
        pytest.param(
            "a" + " b" * 20, "a" + " b" * 12, False, id="no word counts at both ends, and the longer text has them all"
        ),
    ],
)
def test_pairs_that_are_nearly_the_same_are_warned_of(first: str, second: str, warned: bool) -> None:
    """By the words before and after where they differ, of the longer text."""
    made = made_of(group([1.0, 0.0], completion=[first, second], tokens=10))
    assert ("nearly-the-same" in codes(made, "warns")) is warned


def test_every_number_is_of_its_own_side() -> None:
    """Lengths by side, and the difference chosen less rejected."""
    made = made_of(group([1.0, 0.0], tokens=[30, 28]))
    lengths = {side: found.value for side, found in made.report.lengths.items()}
    assert lengths == {"chosen": 30.0, "rejected": 28.0, "difference": 2.0}


def test_several_pairs_of_a_prompt_are_one_observation() -> None:
    """The interval of a mean is over prompts, whose pairs resemble each other."""
    completions = [
        *group([1.0, 1.0, 0.0, 0.0], tokens=[10, 20, 10, 10]),
        *group([1.0, 0.0], 1, tokens=[45, 10]),
    ]
    chosen = made_of(completions, pairs_per_prompt=2).report.lengths["chosen"]
    assert (chosen.value, chosen.n) == (30.0, 2)


def test_the_methods_of_pairs_take_the_same_rows() -> None:
    """ORPO and SimPO train on what DPO trains on."""
    completions = group([1.0, 0.0, 0.2])
    rows = [made_of(completions, method).rows for method in ("dpo", "orpo", "simpo")]
    assert all(first == second for first, second in itertools.pairwise(rows))
    assert dataclasses.asdict(made_of(completions, "simpo").report)["method"] == "simpo"
