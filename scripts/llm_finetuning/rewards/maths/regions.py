"""Comparing parts of the real line: spans in order, touching ones joined, ends equal and both open or closed."""

from collections.abc import Sequence
from typing import Any

from llm_finetuning.rewards.maths.exact import UndefinedError
from llm_finetuning.rewards.maths.forms import Region, Span
from llm_finetuning.rewards.maths.nodes import Node, TooLargeError
from llm_finetuning.rewards.maths.values import are_equal, real_value


def same_region(gold: Region, answer: Region) -> bool:
    """Tell whether two unions of spans are one set, in one variable if both name theirs."""
    if gold.name and answer.name and gold.name != answer.name:
        return False
    one, other = _normal(gold.spans), _normal(answer.spans)
    return len(one) == len(other) and all(_same_span(first, second) for first, second in zip(one, other, strict=True))


def _same_span(one: Span, other: Span) -> bool:
    return (
        (one.has_low, one.has_high) == (other.has_low, other.has_high)
        and _same_end(one.low, other.low)
        and _same_end(one.high, other.high)
    )


def _same_end(one: Node | None, other: Node | None) -> bool:
    return one is other if one is None or other is None else are_equal(one, other)


def _normal(spans: Sequence[Span]) -> list[Span]:
    """Return the spans in order with touching ones joined; as they are where an end is no real constant."""
    try:
        placed = sorted(
            ((_place(span.low, -1), _place(span.high, 1), span) for span in spans), key=lambda part: part[:2]
        )
    except (UndefinedError, TooLargeError):
        return list(spans)
    joined: list[tuple[Any, Any, Span]] = []
    for low, high, span in placed:
        if joined and _touch(joined[-1], low, span):
            before_low, before_high, before = joined[-1]
            if high > before_high or (high == before_high and span.has_high):
                joined[-1] = (before_low, high, Span(before.low, span.high, before.has_low, span.has_high))
        else:
            joined.append((low, high, span))
    return [span for _, _, span in joined]


def _touch(before: tuple[Any, Any, Span], low: Any, span: Span) -> bool:
    return bool(low < before[1] or (low == before[1] and (before[2].has_high or span.has_low)))


def _place(end: Node | None, side: int) -> Any:
    return side * float("inf") if end is None else real_value(end)


def minus(base: Sequence[Span], taken: Sequence[Span]) -> tuple[Span, ...]:
    """Return what is left of some spans without others; raises UndefinedError where an end is no real constant."""
    left = _normal(base)
    for hole in _normal(taken):
        before = Span(None, hole.low, has_low=False, has_high=not hole.has_low) if hole.low is not None else None
        after = Span(hole.high, None, has_low=not hole.has_high, has_high=False) if hole.high is not None else None
        parts = [_both(span, side) for span in left for side in (before, after) if side is not None]
        left = [part for part in parts if part is not None]
    return tuple(left)


def _both(one: Span, other: Span) -> Span | None:
    """Return the intersection of two spans, None if it is empty."""
    lows = [(_place(span.low, -1), not span.has_low, span.low) for span in (one, other)]
    highs = [(_place(span.high, 1), span.has_high, span.high) for span in (one, other)]
    low, high = max(lows, key=lambda end: end[:2]), min(highs, key=lambda end: end[:2])
    if low[0] > high[0] or (low[0] == high[0] and (low[1] or not high[1])):
        return None
    return Span(low[2], high[2], low[2] is not None and not low[1], high[2] is not None and high[1])
