"""Tests of a data set are read as what they are, strongest mode first, and never run while they are read."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.sandbox.jobs import Calls, Exchanges, Suite
from llm_finetuning.sandbox.literals import NotLiteral, value_of
from llm_finetuning.sandbox.tasks import Unreadable, read_tests

UNITTEST = """\
import unittest
from solution import f
class T(unittest.TestCase):
    def test_a(self):
        self.assertEqual(f(1), 2)
if __name__ == '__main__':
    unittest.main()
"""
UNITTEST_WITH_SETUP = """\
import unittest
class T(unittest.TestCase):
    def setUp(self): self.x = f
    def test_b(self): self.assertIn(1, self.x(2))
    def test_a(self): pass
"""

CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "equal": ("assert f([1, 2]) == -3", {"function": "f", "arguments": [[1, 2]], "expected": -3, "relation": "equal"}),
    "literal first": ("assert (1, 'a') == f(k={'b': None})", {"keywords": {"k": {"b": None}}, "expected": (1, "a")}),
    "not equal": ("assert f(1) != {1, 2}", {"relation": "not_equal", "expected": {1, 2}}),
    "not of equal": ("assert not f(1) == 2", {"relation": "not_equal", "expected": 2}),
    "is None": ("assert f(1) is None", {"relation": "identical", "expected": None}),
    "is not True": ("assert f(1) is not True", {"relation": "not_identical", "expected": True}),
    "truth": ("assert f(1), 'message'", {"relation": "true"}),
    "not": ("assert not f(1)", {"relation": "false"}),
    "near": ("assert abs(f(2) - 1.5) <= 1e-3", {"relation": "close", "expected": 1.5, "absolute_tolerance": 1e-3}),
    "near, turned": ("assert 0.25 >= abs(2 - f(2))", {"relation": "close", "expected": 2, "absolute_tolerance": 0.25}),
    "isclose": (
        "import math\nassert math.isclose(f(1), 2.0, rel_tol=1e-3)",
        {"relation": "close", "expected": 2.0, "relative_tolerance": 1e-3, "absolute_tolerance": 0.0},
    ),
    "arithmetic": (
        "assert f(10**9 + 7, [0] * 3, 'ab' * 2) == -1 // 2",
        {"arguments": [10**9 + 7, [0] * 3, "abab"], "expected": -1},
    ),
    "empty set": ("assert f(set()) == float('inf')", {"arguments": [set()], "expected": float("inf")}),
    "a builtin's name": ("assert sum(10, 15) == 6", {"function": "sum", "arguments": [10, 15]}),
    "test function": ("def test_a():\n    '''words'''\n    assert f(1) == 2", {"function": "f", "expected": 2}),
    "unittest": (
        UNITTEST,
        {"function": "f", "arguments": [1], "expected": 2, "relation": "equal"},
    ),
    "an unknown module": ("from my_code import f as g\nassert g(1) == 2", {"function": "f", "expected": 2}),
    "JSON text of a list": ('["assert f(1) == 2"]', {"arguments": [1], "expected": 2}),
    "Python text of a list": ("['assert f(1) == 2']", {"arguments": [1], "expected": 2}),
    "APPS with a function": (
        {"fn_name": "f", "inputs": [[1, 2], [2, 3]], "outputs": [[3], [5]]},
        {"function": "f", "arguments": [1, 2], "expected": 3},
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_plain_assertions_become_calls(name: str) -> None:
    """The judge can compare them itself, so no test code has to run."""
    cell, expected = CALLS[name]
    tests = read_tests(cell).tests
    assert isinstance(tests, Calls)
    assert {key: getattr(tests.calls[0], key) for key in expected} == expected


def test_a_strict_tolerance_excludes_its_bound() -> None:
    """`abs(f(x) - 1) < 0.5` does not hold at 0.5."""
    for source in ("assert abs(f(2) - 1) < 0.5", "assert 0.5 > abs(1 - f(2))"):
        tests = read_tests(source).tests
        assert isinstance(tests, Calls)
        assert 0.4999999 < tests.calls[0].absolute_tolerance < 0.5


SUITES = {
    "a function of the result": ("assert set(f(1)) == {1}", (), ("f",)),
    "two candidates in one": ("assert f(g(1)) == 2", (), ("f", "g")),
    "a constant": ("LIMIT = 3\nassert f(LIMIT) == 3", (), ("f",)),
    "a variable": ("x = [3]\nassert f(x) == 3\nassert x == [3]", (), ("f",)),
    "a lambda": ("assert f(lambda x: x) == 3", (), ("f",)),
    "one list three times": ("assert f([[0]] * 3) == 0", (), ("f",)),
    "a value too large to compute": ("assert f(9**9**9) == 1", (), ("f",)),
    "star": ("from math import *\nassert f(pi) == sqrt(2)", (), ("f",)),
    "is a number": ("assert f(1) is 5", (), ("f",)),
    "a loop": ("for i in range(3):\n    assert f(i) == i", (), ("f",)),
    "a module of the candidate": ("import solution as s\nassert s.f(1) == 2", (), ("f",)),
    "pytest": ("import pytest\n@pytest.mark.parametrize('x', [1])\ndef test_a(x): assert f(x)", ("test_a",), ("f",)),
    "a test that is called": ("def test(g, x):\n    assert g(x) == x\ntest(f, 1)\ntest(f, 2)", (), ("f",)),
    "a class": ("s = Stack()\ns.push(1)\nassert len(s) == 1", (), ("Stack",)),
    "test functions": (
        "def test_a():\n x = f(1)\n assert x\ndef test_b():\n assert f(2)",
        ("test_a", "test_b"),
        ("f",),
    ),
    "unittest": (
        UNITTEST_WITH_SETUP,
        ("T.test_b", "T.test_a"),
        ("f",),
    ),
}


@pytest.mark.parametrize("name", SUITES)
def test_other_test_code_becomes_a_suite(name: str) -> None:
    """One assertion that needs its code run takes the whole text with it; what it takes from the candidate is named."""
    source, names, entry_points = SUITES[name]
    reading = read_tests(source)
    assert isinstance(reading.tests, Suite)
    assert (reading.tests.names, reading.tests.entry_points) == (names, entry_points)
    assert reading.note


def test_the_note_says_which_line_needs_a_suite() -> None:
    """A data set's author can see what would make it stronger."""
    assert read_tests("assert f(1) == 2\nassert sorted(f(2)) == [1]").note.startswith("line 2: ")


HUMAN_EVAL = (
    "METADATA = {'author': 'x'}\n\ndef check(candidate):\n    assert candidate(1) == 2, 'one'\n    assert True\n"
)


def test_human_eval_checks() -> None:
    """The body of `check` becomes calls of the entry point; with a loop it is run, called with the candidate."""
    tests = read_tests(HUMAN_EVAL, entry_point="g").tests
    assert isinstance(tests, Calls)
    assert [(call.function, call.arguments, call.expected) for call in tests.calls] == [("g", [1], 2)]

    looped = (
        "def check(candidate):\n    for i in range(3):\n        assert candidate(encode(i)) == i\n\ncheck(decode)\n"
    )
    tests = read_tests(looped).tests
    assert isinstance(tests, Suite)
    assert (tests.names, tests.entry_points) == (("test_check",), ("decode", "encode"))
    assert tests.source.count("check(decode)") == 1

    assert isinstance(read_tests(HUMAN_EVAL, entry_point="g", as_suite=True).tests, Suite)


PAIRS: dict[str, Any] = {
    "columns": {"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]},
    "rows": [{"input": "1 2\n", "output": "3\n"}, {"input": "3 4\n", "output": "7\n"}],
    "lines": {"inputs": [["1 2"], ["3 4"]], "outputs": [["3"], ["7"]]},
    "CodeContests": {"input": ["1 2\n", "3 4\n"], "output": ["3\n", "7\n"]},
}


@pytest.mark.parametrize("as_text", [False, True], ids=["data", "JSON"])
@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_texts_are_programs_that_read_and_print(name: str, as_text: bool) -> None:
    """All spellings of input and output give the same exchanges."""
    tests = read_tests(json.dumps(PAIRS[name]) if as_text else PAIRS[name]).tests
    assert isinstance(tests, Exchanges)
    assert [(pair.stdin, pair.stdout) for pair in tests.exchanges] == [("1 2\n", "3\n"), ("3 4\n", "7\n")]


def test_live_code_bench_calls() -> None:
    """Each line is an argument; a method is called on a fresh object, a function as it is."""
    cell = [{"input": "[1, 2]\n3", "output": "[5]", "testtype": "functional"}]
    tests = read_tests(cell, entry_point="Solution.two_sum").tests
    assert isinstance(tests, Suite)
    assert tests.source == "assert Solution().two_sum([1, 2], 3) == [5]\n"
    tests = read_tests(cell, entry_point="two_sum").tests
    assert isinstance(tests, Calls)
    assert (tests.calls[0].arguments, tests.calls[0].expected) == ([[1, 2], 3], [5])


UNREADABLE: dict[str, tuple[Any, str, int | None]] = {
    "nothing": (None, "no test at all", None),
    "empty": ("", "no test at all", None),
    "blank": (" \n", "no test at all", None),
    "an empty list": ([], "no test at all", None),
    "a number": (5, "a int where", None),
    "mixed": (["assert f(1)", 3], "a list of mixed parts", None),
    "syntax": ("assert f(1) == 2\nassert f(", "does not parse", 2),
    "null byte": ("assert f(1)\0", "does not parse", None),
    "too deep": ("assert f(" + "-" * 100_000 + "1)", "does not parse", None),
    "prose": ("All tests passed", "does not parse", 1),
    "no assertion": ("f(1)", "no assertion", None),
    "never the candidate": ("assert len([1]) == 1", "never uses the candidate", None),
    "its own function": ("def f(x): return x\nassert f(1) == 1", "never uses the candidate", None),
    "a package that is not there": ("x = 1\nimport pandas as pd\nassert f(1)", "imports `pandas`", 2),
    "another package's names": ("from pandas import DataFrame as D\nassert f(D())", "imports `pandas`", 1),
    "a fixture": ("import json\ndef test_a(tmp_path):\n    x = 1\n    assert f(x)", "takes arguments", 2),
    "check without a name": ("def check(candidate):\n    assert candidate(1)", "entry_point_column", 1),
    "inputs without outputs": ({"inputs": ["1"], "outputs": []}, "1 inputs and 0 outputs", None),
    "no pair": ({"inputs": [], "outputs": []}, "no pair", None),
    "arguments without a function": ({"inputs": [[1]], "outputs": [2]}, "fn_name", None),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_test_is_the_data_sets_fault(name: str) -> None:
    """Reason and line are told, and nobody is paid or punished for it."""
    cell, words, line = UNREADABLE[name]
    with pytest.raises(Unreadable, match=words) as caught:
        read_tests(cell)
    assert line is None or caught.value.line == line


def test_reading_runs_nothing(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of the data set leaves no trace on the host, be it an import, an argument or a decorator."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "solution.py").write_text("open('ran', 'w')", "utf-8")
    write = "__import__('pathlib').Path('ran').touch()"
    for source in (
        f"import solution\n{write}\nassert f(1) == {write}",
        f"from solution import *\n@{write}\ndef test_a(x={write}):\n    assert f({write})",
    ):
        read_tests(source)
    assert [path.name for path in tmp_path.iterdir()] == ["solution.py"]


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner)
        | st.sets(st.integers(), max_size=1)
    ),
    max_leaves=12,
)


@given(plain)
def test_literals_are_read_as_python_reads_them(value: Any) -> None:
    """The text of a plain value gives the value back, type for type."""
    tests = read_tests(f"assert f({value!r}) == {value!r}".replace("inf", "float('inf')")).tests
    if "inf" in repr(value):
        return  # a text may hold the letters
    assert isinstance(tests, Calls)
    assert repr(tests.calls[0].expected) == repr(value)
    assert repr(tests.calls[0].arguments[0]) == repr(value)


@given(st.recursive(st.integers(-50, 50), lambda inner: st.tuples(inner, st.sampled_from("+-*/%&|^"), inner)))
def test_arithmetic_is_pythons(tree: Any) -> None:
    """Folding a text of operations gives what Python computes, or leaves it to be run."""
    import ast

    def text_of(node: Any) -> str:
        return f"({node})" if isinstance(node, int) else f"({text_of(node[0])} {node[1]} {text_of(node[2])})"

    source = text_of(tree)
    try:
        value = value_of(ast.parse(source, mode="eval").body)
    except NotLiteral:
        return
    assert value == eval(source)  # noqa: S307  numbers and operators alone
