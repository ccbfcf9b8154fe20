"""Scoring: TRL's call, TRL's sum, TRL's advantage; every fault of a reward kept apart from a low score."""

import asyncio
import dataclasses
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from llm_finetuning.stages import score as stage
from llm_finetuning.types import Component, Sample

Aggregation = stage.Aggregation


def sample(prompt_id: str, index: int, text: str = "x", pass_name: str = "policy", **columns: Any) -> Sample:  # noqa: S107
    return Sample(
        sample_id=f"{prompt_id}/{index}",
        prompt_id=prompt_id,
        row=1,
        pass_name=pass_name,  # type: ignore[arg-type]
        index=index,
        prompt=f"prompt {prompt_id}",
        columns={"answer": "1", **columns},
        completion=text,
        completion_ids=[1, 2],
        tokens=2,
        finish_reason="stop",
        temperature=1.0,
    )


def component(function: Callable[..., Any], weight: float = 1.0, low: float = -10, high: float = 10) -> Component:
    return Component(name=function.__name__, function=function, weight=weight, low=low, high=high)


def value_of_text(completions: list[str], **_: Any) -> list[float | None]:
    return [None if text == "none" else float(text) for text in completions]


def run(samples: list[Sample], *components: Component, size: int = 8, **aggregation: str) -> list[stage.Score]:
    return stage.score(samples, components, completions_per_call=size, aggregation=Aggregation(**aggregation))


def group(*texts: str, prompt_id: str = "a") -> list[Sample]:
    return [sample(prompt_id, index, text) for index, text in enumerate(texts)]


def test_reward_gets_what_trl_gives() -> None:
    """All keywords, one list a column, one entry a completion; `prompt` and `completion` columns are not handed on."""
    seen: dict[str, Any] = {}

    def look(**kwargs: Any) -> list[float]:
        for key, value in kwargs.items():
            seen.setdefault(key, value)  # of the first call, which is the trainer's
        return [0.0] * len(kwargs["completions"])

    samples = [sample("a", index, "text", level=3, completion="demo") for index in range(2)]
    run(samples, component(look))

    expected = {
        "prompts",
        "completions",
        "completion_ids",
        "answer",
        "level",
        "trainer_state",
        "log_extra",
        "log_metric",
    }
    assert expected == set(seen)
    assert ["prompt a"] * 2 == seen["prompts"]
    assert [[1, 2]] * 2 == seen["completion_ids"]
    assert [3, 3] == seen["level"]


def test_weighted_sum_skips_abstentions_without_renormalising() -> None:
    """None leaves one reward out of the sum; all None leaves no reward at all."""

    def fixed(completions: list[str], **_: Any) -> list[float | None]:
        return [None if text == "none" else 0.5 for text in completions]

    def half(completions: list[str], **_: Any) -> list[float | None]:
        return [None if text in ("none", "1") else 1.0 for text in completions]

    scores = run(group("1", "2", "none"), component(fixed, 2.0), component(half, 0.5))

    assert [1.0, 1.5, None] == [score.reward for score in scores]


def test_advantage_is_trls() -> None:
    """(r - mean) / (std with N-1 + 1e-4) over the completions that have a reward; the rest get 0."""
    scores = run(group("-1", "-1", "none", "-0.5"), component(value_of_text))
    mean = -2.5 / 3
    std = math.sqrt(sum((value - mean) ** 2 for value in (-1, -1, -0.5)) / 2)
    expected = [(value - mean) / (std + 1e-4) for value in (-1, -1)] + [0.0, (-0.5 - mean) / (std + 1e-4)]

    assert expected == pytest.approx([score.advantage for score in scores])


def test_scale_rewards_none_and_batch() -> None:
    """`scale_rewards` decides what the advantage is divided by."""
    samples = [*group("0", "1"), *group("0", "3", prompt_id="b")]
    plain = [score.advantage for score in run(samples, component(value_of_text), scale_rewards="none")]
    batch = [score.advantage for score in run(samples, component(value_of_text), scale_rewards="batch")]
    std = math.sqrt(sum((value - 1) ** 2 for value in (0, 1, 0, 3)) / 3)

    assert [-0.5, 0.5, -1.5, 1.5] == pytest.approx(plain)
    assert [value / (std + 1e-4) for value in (-0.5, 0.5, -1.5, 1.5)] == pytest.approx(batch)


def test_normalize_then_sum_stays_finite_with_an_abstention() -> None:
    """One None must not turn a whole batch's advantages into NaN."""
    scores = run(
        group("0", "1", "none", "1"), component(value_of_text), multi_objective_aggregation="normalize_then_sum"
    )

    assert all(math.isfinite(score.advantage or 0.0) for score in scores)
    assert scores[2].advantage == 0.0


def test_low_temperature_pass_has_no_advantage() -> None:
    """The second pass is no training group and must not enter one."""
    samples = [*group("0", "1"), sample("a", 9, "5", pass_name="low_temperature")]
    scores = run(samples, component(value_of_text))

    assert scores[2].advantage is None
    assert scores[0].advantage == pytest.approx(-0.5 / (math.sqrt(0.5) + 1e-4))


@pytest.mark.parametrize(
    ("text", "fault"),
    [("nan", "nan"), ("inf", "infinite"), ("-inf", "infinite"), ("1e39", "infinite"), ("11", "out_of_range")],
)
def test_fault_of_a_value_is_recorded(text: str, fault: str) -> None:
    """A value that cannot be trained on is neither a zero nor an abstention."""
    scores = run(group("1", text), component(value_of_text))

    assert [None, fault] == [score.values[0].fault for score in scores]
    assert all(score.advantage is not None and math.isfinite(score.advantage) for score in scores)


def test_abstention_is_no_fault() -> None:
    """None is a reward's right."""
    assert run(group("none", "1"), component(value_of_text))[0].values[0].fault is None


def test_value_that_moves_with_the_batch_is_unstable() -> None:
    """Values must follow the completion, not its place: an extra value shifts every later reward."""

    def by_place(completions: list[str], **_: Any) -> list[float]:
        return [float(place) for place in range(len(completions))]

    assert "unstable" in {score.values[0].fault for score in run(group("1", "1"), component(by_place))}


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ([1.0], "returned 1 value(s) for 2 completion(s)"),
        ([1.0] * 3, "returned 3 value(s) for 2 completion(s)"),
        (["1.0", 1.0], "returned a str ('1.0')"),
        ([[1.0], 1.0], "returned a list ([1.0])"),
        (1.0, "returned a float where a list"),
        (None, "returned None where a list"),
        ("ab", "returned a str where a list"),
        ({"a": 1, "b": 2}, "returned a dict where a list"),
    ],
)
def test_result_that_trl_dies_of_is_named(result: Any, words: str) -> None:
    """Wrong counts and wrong kinds are told with the reward's name."""

    def wrong(**_: Any) -> Any:
        return result

    with pytest.raises(stage.RewardFault) as caught:
        run(group("1", "1"), component(wrong))

    assert words in caught.value.words
    assert caught.value.reward == "wrong"


def test_generators_tuples_and_booleans_are_taken() -> None:
    """Whatever TRL takes is taken."""

    def generator(completions: list[str], **_: Any) -> Any:
        return (text == "1" for text in completions)

    assert [1.0, 0.0] == [score.reward for score in run(group("1", "2"), component(generator))]


def test_raising_reward_names_the_completion() -> None:
    """The one completion a batch died of is found."""
    with pytest.raises(stage.RewardFault, match="could not convert string to float") as caught:
        run(group("1", "2", "three"), component(value_of_text))

    assert ["a/2"] == [found.sample_id for found in caught.value.samples]


def test_rewards_cannot_alter_the_record() -> None:
    """A reward that edits its arguments changes neither the samples nor the second call."""

    def rude(completions: list[Any], answer: list[Any], **_: Any) -> list[float]:
        values = [float(text) for text in completions]
        completions.clear()
        answer.clear()
        return values

    samples = group("1", "2")
    assert [1.0, 2.0] == [score.reward for score in run(samples, component(rude))]
    assert samples[0].completion == "1"


def test_async_rewards_run_together_off_the_main_thread() -> None:
    """As in TRL: after the plain ones, awaited together, on a thread of their own."""
    threads: set[str] = set()
    waiting: list[int] = []

    def make(name: str) -> Callable[..., Any]:
        async def reward(completions: list[str], **_: Any) -> list[float]:
            threads.add(threading.current_thread().name)
            waiting.append(1)
            await asyncio.sleep(0.01)
            assert len(waiting) % 2 == 0  # the other one is waiting too
            return [1.0] * len(completions)

        reward.__name__ = name
        return reward

    scores = run(group("1", "1"), component(make("first")), component(value_of_text), component(make("second")))

    assert threading.current_thread().name not in threads
    assert [3.0, 3.0] == [score.reward for score in scores]
    assert ["first", "value_of_text", "second"] == [value.name for value in scores[0].values]


def test_raising_async_reward_is_named() -> None:
    """An async reward that raises is told like any other."""

    async def broken(**_: Any) -> list[float]:
        raise KeyError("answer")

    with pytest.raises(stage.RewardFault, match="KeyError"):
        run(group("1", "1"), component(broken))


def test_reasons_and_extra_columns_are_kept() -> None:
    """What a reward says through `log_extra` is recorded beside its value."""

    def talks(completions: list[str], log_extra: Any, **_: Any) -> list[float]:
        log_extra("talks_reason", ["good" for _ in completions])
        log_extra("length", [len(text) for text in completions])
        return [1.0] * len(completions)

    scores = run(group("1", "22"), component(talks))

    assert ["good", "good"] == [score.values[0].reason for score in scores]
    assert [{"length": 1}, {"length": 2}] == [score.extras for score in scores]


def test_calls_keep_groups_whole_and_passes_apart() -> None:
    """A call holds whole groups up to the batch size; the low-temperature pass has calls of its own."""
    sizes: list[int] = []

    def look(completions: list[str], **_: Any) -> list[float]:
        sizes.append(len(completions))
        return [0.0] * len(completions)

    samples = [found for name in "abc" for found in group("1", "1", "1", prompt_id=name)]
    samples += [sample(name, 9, "1", pass_name="low_temperature") for name in "abc"]
    run(samples, component(look), size=7)

    assert [6, 3, 3, 3, 1, 2, 3, 1, 2] == sizes  # every call is made again in two halves


def test_each_reward_is_called_again_unless_it_is_left_out() -> None:
    """Once as the trainer does and once for each half of the reversed batch; or once, where only reasons are wanted."""
    calls: list[int] = []

    def counts(completions: list[str], **_: Any) -> list[float]:
        calls.append(len(completions))
        return [float(len(calls))] * len(completions)

    options: dict[str, Any] = {"completions_per_call": 8, "aggregation": Aggregation()}
    (first, _) = stage.score(group("1", "2"), [component(counts)], **options)
    (alone, _) = stage.score(group("1", "2"), [component(counts)], calls_again=False, **options)

    assert [2, 1, 1, 2] == calls
    assert ("unstable", None) == (first.values[0].fault, alone.values[0].fault)


def test_value_that_depends_on_its_neighbours_is_unstable() -> None:
    """In training a group may lie on several ranks, so a reward sees other neighbours than here."""

    def relative(completions: list[str], **_: Any) -> list[float]:
        values = [float(text) for text in completions]
        return [value - sum(values) / len(values) for value in values]

    assert "unstable" in {score.values[0].fault for score in run(group("1", "2", "3", "6"), component(relative))}


def test_awaited_objects_are_awaited() -> None:
    """An object with an async `__call__` is async to TRL too."""

    class Judge:
        __name__ = "judge"

        async def __call__(self, completions: list[str], **_: Any) -> list[float]:
            return [1.0] * len(completions)

    assert [1.0, 1.0] == [score.reward for score in run(group("1", "2"), component(Judge()))]


def test_cancelled_async_reward_is_named() -> None:
    """Whatever ends an awaited reward ends the call with its name."""

    async def cancelled(**_: Any) -> list[float]:
        raise asyncio.CancelledError

    with pytest.raises(stage.RewardFault, match="CancelledError"):
        run(group("1", "1"), component(cancelled))


def test_rewards_cannot_edit_chat_messages_of_the_record() -> None:
    """Messages are copied too: an edit in place would reach the second call."""

    def rude(completions: list[Any], prompts: list[Any], **_: Any) -> list[float]:
        values = [float(completion[0]["content"]) for completion in completions]
        for completion, prompt in zip(completions, prompts, strict=True):
            completion[0]["content"] = "9"
            prompt[0]["content"] = "9"
        return values

    made = [
        dataclasses.replace(
            found,
            completion=[{"role": "assistant", "content": found.completion}],
            prompt=[{"role": "user", "content": "p"}],
        )
        for found in group("1", "2")
    ]
    scores = run(made, component(rude))
    assert [(1.0, None), (2.0, None)] == [(score.reward, score.values[0].fault) for score in scores]
    assert made[0].prompt == [{"role": "user", "content": "p"}]


def test_odd_extra_columns_do_no_harm() -> None:
    """What a reward logs may be anything; it is kept as text or by its kind."""

    class Odd:
        def __str__(self) -> str:
            raise RuntimeError

    def talks(completions: list[str], log_extra: Any, **_: Any) -> list[float]:
        log_extra("huge", [10**5000 for _ in completions])
        log_extra("odd", [Odd() for _ in completions])
        log_extra("short", [1])
        return [1.0] * len(completions)

    first, _ = run(group("1", "2"), component(talks))
    assert {"huge": "<int>", "odd": "<Odd>"} == first.extras


def test_seconds_are_a_share_of_the_call() -> None:
    """The call's time is divided by its completions."""
    took: list[float] = []

    def slow(completions: list[str], **_: Any) -> list[float]:
        begun = time.perf_counter()
        time.sleep(0.05)
        took.append(time.perf_counter() - begun)
        return [1.0] * len(completions)

    first, _ = run(group("1", "2"), component(slow))
    assert first.values[0].seconds == pytest.approx(took[0] / 2, rel=0.3)
