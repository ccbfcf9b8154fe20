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


def around(points: Sequence[Node]) -> tuple[Span, ...]:
    """Return the spans of the line without some points, in order."""
    ends = [span.low for span in _normal([Span(point, point, has_low=True, has_high=True) for point in points])]
    lows: list[Node | None] = [None, *ends]
    highs: list[Node | None] = [*ends, None]
    return tuple(Span(low, high, has_low=False, has_high=False) for low, high in zip(lows, highs, strict=True))
