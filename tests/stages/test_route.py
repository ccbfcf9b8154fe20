"""The routing tree: whole situations to one answer each, and the laws of the tree itself."""

import itertools
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning import brief
from llm_finetuning.stages import route as stage
from llm_finetuning.stages.route import OUTCOMES, QUESTIONS, RULES, route

READY = {"teach": "stable-skill", "evaluation": "yes", "base_success": "sometimes", "images": "no"}
ENOUGH = {"rows": stage.ENOUGH}
PAIRS = {**READY, **ENOUGH, "signal": "pairs", "sft_checkpoint": "yes", "memory": "fits"}

SITUATIONS: dict[str, tuple[dict[str, str], str, str]] = {
    "prices that change daily": ({"teach": "changing-facts"}, "retrieval", "out of date"),
    "a tone that marketing still argues about": ({"teach": "changing-behaviour"}, "prompting", "stopped moving"),
    "twenty years of one field's papers": ({"teach": "stable-knowledge"}, "continued-pretraining", "more text"),
    "volatile facts, and an evaluation too": (
        {"teach": "changing-facts", "evaluation": "yes", "signal": "checker"},
        "retrieval",
        "out of date",
    ),
    "a checker, but no held-out rows": (
        {**READY, **ENOUGH, "evaluation": "no", "signal": "checker"},
        "evaluation-first",
        "without an evaluation",
    ),
    "nobody has tried the base model": ({**READY, "base_success": "not-measured"}, "measure-first", "how often"),
    "the base model does it": ({**READY, "base_success": "always"}, "nothing-to-train", "already does it"),
    "charts to read, answers to check": ({**READY, "images": "yes", "signal": "checker"}, "vision-language", "text"),
    "no data at all": ({**READY, "signal": "none"}, "more-data", "which answer is right"),
    "thirty demonstrations": ({**READY, "signal": "demonstrations", "rows": stage.FEW}, "more-data", "by heart"),
    "demonstrations": ({**READY, **ENOUGH, "signal": "demonstrations"}, "sft", "to imitate"),
    "maths with golds, sometimes right": ({**READY, **ENOUGH, "signal": "checker"}, "grpo", "something to reinforce"),
    "maths with golds, never right": (
        {**READY, **ENOUGH, "signal": "checker", "base_success": "never"},
        "sft",
        "RL learns nothing",
    ),
    "a rubric of good style": ({**READY, **ENOUGH, "signal": "rubric"}, "dpo", "DPO for taste, GRPO for reasoning"),
    "a rubric, never met": ({**READY, **ENOUGH, "signal": "rubric", "base_success": "never"}, "sft", "already says"),
    "thumbs of users": ({**READY, **ENOUGH, "signal": "thumbs"}, "kto", "no pairs"),
    "thumbs, all down": ({**READY, **ENOUGH, "signal": "thumbs", "base_success": "never"}, "sft", "already says"),
    "pairs after SFT": ({**PAIRS, "length_bias": "no"}, "dpo", "plain choice"),
    "pairs without SFT": ({**PAIRS, "sft_checkpoint": "no"}, "orpo", "no SFT checkpoint"),
    "pairs, memory short": ({**PAIRS, "memory": "tight"}, "orpo", "memory is short"),
    "pairs, never right": ({**PAIRS, "base_success": "never"}, "orpo", "one stage"),
    "long answers win, budget for a sweep": ({**PAIRS, "length_bias": "yes", "sweep": "yes"}, "simpo", "over tokens"),
    "long answers win, one run only": ({**PAIRS, "length_bias": "yes", "sweep": "no"}, "dpo", "plain choice"),
}


@pytest.mark.parametrize(("answers", "outcome", "reason"), SITUATIONS.values(), ids=SITUATIONS)
def test_a_situation_has_its_answer(answers: dict[str, str], outcome: str, reason: str) -> None:
    """One method or off-ramp, with the reason that a person can check."""
    found = route(answers)

    assert found.outcome == OUTCOMES[outcome]
    assert reason in " ".join(found.reasons)
    assert found.open_questions == []


def test_every_leaf_and_every_rule_is_reached() -> None:
    """The situations above leave no branch of the tree untried."""
    assert {outcome for _, outcome, _ in SITUATIONS.values()} == set(OUTCOMES)
    reached = [stage._decide(answers)[0] for answers, _, _ in SITUATIONS.values()]
    assert [rule for rule in RULES if rule not in reached] == []


def test_methods_are_those_of_a_brief() -> None:
    """Each method has the command that writes its brief; an off-ramp trains nothing."""
    methods = {name for name, outcome in OUTCOMES.items() if outcome.kind == "method"}
    assert methods == set(get_args(brief.Method))
    for name in methods:
        assert OUTCOMES[name].next_command == f"finetune new RUN --method {name}"
    off_ramps = [outcome for outcome in OUTCOMES.values() if outcome.kind == "off-ramp"]
    assert not [one for one in off_ramps if one.next_command and "--method" in one.next_command]


def test_no_method_without_an_evaluation() -> None:
    """Whatever else is known, training waits for a measurement of the base model."""
    for evaluation, success in (("no", "sometimes"), ("yes", "not-measured")):
        answers = {"teach": "stable-skill", "evaluation": evaluation, "base_success": success}
        assert {OUTCOMES[name].kind for name in stage._ends(answers)} == {"off-ramp"}


complete = st.fixed_dictionaries({question.key: st.sampled_from(list(question.values)) for question in QUESTIONS})
partial = st.fixed_dictionaries({}, optional={q.key: st.sampled_from(list(q.values)) for q in QUESTIONS})


def test_all_answers_end_in_exactly_one_outcome() -> None:
    """Every combination there is, in any order of the answers."""
    for values in itertools.product(*(question.values for question in QUESTIONS)):
        answers = dict(zip((question.key for question in QUESTIONS), values, strict=True))
        rule, asked, _ = stage._decide(answers)
        assert rule is not None
        assert asked is None
        assert stage._ends(answers) == {rule.outcome}


@given(answers=complete)
def test_the_answers_read_decide_alone(answers: dict[str, str]) -> None:
    """What is said to make no difference makes none, in value or in absence."""
    found = route(answers)
    kept = {key: value for key, value in answers.items() if key not in found.unused}

    assert route(kept).outcome == found.outcome
    assert route(dict(reversed(answers.items()))).outcome == found.outcome


@given(answers=partial)
def test_a_question_is_asked_only_while_it_can_change_the_outcome(answers: dict[str, str]) -> None:
    """The next question splits the outcomes that are left; where one outcome is left nothing is asked."""
    found = route(answers)
    ends = stage._ends(answers)
    assert (found.outcome is None) == bool(found.open_questions) == (len(ends) > 1)
    if found.open_questions:
        question = found.open_questions[0]
        split = {frozenset(stage._ends({**answers, question.key: value})) for value in question.values}
        assert len(split) > 1
        assert question.key not in answers


def test_every_question_can_change_the_outcome() -> None:
    """A question that never decides is one too many."""
    deciding = set()
    for answers, outcome, _ in SITUATIONS.values():
        deciding |= {change.question for change in route(answers).changes if change.outcome not in (None, outcome)}
    assert deciding == {question.key for question in QUESTIONS}


@given(answers=complete)
def test_what_would_change_it_is_true(answers: dict[str, str]) -> None:
    """Each other answer leads where it is said to, and no other way out is left unsaid."""
    found = route(answers)
    assert found.outcome is not None
    said = {(change.question, change.value): change.outcome for change in found.changes}
    for question in QUESTIONS:
        for value in question.values:
            other = route({**answers, question.key: value}).outcome
            assert other is not None
            if (question.key, value) in said:
                assert said[question.key, value] == other.name != found.outcome.name
            elif question.key not in found.unused:
                assert other == found.outcome


def test_a_change_may_open_questions() -> None:
    """From a way out, another answer may lead to more questions; that is said, not guessed."""
    changes = {(one.question, one.value): one.outcome for one in route({"teach": "changing-facts"}).changes}
    assert changes["teach", "stable-skill"] is None
    assert changes["teach", "changing-behaviour"] == "prompting"


@pytest.mark.parametrize(
    ("answers", "first", "later"),
    [
        ({}, "teach", {"sweep", "rows"}),
        ({**READY}, "signal", {"rows", "memory"}),
        ({**READY, "signal": "checker"}, "rows", set()),
        ({"signal": "checker"}, "teach", {"rows", "images"}),
        ({**PAIRS}, "length_bias", {"sweep"}),
    ],
)
def test_open_questions_are_those_that_may_matter(answers: dict[str, str], first: str, later: set[str]) -> None:
    """The one to ask now comes first, and what no way on reads is left out."""
    keys = [question.key for question in route(answers).open_questions]
    assert keys[0] == first
    assert later <= set(keys[1:])
    assert not set(keys) & set(answers)
    if answers.get("signal") == "checker":
        assert not set(keys) & {"sft_checkpoint", "memory", "length_bias", "sweep"}


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ({**READY, **ENOUGH, "signal": "pairs", "memory": "tight"}, "orpo"),  # with or without an SFT checkpoint
        ({**PAIRS, "sweep": "no"}, "dpo"),  # whichever answer is longer
    ],
)
def test_what_cannot_matter_any_more_is_not_asked(answers: dict[str, str], outcome: str) -> None:
    """An answer given early may settle what an earlier question would have asked."""
    assert route(answers).outcome == OUTCOMES[outcome]


def test_answers_that_make_no_difference_are_named() -> None:
    """Those of another branch, and no others."""
    answers = {**READY, **ENOUGH, "signal": "checker", "sft_checkpoint": "no", "memory": "tight"}
    assert route(answers).unused == ["sft_checkpoint", "memory"]
    assert route({**PAIRS, "sft_checkpoint": "no"}).unused == ["memory"]
    assert route({**PAIRS, "length_bias": "no", "sweep": "yes"}).unused == ["sweep"]
    assert route({"evaluation": "yes", "sweep": "no"}).unused == []


def test_tables_are_well_formed() -> None:
    """Rules name questions, values and outcomes that are there; a reader finds no dead word."""
    values: dict[str, Any] = {question.key: question.values for question in QUESTIONS}
    for rule in RULES:
        assert rule.outcome in OUTCOMES
        assert all(set(taken) <= set(values[key]) for key, taken in rule.when.items())
    assert len(values) == len(QUESTIONS)
    assert not [key for key in values if values[key] == {}]
