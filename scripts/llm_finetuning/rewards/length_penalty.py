"""`length_penalty`: a wrapper that takes a share of what a right completion earns when it is long.

It is written as a key of a reward's entry in the brief, so that name, weight, range and digests stay with that reward.
Length is counted in tokens, those that the trainer bills: words and characters differ from them by a factor that
depends on the language. Related: the length reward of Kimi k1.5 (arXiv:2501.12599, section 2.3.3), which compares
completions of a group; this one reads each completion alone, since a group may lie on several ranks.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from llm_finetuning.rewards.contract import LogExtra
from llm_finetuning.types import Text

SHARE_SUFFIX = "_length_share"

_ROUNDING = 1e-6  # rewards are kept as float32; a value this far above the range is still the range's end


class LengthPenalty:
    """A reward and what its long completions lose; see `penalise`."""

    def __init__(
        self,
        inner: Callable[..., Any],
        *,
        name: str,
        low: float,
        high: float,
        from_tokens: int,
        to_tokens: int,
        share: float,
        wrong: float | None = None,
    ) -> None:
        """Take the reward, its component's name and range; raises ValueError for settings that do not fit them."""
        level = wrong if wrong is not None else 0.0 if low <= 0 < high else low
        if not low <= level < high:
            raise ValueError(f"wrong: {level:g} is not inside the range {low:g} to {high:g} and below its end")
        if not 0 <= from_tokens < to_tokens:
            raise ValueError("from_tokens must be at least 0 and below to_tokens")
        if not 0 < share < 1:
            raise ValueError(f"share: {share} is not above 0 and below 1")
        self.__name__ = name
        self.range = (low, high)
        self._inner = inner
        self._wrong = level
        self.from_tokens = from_tokens  # up to this length nothing is lost
        self._to = to_tokens
        self._share = share

    def __getattr__(self, name: str) -> Any:
        """Hand on what the composition asks of a reward that it has not wrapped, such as `ready`."""
        if name != "ready":
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __call__(
        self,
        *,
        completions: Sequence[Text],
        completion_ids: Sequence[Sequence[int] | None],
        log_extra: LogExtra | None = None,
        **columns: Any,
    ) -> Any:
        """Return the inner reward's values, shortened where long; what is no list of numbers is handed on as it is."""
        arguments = {"completions": completions, "completion_ids": completion_ids, **columns}
        arguments |= {} if log_extra is None else {"log_extra": log_extra}
        return self._pay(self._inner(**arguments), completion_ids, log_extra)

    def penalise(self, value: float, tokens: int) -> float:
        """Return what a completion of this many tokens is paid: `value` up to the level of a wrong one, never more.

        Above that level w it is w + (value - w)(1 - share x ramp), where ramp rises from 0 at `from_tokens` to 1 at
        `to_tokens`. A value beyond the declared range is not touched, so that it is still found.
        """
        taken = self._taken(value, tokens)
        return min(value, self._wrong + (value - self._wrong) * (1 - taken)) if taken else value

    def _taken(self, value: float, tokens: int) -> float:
        """Return the share, 0..`share`, that is taken of what lies above a wrong completion's level."""
        if not self._wrong < value <= self.range[1] + _ROUNDING:
            return 0.0
        return self._share * min(1.0, max(0.0, (tokens - self.from_tokens) / (self._to - self.from_tokens)))

    def _pay(self, raw: Any, completion_ids: Sequence[Sequence[int] | None], log_extra: LogExtra | None) -> Any:
        if isinstance(raw, str | dict) or not hasattr(raw, "__iter__"):
            return raw  # `score` and TRL name this fault, and the two below
        values = list(raw)
        if len(values) != len(completion_ids):
            return values
        paid: list[Any] = []
        shares: list[float | None] = []
        for value, ids in zip(values, completion_ids, strict=True):
            number = _number(value)
            if number is None or ids is None:
                paid.append(value if number is None else None)  # a length that nobody knows: abstain
                shares.append(None)
            else:
                paid.append(self.penalise(number, len(ids)))
                shares.append(self._taken(number, len(ids)))
        if log_extra is not None:
            log_extra(self.__name__ + SHARE_SUFFIX, shares)
        return paid


class AsyncLengthPenalty(LengthPenalty):
    """The same around a reward that the trainer awaits."""

    async def __call__(
        self,
        *,
        completions: Sequence[Text],
        completion_ids: Sequence[Sequence[int] | None],
        log_extra: LogExtra | None = None,
        **columns: Any,
    ) -> Any:
        """Return what `LengthPenalty` does, once the inner reward has answered."""
        arguments = {"completions": completions, "completion_ids": completion_ids, **columns}
        arguments |= {} if log_extra is None else {"log_extra": log_extra}
        return self._pay(await self._inner(**arguments), completion_ids, log_extra)


def wrap(
    inner: Callable[..., Any],
    *,
    name: str,
    low: float,
    high: float,
    from_tokens: int,
    to_tokens: int,
    share: float,
    wrong: float | None = None,
) -> LengthPenalty:
    """Return the reward with a penalty on length, async where it is async; raises ValueError as `LengthPenalty`."""
    awaited = inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(type(inner).__call__)
    kind = AsyncLengthPenalty if awaited else LengthPenalty
    return kind(
        inner, name=name, low=low, high=high, from_tokens=from_tokens, to_tokens=to_tokens, share=share, wrong=wrong
    )


def _number(value: Any) -> float | None:
    """Return a number as it is; None for an abstention and for what is no number."""
    if value is None or isinstance(value, str | bytes):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
