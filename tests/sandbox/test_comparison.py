"""Comparison: what equal, identical, true and close mean between a result and what is expected."""

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from llm_finetuning.sandbox.box import comparison


@pytest.mark.parametrize(
    ("result", "relation", "expected", "holds"),
    [
        (1, "equal", True, True),
        (1.0, "equal", 1, True),
        ([1, (2,)], "equal", [1, (2,)], True),
        ([1], "equal", (1,), False),
        (Decimal("1.0"), "equal", 1, True),
        (math.nan, "equal", math.nan, False),
        ("a", "not_equal", "b", True),
        (None, "identical", None, True),
        (0, "identical", False, False),
        (1, "identical", True, False),
        (1, "identical", 1, True),
        ([], "identical", [], False),
        (False, "not_identical", None, True),
        ([0], "true", None, True),
        ([], "true", None, False),
        ("", "false", None, True),
        (np.array([1, 2]), "true", None, False),
        (np.array([1, 2]), "equal", np.array([1, 2]), True),
        (np.array([1, 2]), "equal", np.array([[1, 2]]), False),
        (np.array([1, 2]), "equal", [1, 2], False),
        (np.array([3]), "equal", 3, True),
        (np.array([1, None]), "equal", np.array([[1, None]]), False),
        (np.array([1, None]), "equal", np.array([1, None]), True),
        ([np.array([1, 2])], "equal", [np.array([1, 2])], True),
        ([np.array([1, 2])], "equal", [np.array([1, 3])], False),
        ({"a": np.array([1])}, "equal", {"a": np.array([1])}, True),
        (np.float64(0.5), "equal", 0.5, True),
    ],
    ids=str,
)
def test_relations_say_what_python_says(result: Any, relation: str, expected: Any, holds: bool) -> None:
    """On plain values; an array is compared whole."""
    assert comparison.holds(relation, result, expected) is holds


@pytest.mark.parametrize(
    ("result", "expected", "relative", "absolute", "holds"),
    [
        (1.05, 1.0, 0.0, 0.1, True),
        (1.15, 1.0, 0.0, 0.1, False),
        (110, 100, 0.1, 0.0, True),
        (120, 100, 0.1, 0.0, False),
        ([1.0, {"a": (2.0,)}], [1.0, {"a": [2.0 + 1e-9]}], 1e-6, 0.0, True),
        ([1.0], [1.0, 1.0], 1.0, 1.0, False),
        (np.array([1.0, 2.0]), [1.0, 2.0 + 1e-9], 1e-6, 0.0, True),
        (np.zeros((1, 2)), np.zeros(2), 1.0, 1.0, False),
        (math.nan, math.nan, 0.0, 0.0, True),
        (math.nan, 1.0, 1.0, 1e9, False),
        (1.0, math.nan, 1.0, 1e9, False),
        (math.inf, math.inf, 0.0, 0.0, True),
        (math.inf, 1.0, 1.0, 1e300, False),
        (10**400, 10**400 + 1, 1e-9, 0.0, True),
        (10**400, 1.5, 1e-9, 0.0, False),
        (Decimal("0.1"), 0.1, 0.0, 1e-12, True),
        (1 + 1j, 1 + 1.05j, 0.0, 0.1, True),
        ("1.0", 1.0, 1.0, 1.0, False),
        ("a", "a", 0.0, 0.0, True),
        (None, 0.0, 1.0, 1.0, False),
        (comparison.Foreign("E"), 20.0, 1.0, 1e9, False),
    ],
    ids=str,
)
def test_close_is_near(result: Any, expected: Any, relative: float, absolute: float, holds: bool) -> None:
    """By either tolerance, inside containers too; what is no number is compared exactly."""
    assert comparison.close(result, expected, relative, absolute) is holds
