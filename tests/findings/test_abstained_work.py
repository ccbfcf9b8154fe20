"""None is for what is not the model's doing: which silences are excused, and who is at fault where most golds fail."""

import pytest

from evidence_records import codes, evidence, label, named, of_rewards, scored, value
from llm_finetuning.findings import abstentions, agreement, success, values
from llm_finetuning.findings.evidence import Scored
from llm_finetuning.types import RewardValue


@pytest.mark.parametrize(
    ("said", "scored_others", "names"),
    [
        ([value("r", None)], True, ["r"]),
        ([value("r", None)], False, ["r"]),  # without a reason nothing excuses it
        ([value("r", 0.0)], True, []),
        ([value("r", None), value("form", 0.0)], True, []),  # another reward scored it
        ([value("r", None, "judge_timeout")], True, []),
        ([value("r", None, "infrastructure")], True, []),
        ([value("r", None, "no_sandbox")], True, []),
        ([value("r", None, "no_token_ids")], True, []),
        ([value("r", None, "gold_unreadable")], False, []),
        ([value("r", None, "schema_remote")], False, []),
        ([value("r", None, "gold_unreadable")], True, ["r"]),  # a bad row is bad for all of its completions
        ([value("r", None, "not_json")], False, ["r"]),
        ([value("r", None, "gold_unreadable"), value("s", None)], False, ["s"]),
        ([value("r", None, fault="nan")], True, []),  # told of as NaN
    ],
)
def test_what_excuses_a_silence(said: list[RewardValue], names: list[str], *, scored_others: bool) -> None:
    """Failed machinery does; a bad row does where the reward scored no other completion of it."""
    seen = [("p", [value("r", 1.0)])] if scored_others else [("other", [value("r", 1.0)])]
    assert abstentions.silent("p", said, abstentions.scored_by(seen)) == names


READ = [label(f"{prompt}/{index}", "accept" if index % 2 else "reject") for prompt in range(15) for index in range(4)]


def with_silence(places: list[str], reason: str | None = None, *, whole_rows: bool = False) -> list[Scored]:
    """Return 60 completions, every second one right; those at `places` are unscored, or all of their prompts."""
    policy = of_rewards([[0.0, 1.0, 0.0, 1.0]] * 15)
    rows = {place.partition("/")[0] for place in places}
    return [
        scored(int(one.sample.prompt_id), one.sample.index, None, values=[value("r", None, reason)])
        if one.sample.sample_id in places or (whole_rows and one.sample.prompt_id in rows)
        else one
        for one in policy
    ]


@pytest.mark.parametrize(
    ("places", "weight"), [([], None), (["3/0"], "warns"), (["3/0", "5/2"], "blocks"), (["3/1", "5/2"], "blocks")]
)
def test_what_a_reader_judged_and_no_reward_scored_is_a_disagreement(places: list[str], weight: str | None) -> None:
    """Accepted or rejected: two block, one warns; each is shown with its text, and the table sums to what was read."""
    given = evidence(with_silence(places), labels=READ)
    found = {finding.code: finding for finding in agreement.findings(given)}
    counts = agreement.table(given.read, given.rule)
    disputed = agreement.disagreements(given)

    assert (found["judged-unscored"].weight if places else None) == weight
    assert ("judged-unscored" in found) == bool(places)
    assert [(one.sample_id, one.kind, one.reward) for one in disputed] == [(one, "unscored", None) for one in places]
    assert all(one.completion.startswith("text ") for one in disputed)
    assert sum(counts.values()) == 60
    assert counts["unscored_reject"] == sum(not int(place[-1]) % 2 for place in places)
    assert f"n {60 - len(places)}" in found["kappa"].text
    left = f"{len(places)} judged ones that no reward scores are left out"
    assert (left in found["kappa"].text) == bool(places)


def test_the_finding_of_a_silence_says_what_it_costs_and_what_to_return() -> None:
    """How many of how many, an example, what TRL does with None, and the way out."""
    finding = named(agreement.findings(evidence(with_silence(["3/0", "5/2"]), labels=READ)), "judged-unscored")

    assert "2 of 60 (3%" in finding.text
    assert "2 of them rejected, as 3/0: `text 3 0`" in finding.text
    assert "an advantage of 0, so that failing this way costs nothing" in finding.text
    assert finding.next_action == (
        "mend the reward: return 0.0 where the completion is at fault; None is for what is not the model's doing"
    )
    assert finding.sample_ids == ["3/0", "5/2"]


@pytest.mark.parametrize("reason", ["gold_unreadable", "schema_remote", "infrastructure", "judge_timeout"])
def test_a_library_reward_with_a_reason_is_no_disagreement(reason: str) -> None:
    """A row that cannot be read, a service that is down: counted in the table, held against nobody."""
    given = evidence(with_silence(["3/0", "5/2"], reason, whole_rows=True), labels=READ)

    assert "judged-unscored" not in codes(agreement.findings(given))
    assert agreement.disagreements(given) == []
    assert sum(agreement.table(given.read, given.rule).values()) == 60


def test_base_success_says_what_it_leaves_out() -> None:
    """A share of 58 stands beside 60 completions."""
    finding = success.findings(evidence(with_silence(["3/0", "5/2"])))[0]

    assert "30 of 58" in finding.text
    assert "2 completions that no reward scores are left out" in finding.text


@pytest.mark.parametrize(
    ("places", "whole_rows", "begins"),
    [
        ([f"{prompt}/0" for prompt in range(4)], False, "mend the reward, which scores other completions of the same"),
        (["3/0", "4/0"], True, "make those rows scorable or remove them"),
        ([f"{prompt}/0" for prompt in range(8)], True, "mend the reward, not the rows: 8 of 15 cannot all be wrong"),
        ([f"{prompt}/0" for prompt in range(7)], True, "make those rows scorable or remove them"),
    ],
    ids=["beside scored ones", "two rows", "most rows", "just under half"],
)
def test_who_is_at_fault_for_what_no_reward_scores(places: list[str], begins: str, *, whole_rows: bool) -> None:
    """The rows where a few of them get nothing; the reward where it scores their siblings, or fails on half of them."""
    finding = named(values.abstention_findings(evidence(with_silence(places, whole_rows=whole_rows))), "unscored")

    assert finding.weight == "blocks"
    assert str(finding.next_action).startswith(begins)


@pytest.mark.parametrize(("failed", "blames"), [(4, False), (5, True), (10, True)])
def test_from_half_of_the_golds_on_the_reward_is_suspected(failed: int, *, blames: bool) -> None:
    """In chat it may read a list of messages as text, which is said there alone."""
    chat, text = (abstentions.mend_reward(failed, 10, chat=chat, rows="mend rows") for chat in (True, False))

    assert (chat == text == "mend rows") == (not blames)
    assert ("a completion comes as a list of messages" in chat) == blames
    assert "messages" not in text
