"""`exact_answer` and the extraction policies: the right answer is paid, near ones and tricks are not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.rewards.exact_answer import ExactAnswer
from llm_finetuning.rewards.extraction import POLICIES, extract


def paid(text: Any, gold: Any, policy: str = "last_number") -> float | None:
    return ExactAnswer(extract=policy)(completions=[text], answer=[gold])[0]


@pytest.mark.parametrize(
    ("policy", "text", "gold", "expected"),
    [
        ("last_number", "59 + 63 = 122. The answer is 122.", "122", 1.0),
        ("last_number", "74 + 27 = 101. The answer is 102.", "101", 0.0),
        ("last_number", "It costs $1,200.00", 1200, 1.0),
        ("last_number", "1,200", "1200.0", 1.0),
        ("last_number", "so x = -3", "-3", 1.0),
        ("last_number", "so x = \u22123", "-3", 1.0),
        ("last_number", "so 47-35", "-35", 0.0),  # a minus between numbers is no sign
        ("last_number", "version 1.2.3", "3", 0.0),
        ("last_number", "25", "5", 0.0),
        ("last_number", "0.1", "0.10000000000000001", 0.0),
        ("last_number", "no number here", "5", 0.0),
        ("last_number", "", "5", 0.0),
        ("last_number", "<think>it is 5</think>", "5", 0.0),
        ("last_number", "<think>it is 5", "5", 0.0),
        ("last_number", "<think>it is 4</think> so 5", "5", 1.0),
        ("last_number", "thought, already opened by the template: 4 </think> 5", "5", 1.0),
        ("last_number", "It is 12, so .5", "12", 0.0),  # the last number is .5, whole
        ("last_number", "It is 12, so .5", "0.5", 1.0),
        ("last_number", "so 12 -> 1e5", "12", 0.0),
        ("last_number", "so 12 -> 1e5", "100000", 1.0),
        ("last_number", "so 1.5e-3", 0.0015, 1.0),
        ("last_number", "12 then 3,4", "12", 0.0),
        ("last_number", "7 is not it: v1.2.3", "7", 0.0),
        ("last_number", "3/4", "4", 0.0),
        ("last_number", "3/4", "0.75", 1.0),
        ("last_number", "3/0", "0", 0.0),
        ("last_number", "12:30", "30", 0.0),
        ("last_number", "2 and 5km", "2", 0.0),
        ("last_number", "Answer:12", "12", 1.0),
        ("last_number", "x=5,y=12", "12", 1.0),
        ("last_number", "**12**", "12", 1.0),
        ("last_number", "47-35", "35", 1.0),
        ("last_number", "f(2)-35", "-35", 0.0),
        ("last_number", "72", "6*12 = 72\n#### 72", 1.0),
        ("last_number", "10000000000000000", 1e16, 1.0),
        ("hash_marks", "#### 5.", "5", 1.0),
        ("hash_marks", "steps\n#### 72", "72", 1.0),
        ("hash_marks", "#### 71\n#### 72\nmore", "72", 1.0),
        ("hash_marks", "72", "72", 0.0),
        ("answer_tag", "<answer> Paris </answer>", "paris", 1.0),
        ("answer_tag", "<answer>4</answer> or <answer>5</answer>", "5", 0.0),
        ("answer_tag", "<answer>4</answer> then <answer>5", "4", 0.0),
        ("answer_tag", "<answer></answer>", "5", 0.0),
        ("boxed", r"\boxed{\frac{1}{2}}", r"\frac{1}{2}", 1.0),
        ("boxed", r"first \boxed{4}, so finally \boxed{4", "4", 0.0),  # cut: an earlier box is never credited
        ("boxed", r"\boxed{4} wait, \boxed{5}", "5", 1.0),
        ("boxed", r"\fbox{7}", "7", 1.0),
        ("boxed", r"\boxed{}", "7", 0.0),
        ("boxed", r"<think>\boxed{12}", "12", 0.0),
        ("whole", "  Yes ", "yes", 1.0),
        ("whole", "yes or no", "yes", 0.0),
    ],
)
def test_value(policy: str, text: str, gold: Any, expected: float) -> None:
    """Each policy takes one final answer by its stated rule."""
    assert expected == paid(text, gold, policy)
    assert expected == paid([{"role": "assistant", "content": text}], gold, policy)


@pytest.mark.parametrize("gold", [None, "", "  ", float("nan"), "work ####"])
def test_empty_gold_abstains(gold: Any) -> None:
    """A row nobody can answer must not teach that every answer is wrong."""
    assert paid("5", gold) is None


def test_reason_is_told_through_trl() -> None:
    """The reason stands in the column that TRL writes into its completion tables."""
    told: dict[str, list[Any]] = {}
    ExactAnswer()(completions=["5", "6", "", "5"], answer=["5", "5", "5", ""], log_extra=told.__setitem__)

    assert {"exact_answer_reason": ["correct", "wrong", "no_answer", "gold_unreadable"]} == told


def test_unknown_policy_is_refused() -> None:
    """A misspelt option is told when the brief is read, not in the first step."""
    with pytest.raises(ValueError, match="'boxd' is not one of"):
        ExactAnswer(extract="boxd")


def test_long_digits_are_quick_and_exact() -> None:
    """A million digits compare as text; nothing is converted."""
    digits = "7" * 1_000_000

    assert paid(digits, digits) == 1.0
    assert paid(digits[:-1] + "8", digits) == 0.0


@given(st.text(), st.text(min_size=1), st.sampled_from(sorted(POLICIES)))
def test_any_text_gives_a_value_in_range_or_an_abstention(text: str, gold: str, policy: str) -> None:
    """No completion makes the reward raise."""
    assert paid(text, gold, policy) in (0.0, 1.0, None)
    assert extract(policy, text).reason in {
        "found",
        "no_answer",
        "unclear",
        "unclosed",
        "conflicting",
        "reasoning_unclosed",
        "negated",
    }


@given(st.lists(st.tuples(st.text(alphabet="0123456789.,-= <>/abox{}\\"), st.integers(0, 99)), min_size=2, max_size=6))
def test_scores_follow_their_completions(rows: list[tuple[str, int]]) -> None:
    """Permuting or splitting a batch permutes or splits its scores."""
    texts, golds = [text for text, _ in rows], [gold for _, gold in rows]
    together = ExactAnswer()(completions=texts, answer=golds)

    assert together[::-1] == ExactAnswer()(completions=texts[::-1], answer=golds[::-1])
    assert together == [paid(text, gold) for text, gold in rows]
