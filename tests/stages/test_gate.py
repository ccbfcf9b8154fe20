"""The gate: each thing that blocks, what it says, and what is done first."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_finetuning.stages import gate as stage
from llm_finetuning.types import Finding, GateReport, Label, Override, RewardValue, Sample, Score

RULE = stage.Rule(success=0.5)
N_PROMPTS, G = 16, 4


def samples() -> list[Sample]:
    made = []
    for prompt in range(N_PROMPTS):
        for index in range(G + 1):
            low = index == G
            made.append(
                Sample(
                    sample_id=f"{prompt}/low" if low else f"{prompt}/{index}",
                    prompt_id=str(prompt),
                    row=prompt + 1,
                    pass_name="low_temperature" if low else "policy",
                    index=0 if low else index,
                    prompt="p",
                    columns={"answer": "1"},
                    completion=f"text {'abcde'[index]}",
                    completion_ids=[1],
                    tokens=10 + index,
                    finish_reason="stop",
                    temperature=0.0 if low else 1.0,
                )
            )
    return made


def paid_half(sample: Sample) -> float:
    return float(sample.index % 2)


def judge(
    *,
    pays: Any = paid_half,
    accepts: Any = lambda sample: paid_half(sample) == 1.0,
    change: Any = lambda sample: sample,
    fault: str | None = None,
    labelled: int = 60,
    kind: str = "person",
    rule: stage.Rule = RULE,
    stale: bool = False,
) -> GateReport:
    """Judge a run that is sound but for what the test changes."""
    made = [change(sample) for sample in samples()]
    scores = [
        Score(
            sample_id=sample.sample_id,
            prompt_id=sample.prompt_id,
            pass_name=sample.pass_name,
            values=[RewardValue(name="r", value=pays(sample), reason=None, fault=fault, seconds=0.0)],
            reward=pays(sample),
            advantage=0.0,
        )
        for sample in made
    ]
    policy = [sample for sample in made if sample.pass_name == "policy"][:labelled]
    labels = [
        Label(
            sample_id=sample.sample_id,
            reader="ada",
            reader_kind=kind,  # type: ignore[arg-type]
            verdict="accept" if accepts(sample) else "reject",
            note="",
            at="now",
            seen_sha256="old" if stale else "seen",
            source="terminal",
        )
        for sample in policy
    ]
    seen = {sample.sample_id: "seen" for sample in made}
    return stage.judge(made, scores, labels, seen, rule=rule, fingerprint="f")


def said(report: GateReport, code: str) -> str:
    return next(finding.text for finding in report.findings if finding.code == code)


def weights(report: GateReport) -> dict[str, str]:
    return {finding.code: finding.weight for finding in report.findings if finding.weight != "fine"}


def test_sound_reward_opens_the_gate() -> None:
    """Agreement, some success and groups with signal are all it takes."""
    report = judge()

    assert ("open", {}) == (report.verdict, weights(report))
    assert {"paid_accept": 30, "paid_reject": 0, "unpaid_accept": 0, "unpaid_reject": 30} == {
        key: report.agreement[key] for key in ("paid_accept", "paid_reject", "unpaid_accept", "unpaid_reject")
    }


def test_one_paid_but_rejected_completion_blocks() -> None:
    """One disagreement is enough, however good the rest is, and it is shown with its text."""
    report = judge(accepts=lambda sample: paid_half(sample) == 1.0 and sample.sample_id != "3/1")

    assert ("blocked", {"false-pass": "blocks"}) == (report.verdict, weights(report))
    (found,) = report.disagreements
    assert ("3/1", "false_pass", 1.0, "text b") == (found.sample_id, found.kind, found.reward, found.completion)
    assert report.next_action == (
        "fix the reward: read 3/1; then `finetune audit RUN && finetune score RUN && finetune probe RUN && "
        "finetune gate RUN`. Was the label a slip, give it again: `finetune review RUN` and key `k` back to it, or a "
        "table with that one row, `finetune review RUN --import labels.csv --reader NAME`; then `finetune gate RUN` is "
        "enough"
    )


def test_one_unpaid_but_accepted_completion_blocks() -> None:
    """A reward that refuses right work hides a good model."""
    report = judge(accepts=lambda sample: paid_half(sample) == 1.0 or sample.sample_id == "3/0")

    assert ("blocked", {"false-fail": "blocks"}) == (report.verdict, weights(report))


@pytest.mark.parametrize("labelled", [0, 49])
def test_fewer_than_fifty_labels_are_too_little(labelled: int) -> None:
    """No gate without a reader."""
    report = judge(labelled=labelled)

    assert "insufficient-evidence" == report.verdict
    assert f"read {50 - labelled} more completions with `finetune review RUN`" == report.next_action


def test_labels_of_what_is_no_longer_there_do_not_count() -> None:
    """A sample drawn again asks for a new label; the report says how many were left out."""
    report = judge(stale=True)

    assert "insufficient-evidence" == report.verdict
    assert weights(report)["labels-set-aside"] == "warns"
    assert "60 labels do not count, and are kept: the samples of 0 are gone, 60 saw another prompt" in said(
        report, "labels-set-aside"
    )


def test_program_labels_count_in_the_demo_alone() -> None:
    """No agent labels; the demo's report says that a program did."""
    outside = judge(kind="program")
    demo = judge(kind="program", rule=dataclasses.replace(RULE, program_labels_count=True))

    assert "insufficient-evidence" == outside.verdict
    assert "do not count: a person has to read" in outside.notes[0]
    assert "open" == demo.verdict
    assert "which counts in the demo alone" in demo.notes[0]


def test_never_succeeds_means_sft_first() -> None:
    """GRPO has nothing to reinforce where nothing succeeds."""
    report = judge(pays=lambda sample: 0.0, accepts=lambda sample: False)

    assert "blocked" == report.verdict
    assert "blocks" == weights(report)["never-succeeds"]
    assert "short SFT" in report.next_action


def test_success_at_low_temperature_alone_still_blocks() -> None:
    """GRPO draws at the training temperature; what shows at a low one alone is not reinforced."""
    report = judge(pays=lambda sample: float(sample.pass_name != "policy"), accepts=lambda sample: False)

    assert weights(report)["never-succeeds"] == "blocks"
    assert "lower `temperature`" in report.next_action


def test_always_succeeds_means_nothing_to_learn() -> None:
    """Saturated: choose harder prompts."""
    report = judge(pays=lambda sample: 1.0, accepts=lambda sample: True)

    assert "blocked" == report.verdict
    assert "blocks" == weights(report)["always-succeeds"]


def test_constant_groups_block_though_the_pooled_spread_is_wide() -> None:
    """All-right and all-wrong groups spread widely together and teach nothing."""
    report = judge(pays=lambda sample: float(sample.row % 2), accepts=lambda sample: sample.row % 2 == 1)

    assert {"groups-with-signal": "blocks"} == weights(report)
    assert report.next_action.startswith("filter prompts that always or never succeed")


def test_cut_completions_block_and_ask_for_a_cap() -> None:
    """An answer that was never finished was never judged."""
    report = judge(
        change=lambda sample: dataclasses.replace(sample, finish_reason="length") if sample.index == 0 else sample
    )

    assert {"truncated": "blocks"} == weights(report)
    assert "raise `max_completion_length` to 40 and sample again" in report.next_action
    assert "the cap that 95% need is unknown" in said(report, "truncated")


def test_all_cut_points_at_the_end_token_first() -> None:
    """A cap that is too short and a model that never ends look alike in the share alone."""
    report = judge(change=lambda sample: dataclasses.replace(sample, finish_reason="length"))

    assert "check the end token first" in report.next_action
    assert weights(report) == {"never-ends": "blocks"}


def test_unscored_completions_above_the_share_block_and_name_rows() -> None:
    """An abstention is not a zero, and too many of them are a fault of the data."""
    report = judge(pays=lambda sample: None if sample.row == 5 else paid_half(sample))

    assert "blocks" == weights(report)["unscored"]
    text = next(finding.text for finding in report.findings if finding.code == "unscored")
    assert "4 of 64" in text
    assert "data set rows 5" in text


@pytest.mark.parametrize("fault", ["nan", "infinite", "unstable", "out_of_range"])
def test_faulty_values_block_first(fault: str) -> None:
    """A reward that is broken explains every number after it, so it is mended first."""
    report = judge(fault=fault, labelled=0)

    assert "blocked" == report.verdict
    assert report.next_action.startswith("fix `r`")


def test_disagreement_is_mended_before_more_is_read_or_taught() -> None:
    """With a reward in doubt, zero success says nothing about the model."""
    report = judge(pays=lambda sample: 0.0, labelled=20)

    assert "blocked" == report.verdict
    assert report.next_action.startswith("fix the reward")


def relabel(label: Label, **change: Any) -> Label:
    return dataclasses.replace(label, **change)


def judged_with(extra: Any, *, pays: Any = paid_half, second: float | None = None) -> GateReport:
    """Judge the sound run with labels that `extra` makes from it; `second` adds a second reward of that value."""
    made = samples()
    values = [RewardValue(name="r", value=None, reason=None, fault=None, seconds=0.0)]
    scores = []
    for sample in made:
        values = [RewardValue(name="r", value=pays(sample), reason=None, fault=None, seconds=0.0)]
        if second is not None:
            values.append(RewardValue(name="s", value=second, reason=None, fault=None, seconds=0.0))
        scores.append(
            Score(
                sample_id=sample.sample_id,
                prompt_id=sample.prompt_id,
                pass_name=sample.pass_name,
                values=values,
                reward=pays(sample),
                advantage=0.0,
            )
        )
    labels = [
        Label(
            sample_id=sample.sample_id,
            reader="ada",
            reader_kind="person",
            verdict="accept" if paid_half(sample) else "reject",
            note="",
            at="now",
            seen_sha256="seen",
            source="terminal",
        )
        for sample in made
    ]
    seen = {sample.sample_id: "seen" for sample in made}
    return stage.judge(made, scores, extra(labels), seen, rule=RULE, fingerprint="f")


def test_reading_low_temperature_samples_is_not_enough() -> None:
    """What training draws has to be read, not what greedy decoding shows."""
    report = judged_with(lambda labels: [label for label in labels if label.sample_id.endswith("low")])

    assert report.verdict == "insufficient-evidence"
    assert "0 of the 50 completions" in next(finding.text for finding in report.findings if finding.code == "labels")


def test_unsure_is_no_judgement() -> None:
    """Fifty times unsure is nothing read."""
    report = judged_with(lambda labels: [relabel(label, verdict="unsure") for label in labels])

    assert report.verdict == "insufficient-evidence"
    assert report.disagreements == []


def test_a_changed_mind_counts_as_the_last_word() -> None:
    """The last label of a reader stands."""
    first = judged_with(lambda labels: [relabel(labels[1], verdict="reject"), *labels])
    last = judged_with(lambda labels: [*labels, relabel(labels[1], verdict="reject")])

    assert first.verdict == "open"
    assert [found.sample_id for found in last.disagreements] == ["0/1"]


def test_each_reader_is_heard() -> None:
    """Readers who differ leave a sample unresolved, which blocks; two who agree on one sample count once."""
    report = judged_with(lambda labels: [relabel(labels[1], verdict="reject", reader="bob"), *labels])
    doubled = judged_with(lambda labels: [label for one in labels[:45] for label in (one, relabel(one, reader="bob"))])

    assert weights(report) == {"readers-disagree": "blocks"}
    assert report.next_action == (
        "let the readers settle 0/1: each labels it again, the last label stands: `finetune review RUN` and key `k` "
        "back to it, or a table with that one row, `finetune review RUN --import labels.csv --reader NAME`; then "
        "`finetune gate RUN`"
    )
    assert (report.disagreements, report.agreement["contested"]) == ([], 1)
    assert doubled.verdict == "insufficient-evidence"


def test_a_stale_label_hides_no_valid_one() -> None:
    """Samples that were set aside and restored are read already."""
    report = judged_with(lambda labels: [*labels, *(relabel(label, seen_sha256="other") for label in labels)])

    assert report.verdict == "open"


def test_threshold_itself_counts_as_paid() -> None:
    """From the threshold on means the threshold too."""
    report = judged_with(lambda labels: labels, pays=lambda sample: 0.5 * paid_half(sample))

    assert report.verdict == "open"


def test_constant_component_is_named_beside_others() -> None:
    """A reward that pays the same for all teaches nothing, and a sum hides it."""
    report = judged_with(lambda labels: labels, second=0.25)

    assert weights(report) == {"constant-reward": "warns"}
    assert "`s` pays 0.25 for all 64 completions" in next(
        finding.text for finding in report.findings if finding.code == "constant-reward"
    )


def test_weak_signal_warns() -> None:
    """Few live groups are said before a GPU hour is spent."""
    report = judge(
        pays=lambda sample: paid_half(sample) if sample.row <= 3 else 0.0,
        accepts=lambda sample: sample.row <= 3 and paid_half(sample) == 1.0,
    )

    assert weights(report) == {"groups-with-signal": "warns"}


def test_one_answer_to_everything_warns_and_does_not_block() -> None:
    """Three of four completions are one text that is right on half of the prompts, as often as all of them are."""

    def pays(sample: Sample) -> float:
        return float((sample.row % 2 == 1) == (sample.index < 3))

    report = judge(
        pays=pays,
        accepts=lambda sample: pays(sample) == 1.0,
        change=lambda sample: dataclasses.replace(sample, completion="yes") if sample.index < 3 else sample,
    )

    assert ("open", {"constant-answer": "warns", "duplicates": "fine"}) == (
        report.verdict,
        {**weights(report), "duplicates": next(one.weight for one in report.findings if one.code == "duplicates")},
    )


@pytest.mark.parametrize(("cut", "weight"), [(12, "fine"), (13, "blocks")])
def test_truncation_limit_is_a_fifth_of_the_policy_samples(cut: int, weight: str) -> None:
    """12 of 64 is below, 13 of 64 is above; the low-temperature pass does not count."""
    places = {f"{place // 4}/{place % 4}" for place in range(cut)}
    report = judge(
        change=lambda sample: (
            dataclasses.replace(sample, finish_reason="length")
            if sample.sample_id in places or sample.pass_name != "policy"
            else sample
        )
    )

    assert weight == next(finding.weight for finding in report.findings if finding.code == "truncated")


@pytest.mark.parametrize(("unscored", "weight"), [(3, "fine"), (4, "blocks")])
def test_unscored_limit_is_a_twentieth(unscored: int, weight: str) -> None:
    """3 of 64 is below 5%, 4 of 64 is above."""
    places = {f"{place}/0" for place in range(unscored)}
    report = judge(pays=lambda sample: None if sample.sample_id in places else paid_half(sample))

    assert weight == next(finding.weight for finding in report.findings if finding.code == "unscored")


def test_saturation_begins_at_95_percent() -> None:
    """61 of 64 successes leave nothing to learn; 60 of 64 do."""
    for failures, saturated in ((3, True), (4, False)):
        places = {f"{place}/0" for place in range(failures)}

        def pays(sample: Sample, places: set[str] = places) -> float:
            return float(sample.sample_id not in places)

        report = judge(pays=pays, accepts=lambda sample, pays=pays: pays(sample) == 1.0)
        assert saturated == ("always-succeeds" in weights(report))


def test_too_few_samples_ask_for_more_samples() -> None:
    """Nobody can read fifty of sixteen."""
    rule = dataclasses.replace(RULE, labels=100)

    assert "draw more: 64 completions are there" in judge(rule=rule).next_action


def test_false_pass_rate_is_over_the_rejected() -> None:
    """Of what the reader rejects, how much is paid: 1 of 31."""
    report = judge(accepts=lambda sample: paid_half(sample) == 1.0 and sample.sample_id != "3/1")
    found = next(finding.rate for finding in report.findings if finding.code == "false-pass")

    assert found
    assert (1, 31) == (found.hits, found.n)


def test_fault_at_low_temperature_blocks_too() -> None:
    """A reward that breaks on any completion breaks in training."""
    made = judged_with(lambda labels: labels)
    assert made.verdict == "open"
    scores = [
        Score(
            sample_id=sample.sample_id,
            prompt_id=sample.prompt_id,
            pass_name=sample.pass_name,
            values=[
                RewardValue(
                    name="r",
                    value=paid_half(sample),
                    reason=None,
                    fault=None if sample.pass_name == "policy" else "nan",
                    seconds=0.0,
                )
            ],
            reward=paid_half(sample),
            advantage=0.0,
        )
        for sample in samples()
    ]
    report = stage.judge(samples(), scores, [], {}, rule=RULE, fingerprint="f")
    assert weights(report)["reward-nan"] == "blocks"


@pytest.mark.parametrize(
    ("codes", "first"),
    [
        (
            ["labels", "truncated", "groups-with-signal", "false-pass", "probe-exploit-echo", "unscored", "reward-nan"],
            6,
        ),
        (["labels", "truncated", "groups-with-signal", "false-pass", "probe-exploit-echo", "unscored"], 5),
        (["false-fail", "probe-exploit-echo", "audit-gold-empty"], 2),
        (["false-fail", "probe-exploit-echo", "probe-gold-unpaid"], 2),
        (["probe-exploit-echo", "readers-disagree", "grouping", "format-only", "never-succeeds"], 4),
        (["never-succeeds", "audit-gold-empty"], 1),
        (["never-succeeds", "probe-gold-unpaid"], 1),
        (["never-succeeds", "probe-reward-nan"], 1),
        (["labels", "probe-exploit-echo", "never-succeeds", "truncated"], 3),  # what was cut off never finished
        (["probe-variant-spacing", "never-succeeds", "truncated"], 2),
        (["never-succeeds", "false-fail", "probe-variant-spacing"], 2),  # right work may be what is not paid
        (["never-succeeds", "false-fail", "false-pass"], 1),
        (["never-succeeds", "never-ends", "false-pass"], 1),
        (["probe-exploit-echo", "never-ends"], 1),
        (["never-succeeds", "probe-exploit-echo", "empty"], 2),
        (["empty", "unscored"], 1),
        (["false-fail", "never-succeeds", "unscored", "audit-x", "judged-unscored"], 4),  # it explains what is missing
        (["never-succeeds", "probe-reward-abstains", "unscored"], 1),
        (["truncated", "probe-variant-spacing"], 1),
        (["truncated", "false-fail"], 1),
        (["always-succeeds", "truncated"], 0),
        (["labels"], 0),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else str(value),
)
def test_the_next_action_is_that_of_the_first_cause(codes: list[str], first: int) -> None:
    """A broken reward explains the numbers after it; more reading comes last."""
    findings = [Finding(code=code, weight="blocks", text="", next_action=code) for code in codes]

    assert stage.verdict_of(findings) == ("blocked", codes[first])


@settings(max_examples=60)
@given(
    st.permutations(
        [
            "reward-nan",
            "audit-x",
            "never-ends",
            "truncated",
            "probe-variant-x",
            "false-fail",
            "never-succeeds",
            "probe-exploit-x",
            "readers-disagree",
            "groups-with-signal",
            "labels",
        ]
    )
)
def test_the_report_lists_causes_in_one_order(codes: list[str]) -> None:
    """What blocks stands so, its first says what is next, and what does not block follows as it came."""
    blocking = [Finding(code=code, weight="blocks", text="", next_action=code) for code in codes]
    others = [Finding(code=f"reward-{code}", weight="warns", text="", next_action=code) for code in codes]
    mixed = [finding for pair in zip(others, blocking, strict=True) for finding in pair]
    found = stage.in_order(mixed)

    assert [finding.code for finding in found[: len(codes)]] == [
        "reward-nan", "audit-x", "never-ends", "truncated", "probe-variant-x", "false-fail", "never-succeeds",
        "probe-exploit-x", "readers-disagree", "groups-with-signal", "labels",
    ]  # fmt: skip
    assert found[len(codes) :] == others
    assert stage.verdict_of(mixed) == ("blocked", "reward-nan")


def test_the_judged_report_leads_with_the_first_cause() -> None:
    """Nothing succeeds and most is cut: that stands first in the report, in whatever order it was found."""
    report = judge(
        pays=lambda sample: 0.0,
        accepts=lambda sample: False,
        change=lambda sample: dataclasses.replace(sample, finish_reason="length") if sample.index else sample,
    )

    assert [finding.code for finding in report.findings[:2]] == ["truncated", "never-succeeds"]
    assert report.next_action == report.findings[0].next_action


def test_what_blocks_speaks_before_what_is_wanting() -> None:
    """Within one cause; and one thing that blocks makes the verdict."""
    findings = [
        Finding(code="probe-honest-unknown", weight="insufficient", text="", next_action="name the gold"),
        Finding(code="probe-exploit-echo", weight="blocks", text="", next_action="stop paying"),
    ]

    assert stage.verdict_of(findings) == ("blocked", "stop paying")
    assert stage.verdict_of(findings[:1]) == ("insufficient-evidence", "name the gold")
    assert stage.verdict_of([])[0] == "open"


def test_an_override_counts_for_its_own_state_alone() -> None:
    """It is shown for ever, and says whether it still speaks of what is there."""
    made = Override(by="ada", reason="known", at="2026-01-01T00:00:00+00:00", fingerprint="f")

    assert stage.override_notes([made], "f") == ["overridden by ada on 2026-01-01T00:00:00+00:00: known"]
    assert stage.override_notes([made], "g")[0].endswith("it counts no more")
