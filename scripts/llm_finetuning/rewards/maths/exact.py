"""Exact arithmetic on fractions, refused by size before it is computed: a proof in both directions."""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from llm_finetuning.rewards.maths.nodes import Node, TooLargeError, mentions

MAX_BITS = 60_000  # of a numerator or denominator; 1/2004! has 19,100
MAX_TERMS = 10_000  # of a sum
MAX_NESTED_TERMS = 20  # of a sum around a sum
MAX_ROOT = 64

_MAX_FACTORIAL = 5_000


class UndefinedError(Exception):
    """The expression has no value: a division by zero, a logarithm of zero, a wrong count of arguments."""


def exact_value(node: Node, bound: Mapping[str, Fraction] | None = None) -> Fraction | None:  # noqa: PLR0911  one return a kind of node
    """Return the rational value, None where the expression is not rational by these rules.

    Raises TooLargeError and UndefinedError.
    """
    if node.kind == "num":
        return node.number
    if node.kind == "var":
        return (bound or {}).get(node.name)
    if node.kind in {"sum", "prod"}:
        return _series(node, bound or {})
    if node.kind == "const":
        return None
    values: list[Fraction] = []
    for part in node.parts:
        value = exact_value(part, bound)
        if value is None:
            return None
        values.append(value)
    if node.kind == "call":
        function = _FUNCTIONS.get(node.name)
        return None if function is None else function(values)
    return _sized(_OPERATIONS[node.kind](values))


def _sized(value: Fraction | None) -> Fraction | None:
    if value is not None and max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise TooLargeError("too many digits")
    return value


def _add(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0))


def _multiply(values: Sequence[Fraction]) -> Fraction:
    product = Fraction(1)
    for value in values:
        product *= value
        _sized(product)
    return product


def _divide(values: Sequence[Fraction]) -> Fraction:
    top, bottom = values
    if bottom == 0:
        raise UndefinedError("division by zero")
    return top / bottom


def _power(values: Sequence[Fraction]) -> Fraction | None:
    base, exponent = values
    if exponent.denominator != 1:
        if exponent.denominator > MAX_ROOT or base < 0:
            return None
        rooted = _root([base, Fraction(exponent.denominator)])
        return None if rooted is None else _power([rooted, Fraction(exponent.numerator)])
    if base == 0 and exponent < 0:
        raise UndefinedError("division by zero")
    if base == 0 and exponent == 0:
        return Fraction(1)
    if abs(base) == 1:
        return Fraction(1) if exponent % 2 == 0 else base
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if base and bits * abs(exponent) > MAX_BITS:
        raise TooLargeError("a power of too many digits")
    return base**exponent.numerator


def _root(values: Sequence[Fraction]) -> Fraction | None:
    base, degree = values
    if degree.denominator != 1 or not 0 < degree <= MAX_ROOT:
        return None
    if base < 0:
        if degree % 2 == 0:
            return None
        positive = _root([-base, degree])
        return None if positive is None else -positive
    top, bottom = _whole_root(base.numerator, int(degree)), _whole_root(base.denominator, int(degree))
    return None if top is None or bottom is None else Fraction(top, bottom)


def _whole_root(value: int, degree: int) -> int | None:
    """Return the whole root of a natural number, None if it has none (Newton's iteration from above)."""
    if degree == 2:  # noqa: PLR2004  a square root
        root = math.isqrt(value)
        return root if root * root == value else None
    if value < 2:  # noqa: PLR2004  0 and 1
        return value
    root = 1 << -(-value.bit_length() // degree)
    while True:
        better = ((degree - 1) * root + value // root ** (degree - 1)) // degree
        if better >= root:
            return root if root**degree == value else None
        root = better


def _factorial(values: Sequence[Fraction]) -> Fraction | None:
    (value,) = values
    if value.denominator != 1 or value < 0:
        return None
    if value > _MAX_FACTORIAL:
        raise TooLargeError("a factorial of too many digits")
    return Fraction(math.factorial(int(value)))


def _binomial(values: Sequence[Fraction]) -> Fraction | None:
    n, k = values
    if n.denominator != 1 or k.denominator != 1 or n < 0:
        return None
    if k < 0 or k > n:
        return Fraction(0)
    if n > MAX_BITS and min(k, n - k) > 1:
        raise TooLargeError("a binomial coefficient of too many digits")
    return Fraction(math.comb(int(n), int(k)))


def _whole(combine: Callable[..., int]) -> Callable[[Sequence[Fraction]], Fraction | None]:
    def combined(values: Sequence[Fraction]) -> Fraction | None:
        if any(value.denominator != 1 for value in values):
            return None
        return Fraction(combine(*map(int, values)))

    return combined


def _series(node: Node, bound: Mapping[str, Fraction]) -> Fraction | None:
    low, high = (exact_value(part, bound) for part in node.parts[:2])
    if low is None or high is None or low.denominator != 1 or high.denominator != 1:
        return None
    nested = mentions(node.parts[2], "sum") or mentions(node.parts[2], "prod")
    if high - low > (MAX_NESTED_TERMS if nested else MAX_TERMS):
        raise TooLargeError("too many terms")
    total = Fraction(node.kind == "prod")
    for index in range(int(low), int(high) + 1):
        term = exact_value(node.parts[2], {**bound, node.name: Fraction(index)})
        if term is None:
            return None
        total = total * term if node.kind == "prod" else total + term
        _sized(total)
    return total


def _logarithm(values: Sequence[Fraction]) -> Fraction | None:
    """Return log_b(x) where it is a whole number, or the reciprocal of one."""
    if values[0] <= 0:
        raise UndefinedError("a logarithm of nothing positive")
    if len(values) == 1:
        return Fraction(0) if values[0] == 1 else None
    _x, base = values
    if base <= 0 or base == 1:
        raise UndefinedError("a base that is none")
    return None


_OPERATIONS: dict[str, Callable[[Sequence[Fraction]], Fraction | None]] = {
    "add": _add,
    "mul": _multiply,
    "neg": lambda values: -values[0],
    "div": _divide,
    "pow": _power,
    "root": _root,
}
_FUNCTIONS: dict[str, Callable[[Sequence[Fraction]], Fraction | None]] = {
    "factorial": _factorial,
    "binom": _binomial,
    "abs": lambda values: abs(values[0]),
    "floor": lambda values: Fraction(math.floor(values[0])),
    "ceil": lambda values: Fraction(math.ceil(values[0])),
    "max": max,
    "min": min,
    "gcd": _whole(math.gcd),
    "lcm": _whole(math.lcm),
    "log": _logarithm,
    "ln": _logarithm,
}
