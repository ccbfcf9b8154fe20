"""The wrapper on length: takes from what is right alone, keeps right above wrong, hands everything else through."""

import asyncio
import inspect
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from llm_finetuning.rewards.exact_answer import ExactAnswer
from llm_finetuning.rewards.length_penalty import AsyncLengthPenalty, LengthPenalty, wrap
from llm_finetuning.rewards.math_answer import MathAnswer
from llm_finetuning.stages import score as stage

SETTINGS: dict[str, Any] = {"name": "r", "low": 0.0, "high": 1.0, "from_tokens": 10, "to_tokens": 30, "share": 0.5}


def paying(values: Any) -> Callable[..., Any]:
    def reward(**_: Any) -> Any:
        return values

    return reward


def paid(values: Any, lengths: list[int | None], **settings: Any) -> Any:
    ids = [None if length is None else [1] * length for length in lengths]
    wrapped = wrap(paying(values), **{**SETTINGS, **settings})
    return wrapped(completions=["x"] * len(ids), completion_ids=ids)


@pytest.mark.parametrize(
    ("value", "length", "settings", "expected"),
    [
        (1.0, 0, {}, 1.0),
        (1.0, 10, {}, 1.0),
        (1.0, 11, {}, 0.975),
        (1.0, 20, {}, 0.75),
        (1.0, 30, {}, 0.5),
        (1.0, 10_000, {}, 0.5),
        (0.0, 10_000, {}, 0.0),
        (0.4, 30, {}, 0.2),
        (0.4, 30, {"wrong": 0.5}, 0.4),
        (0.6, 30, {"wrong": 0.5}, 0.55),
        (-0.5, 30, {"low": -1.0}, -0.5),
        (1.0, 30, {"low": -1.0}, 0.5),
        (-0.5, 30, {"low": -1.0, "high": 0.0}, -0.75),
        (-1.0, 30, {"low": -1.0, "high": 0.0}, -1.0),
        (-0.5, 30, {"low": -1.0, "wrong": -1.0}, -0.75),
        (3.0, 30, {"low": 1.0, "high": 3.0}, 2.0),
        (1.5, 30, {}, 1.5),
        (True, 30, {}, 0.5),
    ],
)
def test_what_is_paid(value: float, length: int, settings: dict[str, Any], expected: float) -> None:
    """Up to a wrong one's level unchanged; above it a share is taken along the ramp; beyond the range untouched."""
    assert paid([value], [length], **settings) == [pytest.approx(expected)]


UNITS = st.integers(-64, 64).map(lambda n: n / 64)  # numbers whose differences are exact
LENGTHS = st.integers(0, 80)


@given(
    value=UNITS,
    other=UNITS,
    length=LENGTHS,
    other_length=LENGTHS,
    wrong=UNITS,
    begin=st.integers(0, 40),
    width=st.integers(1, 40),
    share=st.integers(1, 63).map(lambda n: n / 64),
)
def test_right_stays_above_wrong(
    *, value: float, other: float, length: int, other_length: int, wrong: float, begin: int, width: int, share: float
) -> None:
    """Never raised, never below a wrong one's level, in range, monotone in length and in the value."""
    assume(wrong < 1)
    settings: dict[str, Any] = {"low": -1.0, "wrong": wrong, "share": share}
    settings |= {"from_tokens": begin, "to_tokens": begin + width}
    first, second, longer = paid([value, other, value], [length, other_length, length + other_length], **settings)

    assert -1 <= first <= value
    assert longer <= first
    if value <= wrong:
        assert first == value
    if other <= wrong < value:
        assert second < first
    (same_length,) = paid([other], [length], **settings)
    assert (first > same_length) == (value > other)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        "ab",
        {"a": 1},
        1.0,
        [1.0],
        ["1.0", "x"],
        [1.0, object],
        [[1], 1.0],
        [bytearray(b"x"), 1.0],
        [math.inf, 1.0],
    ],
    ids=["none", "text", "dict", "number", "short", "texts", "objects", "nested", "bytes", "infinite"],
)
def test_faults_of_the_inner_reward_come_through(raw: Any) -> None:
    """What is no list of one finite number a completion is named by `score` as before, not hidden."""
    result = paid(raw, [0, 0])

    assert result == raw or result is raw


def test_rounding_raises_nothing() -> None:
    """A share too small to be seen leaves the value; -0.3 + (0.1 + 0.3) would be more than 0.1."""
    assert paid([0.1], [11], low=-1.0, wrong=-0.3, to_tokens=10**18) == [0.1]


def test_abstentions_stay_abstentions() -> None:
    """None and NaN pass at any length; a completion of unknown length abstains instead of being paid in full."""
    none, nan, unknown = paid([None, math.nan, 1.0], [50, 50, None])

    assert none is None
    assert math.isnan(nan)
    assert unknown is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"wrong": 1.0}, "wrong: 1 is not inside"),
        ({"wrong": -0.1}, "wrong: -0.1 is not inside"),
        ({"from_tokens": 30}, "from_tokens"),
        ({"from_tokens": -1}, "from_tokens"),
        ({"share": 0.0}, "share"),
        ({"share": 1.0}, "share"),
        ({"share": math.nan}, "share"),
    ],
)
def test_unsound_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    """A wrong level outside the range, a ramp that does not rise, a share that takes nothing or all."""
    with pytest.raises(ValueError, match=words):
        wrap(paying([]), **{**SETTINGS, **settings})


def test_reasons_and_the_share_taken_are_logged() -> None:
    """The inner reward's reasons pass under its name; the wrapper adds what it took from each."""
    said: dict[str, list[Any]] = {}
    wrapped = wrap(MathAnswer(), **{**SETTINGS, "name": "math_answer"})
    values = wrapped(
        completions=[r"\boxed{4}", r"\boxed{5}", r"\boxed{4}", r"\boxed{4}"],
        completion_ids=[[1] * 30, [1] * 30, [1], [1] * 20],
        answer=["4", "4", "4", ""],
        log_extra=said.__setitem__,
    )

    assert [0.5, 0.0, 1.0, None] == values
    assert said["math_answer_reason"] == ["correct", "wrong", "correct", "gold_unreadable"]
    assert said["math_answer_length_share"] == [0.5, 0.0, 0.0, None]


async def awaited(completions: list[str], **_: Any) -> list[float]:
    await asyncio.sleep(0)
    return [1.0 for _ in completions]


class Awaited:
    """A reward object whose call is awaited."""

    async def __call__(self, **kwargs: Any) -> list[float]:
        """Do as the function."""
        return await awaited(**kwargs)


@pytest.mark.parametrize("inner", [awaited, Awaited()], ids=["function", "object"])
def test_async_stays_async(inner: Callable[..., Any]) -> None:
    """TRL awaits the wrapped reward as it would the bare one, and gets the same values as from a plain one."""
    wrapped = wrap(inner, **SETTINGS)

    assert isinstance(wrapped, AsyncLengthPenalty)
    assert stage.is_async(wrapped)
    assert [0.5, 1.0] == asyncio.run(wrapped(completions=["a", "b"], completion_ids=[[1] * 30, [1]]))


def test_a_plain_reward_stays_plain_and_may_be_pickled() -> None:
    """It names `completion_ids`, carries the component's name and range, and survives a trip to another process."""
    wrapped = pickle.loads(pickle.dumps(wrap(ExactAnswer(), **SETTINGS)))  # noqa: S301  our own bytes

    assert type(wrapped) is LengthPenalty
    assert not stage.is_async(wrapped)
    assert "completion_ids" in inspect.signature(wrapped).parameters
    assert (wrapped.__name__, wrapped.range) == ("r", (0.0, 1.0))
    assert wrapped(completions=["4"], completion_ids=[[1] * 30], answer=["4"]) == [0.5]
