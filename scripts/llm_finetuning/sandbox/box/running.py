"""How the tests of a suite are run, each to its own verdict, and told to the judge."""

import ast
import builtins
import functools
import inspect
import socket
import traceback
import unittest
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from llm_finetuning.sandbox.box import faults, frames, scope
from llm_finetuning.sandbox.box.peer import Ended

FILE = "tests.py"
_MAX_DETAIL = 500

Namespace = Callable[[Any, str, ast.Module, Sequence[str]], tuple[dict[str, Any], set[str]]]


class Runner:
    """Runs the tests of a suite; sends for each `["test", index, held, detail, raised]`, and `["end", ...]` last."""

    def __init__(self, channel: socket.socket, tester: Any, namespace: Namespace) -> None:
        """Take the channel to the judge, the end of the conversation, and what makes the tests' globals."""
        self._channel = channel
        self._tester = tester
        self._namespace = namespace
        self._globals: dict[str, Any] = {}
        self._unknown: set[str] = set()
        self._source = ""

    def run(self, source: str, names: Sequence[str], entry_points: Sequence[str]) -> None:
        """Run all tests and say so; what is wrong with the tests themselves is told as a fault of theirs."""
        self._source = source
        fault = ""
        try:
            tree = ast.parse(source, FILE)
            if self._prepare(tree, entry_points):
                if names:
                    self._run_named(tree, names)
                else:
                    self._run_statements(tree)
        except (SyntaxError, ValueError, RecursionError) as error:
            fault = f"{type(error).__name__}: {error}"
        ended = self._tester.ended
        told = None if ended is None else [ended.forged, ended.reason]
        fault = fault or self._tester.fault
        frames.send(self._channel, ["end", self._tester.calls, self._tester.missing[:5], told, fault[:_MAX_DETAIL]])

    def _prepare(self, tree: ast.Module, entry_points: Sequence[str]) -> bool:
        try:
            self._globals, self._unknown = self._namespace(self._tester, self._source, tree, entry_points)
        except Ended:
            return False
        return True

    def _run_statements(self, tree: ast.Module) -> None:
        index, stopped = 0, ""
        for statements, asserts in scope.groups(tree):
            error = None if stopped else self._execute(_compiled(statements))
            if asserts:
                self._tell(index, error, ast.unparse(statements[0]) if error is not None else "", stopped)
                index += 1
            elif error is not None:  # what the later tests build on is not there
                stopped = self._detail(error)
        if index == 0:
            self._tell(0, None, "", stopped)

    def _run_named(self, tree: ast.Module, names: Sequence[str]) -> None:
        error = self._execute(_compiled(tree.body))
        if error is not None:
            for index, name in enumerate(names):
                self._tell(index, error, name)
            return
        for index, name in enumerate(names):
            holder, _, method = name.rpartition(".")
            found = self._globals.get(holder or name)
            if found is None:
                self._tester.fault = self._tester.fault or f"no test `{name}` in the text"
            elif isinstance(found, type) and issubclass(found, unittest.TestCase):
                self._tell(index, _run_case(found, method), name)
            elif isinstance(found, type):
                self._tell(index, self._caught(functools.partial(_run_method, found, method)), name)
            else:
                self._tell(index, self._caught(functools.partial(_run_function, found)), name)

    def _execute(self, code: CodeType) -> BaseException | None:
        return self._caught(lambda: exec(code, self._globals))  # noqa: S102  what this process is for

    @staticmethod
    def _caught(run: Callable[[], Any]) -> BaseException | None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001  whatever it raises
            return error
        return None

    def _tell(self, index: int, error: BaseException | None, name: str, stopped: str = "") -> None:
        """Say whether a test held. One that hid the end of the conversation did not."""
        error = error if error is not None else self._tester.ended
        detail = stopped or ("" if error is None else self._detail(error))
        text = f"{name}: {detail}" if name and detail else detail or name
        raised = type(error).__name__ if error is not None and faults.origin_of(error) is not None else ""
        frames.send(self._channel, ["test", index, error is None and not stopped, text[:_MAX_DETAIL], raised])

    def _detail(self, error: BaseException) -> str:
        """Return what a test died of, in one line, and note a fault of the tests' own."""
        text = " ".join(faults.text_of(error).split())
        told = f"{type(error).__name__}: {text}" if text else type(error).__name__
        places = [place.lineno for place in traceback.extract_tb(error.__traceback__) if place.filename == FILE]
        told += f" (line {places[-1]} of the tests)" if places else ""
        if not isinstance(error, Ended) and faults.origin_of(error) is None and self._is_own_fault(error):
            self._tester.fault = self._tester.fault or told
        return told

    def _is_own_fault(self, error: BaseException) -> bool:
        if isinstance(error, NameError):
            return getattr(error, "name", None) in self._unknown
        if isinstance(error, ImportError):
            return not self._tester.missing
        return False


def _compiled(statements: Sequence[ast.stmt]) -> CodeType:
    return builtins.compile(ast.Module(list(statements), []), FILE, "exec", dont_inherit=True)


def _run_function(function: Any) -> None:
    for case in getattr(function, "test_cases", [{}]):
        result = function(**case)
        if inspect.iscoroutine(result):
            _run_coroutine(result)


def _run_method(kind: type, name: str) -> None:
    """Run a method of one of pytest's classes, with its set-up."""
    if hasattr(kind, "setup_class"):
        kind.setup_class()
    holder = kind()
    cases = getattr(getattr(holder, name), "test_cases", [{}])
    for case in cases:
        if hasattr(holder, "setup_method"):
            _with_method(holder.setup_method, getattr(holder, name))
        result = getattr(holder, name)(**case)
        if inspect.iscoroutine(result):
            _run_coroutine(result)
        if hasattr(holder, "teardown_method"):
            _with_method(holder.teardown_method, getattr(holder, name))


def _run_coroutine(coroutine: Any) -> None:
    import asyncio

    asyncio.run(coroutine)


def _with_method(fixture: Any, method: Any) -> None:
    if inspect.signature(fixture).parameters:
        fixture(method)
    else:
        fixture()


class _Result(unittest.TestResult):
    """Keeps the first reason for which a test did not pass; a skip and an expected failure are reasons."""

    reason: BaseException | None = None

    def _keep(self, _: Any, told: Any = "was expected to fail") -> None:
        error = told[1] if isinstance(told, tuple) else AssertionError(f"no pass: {told}")
        self.reason = self.reason or error

    def _keep_of_part(self, test: Any, _: Any, error: Any) -> None:
        if error is not None:
            self._keep(test, error)

    def _keep_expected(self, test: Any, _: Any) -> None:
        self._keep(test, "a failure that is expected")

    # The names are unittest's.
    addError: Any = _keep  # noqa: N815
    addFailure: Any = _keep  # noqa: N815
    addSkip: Any = _keep  # noqa: N815
    addUnexpectedSuccess: Any = _keep  # noqa: N815
    addSubTest: Any = _keep_of_part  # noqa: N815
    addExpectedFailure: Any = _keep_expected  # noqa: N815


def _run_case(kind: type[unittest.TestCase], method: str) -> BaseException | None:
    """Run one method by unittest itself, with the set-up of its class; return why it did not pass."""
    result = _Result()
    try:
        unittest.TestSuite([kind(method)]).run(result)
    except BaseException as error:  # noqa: BLE001  whatever it raises
        return error
    if result.reason is None and result.testsRun != 1:
        return AssertionError("did not run")
    return result.reason
