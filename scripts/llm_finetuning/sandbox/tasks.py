"""From a data set's cell to tests, strongest mode first, by reading it: nothing of it runs outside the sandbox.

Read are: assertions as a list of texts (MBPP's `test_list`) or one text, HumanEval's `check(candidate)`, test functions
as pytest knows them, `unittest` classes, pairs of input and output (APPS, TACO, LiveCodeBench, CodeContests), and
JSON or Python text of these. What every assertion of a text fits becomes `Calls`, which the judge compares itself; any
other test code becomes a `Suite`.
"""

import ast
import copy
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_finetuning.sandbox import names, pairs, suites
from llm_finetuning.sandbox.assertions import NotPlain, call_of, call_of_method, constant_true
from llm_finetuning.sandbox.jobs import Call, Calls, Suite, Tests
from llm_finetuning.sandbox.suites import Unreadable

__all__ = ["Reading", "Unreadable", "read_tests"]

_MAX_TEXT = 1 << 20  # characters of test code; a pair's texts may be longer
_CHECK_TEST = "test_check"


@dataclass(frozen=True, slots=True)
class Reading:
    """The tests of a cell, and why they are not of the strongest mode where they are not."""

    tests: Tests
    note: str = ""


def read_tests(
    cell: Any, *, entry_point: str | None = None, packages: Sequence[str] = ("numpy",), as_suite: bool = False
) -> Reading:
    """Return the tests that a cell holds.

    `entry_point` is the candidate's function where the cell does not say it; `packages` are the modules beside the
    standard library that tests may import; `as_suite` runs test code even where calls could be compared. Raises
    Unreadable, with the line where there is one, for a cell that holds no test, does not parse, imports what is not
    there, needs fixtures, or never uses the candidate.
    """
    data = _data_in(cell) if isinstance(cell, str) else None
    cell = cell if data is None else data
    if pairs.is_pairs(cell):
        return Reading(pairs.tests_of(cell, entry_point))
    if isinstance(cell, Sequence) and cell and all(isinstance(part, str) for part in cell):
        text = cell if isinstance(cell, str) else "\n".join(cell)
        return _read_code(text, entry_point, packages, as_suite=as_suite)
    if cell is None or cell in ("", [], {}, ()):
        raise Unreadable("no test at all")
    kind = "a list of mixed parts" if isinstance(cell, Sequence) else f"a {type(cell).__name__}"
    raise Unreadable(f"{kind} where test code or pairs of input and output are needed")


def _data_in(text: str) -> Any:
    """Return the JSON, or the Python list of texts, that a text is; None where it is code."""
    if not text.lstrip().startswith(("[", "{")):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        try:
            found = ast.literal_eval(text.strip()) if len(text) <= _MAX_TEXT else None
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return None
    return found if isinstance(found, list | dict) else None


def _read_code(text: str, entry_point: str | None, packages: Sequence[str], *, as_suite: bool) -> Reading:
    if not text.strip():
        raise Unreadable("no test at all")
    if len(text) > _MAX_TEXT:
        raise Unreadable(f"test code of {len(text)} characters; at most {_MAX_TEXT} are read")
    text, tree = suites.without_start(text, _parsed(text))
    found = names.undefined(text, tree)
    theirs = names.imported(tree, entry_point, found)
    missing = names.missing_module(tree, packages, theirs)
    if missing is not None:
        raise Unreadable(f"imports `{missing[1]}`, which is not in the sandbox", missing[0])
    check = suites.check_function(tree)
    if check is not None:
        text, tree, entry_point = _of_check(text, tree, check, entry_point)
    found |= {*theirs.names.values(), *names.taken_from(tree, theirs.modules)}
    entry_points = _entry_points(tree, entry_point, found)
    note = "asked for"
    if not as_suite:
        calls, note = _calls(tree, check, entry_points, entry_point, theirs)
        if calls:
            return Reading(Calls(calls))
    return Reading(_suite(text, tree, check, entry_point, entry_points), note)


def _parsed(text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in somebody's test is no news
            return ast.parse(text)
    except SyntaxError as error:
        raise Unreadable(f"does not parse: {error.msg}", error.lineno) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"does not parse: {error or type(error).__name__}") from None


def _of_check(
    text: str, tree: ast.Module, check: ast.FunctionDef, entry_point: str | None
) -> tuple[str, ast.Module, str]:
    """Return a text with `check` without its own call, and the name of the candidate."""
    call = suites.check_call(tree)
    if call is not None:
        assert isinstance(call.value, ast.Call)
        candidate = call.value.args[0]
        entry_point = entry_point or (candidate.id if isinstance(candidate, ast.Name) else None)
        lines = text.splitlines()
        lines[call.lineno - 1 : call.end_lineno] = [""]
        text = "\n".join(lines) + "\n"
        tree = _parsed(text)
    if entry_point is None:
        raise Unreadable("`check(candidate)` needs the name of the candidate: `entry_point_column`", check.lineno)
    return text, tree, entry_point


def _entry_points(tree: ast.Module, entry_point: str | None, found: set[str]) -> tuple[str, ...]:
    """Return the names that are the candidate's: those `found`, the declared one, or the one builtin that is tested."""
    if entry_point is not None and (suites.check_function(tree) is not None or names.uses(tree, entry_point)):
        found = {*found, entry_point.partition(".")[0]}
    elif not found:
        found = names.tested_builtins(tree)
    if not found:
        raise Unreadable("never uses the candidate: every name in it is its own or Python's")
    return tuple(sorted(found))


def _calls(
    tree: ast.Module,
    check: ast.FunctionDef | None,
    entry_points: Sequence[str],
    entry_point: str | None,
    theirs: names.Imported,
) -> tuple[list[Call], str]:
    """Return the calls that a text of assertions stands for, or none and why."""
    bound = names.bound(tree if check is None else _without(tree, check))
    functions = {name: name for name in entry_points if name not in bound} | theirs.names
    if check is not None:
        assert entry_point is not None
        tree = _inlined(tree, check, entry_point)
    plain = suites.assertions(tree)
    if plain is None:
        return [], "holds more than assertions"
    calls = []
    for assertion in plain:
        try:
            call = _call(assertion.node, functions)
        except NotPlain as reason:
            return [], f"line {assertion.node.lineno}: {reason}"
        calls += [call] if call is not None else []
    return calls, "" if calls else "no assertion that calls the candidate"


def _call(node: ast.Assert | ast.Call, functions: Mapping[str, str]) -> Call | None:
    if isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Attribute)
        if node.keywords:
            raise NotPlain(f"self.{node.func.attr} with keywords")
        return call_of_method(node.func.attr, node.args, functions)
    return None if constant_true(node.test) else call_of(node.test, functions)


def _without(tree: ast.Module, check: ast.FunctionDef) -> ast.Module:
    return ast.Module(body=[part for part in tree.body if part.lineno != check.lineno], type_ignores=[])


def _inlined(tree: ast.Module, check: ast.FunctionDef, entry_point: str) -> ast.Module:
    """Return a text in which the body of `check` stands as statements of its own, the candidate by its name."""
    parameter = check.args.args[0].arg

    class Named(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.Name:
            return ast.copy_location(ast.Name(entry_point, node.ctx), node) if node.id == parameter else node

    # A copy, since the transformer changes what it visits.
    body = [Named().visit(statement) for statement in copy.deepcopy(check.body)]
    return ast.Module(body=[*_without(tree, check).body, *body], type_ignores=[])


def _suite(
    text: str, tree: ast.Module, check: ast.FunctionDef | None, entry_point: str | None, entry_points: Sequence[str]
) -> Suite:
    if check is not None:
        source = f"{text}\n\ndef {_CHECK_TEST}():\n    {suites.CHECK}({entry_point})\n"
        return Suite(source=source, names=(_CHECK_TEST,), entry_points=entry_points)
    found = suites.test_names(tree)
    if not found and not suites.asserting(tree):
        raise Unreadable("no assertion, no test function and no test class in it")
    return Suite(source=text, names=tuple(found), entry_points=entry_points)
