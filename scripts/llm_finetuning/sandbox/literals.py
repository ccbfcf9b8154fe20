"""Values of literal expressions, computed without running anything: numbers, texts, containers, some arithmetic.

What is more than `ast.literal_eval` takes: arithmetic on literals (`10**9 + 7`, `[0] * 5`), `set()` and its like on
literals, `float("inf")`, `math.inf`. Every step is bounded, so that a data set cannot stall whoever reads it.
"""

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any

_MAX_BITS = 1 << 16  # of an integer
_MAX_ITEMS = 1_000_000  # of a text or a container, all of its parts counted
_MAX_DEPTH = 60

_CONSTANTS: Mapping[str, Any] = {"inf": math.inf, "nan": math.nan, "pi": math.pi, "e": math.e, "tau": math.tau}
_CONTAINERS: Mapping[str, Callable[..., Any]] = {
    "set": set,
    "frozenset": frozenset,
    "list": list,
    "tuple": tuple,
    "dict": dict,
}
_PLAIN = (type(None), bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)


class NotLiteral(Exception):  # noqa: N818  an answer, not an error
    """The expression is not made of literals, or is too large to be worth computing here."""


def value_of(node: ast.expr) -> Any:
    """Return the value of a literal expression as a fresh plain value; raises NotLiteral for any other."""
    try:
        return _value(node, _MAX_DEPTH)
    except (TypeError, ValueError, ArithmeticError, MemoryError, KeyError) as error:
        # `1 / 0` or `{[]: 1}` in a test is the test's own affair: it is run where it says so itself.
        raise NotLiteral(str(error)) from None


def _value(node: ast.expr, depth: int) -> Any:  # noqa: C901, PLR0911  one line a form
    if depth <= 0:
        raise NotLiteral("nested too deep")
    below = depth - 1
    match node:
        case ast.Constant(value=value) if isinstance(value, _PLAIN):
            return value
        case ast.List(elts=parts):
            return _sized([_value(part, below) for part in parts])
        case ast.Tuple(elts=parts):
            return _sized(tuple(_value(part, below) for part in parts))
        case ast.Set(elts=parts):
            return {_value(part, below) for part in parts}
        case ast.Dict(keys=keys, values=values):
            return {_value(_present(key), below): _value(value, below) for key, value in zip(keys, values, strict=True)}
        case ast.UnaryOp(op=operator, operand=operand):
            return _unary(operator, _value(operand, below))
        case ast.BinOp(left=left, op=operator, right=right):
            return _binary(operator, _value(left, below), _value(right, below))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _built(name, [_value(part, below) for part in arguments])
        case ast.Attribute(value=ast.Name(id="math"), attr=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
    raise NotLiteral(ast.unparse(node)[:80])


def _present(key: ast.expr | None) -> ast.expr:
    if key is None:
        raise NotLiteral("** in a dict")
    return key


def _sized(value: Any) -> Any:
    if _items(value) > _MAX_ITEMS:
        raise NotLiteral("too large")
    return value


def _items(value: Any) -> int:
    """Return how many parts a value has, texts by their length; what is shared counts each time."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(_items(key) + _items(part) for key, part in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return len(value) + sum(_items(part) for part in value if not isinstance(part, int | float))
    return 1


def _unary(operator: ast.unaryop, value: Any) -> Any:
    if isinstance(operator, ast.Not):
        return not value
    if not isinstance(value, int | float | complex):
        raise NotLiteral("a sign before something else than a number")
    if isinstance(operator, ast.USub):
        return -value
    if isinstance(operator, ast.Invert) and isinstance(value, int):
        return -1 - value
    return +value


def _binary(operator: ast.operator, left: Any, right: Any) -> Any:
    number = (int, float, complex)
    if isinstance(left, number) and isinstance(right, number):
        return _arithmetic(operator, left, right)
    if isinstance(operator, ast.Add) and type(left) is type(right) and isinstance(left, str | bytes | list | tuple):
        return _sized(left + right)
    if isinstance(operator, ast.Mult):
        repeated, times = (right, left) if isinstance(left, int) else (left, right)
        if isinstance(times, int) and isinstance(repeated, str | bytes | list | tuple):
            if _items(repeated) * max(times, 0) > _MAX_ITEMS:
                raise NotLiteral("too large")
            return _fresh(repeated, times)
    raise NotLiteral("an operation on other things than numbers, texts and lists")


def _fresh(repeated: Any, times: int) -> Any:
    """Repeat as Python does; rows that are one object, as in `[[0]] * 3`, cannot cross as plain values."""
    if isinstance(repeated, list | tuple) and any(isinstance(part, list | dict | set) for part in repeated):
        raise NotLiteral("repeats one list several times")
    return repeated * times


def _arithmetic(operator: ast.operator, left: Any, right: Any) -> Any:  # noqa: PLR0911  one line an operator
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return _bounded(left * right)
        case ast.Div():
            return left / right
        case ast.FloorDiv():
            return left // right
        case ast.Mod():
            return left % right
        case ast.Pow():
            return _power(left, right)
        case ast.LShift() if isinstance(left, int) and isinstance(right, int) and right <= _MAX_BITS:
            return _bounded(left << right)
        case ast.RShift() | ast.BitAnd() | ast.BitOr() | ast.BitXor() if isinstance(left, int) and isinstance(
            right, int
        ):
            return _bitwise(operator, left, right)
    raise NotLiteral("an operator outside arithmetic")


def _bitwise(operator: ast.operator, left: int, right: int) -> int:
    if isinstance(operator, ast.RShift):
        return left >> right
    if isinstance(operator, ast.BitAnd):
        return left & right
    return left | right if isinstance(operator, ast.BitOr) else left ^ right


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        bits = base.bit_length() * exponent
        if bits > _MAX_BITS:
            raise NotLiteral("too large")
    return _bounded(base**exponent)


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise NotLiteral("too large")
    return value


def _built(name: str, arguments: list[Any]) -> Any:
    """Build what `set([1])`, `float("inf")` and the like stand for."""
    if name in _CONTAINERS and len(arguments) <= 1 and all(isinstance(part, _PLAIN) for part in arguments):
        return _sized(_CONTAINERS[name](*arguments))
    if name in ("float", "complex") and len(arguments) == 1 and isinstance(arguments[0], str | int | float):
        return float(arguments[0]) if name == "float" else complex(arguments[0])
    if name == "range" and 1 <= len(arguments) <= 3 and all(isinstance(part, int) for part in arguments):  # noqa: PLR2004
        raise NotLiteral("a range is not plain data")
    raise NotLiteral(f"a call of {name}")
