"""A trial lives through what a reward may do, and finds the completion that it dies of."""

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from llm_finetuning.probes import trial as module
from llm_finetuning.probes.trial import Trial
from llm_finetuning.types import Component, Probe


def probes(*texts: str) -> list[Probe]:
    return [
        Probe(
            probe_id=f"p{place}",
            kind="exploit",
            family="odd_text",
            prompt_id="a",
            prompt="q",
            columns={"answer": "1"},
            completion=text,
            about="",
        )
        for place, text in enumerate(texts)
    ]


def trial(function: Callable[..., Any], **options: Any) -> Trial:
    component = Component(name="tried", function=function, weight=1.0, low=0.0, high=1.0)
    return Trial(components=[component], generations=2, per_call=8, **options)


def each(judge: Callable[[str], Any]) -> Callable[..., list[Any]]:
    def tried(completions: list[str], **_: Any) -> list[Any]:
        return [judge(text) for text in completions]

    return tried


def test_one_that_raises_is_set_down_and_the_others_are_paid() -> None:
    """The guilty completions carry the words, every other one its reward, in order."""
    tried = trial(each(lambda text: 1 / int(text)))
    paid = tried.pay(probes("1", "0", "2", "x", "4", "0"))
    assert [one.score.reward if one.score else None for one in paid] == [1.0, None, 0.5, None, 0.25, None]
    assert ["ZeroDivisionError" in str(one.fault) for one in paid] == [False, True, False, False, False, True]
    assert "ValueError" in str(paid[3].fault)
    assert tried.whole_batch_faults == []


def test_a_batch_that_fails_as_a_whole_is_told_apart() -> None:
    """Where each alone is sound the fault belongs to the batch, and all are paid."""

    def short(completions: list[str], **_: Any) -> list[float]:
        return [0.5] * min(2, len(completions))

    tried = trial(short)
    assert [one.score.reward if one.score else None for one in tried.pay(probes(*"abcd"))] == [0.5] * 4
    assert len(tried.whole_batch_faults) == 1
    assert "returned 2 value(s) for 4" in tried.whole_batch_faults[0]


def test_a_call_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too much CPU time is a fault of the completion; `except Exception` in the reward does not hide it."""
    monkeypatch.setattr(module, "CPU_LIMIT_S", 0.2)
    monkeypatch.setattr(module, "CPU_LIMIT_AGAIN_S", 0.2)

    def judge(text: str) -> float:
        try:
            while text == "loop":
                pass
        except Exception:  # noqa: BLE001
            return 1.0
        return 0.5

    paid = trial(each(judge)).pay(probes("a", "loop", "b"))
    assert [one.score.reward if one.score else None for one in paid] == [0.5, None, 0.5]
    assert "CPU time" in str(paid[1].fault)


def test_too_many_endless_calls_end_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reward that never returns is decided; the rest is left untried, neither paid nor at fault."""
    monkeypatch.setattr(module, "CPU_LIMIT_S", 0.05)
    monkeypatch.setattr(module, "CPU_LIMIT_AGAIN_S", 0.05)
    monkeypatch.setattr(module, "ENDLESS_CALLS", 3)

    def judge(_: str) -> float:
        while True:
            pass

    tried = trial(each(judge))
    begun = time.perf_counter()
    paid = tried.pay(probes(*"abcdefghijklmnop"))
    assert tried.endless == 3
    assert time.perf_counter() - begun < 5
    assert paid[-1].score is None
    assert paid[-1].fault is None


@pytest.mark.parametrize("own_process", [True])
def test_a_reward_whose_process_ends_is_found(own_process: bool) -> None:
    """In a process of its own the trial outlives `os._exit`, and the other completions are paid."""

    def judge(text: str) -> float:
        if text == "exit":
            os._exit(0)
        return 0.5

    paid = trial(each(judge), own_process=own_process).pay(probes("a", "exit", "b"))
    assert [one.score.reward if one.score else None for one in paid] == [0.5, None, 0.5]
    assert "ended" in str(paid[1].fault)


def test_faults_cross_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in the child is the same fault as one here; a child that sleeps is ended."""
    monkeypatch.setattr(module, "PROCESS_LIMIT_S", 0.5)

    def judge(text: str) -> float:
        if text == "sleep":
            time.sleep(30)
        return 1 / len(text)

    paid = trial(each(judge), own_process=True).pay(probes("", "sleep", "xy"))
    line = judge.__code__.co_firstlineno + 3
    assert str(paid[0].fault) == f"`tried`: ZeroDivisionError: division by zero (test_trial.py:{line})"
    assert "did not return" in str(paid[1].fault)
    assert paid[2].score is not None
    assert paid[2].score.reward == 0.5


def test_ids_stand_for_tokens() -> None:
    """Equal pieces have equal ids, as many as the run's texts have, and no more than the cap."""
    seen: list[list[int]] = []

    def look(completions: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        seen.extend(completion_ids)
        return [0.0] * len(completions)

    trial(look, max_tokens=6).pay(probes("same same", "a much longer text than the cap allows to be said"))
    assert seen[0][0] == seen[0][2]
    assert len(seen[0]) == 3
    assert len(seen[1]) == 6
