"""What a reward gets and what the trainer gets back, through the wrapper of a run."""

import asyncio
import errno
import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from guards import data, ending, rewards
from llm_finetuning.errors import MachineryFailure

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
    """Yield as a generator."""
    return (None if place % 2 else 0.5 for place in range(len(completions)))


@pytest.mark.parametrize("reward", [AwaitedObject(), awaited, plain], ids=["object", "coroutine", "generator"])
def test_what_a_reward_returns_is_passed_on_and_counted(rows: data.Rows, reward: Any) -> None:
    """Sync stays sync, awaited stays awaited; abstentions count for training rows alone."""
    watch = rewards.Watch(["mine"])
    wrapped = rewards.wrap(reward, "mine", rows, watch)
    assert asyncio.iscoroutinefunction(wrapped) == (reward is not plain)

    values = list(call(wrapped, [0, 0, 1, 1]))
    call(wrapped, [2, 2])

    assert [0.5, 0.5] == values[::2]
    assert [None, None] == values[1::2]
    assert {"mine": {0: (2, 1), 1: (2, 1)}} == watch.take()
    assert {"mine": {}} == watch.take()


REWARD_FILE = """\
import asyncio, sys

def failing(answer, log_extra=None, **_):
    if log_extra:
        log_extra("note", answer)
    for value in answer:
        DO
    return [1.0] * len(answer)

async def failing_awaited(answer, **_):
    return failing(answer)

def failing_late(answer, **_):
    yield failing(answer)[0]

def together(answer, **_):
    if len(answer) > 1:
        raise KeyError("pair")
    return [1.0]
"""


def own(folder: Path, name: str, do: str = "pass") -> tuple[Any, Path]:
    """Return a function of a reward file, compiled under the file's name as the frozen package does."""
    path = folder / "mine.py"
    path.write_text(REWARD_FILE.replace("DO", do), "utf-8")
    module: dict[str, Any] = {}
    exec(compile(path.read_bytes(), str(path), "exec"), module)  # noqa: S102  written above
    return module[name], path


RAISED = {
    "error": ("value.upper()", "raised AttributeError: 'int' object has no attribute 'upper'"),
    "exit": ("value == 2 and sys.exit(3)", "raised SystemExit: 3"),
    "interrupt": ("if value == 2: raise KeyboardInterrupt", "raised KeyboardInterrupt"),
    "cancelled": ("if value == 2: raise asyncio.CancelledError", "raised CancelledError"),
}


@pytest.mark.parametrize("name", ["failing", "failing_late", "failing_awaited"])
@pytest.mark.parametrize(("do", "words"), RAISED.values(), ids=RAISED)
def test_what_a_reward_raises_ends_the_run_by_its_name(
    rows: data.Rows, tmp_path: Path, name: str, do: str, words: str
) -> None:
    """Exit 2, the line in its file, the row; an awaited one cannot be asked again, so its batch is named."""
    function, path = own(tmp_path, name, do)
    wrapped = rewards.wrap(function, "mine", rows, rewards.Watch(["mine"]), files=[path])
    noted: list[Any] = []
    with pytest.raises(ending.Ended) as ended:
        call(wrapped, [0, 0, 1, 2], log_extra=lambda *given: noted.append(given))
    which = "a batch of 4 completion(s)" if name == "failing_awaited" else "training row 1;"
    assert ended.value.reason.startswith(f"{path}:7: reward mine {words}: on {which}")
    assert ended.value.exit_code == 2
    assert len(noted) == (1 if name == "failing" else 0)  # the search logs nothing


def test_an_error_that_one_completion_alone_does_not_raise_is_the_batchs(rows: data.Rows, tmp_path: Path) -> None:
    """The batch is named, with its first row."""
    function, path = own(tmp_path, "together")
    wrapped = rewards.wrap(function, "mine", rows, rewards.Watch(["mine"]), files=[path])
    with pytest.raises(ending.Ended, match=r"mine.py:18: .*KeyError: 'pair': on a batch of 2 .* held-out row 0; mend"):
        call(wrapped, [2, 0])


RETURNED = {
    "number": (3.0, "returned a float where a list of numbers is needed: on a batch of 3"),
    "none": (None, "returned None where a list of numbers is needed"),
    "text": ("1.0", "returned a str where"),
    "short": ([1.0], "returned 1 value(s) for 3 completion(s)"),
    "long": (iter([1.0] * 4), "returned 4 value(s) for 3 completion(s)"),
    "text in it": ([1.0, None, "0.5"], "returned a str ('0.5') where a number or None is needed: on held-out row 0"),
    "list in it": ([1.0, [0.5], 1], "returned a list ([0.5]) where a number or None is needed: on training row 1"),
}


@pytest.mark.parametrize(("returned", "words"), RETURNED.values(), ids=RETURNED)
def test_a_wrong_return_ends_the_run_by_the_rewards_name(rows: data.Rows, returned: Any, words: str) -> None:
    """Exit 2; nothing of the call is counted."""
    watch = rewards.Watch(["mine"])
    wrapped = rewards.wrap(lambda **_: returned, "mine", rows, watch)
    with pytest.raises(ending.Ended) as ended:
        call(wrapped, [0, 1, 2])
    assert f"reward mine {words}" in ended.value.reason
    assert ended.value.exit_code == 2
    assert {"mine": {}} == watch.take()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -3.5e38])
def test_a_value_that_is_no_finite_float32_ends_the_run(rows: data.Rows, value: float) -> None:
    """Exit 1: it is no abstention."""
    wrapped = rewards.wrap(lambda **_: [None, 3.4e38, value], "mine", rows, rewards.Watch(["mine"]))
    with pytest.raises(ending.Ended) as ended:
        call(wrapped, [0, 0, 1])
    assert f"reward mine paid {value!r} on training row 1" in ended.value.reason
    assert ended.value.exit_code == 1


@pytest.mark.parametrize(
    "error", [MachineryFailure("no sandbox"), OSError(errno.ENOSPC, "No space left")], ids=["machinery", "full disk"]
)
def test_a_fault_of_the_machine_is_not_the_rewards(rows: data.Rows, error: Exception) -> None:
    """It passes through with its own words and exit code."""

    def reward(**_: Any) -> Any:
        raise error

    with pytest.raises(type(error)) as passed:
        call(rewards.wrap(reward, "mine", rows, rewards.Watch(["mine"])), [0])
    assert passed.value is error


def test_ctrl_c_is_a_persons(rows: data.Rows) -> None:
    """SIGINT while a reward runs stays a KeyboardInterrupt, and is answered as before afterwards."""
    before = signal.getsignal(signal.SIGINT)

    def reward(**_: Any) -> Any:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        call(rewards.wrap(reward, "mine", rows, rewards.Watch(["mine"])), [0])
    assert signal.getsignal(signal.SIGINT) is before


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
