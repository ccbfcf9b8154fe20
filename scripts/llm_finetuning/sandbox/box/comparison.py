"""When a result is the expected one. Both are plain values, so nothing here runs a line of the candidate's."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

_SINGLE = (type(None), bool, type(Ellipsis), type(NotImplemented))
_NUMBERS = (int, float, complex)
_LARGEST_ITEM = 16  # bytes of a complex number; a larger one is of long doubles


class Foreign:
    """Stands for a result that is no plain data: equal to nothing, and true unless the candidate says otherwise."""

    __slots__ = ("kind", "reference")

    def __init__(self, kind: str, reference: Any = None) -> None:
        """Take the name of its type, for the report, and what the candidate knows it by."""
        self.kind = kind
        self.reference = reference

    def __repr__(self) -> str:
        return f"<an object of type {self.kind}>"


def equal(result: Any, expected: Any) -> bool:
    """Say what `result == expected` says in Python; arrays are equal if their shapes and all their elements are."""
    if _is_array(result) or _is_array(expected):
        return _equal_arrays(result, expected)
    try:
        return bool(result == expected)
    except ValueError:  # an array inside, whose truth is ambiguous
        return _equal_inside(result, expected)
    except (ArithmeticError, RecursionError, TypeError):  # a signalling NaN; an array inside a set
        return False


def identical(result: Any, expected: Any) -> bool:
    """Say what `result is expected` means for a constant: the same type and the same value; nothing else is."""
    if isinstance(expected, _SINGLE):
        return result is expected
    return type(result) is type(expected) and isinstance(expected, int | str) and bool(result == expected)


def close(result: Any, expected: Any, relative: float, absolute: float) -> bool:
    """Say whether numbers differ by at most `relative` of the larger or by `absolute`, inside containers too.

    As `math.isclose`, but a NaN that is expected is met by a NaN. A list, a tuple and an array stand for each other.
    """
    try:
        return _close(result, expected, relative, absolute)
    except (ArithmeticError, RecursionError, TypeError, ValueError):
        return False


RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "equal": equal,
    "not_equal": lambda result, expected: not equal(result, expected),
    "identical": identical,
    "not_identical": lambda result, expected: not identical(result, expected),
    "true": lambda result, _: _truth(result) is True,
    "false": lambda result, _: _truth(result) is False,
}


def holds(relation: str, result: Any, expected: Any, relative: float = 0.0, absolute: float = 0.0) -> bool:
    """Say whether a relation of `jobs.Call` holds; raises KeyError for one that there is not."""
    if relation == "close":
        return close(result, expected, relative, absolute)
    return RELATIONS[relation](result, expected)


def _truth(value: Any) -> bool | None:
    try:
        return bool(value)
    except ValueError:  # an array of several elements
        return None


def _is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"


def _equal_arrays(result: Any, expected: Any) -> bool:
    import numpy as np

    if not (_is_array(result) and _is_array(expected)):
        # Python would ask for the truth of an array of comparisons, which only one of a single element has.
        array, other = (result, expected) if _is_array(result) else (expected, result)
        return bool(
            array.size == 1 and not isinstance(other, Foreign) and _equal_inside(array.ravel().tolist(), [other])
        )
    if result.shape != expected.shape:
        return False
    if result.dtype.kind == "O" or expected.dtype.kind == "O":
        return _equal_inside(result.ravel().tolist(), expected.ravel().tolist())
    return bool(np.array_equal(result, expected))


def _equal_inside(result: Any, expected: Any) -> bool:
    """Compare containers that hold arrays."""
    if type(result) is not type(expected):
        return False
    if isinstance(expected, list | tuple):
        return len(result) == len(expected) and all(map(equal, result, expected))
    if isinstance(expected, dict):
        return result.keys() == expected.keys() and all(equal(result[key], expected[key]) for key in expected)
    return equal(result, expected) if _is_array(expected) or not isinstance(expected, set | frozenset) else False


def _close(result: Any, expected: Any, relative: float, absolute: float) -> bool:
    if _is_array(expected) or _is_array(result):
        if _is_array(expected) and _is_array(result) and result.shape != expected.shape:
            return False
        return _close(_listed(result), _listed(expected), relative, absolute)
    if isinstance(expected, dict):
        return (
            isinstance(result, dict)
            and result.keys() == expected.keys()
            and all(_close(result[key], expected[key], relative, absolute) for key in expected)
        )
    if isinstance(expected, list | tuple):
        return (
            isinstance(result, list | tuple)
            and len(result) == len(expected)
            and all(_close(left, right, relative, absolute) for left, right in zip(result, expected, strict=True))
        )
    left, right = _number(result), _number(expected)
    if left is None or right is None:
        return equal(result, expected)
    return _close_numbers(left, right, relative, absolute)


def _close_numbers(left: Any, right: Any, relative: float, absolute: float) -> bool:
    if left == right or (left != left and right != right):  # noqa: PLR0124  NaN
        return True
    try:
        difference, size = abs(left - right), max(abs(left), abs(right))
        if math.isinf(size):
            return False
        return bool(difference <= absolute or difference <= relative * size)
    except OverflowError:  # an integer larger than any float
        left, right = Fraction(left), Fraction(right)
        size = max(abs(left), abs(right))
        return bool(abs(left - right) <= max(Fraction(absolute), Fraction(relative) * size))


def _number(value: Any) -> Any:
    """Return a number as one that mixes with the others; None for what is no number."""
    if isinstance(value, _NUMBERS):
        return value
    kind = type(value)
    if kind is Fraction or kind.__name__ == "Decimal":
        return float(value)
    if kind.__module__ == "numpy" and getattr(getattr(value, "dtype", None), "kind", "") in "biufc":
        return value.item() if value.dtype.itemsize <= _LARGEST_ITEM else complex(value)
    return None


def _listed(value: Any) -> Any:
    return value.tolist() if _is_array(value) else value
