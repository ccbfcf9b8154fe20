"""The types that a whole answer can have."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

from llm_finetuning.rewards.maths.nodes import Node


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number or expression; `digits` are the significant ones of a plain decimal, 0 for anything else."""

    node: Node
    unit: str = ""
    is_percent: bool = False
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Words:
    """An answer in words, as it was written."""

    text: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """Sound notation outside the grammar: equal only letter for letter, or by the referee."""

    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """Several values: a `list` and a `set` without order, a `tuple` and a `series` (with dots) in order."""

    kind: str
    items: "tuple[Value, ...]"
    brackets: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the real line; None is an infinite end."""

    low: Node | None
    high: Node | None
    has_low: bool
    has_high: bool


@dataclass(frozen=True, slots=True)
class Region:
    """A union of spans, with the variable that lies in it where one is named."""

    spans: tuple[Span, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Relation:
    """`left OP right`, OP one of = < <= != in."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Named:
    """`name = value`; `left` is the name as an expression where it is one."""

    name: str
    value: "Value"
    left: Node | None


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of expressions."""

    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class Residue:
    """A residue and its modulus."""

    node: Node
    modulus: Node


@dataclass(frozen=True, slots=True)
class Ratio:
    """`a : b : c`."""

    items: tuple[Node, ...]


Value = Scalar | Words | Opaque | Group | Region | Relation | Named | Matrix | Residue | Ratio
Read = Callable[[str], Value]
"""How a reader of a structure reads its parts."""

DOTS = "..."


def as_region(value: Value) -> Region | None:
    """Return a value as a region of the line: an interval, or a finite set of numbers; None if it is neither."""
    if isinstance(value, Region):
        return value
    if isinstance(value, Group):
        if value.kind == "tuple" and len(value.items) == 2 and value.brackets == "()":  # noqa: PLR2004  two ends
            low, high = value.items
            if isinstance(low, Scalar) and isinstance(high, Scalar):
                return Region((span_between(low.node, high.node, has_low=False, has_high=False),))
        if value.kind in {"set", "list"} and all(isinstance(item, Scalar) for item in value.items):
            nodes = [item.node for item in value.items if isinstance(item, Scalar)]
            return Region(tuple(Span(node, node, has_low=True, has_high=True) for node in nodes))
    return None


def as_words(group: Group) -> Words:
    """Return words that were cut at their commas as one text again, '' where the group holds something else."""
    texts = [item.text if isinstance(item, Words) else "" for item in group.items]
    return Words(", ".join(texts) if group.kind == "list" and all(texts) else "")


def with_matching_names(gold: Value, answer: Value) -> tuple[Value, Value]:
    """Spread `(x, y) = (1, 2)` where the other side is a list of named values; put those in order beside a tuple."""
    if _is_named_list(answer):
        return _beside_names(_spread_names(gold), answer)
    if _is_named_list(gold):
        answer, gold = _beside_names(_spread_names(answer), gold)
    return gold, answer


def _beside_names(other: Value, named: Group) -> tuple[Value, Value]:
    """Put `x = 1, y = 2` in order where the other side gives no names: its values are then in that order too."""
    if not isinstance(other, Group) or _is_named_list(other):
        return other, named
    ordered = _in_order_of_names(named)
    is_list = other.kind == "list" and ordered.kind == "tuple"
    return Group("tuple", other.items, "()") if is_list else other, ordered


def _is_named_list(value: Value) -> TypeGuard[Group]:
    return isinstance(value, Group) and value.kind == "list" and isinstance(value.items[0], Named)


def _spread_names(value: Value) -> Value:
    """Turn `(x, y) = (1, 2)` into the list `x = 1, y = 2`; anything else stays."""
    names = value.name.strip("()").split(",") if isinstance(value, Named) else []
    if isinstance(value, Named) and isinstance(value.value, Group) and value.value.kind == "tuple" and len(names) > 1:
        items = value.value.items
        if len(names) == len(items):
            return Group("list", tuple(Named(name, item, None) for name, item in zip(names, items, strict=True)))
    return value


def _in_order_of_names(value: Group) -> Group:
    """Turn the list `y = 2, x = 1` into the tuple (1, 2), in the order of the alphabet; anything else stays."""
    named = {item.name: item.value for item in value.items if isinstance(item, Named) and len(item.name) == 1}
    if len(named) < len(value.items):
        return value
    return Group("tuple", tuple(named[name] for name in sorted(named)), "()")


def span_between(low: Node, high: Node, *, has_low: bool, has_high: bool) -> Span:  # noqa: D103  the signature says it
    begin = None if is_infinite(low) else low
    end = None if is_infinite(high) else high
    return Span(begin, end, has_low, has_high)  # [-\infty is kept as it is written: no interval has that end


def is_infinite(node: Node) -> bool:  # noqa: D103  the name says it
    if node.kind == "neg":
        return is_infinite(node.parts[0])
    return node.kind == "const" and node.name == "inf"
