"""Is there something to learn: success with the prompts in mind, the lenient reading, signal, and sound groups."""

from typing import Any

import pytest

from evidence_records import codes, evidence, named, of_rewards, scored
from llm_finetuning import statistics
from llm_finetuning.findings import lenient, success
from llm_finetuning.findings.evidence import Plan


def found(policy: Any, **rest: Any) -> list[Any]:
    return success.findings(evidence(policy, **rest))


def test_base_success_has_the_interval_of_its_prompts() -> None:
    """Ten prompts that always and ten that never succeed tell what twenty completions do, not what 160."""
    finding = named(found(of_rewards([[1.0] * 8] * 10 + [[0.0] * 8] * 10)), "base-success")
    plain, clustered = statistics.rate(80, 160), statistics.clustered_share([(8, 8)] * 10 + [(0, 8)] * 10)

    assert (finding.rate.hits, finding.rate.n) == (80, 160)
    assert (finding.rate.low, finding.rate.high) == (clustered.low, clustered.high)
    assert finding.rate.high - finding.rate.low > 2.5 * (plain.high - plain.low)
    assert "counts 20 prompts" in finding.text


@pytest.mark.parametrize(
    ("gold", "completion", "says"),
    [
        ("42", "So it is 42.", True),
        ("42", "First 42, then 43.", False),
        ("42", "it is 420", False),
        ("1,042", "that makes 1042", True),
        ("42.0", "42", True),
        ("1/2", "a half: 0.5", True),
        ("2 + 3 = 5\n#### 5", "the sum is 5", True),
        ("$7$", "seven: 7", True),
        ("Paris", "I think\nit is paris!\n\n", True),
        ("Paris", "Paris is nice\nbut it is Rome", False),
        ("par", "it is Paris", False),
        ("B", "The answer is B.", True),
        ("A", "B would be a good pick", False),
        ("A", "A good pick is B", False),
        ("A", "A? No, B.", False),
        ("B", "I say B. A fine one", True),
        ("(C)", "I say (C)", True),
        ("1/0", "no", False),
    ],
)
def test_lenient_reading(gold: str, completion: str, *, says: bool) -> None:
    """The gold is what the completion ends with, in whatever form."""
    assert lenient.says_gold(scored(0, 0, 0.0, columns={"answer": gold}, completion=completion)) == says


@pytest.mark.parametrize("said", ["I say 41.", "it is 42."], ids=["wrong", "right in another form"])
def test_never_succeeds_names_the_command_and_the_rows(said: str) -> None:
    """In one line: what to run, which columns its rows hold, and that the model it leaves is gated."""
    finding = named(found(sums(lambda index: said, lambda index: 0.0)), "never-succeeds")

    assert finding.next_action is not None
    assert "\n" not in finding.next_action
    for words in (success.SHORT_SFT, "--method sft --dataset DEMOS.jsonl", "`prompt`", "`completion`", "then gate"):
        assert words in finding.next_action


@pytest.mark.parametrize(
    ("action", "run", "after"),
    [
        (
            "a short SFT, `finetune new RUN-sft --from RUN --method sft`",
            "out/rev",
            "`finetune new out/rev-sft --from out/rev --method sft`",
        ),
        ("`finetune gate RUN`", "my run", "`finetune gate 'my run'`"),
        ("`finetune new RUN-sft --from RUN`", "my run", "`finetune new 'my run-sft' --from 'my run'`"),
        (r"`finetune gate RUN`", r"a\1", r"`finetune gate 'a\1'`"),
        (
            "go to RUN now, then `RUN` and `finetune new RUNNER` again",
            "x",
            "go to RUN now, then `RUN` and `finetune new RUNNER` again",
        ),
    ],
    ids=["two names", "a space", "a space in both", "a backslash", "other words"],
)
def test_a_command_of_an_action_names_the_run(action: str, run: str, after: str) -> None:
    """Ready to paste into a shell; what is no command stays as it is."""
    assert success.for_run(action, run).endswith(after)


def sums(said: Any, paid: Any) -> list[Any]:
    return [
        scored(prompt, index, paid(index), columns={"answer": "42"}, completion=said(index))
        for prompt in range(10)
        for index in range(8)
    ]


def test_right_answers_in_another_form_route_to_the_prompt() -> None:
    """Nothing is paid and half is right in prose: neither SFT on the task nor a larger group is the answer."""
    policy = sums(lambda index: f"it is {42 + index % 2}", lambda index: 0.0)
    findings = found(policy)

    assert named(findings, "lenient-success").weight == "warns"
    assert (named(findings, "lenient-success").rate.hits, named(findings, "lenient-success").rate.n) == (40, 80)
    assert named(findings, "never-succeeds").next_action.startswith("fix the prompt, or teach the form")


def test_a_weak_signal_from_a_strict_form_does_not_ask_for_a_larger_group() -> None:
    """One prompt of ten is paid: the form is in the way."""
    policy = sums(lambda index: "it is 42", lambda index: 0.0)
    policy[:8] = [
        scored(0, index, float(index % 2), columns={"answer": "42"}, completion="it is 42") for index in range(8)
    ]
    finding = named(found(policy), "groups-with-signal")

    assert finding.weight == "warns"
    assert "a larger group does not help" in finding.next_action


@pytest.mark.parametrize("answer", ["x" * 41, "", None, ["42"], True])
def test_long_golds_are_not_looked_for(answer: object) -> None:
    """An essay is not what a text ends with."""
    policy = [scored(0, index, 0.0, columns={"answer": answer}) for index in range(8)]

    assert "lenient-success" not in codes(found(policy))


def test_paid_answers_are_no_gap() -> None:
    """What is right and paid is what the reward is for."""
    finding = named(
        found(sums(lambda index: f"it is {42 + index % 2}", lambda index: 1.0 - index % 2)), "lenient-success"
    )

    assert finding.weight == "fine"
    assert finding.estimate.value == 0.0


@pytest.mark.parametrize(
    ("groups", "live"),
    [
        ([[1.0] * 4, [0.0] * 4] * 2, 0),  # the pool spreads widely, no group does
        ([[0.4] * 4] * 4, 0),  # constant, and neither 0 nor 1
        ([[0.4, 0.4, 0.4, 0.5]] * 4, 4),
        ([[None, 1.0, None, 1.0]] * 4, 0),
        ([[1.0, 0.0, None, None], [None] * 4, [0.0] * 4, [0.0] * 4], 1),
    ],
    ids=["0 and 1", "0.4", "a little", "abstained", "mixed"],
)
def test_groups_are_counted_by_their_raw_spread(groups: list[list[float | None]], live: int) -> None:
    """Largest minus smallest reward of each group decides, never the pooled deviation."""
    finding = named(found(of_rewards(groups)), "groups-with-signal")

    assert (finding.rate.hits, finding.rate.n) == (live, 4)
    assert (live == 0) <= (finding.weight in ("blocks", "warns"))


def test_signal_is_predicted_for_other_sizes_of_a_group() -> None:
    """Up to the drawn size without a model, beyond it from how prompts differ, and never falling."""
    policy = of_rewards([[1.0] + [0.0] * 7] * 12 + [[0.0] * 8] * 12)
    sizes = success.signal_by_size(evidence(policy))

    assert list(sizes) == ["4", "8", "16", "32"]
    assert sizes["4"] == statistics.share_with_signal([[10**7] + [0] * 7] * 12 + [[0] * 8] * 12, 4)
    assert sizes["4"].value == pytest.approx(0.25)  # half of the prompts, one success in eight: 1 - C(7,4)/C(8,4)
    assert sizes["8"].value == pytest.approx(0.5)
    assert sizes["16"] == statistics.predicted_mixed([(1, 8)] * 12 + [(0, 8)] * 12, 16)
    assert sizes["8"].value <= sizes["16"].value <= sizes["32"].value


def test_a_larger_group_is_never_foretold_less() -> None:
    """All groups of four are mixed, so all larger ones will be, whatever a model of them says."""
    sizes = success.signal_by_size(evidence(of_rewards([[1.0, 1.0, 0.0, 0.0]] * 15)))

    assert statistics.predicted_mixed([(2, 4)] * 15, 8).value < 1.0
    assert [sizes[size].value for size in ("4", "8", "16")] == [1.0, 1.0, 1.0]


def test_graded_rewards_promise_no_more_than_was_seen() -> None:
    """With many values the drawn share is the least to expect, and nothing is modelled."""
    policy = of_rewards([[0.1, 0.2, 0.3, 0.4]] * 3 + [[0.5] * 4] * 3)
    found_at = success.signal_by_size(evidence(policy))["16"]

    assert (found_at.value, found_at.high) == (0.5, 1.0)


def test_a_larger_group_is_advised_where_it_gains() -> None:
    """All prompts succeed a little: more completions meet a success. Where prompts are all or nothing, none does."""
    rare = of_rewards([[1.0, 0.0, 0.0, 0.0]] * 4 + [[0.0] * 4] * 12)
    split = of_rewards([[1.0, 0.0, 0.0, 0.0]] + [[1.0] * 4] * 8 + [[0.0] * 4] * 8)

    assert (
        "raise `num_generations` to 8"
        in named(found(rare, plan=Plan(num_generations=4)), "groups-with-signal").next_action
    )
    assert named(found(split), "groups-with-signal").next_action.startswith("filter prompts")


def test_interleaved_prompts_are_no_groups() -> None:
    """One id over two prompt texts: nothing can be said about its group, so the gate does not open."""
    policy = [scored(0, index, float(index % 2), prompt=f"prompt {index % 2}") for index in range(4)]
    policy += of_rewards([[0.0, 1.0]] * 3)[2:]
    finding = named(found(policy), "grouping")

    assert (finding.weight, finding.rate.hits, finding.rate.n) == ("insufficient", 1, 3)
    assert "grouping" not in codes(found(of_rewards([[0.0, 1.0]] * 3)))
