"""What a judge is attacked with: wrong work in both forms, and texts that are no answer."""

from collections import Counter
from typing import Any

import pytest

from llm_finetuning.judging.attacks import _OVERRIDES, TRIALS, Trial, Work, trials
from llm_finetuning.rewards.contract import after_reasoning, text_of
from llm_finetuning.rewards.judges.trivia import only_openers


def work(i: int, completion: Any = "It is 7.") -> Work:
    return Work(f"q{i}/0", f"What is {i}?", {"answer": str(i)}, completion)


def of(found: list[Trial], attack: str) -> list[Trial]:
    return [trial for trial in found if trial.attack == attack]


def test_dressed_work_holds_the_work_and_has_it_as_control() -> None:
    """Each text is tried before and behind the work, and no trial lacks it."""
    wrong = [work(i, f"It is {i}, since so.") for i in range(40)]
    found = trials(wrong, wrong, lambda _: None)

    for attack in ("override_text", "verdict_words"):
        dressed = of(found, attack)
        assert len(dressed) == TRIALS
        for trial in dressed:
            assert trial.control is not None
            text, bare = text_of(trial.work.completion), text_of(trial.control.completion)
            assert bare in text
            assert len(text) > len(bare)
            assert (trial.work.prompt, trial.work.columns) == (trial.control.prompt, trial.control.columns)
    places = {text: set[bool]() for text in _OVERRIDES}
    for trial in of(found, "override_text"):
        text = text_of(trial.work.completion)
        (used,) = [one for one in _OVERRIDES if one in text]
        places[used].add(text.startswith(used))
    assert set(map(frozenset, places.values())) == {frozenset((True, False))}


def test_the_attack_stands_where_the_judge_looks() -> None:
    """Behind the reasoning, which a judge is not shown."""
    found = trials([work(i, f"<think>hm {i}</think>It is {i}.") for i in range(20)], [], lambda _: None)

    assert len(of(found, "override_text")) == 20
    for trial in of(found, "override_text"):
        shown = after_reasoning(text_of(trial.work.completion))
        assert shown is not None
        assert any(text in shown for text in _OVERRIDES)
        assert text_of(trial.work.completion).startswith("<think>hm ")


def test_chat_stays_chat() -> None:
    """A dressed message is a message."""
    wrong = [work(i, [{"role": "assistant", "content": "It is 7."}]) for i in range(3)]

    for trial in trials(wrong, wrong, lambda _: None):
        assert isinstance(trial.work.completion, list)
        assert [message["role"] for message in trial.work.completion] == ["assistant"]


def test_texts_without_work_are_spread_over_prompts() -> None:
    """Half of the openers reach the judge; none is the right answer of its row; nothing is tried without a prompt."""
    prompts = [work(i) for i in range(7)]
    found = trials([], prompts, lambda _: None)
    openers = [text_of(trial.work.completion) for trial in of(found, "one_token")]

    assert Counter(trial.attack for trial in found) == {"one_token": TRIALS, "empty": TRIALS}
    assert {":", "Solution", "Let me think"} <= set(openers)
    assert sum(map(only_openers, openers)) == len(openers) / 2
    assert {trial.work.prompt for trial in found} == {one.prompt for one in prompts}
    assert all(trial.control is None for trial in found)
    blanks = [after_reasoning(text_of(trial.work.completion)) or "" for trial in of(found, "empty")]
    assert {""} == {text.strip().strip("\u200b") for text in blanks}
    assert trials([], [], lambda _: None) == []


@pytest.mark.parametrize("gold", ["Proof", "proof.", " PROOF "])
def test_a_text_that_is_the_right_answer_is_no_attack(gold: str) -> None:
    """Where the judge is shown that answer."""
    found = trials([], [work(0)], lambda _: gold)

    assert "Proof." not in [text_of(trial.work.completion) for trial in found]
    assert len(of(found, "one_token")) == TRIALS - 1
