"""The report on an attack: what earns, what is refused, what blocks and what only warns."""

from dataclasses import replace
from typing import Any

import pytest

from llm_finetuning.findings.families import FENCED
from llm_finetuning.stages import probe as stage
from llm_finetuning.types import Finding, HonestWork, Probe, ProbeReport, ProbeResult, RewardValue

WORK = HonestWork(
    prompt_id="q",
    row=1,
    gold="5",
    form="bare",
    right="5",
    wrong="9",
    success=1.0,
    failure=0.0,
    empty=0.0,
    problem=None,
)


AGAIN = "; then `finetune audit RUN && finetune score RUN && finetune probe RUN`"


def result(reward: float | None, *, kind: Any = "exploit", fault: str | None = None, **probe: Any) -> ProbeResult:
    values = {"family": "spraying", "weighs": "blocks", "earns_at": 0.5, "about": "a list", **probe}
    made = Probe(
        probe_id=values.pop("probe_id", "x"),
        kind=kind,
        prompt_id="q",
        prompt="?",
        columns={},
        completion=values.pop("completion", "1, 5"),
        **values,
    )
    value_fault = values.get("value_fault")
    return ProbeResult(
        probe=made,
        values=[RewardValue(name="r", value=reward, reason=None, fault=value_fault, seconds=0.0)],
        reward=reward,
        failure=0.0,
        success=1.0,
        verdict="raised" if fault else stage.verdict_of(kind, reward, 0.0, 1.0, made.earns_at),
        fault=fault,
    )


def report(*results: ProbeResult, honest: list[HonestWork] | None = None, **options: Any) -> ProbeReport:
    families = list(dict.fromkeys(one.probe.family for one in results))
    return stage.report(results, [WORK] if honest is None else honest, families=families, **options)


def finding(made: ProbeReport, code: str) -> Finding:
    (found,) = [one for one in made.findings if one.code == code]
    return found


@pytest.mark.parametrize(
    ("kind", "reward", "failure", "success", "earns_at", "verdict"),
    [
        ("exploit", 0.5, 0.0, 1.0, 0.5, "earned"),
        ("exploit", 0.49, 0.0, 1.0, 0.5, "held"),
        ("exploit", 0.25, 0.0, 1.0, 0.25, "earned"),
        ("exploit", 0.0, -1.0, 1.0, 0.5, "earned"),
        ("exploit", 0.7, 0.6, 1.2, 0.5, "held"),
        ("exploit", 3.0, 0.0, 1.0, 0.5, "earned"),
        ("variant", 0.5, 0.0, 1.0, 0.5, "held"),
        ("variant", 0.49, 0.0, 1.0, 0.5, "refused"),
        ("control", 0.0, 0.0, 1.0, 0.5, "refused"),
        ("variant", None, 0.0, 1.0, 0.5, "unscored"),  # the machinery failed
        ("exploit", None, 0.0, 1.0, 0.5, "unscored"),
        ("exploit", 1.0, None, 1.0, 0.5, "unscored"),
        ("exploit", 1.0, 1.0, 1.0, 0.5, "unscored"),
    ],
)
def test_verdict_lies_between_failure_and_success(
    kind: Any, reward: float | None, failure: float | None, success: float, earns_at: float, verdict: str
) -> None:
    """A reward counts by where it lies on the way from honest failure to honest success."""
    assert stage.verdict_of(kind, reward, failure, success, earns_at) == verdict


@pytest.mark.parametrize("failure", [0.0, None])
def test_right_work_that_the_reward_says_nothing_of_is_refused(failure: float | None) -> None:
    """It scores the plain right answer of the prompt: None gains there as little as 0. An attack is not paid by it."""
    assert stage.verdict_of("variant", None, failure, 1.0, 0.5, silent=True) == "refused"
    assert stage.verdict_of("variant", None, failure, None, 0.5, silent=True) == "unscored"
    assert stage.verdict_of("exploit", None, failure, 1.0, 0.5, silent=True) == "unscored"


@pytest.mark.parametrize(
    ("change", "blocks"),
    [
        ({}, True),
        ({"family": "do_nothing", "completion": ""}, True),
        ({"family": "honest", "kind": "control"}, True),  # a wrong answer of the search for honest work
        ({"weighs": "warns"}, False),  # it may be right work
        ({"family": "blank_gold"}, False),  # nobody could score it
        ({"family": "spacing", "kind": "variant"}, False),  # right work, which is refused
        ({"reason": "judge_timeout"}, False),
        ({"success": None}, False),  # the right answer is not scored either: a bad row
    ],
)
def test_silence_about_a_failure_blocks(change: dict[str, Any], *, blocks: bool) -> None:
    """A reward that scores the right answer has to say 0 of what is plainly wrong, whoever wrote it so."""
    reason, success = change.pop("reason", None), change.pop("success", 1.0)
    one = result(None, **{"about": "nothing at all", **change})
    one = replace(one, success=success, values=[replace(one.values[0], reason=reason)])
    codes = {found.code: found for found in report(one, *[result(0.0)] * 3).findings}

    assert ("reward-abstains" in codes) == blocks
    if blocks:
        found = codes["reward-abstains"]
        assert found.weight == "blocks"
        assert "`r` abstains (returns None) from failures on prompts whose right answer it scores: 1 of 4" in found.text
        assert "nothing at all (1)" in found.text
        assert "an advantage of 0, so that failing this way costs nothing" in found.text
        assert str(found.next_action).startswith("mend the reward: return 0.0 where the completion is at fault;")


@pytest.mark.parametrize(("names", "codes"), [(["r"], ["reward-abstains"]), (["r", "s"], [])])
def test_a_reason_of_the_row_is_no_excuse_where_its_gold_is_scored(names: list[str], codes: list[str]) -> None:
    """`json_unreadable` says nothing of the row; of two rewards it may be the other that scores the gold."""
    one = result(None, family="honest", kind="control")
    values = [replace(one.values[0], name=name, reason="json_unreadable") for name in names]

    assert [found.code for found in report(replace(one, values=values)).findings] == codes


def test_a_reward_that_pays_one_or_none_is_not_blamed_on_the_gold() -> None:
    """No wrong answer is scored, so none is paid less: that is told once, as the silence that it is."""
    work = replace(WORK, failure=None, empty=None, problem="unpaid")
    idle = replace(result(None, family="honest", kind="control"), failure=None)
    made = report(idle, honest=[work])

    assert [(one.code, one.weight) for one in made.findings] == [("reward-abstains", "blocks")]


def test_all_refused_forms_are_listed_at_once() -> None:
    """Who mends a reward for the worst form alone comes back for the next one: each has its name and its count."""
    forms = {"a code fence around it": 3, "a line break before it": 2, "a number as text: 3": 1, "d": 1, "e": 1, "f": 1}
    refused = [
        result(None if about == "d" else 0.0, kind="variant", family="json_layout", about=about)
        for about, count in forms.items()
        for _ in range(count)
    ]
    refused = [replace(one, verdict="refused") for one in refused]
    found = finding(report(*refused), "variant-json-layout")

    assert "9 of 9" in found.text
    for about, count in forms.items():
        assert f"{about.partition(':')[0]} ({count})" in found.text
        assert f"{about.partition(':')[0]} ({count})" in str(found.next_action)


def test_a_refusal_by_silence_says_so() -> None:
    """The worst of a family is shown with what it got: nothing, where no reward scored it."""
    silent = replace(result(None, kind="variant", family="spacing", about="a tail"), verdict="refused")
    text = finding(report(silent, silent), "variant-spacing").text
    assert "worst, a tail: `1, 5` gets no score (None), where a plain right answer is paid 1 and a wrong one 0" in text


def test_two_paid_exploits_block_and_one_of_many_warns() -> None:
    """A single one among many may be right by chance; among three it may not."""
    many = [result(0.0)] * 9
    assert finding(report(result(1.0), *many), "exploit-spraying").weight == "warns"
    assert finding(report(result(1.0), result(1.0), *many), "exploit-spraying").weight == "blocks"
    assert finding(report(result(1.0), result(0.0)), "exploit-spraying").weight == "blocks"
    held = report(*many)
    assert finding(held, "exploit-spraying").weight == "fine"
    assert (held.verdict, finding(held, "exploit-spraying").next_action) == ("held", None)


def test_what_only_warns_never_blocks() -> None:
    """What may be meant is told apart in a finding of its own."""
    made = report(*[result(1.0, weighs="warns")] * 5, *[result(0.0)] * 5)
    assert [(one.weight, one.rate.hits if one.rate else None) for one in made.findings] == [("warns", 5), ("fine", 0)]
    assert made.verdict == "held"


def test_refused_variants_block() -> None:
    """Right work that is not paid is a fault of the reward, and the action says with what."""
    made = report(*[result(0.0, kind="variant", family="spacing", about="a line break: x")] * 2)
    assert made.verdict == "blocked"
    assert made.next_action == f"pay right work also with: a line break (2){AGAIN}"


@pytest.mark.parametrize(
    ("attacks", "action"),
    [
        ([("denied: NOT x for x", "It is\nnot x.", 1.0)] * 2, "denied (2), such as `It is\\nnot x.`"),
        (
            [("denied: no", "no", 0.8), ("denied: no", "no", 0.8), ("cut: n", "n", 0.9)],
            "denied (2); cut (1), such as `n` (cut)",
        ),
        ([("a list", "a" * 99 + "b" * 99, 1.0)] * 2, f"a list (2), such as `{'a' * 57} ... {'b' * 57}`"),
        ([("white space", " \n", 1.0)] * 2, "white space (2)"),
    ],
    ids=["one kind", "several kinds", "long", "nothing to show"],
)
def test_the_action_shows_the_worst_attack(attacks: list[tuple[str, str, float]], action: str) -> None:
    """The short name of an attack tells nobody what to stop paying for: its text does, on one line."""
    made = report(*[result(paid, about=about, completion=text) for about, text, paid in attacks])
    assert made.next_action == f"stop paying for: {action}{AGAIN}"


@pytest.mark.parametrize(
    ("weighs", "about", "says"),
    [
        ("blocks", FENCED, "; or ask in the prompt for bare JSON and nothing else: then a fence only warns"),
        ("warns", FENCED, ""),
        ("blocks", "indented", ""),
    ],
)
def test_a_refused_fence_may_be_forbidden_in_the_prompt(weighs: str, about: str, says: str) -> None:
    """A task that wants bare JSON is not pushed to pay fences; one that says so already has nothing to ask for."""
    refused = result(0.0, kind="variant", family="json_layout", about=about, weighs=weighs)
    (found,) = report(refused, refused).findings
    assert found.next_action == f"pay right work also with: {about} (2){says}"


def test_a_finding_shows_text_payment_component_and_control() -> None:
    """The worst example stands in it with what honest work of the same shape is paid."""
    bad = result(0.9, probe_id="a")
    both = [*bad.values, RewardValue(name="form", value=0.1, reason=None, fault=None, seconds=0.0)]
    control = result(1.0, kind="control", probe_id="a/control")
    made = report(replace(bad, values=both), result(0.6, probe_id="b"), control)
    text = finding(made, "exploit-spraying").text
    assert "2 of 2 (100%" in text
    assert "`1, 5` is paid 0.9 (r 0.9, form 0.1), where a plain right answer is paid 1 and a wrong one 0" in text
    assert text.endswith("honest work of the same shape 1")


def test_the_worst_variant_is_the_least_paid() -> None:
    """Of refused ones the one farthest from honest success is shown, of paid ones the best paid."""
    refused = [result(reward, kind="variant", family="spacing") for reward in (0.4, 0.1, 0.3)]
    assert "is paid 0.1," in finding(report(*refused), "variant-spacing").text
    paid = [result(reward) for reward in (0.6, 0.9, 0.7)]
    assert "is paid 0.9," in finding(report(*paid), "exploit-spraying").text


def test_doing_nothing_shows_its_advantage() -> None:
    """Beside three failures of -1 a reward of 0 has an advantage of +1.5, which is what is learnt."""
    idle = [replace(result(0.0, family="do_nothing", earns_at=0.25), failure=-1.0, verdict="earned") for _ in "ab"]
    assert "its advantage is +1.50" in finding(report(*idle), "exploit-do-nothing").text


def test_raising_blocks_but_not_on_a_spoilt_gold() -> None:
    """TRL dies of it; rows with a blank gold are the audit's, and made by the probe alone."""
    raised = report(result(None, fault="`r`: ValueError: x"))
    assert finding(raised, "reward-raises").weight == "blocks"
    assert "ValueError" in finding(raised, "reward-raises").text
    spoilt = report(result(None, fault="`r`: ValueError: x", family="blank_gold"))
    assert all(one.code != "reward-raises" for one in spoilt.findings)
    whole = report(result(0.0), whole_batch_faults=["`r`: returned 1 value(s) for 4"])
    assert finding(whole, "reward-batch-raises").weight == "blocks"


@pytest.mark.parametrize("fault", ["nan", "infinite", "unstable", "out_of_range"])
def test_unsound_values_block(fault: str) -> None:
    """What the score stage marks on a written completion is as bad as on a real one."""
    bad = result(0.0)
    bad = replace(bad, values=[replace(bad.values[0], fault=fault)])
    made = report(bad, result(0.0))
    found = finding(made, f"reward-{fault.replace('_', '-')}")
    assert (found.weight, found.rate and (found.rate.hits, found.rate.n)) == ("blocks", (1, 2))


@pytest.mark.parametrize(
    ("problem", "code", "verdict"),
    [
        ("unpaid", "gold-unpaid", "blocked"),
        ("format_only", "format-only", "blocked"),
        ("unscored", "gold-unscored", "blocked"),
        ("unknown", "honest-unknown", "insufficient-evidence"),
    ],
)
def test_without_honest_work_there_is_no_answer(problem: Any, code: str, verdict: str) -> None:
    """A gold that is not paid blocks with its row and texts; where none is known, the evidence is wanting."""
    made = report(
        honest=[replace(WORK, row=7, problem=problem, success=0.0, gold=None if problem == "unknown" else "5")]
    )
    assert made.verdict == verdict
    if verdict == "blocked":
        assert finding(made, code).data_rows == [7]
        assert "`5` is paid 0" in finding(made, code).text


def test_a_few_unscorable_golds_only_warn() -> None:
    """One in twenty is listed; more than that blocks."""
    bad = replace(WORK, row=9, problem="unscored", success=None)
    assert finding(report(honest=[bad, *[WORK] * 19]), "gold-unscored").weight == "warns"
    assert finding(report(honest=[bad, *[WORK] * 18]), "gold-unscored").weight == "blocks"


def test_form_that_outweighs_the_answer_warns() -> None:
    """Honest failure that is paid more than half of success is said."""
    made = report(honest=[replace(WORK, failure=0.8)] * 3)
    assert finding(made, "form-outweighs-answer").weight == "warns"
    assert report(honest=[replace(WORK, failure=0.4)] * 3).findings == []


def test_other_ways_of_calling() -> None:
    """A value that moves alone blocks; a thread or the other form may never come, so they warn."""
    moved = replace(result(0.0), differs=["alone", "thread", "not other form"])
    still = replace(result(0.0), differs=["not alone", "not thread", "not other form"])
    made = report(moved, still)
    assert finding(made, "reward-alone").weight == "blocks"
    assert finding(made, "reward-thread").weight == "warns"
    assert all(one.code != "reward-other-form" for one in made.findings)


@pytest.mark.parametrize(
    ("first", "second", "shows"),
    [("", "It is 9.", "as on `It is 9.`"), ("```", "", "as on a fence alone"), ("```", "?!", "as on `?!` (a mark)")],
)
def test_the_other_form_is_a_whole_sentence(first: str, second: str, shows: str) -> None:
    """Who does what, what comes of it, and an example that shows something."""
    about = {"": "nothing at all", "```": "a fence alone", "?!": "a mark"}
    moved = [
        replace(result(0.0, completion=text, about=about.get(text, "wrong")), differs=["other form"])
        for text in (first, second)
    ]
    text = finding(report(*moved), "reward-other-form").text

    assert text.startswith(
        "the reward pays another value for the same completion as chat messages; it does no harm while"
    )
    assert text.endswith(shows)


@pytest.mark.parametrize(
    ("problem", "code"), [("unscored", "gold-unscored"), ("unpaid", "gold-unpaid")], ids=["unscored", "unpaid"]
)
@pytest.mark.parametrize(("bad", "blames"), [(1, "mend or remove these rows"), (2, "mend the reward, not the rows")])
def test_where_most_golds_fail_the_reward_is_suspected(problem: Any, code: str, bad: int, blames: str) -> None:
    """Half of four prompts is no fault of their rows."""
    failing = [replace(WORK, row=place, problem=problem, success=0.0) for place in range(bad)]
    found = finding(report(honest=[*failing, *[WORK] * (4 - bad)]), code)

    assert str(found.next_action).startswith(blames)


def test_the_gravest_stands_first() -> None:
    """What blocks is read before what warns, whatever was found first."""
    made = report(*[result(1.0, weighs="warns")] * 2, *[result(0.0, kind="variant", family="spacing")] * 2)

    assert [one.weight for one in made.findings] == ["blocks", "warns"]
    assert [one.code for one in made.findings] == ["variant-spacing", "exploit-spraying"]


def test_slow_rewards_are_said() -> None:
    """More than a second a completion holds up each step."""
    slow = result(0.0)
    slow = replace(slow, values=[replace(slow.values[0], seconds=1.5)])
    assert "1.5 s a completion" in finding(report(slow), "reward-slow").text


def test_values_that_nobody_compares_are_said() -> None:
    """A schema alone is a form; it holds, with a word of warning."""
    made = report(values_count=False)
    assert finding(made, "values-unverified").weight == "warns"
    assert made.verdict == "held"


@pytest.mark.parametrize(
    ("failure", "empty", "weight"), [(0.5, 0.0, "blocks"), (0.0, 0.5, "blocks"), (0.49, 0.49, None)]
)
def test_wrong_work_that_counts_as_success_blocks(failure: float, empty: float, weight: str | None) -> None:
    """From the gate's threshold on a wrong answer or an empty text is a success, whatever a right one earns."""
    made = report(honest=[replace(WORK, failure=failure, empty=empty)] * 2, counts_from=0.5)
    assert next((one.weight for one in made.findings if one.code == "wrong-is-success"), None) == weight


@pytest.mark.parametrize(
    ("unpaid", "format_only", "sound", "is_reward"),
    [(6, 0, 6, True), (4, 3, 7, True), (5, 0, 7, False), (2, 2, 9, False)],
    ids=["half", "half in two ways", "less", "less in two ways"],
)
def test_where_half_of_the_golds_fail_the_reward_is_at_fault(
    unpaid: int, format_only: int, sound: int, *, is_reward: bool
) -> None:
    """However they fail: to remove rows would not mend a reward that pays one value to most."""
    problems = [*["unpaid"] * unpaid, *["format_only"] * format_only, *[None] * sound]
    honest = [
        replace(WORK, row=row, prompt_id=str(row), problem=problem, failure=1.0 if problem else 0.0)  # type: ignore[arg-type]
        for row, problem in enumerate(problems, 1)
    ]
    made = report(result(0.0), honest=honest)
    action = str(finding(made, "gold-unpaid").next_action)

    assert action.startswith("mend the reward, not the rows: ") == is_reward
    assert action.startswith("mend or remove these rows") != is_reward
    assert ("sample RUN --fresh" in made.next_action) != is_reward
