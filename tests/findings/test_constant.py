"""A model that says one thing to most prompts: is its success more than that one answer would earn?"""

from typing import Any

import pytest

from evidence_records import evidence, scored
from llm_finetuning.findings.constant import constant_findings

GOLDS = ("positive", "negative")
FORMS = ("positive", "Positive.", " positive\n", "POSITIVE")  # one text to who reads it


def model(constant: int, *, right_else: bool, prompts: int = 36, size: int = 4) -> list[Any]:
    """Return groups of a balanced task in which the first `constant` completions are `positive` in some form.

    The others are always right or, with `right_else` off, are right as often as wrong.
    """
    made = []
    for place in range(prompts * size):
        prompt, index = place // size, place % size
        gold = GOLDS[prompt % 2]
        if place * 61 % (prompts * size) < constant:  # spread over the prompts
            text = FORMS[place % len(FORMS)]
        else:
            text = f"{gold} {place}" if right_else or place // 2 % 2 else f"wrong {place}"
        made.append(scored(prompt, index, float(gold in text.casefold()), completion=text))
    return made


@pytest.mark.parametrize(
    ("constant", "right_else", "warns"),
    [
        (125, False, True),  # of 144, at the level of chance
        (72, False, True),
        (71, False, False),
        (80, True, False),  # the others are right: better than the constant
        (0, True, False),
    ],
    ids=["nearly always", "half", "less than half", "skill beside it", "no constant"],
)
def test_one_answer_that_earns_as_much_as_all_is_warned_of(constant: int, *, right_else: bool, warns: bool) -> None:
    """Both shares are said and what they mean; it never blocks."""
    found = constant_findings(evidence(model(constant, right_else=right_else)))

    assert [finding.weight for finding in found] == (["warns"] if warns else [])
    if warns:
        (finding,) = found
        assert finding.code == "constant-answer"
        assert f"is {constant} of 144 ({constant / 144:.0%}, " in finding.text
        assert "always giving it would succeed on 18 of 36 (50%, " in finding.text
        assert "base success is" in finding.text
        assert "a group of equal answers has no advantage" in finding.text


@pytest.mark.parametrize(
    "policy",
    [
        [scored(0, index, 1.0, completion="yes") for index in range(4)],
        [scored(prompt, index, 0.0, completion="yes") for prompt in range(4) for index in range(4)],
        [scored(prompt, index, float(index % 2), completion=" ") for prompt in range(4) for index in range(4)],
        [scored(prompt, index, None, completion="yes") for prompt in range(4) for index in range(4)],
        [],
    ],
    ids=["one prompt", "nothing succeeds", "no words", "nothing scored", "nothing drawn"],
)
def test_what_other_findings_say_is_not_said_twice(policy: list[Any]) -> None:
    """One prompt has one answer; success of zero, empty completions and those without a score have findings."""
    assert constant_findings(evidence(policy)) == []


def test_one_answer_that_is_always_right_is_no_skill_either() -> None:
    """Where every gold is the same, the answer is all that is learnt, and success at its level says no more."""
    (finding,) = constant_findings(
        evidence([scored(prompt, index, 1.0, completion="yes") for prompt in range(4) for index in range(4)])
    )

    assert "would succeed on 4 of 4 (100%, " in finding.text
