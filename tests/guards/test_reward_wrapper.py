"""What a reward gets and what the trainer gets back, through the wrapper of a run."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from guards import data, rewards

TRAIN = [
    {"prompt": "a", "answer": "1", "nested": {"x": [1, None]}, "completion": "gold"},
    {"prompt": "b", "answer": 2, "more": True},
]
HELD_OUT = [{"prompt": "c", "answer": "3"}]


@pytest.fixture
def rows(tmp_path: Path) -> data.Rows:
    """Two training rows and a held-out one, each with columns of its own."""
    for name, lines in (("train", TRAIN), ("held_out", HELD_OUT)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"{name}.jsonl").write_text(text, "utf-8")
    settings = SimpleNamespace(here=tmp_path, data={"train": "train.jsonl", "held_out": "held_out.jsonl"})
    return data.Rows(settings)  # type: ignore[arg-type]


def call(function: Any, numbers: list[int], **more: Any) -> Any:
    """Call a wrapped reward as TRL does."""
    given = {
        "prompts": ["p"] * len(numbers),
        "completions": ["c"] * len(numbers),
        "completion_ids": [[1]] * len(numbers),
    }
    value = function(**given, finetune_row=numbers, trainer_state="state", **more)
    return asyncio.run(value) if asyncio.iscoroutine(value) else value


def test_a_reward_gets_the_columns_as_the_file_holds_them(rows: data.Rows) -> None:
    """Nested values unchanged and fresh, absent ones None, TRL's keywords passed on, nothing of ours."""
    seen: list[dict[str, Any]] = []

    def reward(**given: Any) -> list[float]:
        seen.append(given)
        if given["nested"][0]:
            given["nested"][0]["x"].append("altered")
        return [1.0] * len(given["completions"])

    wrapped = rewards.wrap(reward, "mine", rows, rewards.Watch(["mine"]))
    call(wrapped, [0, 1, 2])
    call(wrapped, [0])

    assert {"prompts", "completions", "completion_ids", "trainer_state", "answer", "nested", "more"} == set(seen[0])
    assert ["1", 2, "3"] == seen[0]["answer"]
    assert [None, True, None] == seen[0]["more"]
    assert [{"x": [1, None, "altered"]}] == seen[1]["nested"]  # what this call altered itself, not what an earlier did
    assert "mine" == wrapped.__name__


class AwaitedObject:
    """A reward as an object whose call is awaited."""

    async def __call__(self, completions: Any, **_: Any) -> list[float | None]:
        """Abstain on every second completion."""
        return [None if place % 2 else 0.5 for place in range(len(completions))]


async def awaited(completions: Any, **_: Any) -> list[float | None]:
    """Abstain on every second completion."""
    return [None if place % 2 else 0.5 for place in range(len(completions))]


def plain(completions: Any, **_: Any) -> Any:
    """Yield as a generator, abstaining by NaN."""
    return (float("nan") if place % 2 else 0.5 for place in range(len(completions)))


@pytest.mark.parametrize("reward", [AwaitedObject(), awaited, plain], ids=["object", "coroutine", "generator"])
def test_what_a_reward_returns_is_passed_on_and_counted(rows: data.Rows, reward: Any) -> None:
    """Sync stays sync, awaited stays awaited; abstentions count for training rows alone."""
    watch = rewards.Watch(["mine"])
    wrapped = rewards.wrap(reward, "mine", rows, watch)
    assert asyncio.iscoroutinefunction(wrapped) == (reward is not plain)

    values = list(call(wrapped, [0, 0, 1, 1]))
    call(wrapped, [2, 2])

    assert [0.5, 0.5] == values[::2]
    assert all(value is None or value != value for value in values[1::2])  # noqa: PLR0124  NaN
    assert {"mine": {0: (2, 1), 1: (2, 1)}} == watch.take()
    assert {"mine": {}} == watch.take()


def test_a_wrong_return_is_left_to_the_trainer(rows: data.Rows) -> None:
    """TRL refuses it by the reward's name."""
    wrapped = rewards.wrap(lambda **_: 3.0, "mine", rows, rewards.Watch(["mine"]))
    assert 3.0 == call(wrapped, [0])


def test_rows_lengths_and_ends_stand_in_the_tables_once(rows: data.Rows) -> None:
    """The first reward's wrapper says them."""
    watch, columns = rewards.Watch(["mine"]), {}
    watch.end_tokens = frozenset([1])
    wrapped = rewards.wrap(plain, "mine", rows, watch, tables=True)
    other = rewards.wrap(plain, "other", rows, rewards.Watch(["other"]))
    for function in (wrapped, other):
        function(
            prompts=["p"] * 3,
            completions=["c"] * 3,
            completion_ids=[[5, 1], [1, 5, 6], []],
            finetune_row=[0, 0, 1],
            log_extra=lambda name, values: columns.setdefault(name, []).append(values),
        )
    assert {
        "finetune_row": [[0, 0, 1]],
        "finetune_tokens": [[2, 3, 0]],
        "finetune_finish": [["stop", "length", "length"]],
    } == columns
