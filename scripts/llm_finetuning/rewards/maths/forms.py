"""The types that a whole answer can have."""

from collections.abc import Callable
from dataclasses import dataclass

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


def span_between(low: Node, high: Node, *, has_low: bool, has_high: bool) -> Span:  # noqa: D103  the signature says it
    begin = None if is_infinite(low) else low
    end = None if is_infinite(high) else high
    return Span(begin, end, has_low and begin is not None, has_high and end is not None)


def is_infinite(node: Node) -> bool:  # noqa: D103  the name says it
    if node.kind == "neg":
        return is_infinite(node.parts[0])
    return node.kind == "const" and node.name == "inf"
