"""Tests that a program passes which does nothing are found before they are paid for."""

from collections.abc import Iterator
from typing import Any

import pytest

from llm_finetuning.sandbox import shared
from llm_finetuning.sandbox.pool import Pool
from llm_finetuning.sandbox.strength import lint
from llm_finetuning.sandbox.tasks import read_tests


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    yield shared.pool_for(shared.PoolSettings(workers=2))
    shared.close_all()


ROWS: dict[str, tuple[Any, set[str]]] = {
    "plain": ("assert f(2) == 4", set()),
    "only true": ("assert f(2)", {"always_equal"}),
    "only None": ("assert f(2) is None", {"stub"}),
    "only false": ("assert not f(2)", {"stub"}),
    "only a call": ("def test_a():\n    x = f(2)\n    assert True", {"stub", "always_equal"}),
    "unequal": ("assert f(2) != 4", {"stub", "always_equal"}),
    "one strong among weak": ("assert f(2)\nassert f(3) == 9", set()),
    "a projection": ("assert sorted(f(2)) == [1]", set()),
    "nothing printed": ({"inputs": ["1"], "outputs": [""]}, {"silent"}),
    "echo": ({"inputs": ["1\n"], "outputs": ["1"]}, {"echo"}),
    "pairs": ({"inputs": ["1\n"], "outputs": ["2"]}, set()),
}


def test_cheats_show_weak_tests(pool: Pool) -> None:
    """Each row names the cheats that pass it; a strong one names none."""
    found = lint([read_tests(cell).tests for cell, _ in ROWS.values()], pool)
    assert {name: set(one.passed_by) for name, one in zip(ROWS, found, strict=True)} == {
        name: expected for name, (_, expected) in ROWS.items()
    }
    assert all(one.tried == 2 for one in found)
    assert [one.weak for one in found] == [bool(expected) for _, expected in ROWS.values()]
