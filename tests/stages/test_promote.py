"""The promotion, from grades and rewards alone: what rejects, what is wanting, what only warns, what comes first."""

import dataclasses
import random
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evaluations
from llm_finetuning.stages.promote import Leakage, Setting, Suites, Training, Wanted, evidence_of, promote
from llm_finetuning.statistics import sign_test
from llm_finetuning.types import Arena, Evaluation, Leak, Promotion

Groups = Sequence[Sequence[float | None]]

LOW: Groups = [[1.0, 0.0, 0.0, 0.0]] * 40
HIGH: Groups = [[1.0, 1.0, 0.0, 0.0]] * 40
GENERAL: Groups = [[1.0]] * 150 + [[0.0]] * 50


def of(groups: Groups, name: str = "base", *, paid: Groups | None = None, buckets: Sequence[str] = ()) -> Evaluation:
    """Return an evaluation whose grades are `groups`; `paid` is what training pays, by another component."""
    found = evaluations.of_rewards(groups, name=name)
    items = []
    for place, item in enumerate(found.items):
        own = item if paid is None else dataclasses.replace(item, rewards=list(paid[place]))
        values = own.values if paid is None else {**own.values, "paid": list(paid[place])}
        items.append(dataclasses.replace(own, values=values, bucket=buckets[place] if buckets else None))
    components = dict(found.components) if paid is None else {**found.components, "paid": found.tokens}
    return dataclasses.replace(found, items=items, components=components)


def singles(won: int, lost: int, n: int) -> tuple[Groups, Groups]:
    """Return base and candidate with one completion an item, which differ on so many; half of the rest both solve."""
    rest = n - won - lost
    same: Groups = [[1.0]] * (rest // 2) + [[0.0]] * (rest - rest // 2)
    return [[0.0]] * won + [[1.0]] * lost + list(same), [[1.0]] * won + [[0.0]] * lost + list(same)


def suites(fallen: int = 0, general: Groups = GENERAL) -> Suites:
    """Return a drift suite of which the candidate loses the first so many."""
    after = [[0.0]] * fallen + list(general[fallen:])
    return Suites(base=of(general), candidate=of(after, "tuned"))


def leaks(*items: int) -> Leakage:
    return Leakage(found=[Leak(prompt_id=str(one), row=one + 101, column="prompt", how="same") for one in items])


def judged(base: Evaluation, candidate: Evaluation, **changed: Any) -> Promotion:
    given: dict[str, Any] = {
        "suites": suites(),
        "leaks": Leakage(),
        "wanted": Wanted(),
        "training": Training(),
        "commands": evaluations.COMMANDS,
        "setting": Setting(),
        **changed,
    }
    return promote(evidence_of(base, candidate, **given))


def paired(before: Groups, after: Groups, **also: Any) -> tuple[Evaluation, Evaluation]:
    paid = also.pop("paid", (None, None))
    return of(before, paid=paid[0], **also), of(after, "tuned", paid=paid[1], **also)


ONES: Groups = [[1.0] * 4] * 40
TWOS: Groups = [[2.0] * 4] * 40
PARTS = ["a", "b"] * 20
EVEN = singles(8, 0, 24)

CASES: dict[str, tuple[tuple[Evaluation, Evaluation], dict[str, Any], str, str]] = {
    "better": (paired(LOW, HIGH), {}, "promoted", "improved"),
    "worse": (paired(HIGH, LOW), {}, "rejected", "worse"),
    "paid more for the same": (paired(LOW, LOW, paid=(ONES, TWOS)), {}, "rejected", "reward-hacked"),
    "paid more for less": (paired(HIGH, LOW, paid=(ONES, TWOS)), {}, "rejected", "reward-hacked"),
    "paid more for a gain too small": (
        paired(*singles(3, 2, 400), paid=([[1.0]] * 400, [[2.0]] * 400)),
        {},
        "rejected",
        "reward-hacked",
    ),
    "paid more for a gain not shown yet": (
        paired(*singles(5, 2, 40), paid=([[1.0]] * 40, [[2.0]] * 40)),
        {},
        "insufficient",
        "reward-unmatched",
    ),
    "paid more for better": (paired(LOW, HIGH, paid=(ONES, TWOS)), {}, "promoted", "improved"),
    "paid more on too few to tell": (
        paired([[0.0]] * 5, [[0.0]] * 5, paid=([[1.0]] * 5, [[2.0]] * 5)),
        {},
        "insufficient",
        "too-few-items",
    ),
    "drifts too far though better": (paired(LOW, HIGH), {"suites": suites(30)}, "rejected", "drift-exceeded"),
    "drift at the budget": (paired(LOW, HIGH), {"suites": suites(10)}, "insufficient", "drift-unclear"),
    "drift of one not measured": (
        paired(LOW, HIGH),
        {"suites": Suites(base=of(GENERAL), missing=["measure it"])},
        "insufficient",
        "drift-missing",
    ),
    "leaked goldens carry it": (
        paired([[0.0] * 4] * 40, [[1.0] * 4] * 20 + [[0.0] * 4] * 20),
        {"leaks": leaks(*range(20))},
        "rejected",
        "leaked-gain",
    ),
    "without leaked goldens too few": (
        paired(*EVEN),
        {"leaks": leaks(*range(4), *range(8, 16))},
        "insufficient",
        "leaked-power",
    ),
    "better without leaked goldens": (paired(LOW, HIGH), {"leaks": leaks(0, 1)}, "promoted", "leaked"),
    "leaked goldens are not ungraded ones": (
        paired([*EVEN[0], *[[0.0]] * 20], [*EVEN[1], *[[0.0]] * 20]),
        {"leaks": leaks(*range(24, 44))},
        "promoted",
        "leaked",
    ),
    "all leaked": (paired(LOW, HIGH), {"leaks": leaks(*range(40))}, "insufficient", "not-graded"),
    "nobody looked for leaks": (
        paired(LOW, HIGH),
        {"leaks": Leakage(unread="gone", mend="find it")},
        "insufficient",
        "leakage-unread",
    ),
    "a bucket falls": (
        paired(
            [[0.0, 0.0, 0.0, 1.0]] * 40, [[1.0] * 4 if place % 2 else [0.0] * 4 for place in range(40)], buckets=PARTS
        ),
        {},
        "insufficient",
        "bucket-falls",
    ),
    "one item weighs more than the gain": (paired(LOW[:12], HIGH[:12]), {}, "insufficient", "too-few-items"),
    "what was not graded could undo it": (
        paired([[0.0] * 4] * 8 + [[0.0] * 4] * 22 + [[None] * 4] * 9, [[1.0] * 4] * 8 + [[0.0] * 4] * 31),
        {},
        "insufficient",
        "ungraded-items",
    ),
    "only what fails is not graded": (
        paired([[1.0, 1.0, 0.0, 0.0]] * 40, [[1.0, 1.0, None, None]] * 40),
        {},
        "insufficient",
        "ungraded-items",
    ),
    "only what the base solves is not graded": (
        paired([[1.0, 0.0, None, None]] * 40, [[1.0, 1.0, 1.0, 0.0]] * 40),
        {},
        "insufficient",
        "ungraded-items",
    ),
    "only what the base fails is not graded": (
        paired([[1.0, 1.0, None, None]] * 40, [[1.0, 1.0, 0.0, 0.0]] * 40),
        {},
        "insufficient",
        "ungraded-items",
    ),
    "a loss that grading could not undo": (
        paired([[1.0, 1.0, 1.0, None]] * 40, [[1.0, 0.0, 0.0, 0.0]] * 40),
        {},
        "rejected",
        "worse",
    ),
    "nothing graded": (paired([[None]] * 3, [[None]] * 3), {}, "insufficient", "not-graded"),
    "one model twice": (paired(LOW, HIGH), {"setting": Setting(same_model=True)}, "insufficient", "same-model"),
    "no difference": (paired(LOW, LOW), {}, "insufficient", "no-difference"),
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_rule_decides_where_it_is_the_first(case: str) -> None:
    """The verdict, and the finding that gives the reason and the one next action."""
    (base, candidate), changed, verdict, code = CASES[case]
    found = judged(base, candidate, **changed)
    first = next(one for one in found.findings if one.code == code)
    weights = ["blocks", "insufficient", "warns", "fine"]
    assert [one.weight for one in found.findings] == sorted((one.weight for one in found.findings), key=weights.index)
    assert (found.verdict, code) == (verdict, first.code)
    if verdict != "promoted":
        assert found.findings[0] is first
        assert (found.reason, found.next_action) == (first.text, first.next_action)
        assert first.weight == ("blocks" if verdict == "rejected" else "insufficient")
    else:
        assert not [one for one in found.findings if one.weight in ("blocks", "insufficient")]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_keeps_a_candidate_back_or_promotes_it_names_a_command_of_this_run(case: str) -> None:
    """Whichever finding comes first: the one next action can be pasted, or holds what can."""
    (base, candidate), changed, _, _ = CASES[case]
    found = judged(base, candidate, **changed)
    deciding = [one for one in found.findings if one.weight in ("blocks", "insufficient")]
    for action in (found.next_action, *(str(one.next_action) for one in deciding)):
        assert re.search(r"`finetune (?:\w+ R\b|new R-2 --from R)", action), action
        assert "RUN" not in action


def codes(found: Promotion) -> list[str]:
    return [one.code for one in found.findings]


@pytest.mark.parametrize(
    ("base", "candidate", "changed", "code"),
    [
        (*paired(*singles(30, 10, 800)), {}, "gain-small"),
        (*paired(LOW, HIGH), {"suites": suites(15, [[1.0]] * 900)}, "drift-falls"),
        (*paired(LOW, HIGH), {"suites": suites(0, [[1.0]] * 2 + [[0.0]] * 198)}, "drift-floor"),
        (evaluations.of_rewards(LOW, tokens=40), evaluations.of_rewards(HIGH, name="tuned", tokens=80), {}, "longer"),
        (evaluations.of_rewards(LOW, tokens=80), evaluations.of_rewards(HIGH, name="tuned", tokens=40), {}, "shorter"),
        (evaluations.of_rewards(LOW), evaluations.of_rewards(HIGH, name="tuned", cut=True), {}, "cut-rises"),
        (
            evaluations.of_rewards(LOW, form=1.0),
            evaluations.of_rewards(HIGH, name="tuned", form=0.25),
            {},
            "component-falls",
        ),
        (
            *paired([[0.45] * 4] * 20 + [[0.4, 0.45, 0.45, 0.45]] * 20, [[0.5, 0.0, 0.0, 0.0]] * 40),
            {},
            "grade-falls",
        ),
        (
            *paired([[1.0, 0.0, 0.0, 0.0]] * 40, [[1.0, 1.0, 1.0, 1.0]] * 28 + [[0.0] * 4] * 12),
            {},
            "diversity-lost",
        ),
        (*paired(LOW, HIGH), {"setting": Setting(engines_differ=True)}, "engines-differ"),
        (*paired(LOW, HIGH), {"setting": Setting(goldens_changed=True)}, "goldens-changed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_only_warns_is_said_and_promotes(
    base: Evaluation, candidate: Evaluation, changed: dict[str, Any], code: str
) -> None:
    """A person wants to know of it; and of the same thing turned round nothing is said."""
    found = judged(base, candidate, **changed)
    assert found.verdict == "promoted"
    assert [one.weight for one in found.findings if one.code == code] == ["warns"]
    assert code not in codes(judged(*paired(LOW, HIGH)))


def test_what_was_not_graded_and_could_not_undo_the_gain_keeps_nobody_back() -> None:
    """At its worst the candidate still solves two of four, where the base solves one or what was not graded of it."""
    found = judged(*paired([[1.0, 0.0, 0.0, None]] * 2 + list(LOW[2:]), [[1.0, 1.0, 0.0, None]] * 39 + [[0.0] * 4]))
    assert found.verdict == "promoted"
    assert "ungraded-items" not in codes(found)


def test_a_grade_that_rises_below_the_threshold_is_named() -> None:
    """Every completion is better graded and none passes: perhaps the threshold is not what is meant."""
    found = judged(*paired([[0.1, 0.2, 0.2, 1.0]] * 40, [[0.4, 0.4, 0.3, 1.0]] * 40))
    assert found.verdict == "rejected"  # the reward is the grade here, and rises without success
    assert "grade-rises" in codes(found)
    assert found.goldens.grade is not None
    assert found.goldens.grade.difference.value == pytest.approx(0.15)


def test_only_the_bucket_that_falls_is_named() -> None:
    """The one that rises is as far from chance, and no reason to keep a candidate back."""
    base, candidate = CASES["a bucket falls"][0]
    (named,) = [one for one in judged(base, candidate).findings if one.code == "bucket-falls"]
    assert "bucket `a` falls: -0.250" in named.text
    assert "p = " in named.text
    assert " for 2 buckets" in named.text


def small(sizes: Sequence[int], lost: Sequence[int]) -> Promotion:
    """Judge a candidate that gains forty goldens of bucket `rest`, and loses so many of each of some buckets."""
    before = [*[[0.0]] * 40, *([1.0] for size in sizes for _ in range(size))]
    after = [[1.0]] * 40
    for size, gone in zip(sizes, lost, strict=True):
        after += [[0.0]] * gone + [[1.0]] * (size - gone)
    names = ["rest"] * 40 + [f"s{place}" for place, size in enumerate(sizes) for _ in range(size)]
    return judged(*paired(before, after, buckets=names))


TOO_SMALL = "too small to decide on, though success falls there: "


@pytest.mark.parametrize(
    ("sizes", "lost", "said"),
    [
        ([1], [1], "bucket `s0` (-1.000 on 1 golden); of so few even a loss of all could be chance, from 7 goldens on"),
        ([1], [0], None),
        ([5], [5], "bucket `s0` (-1.000 on 5 goldens); "),
        ([5], [1], "bucket `s0` (-0.200 on 5 goldens); "),
        ([6], [1], None),  # the other bucket's p-value comes first, so that six can show a fall
        ([1, 8, 2], [1, 1, 2], "buckets `s0` (-1.000 on 1 golden), `s2` (-1.000 on 2 goldens); "),
        ([1] * 12, [1] * 12, ", `s7` (-1.000 on 1 golden), ...; "),
    ],
)
def test_a_bucket_that_is_too_small_to_fall_for_sure_is_said(
    sizes: Sequence[int], lost: Sequence[int], said: str | None
) -> None:
    """With its size and what would be enough; it decides nothing, and of one that does not fall nothing is said."""
    found = small(sizes, lost)
    told = [note for note in found.notes if note.startswith("too small")]
    assert found.verdict == "promoted"
    assert len(told) == (said is not None)
    assert said is None or (told[0].startswith(TOO_SMALL) and said in told[0])


@pytest.mark.parametrize("n", range(1, 12))
def test_a_bucket_that_is_lost_whole_is_told_of_in_one_way(n: int) -> None:
    """Either it keeps the candidate back, or it is too small for that: never neither."""
    found = small([n], [n])
    too_small = any(note.startswith(TOO_SMALL) for note in found.notes)
    assert ("bucket-falls" in codes(found)) != too_small


@pytest.mark.parametrize(("tokens", "expected"), [(200, []), (230, []), (250, ["longer"]), (150, ["shorter"])])
def test_a_length_is_worth_a_look_from_a_fifth_on(tokens: int, expected: list[str]) -> None:
    """However surely a smaller shift is none of chance."""
    base = evaluations.of_rewards(LOW, tokens=181)  # from 181 to 220, 200.5 on average
    found = judged(base, evaluations.of_rewards(HIGH, name="tuned", tokens=tokens - 19))
    assert [code for code in codes(found) if code in ("longer", "shorter")] == expected


def test_cut_completions_reject_only_without_a_gain() -> None:
    """A policy that writes until it is cut and solves no more is no candidate."""
    base, same = evaluations.of_rewards(LOW), evaluations.of_rewards(LOW, name="tuned", cut=True)
    found = judged(base, same)
    assert (found.verdict, found.findings[0].code) == ("rejected", "cut-without-gain")
    assert "1.000" in found.reason
    small, cut = (singles(30, 10, 800)[place] for place in (0, 1))
    found = judged(evaluations.of_rewards(small), evaluations.of_rewards(cut, name="tuned", cut=True))
    assert found.goldens.success.difference.high < found.wanted_gain  # small, but shown
    assert (found.verdict, "cut-rises" in codes(found)) == ("promoted", True)


def test_the_reason_of_a_hacked_reward_has_both_numbers_and_names_what_rises() -> None:
    """And the next action is to read, mend and gate again, not to train on."""
    found = judged(*paired(HIGH, LOW, paid=(ONES, TWOS)))
    assert "reward hacking: the training reward rises from 1 to 2" in found.reason
    assert "success goes from 0.500 to 0.250" in found.reason
    assert "`paid` rises most" in found.reason
    assert all(words in found.next_action for words in ("read the 20 best paid", "finetune diagnose", "gate it again"))


def test_what_is_missing_is_asked_for_by_its_command() -> None:
    """By the name of the model that lacks it, both where both do; then the two are compared."""
    found = judged(*paired(LOW, HIGH), suites=Suites(missing=["finetune evaluate A", "finetune evaluate B"]))
    both = "`finetune evaluate A`, then `finetune evaluate B`"
    assert found.next_action == f"measure it: {both}, then `finetune compare R base tuned`"
    assert found.reason.startswith(f"general ability of `base` and of `tuned` was not measured ({both})")
    assert (found.drift, found.kinds) == (None, [])
    for lacking, there in (("tuned", {"base": of(GENERAL)}), ("base", {"candidate": of(GENERAL, "tuned")})):
        one = judged(*paired(LOW, HIGH), suites=Suites(missing=["finetune evaluate A"], **there))
        assert one.reason.startswith(f"general ability of `{lacking}` was not measured (`finetune evaluate A`): ")
        assert one.next_action == "measure it: `finetune evaluate A`, then `finetune compare R base tuned`"


@pytest.mark.parametrize(
    ("base", "candidate", "words"),
    [
        (*paired(*singles(6, 2, 60)), "evaluate both on about"),
        (*paired(*singles(3, 3, 900)), "a gain of 0.05, which these rule out"),
        (*paired([[1.0]] * 39 + [[0.0]], [[1.0]] * 40), "take harder goldens: `base` solves 98%"),
    ],
    ids=["too few", "ruled out", "no room"],
)
def test_no_difference_asks_for_what_would_show_one(base: Evaluation, candidate: Evaluation, words: str) -> None:
    """More goldens only where more goldens can help."""
    found = judged(base, candidate)
    assert (found.verdict, found.findings[0].code) == ("insufficient", "no-difference")
    assert words in found.next_action
    assert re.search(r"`finetune (evaluate R|new R-2 )", found.next_action)


EDGE = paired([[0.0] * 4] * 30, [[1.0] + [0.0] * 3] * 5 + [[0.0] * 4] * 25)
FALLS = paired([[1.0] + [0.0] * 3] * 5 + [[0.0] * 4] * 25, [[0.0] * 4] * 30)
DECIDED = paired(LOW, HIGH)
ALIKE = paired(LOW, [[0.0, 1.0, 0.0, 0.0]] * 40)


@pytest.mark.parametrize(
    ("sides", "says"),
    [(EDGE, True), (FALLS, True), (DECIDED, False), (ALIKE, False)],
    ids=["interval alone", "interval alone, a fall", "both", "neither"],
)
def test_interval_and_test_that_disagree_are_said_to(sides: tuple[Evaluation, Evaluation], *, says: bool) -> None:
    """Student's interval leaves 0 out, chance is more than one in 20: a reader is told that both have to say so."""
    found = judged(*sides)
    gap = found.goldens.success.difference
    assert (found.goldens.p_value > 0.05) == (sides is not DECIDED)
    assert (gap.low <= 0 <= gap.high) == (sides is ALIKE)
    told = next(one.text for one in found.findings if one.code in ("no-difference", "improved", "worse"))
    words = (
        "the interval (Student's, which takes the gains to be spread like a bell) leaves 0 out, and the test "
        "(sign-flip, which does not) gives chance more than 1 in 20: a difference counts only where both show it"
    )
    assert (words in told) == says
    assert ("both show it" in told) == says


def test_who_has_the_goldens_already_is_not_sent_for_as_many() -> None:
    """At the edge more completions an item are asked for, by commands; of greedy ones more goldens than these."""
    found = judged(*EDGE)
    assert found.items_needed is not None
    assert found.items_needed <= 30
    assert found.next_action == (
        "the difference is at the edge of what these goldens show: evaluate both with 8 samples an item, "
        "`finetune evaluate R --samples 8 --name base-8`, then `finetune compare R base-8 tuned-8`"
    )
    greedy = judged(*EDGE, commands=dataclasses.replace(evaluations.COMMANDS, more=[]))
    assert greedy.next_action.startswith("evaluate both on more goldens, about 60: ")
    assert greedy.next_action.endswith("then `finetune compare R a b`")


def test_power_is_that_of_the_measured_spread() -> None:
    """Items times the square of the smallest shown difference over the wanted gain; with no spread the base's own."""
    found = judged(*paired(*singles(6, 2, 60)))
    assert found.items_needed == pytest.approx(60 * (found.goldens.smallest_shown / 0.05) ** 2, abs=1)
    assert found.items_needed is not None
    assert str(found.items_needed) in found.next_action
    same = judged(*paired(LOW, LOW)).items_needed
    assert same is not None
    assert same > 200
    assert judged(*paired([[1.0]] * 40, [[1.0]] * 40)).items_needed is None


@pytest.mark.parametrize(
    ("training", "words"),
    [
        (Training(method="grpo", beta=0.0), "beta: 0.04"),
        (Training(method="grpo", beta=0.1), "stronger KL term than `beta: 0.1`"),
        (Training(method="sft", lora=False), "adapter: lora"),
        (Training(method="dpo", lora=True), "mix general rows"),
    ],
    ids=["grpo", "grpo with kl", "all weights", "lora"],
)
def test_drift_has_the_one_remedy_that_the_training_lacks(training: Training, words: str) -> None:
    """Never a list to choose from."""
    found = judged(*paired(LOW, HIGH), suites=suites(40), training=training)
    assert words in found.next_action


def test_leaked_goldens_are_left_out_of_every_number_that_decides() -> None:
    """The whole comparison stays beside it, for who wants to see what they did."""
    before, after = [[0.0] * 4] * 20 + list(LOW), [[1.0] * 4] * 20 + list(LOW)
    found = judged(*paired(before, after, buckets=["a", "b"] * 30), leaks=leaks(*range(20)))
    assert found.goldens.verdict == "improved"
    assert [(bucket.success.difference.n, bucket.success.candidate) for bucket in found.buckets] == [(20, 0.25)] * 2
    assert found.fresh is not None
    assert (found.fresh.success.difference.n, found.fresh.won) == (40, 0)
    assert found.findings[0].data_rows == list(range(101, 121))
    assert [one.prompt_id for one in found.leaked][:2] == ["0", "1"]


def test_a_kind_of_the_drift_suite_that_falls_by_itself_is_named() -> None:
    """The budget is for the suite as a whole; who needs just this kind is told."""
    kinds = ["code"] * 12 + ["prose"] * 388
    general: Groups = [[1.0]] * 400
    fallen = Suites(base=of(general, buckets=kinds), candidate=of([[0.0]] * 10 + [[1.0]] * 390, "tuned", buckets=kinds))
    found = judged(*paired(LOW, HIGH), suites=fallen)
    assert (found.verdict, [kind.name for kind in found.kinds]) == ("promoted", ["code", "prose"])
    (named,) = [one for one in found.findings if one.code == "drift-kind-falls"]
    assert named.text.startswith("`code` of the drift suite falls by itself: -0.833")


def test_a_single_bucket_that_falls_by_chance_is_not_held_against_it() -> None:
    """Twenty buckets give twenty chances; Holm's adjustment leaves one in twenty of all of them."""
    before = [[0.0] * 2 + [1.0] * 2] * 160
    names = [str(place // 8) for place in range(160)]
    fallen = [[0.0] * 4 if place < 6 else [1.0] * 4 for place in range(160)]
    found = judged(*paired(before, fallen, buckets=names))
    first = next(bucket for bucket in found.buckets if bucket.name == "0")
    assert (first.p_value > 0.0, first.adjusted > 0.05) == (True, True)
    assert found.verdict == "promoted"


@pytest.mark.parametrize(
    ("won", "lost", "by_order", "expected"),
    [
        (30, 5, 0, ["arena-agrees"]),
        (5, 30, 0, ["arena-disagrees"]),
        (9, 11, 0, ["arena-even"]),
        (9, 11, 30, ["arena-by-order", "arena-even"]),
    ],
)
def test_an_arena_supports_or_warns_and_decides_nothing(
    won: int, lost: int, by_order: int, expected: list[str]
) -> None:
    """The verdict stays what the graders say."""
    arena = Arena(
        judge="judge-1",
        won=won,
        lost=lost,
        tied=by_order,
        by_order=by_order,
        unanswered=0,
        p_value=sign_test(won, lost),
    )
    for before, after, verdict in ((LOW, HIGH, "promoted"), (HIGH, LOW, "rejected"), (LOW, LOW, "insufficient")):
        found = judged(*paired(before, after), arena=arena)
        assert found.verdict == verdict
        assert sorted(code for code in codes(found) if code.startswith("arena")) == expected


GRADES = st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), min_size=2, max_size=2), min_size=1, max_size=30)


@settings(max_examples=25, deadline=None)
@given(st.data(), st.booleans())
def test_the_order_of_items_changes_nothing(data: st.DataObject, leaky: bool) -> None:
    """The same items shuffled give the same answer, to the last digit."""
    before = data.draw(GRADES)
    n = len(before)
    after = data.draw(
        st.lists(st.lists(st.sampled_from([0.0, 0.7, 1.0]), min_size=2, max_size=2), min_size=n, max_size=n)
    )
    names = data.draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n))
    base, candidate = paired(before, after, buckets=names)
    mixed = []
    for one in (base, candidate):
        items = list(one.items)
        random.Random(n).shuffle(items)
        mixed.append(dataclasses.replace(one, items=items))
    changed = {"leaks": leaks(0)} if leaky else {}
    assert judged(*mixed, **changed) == judged(base, candidate, **changed)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_swapping_the_two_never_promotes_both(data: st.DataObject) -> None:
    """And a candidate that answers as its base does is neither promoted nor rejected."""
    before = data.draw(GRADES)
    n = len(before)
    after = data.draw(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=2), min_size=n, max_size=n))
    base, candidate = paired(before, after)
    there, back = judged(base, candidate), judged(candidate, base)
    assert {there.verdict, back.verdict} != {"promoted"}
    assert judged(base, dataclasses.replace(base, name="same")).verdict == "insufficient"
