"""What an expression is once read, and how reading it fails."""

from fractions import Fraction
from typing import NamedTuple


class UnreadableError(Exception):
    """The text is not an answer that can be read: broken, empty or nonsense."""


class UnsupportedError(UnreadableError):
    """The text may be sound mathematics, but outside the grammar."""


class TooLargeError(Exception):
    """Computing the value would take more digits or steps than any honest answer needs."""


class Node(NamedTuple):
    """An expression: its kind, its parts, and for leaves the number or the name.

    Kinds: num, var, const, add, mul, div, neg, pow, root, call, sum, prod. `name` is the variable, constant, function
    or bound variable; of a number written as a decimal it is the literal, of one with a base `base:digits`.
    """

    kind: str
    parts: "tuple[Node, ...]" = ()
    number: Fraction | None = None
    name: str = ""


def number(value: int | Fraction, literal: str = "") -> Node:
    """Return a number's node."""
    return Node("num", number=Fraction(value), name=literal)


def variables(node: Node) -> frozenset[str]:
    """Return the names of the free variables."""
    found: set[str] = set()
    _collect(node, frozenset(), found)
    return frozenset(found)


def _collect(node: Node, bound: frozenset[str], found: set[str]) -> None:
    if node.kind == "var":
        if node.name not in bound:
            found.add(node.name)
        return
    if node.kind in {"sum", "prod"}:
        bound = bound | {node.name}
    for part in node.parts:
        _collect(part, bound, found)


def is_of_letters(node: Node) -> bool:
    """Tell whether a node is a variable, or a sum or product of nothing but variables."""
    return node.kind == "var" or (node.kind in {"add", "mul"} and all(map(is_of_letters, node.parts)))


def mentions(node: Node, kind: str, name: str = "") -> bool:
    """Tell whether a node of this kind (and name, if given) is anywhere inside."""
    if node.kind == kind and (not name or node.name == name):
        return True
    return any(mentions(part, kind, name) for part in node.parts)
