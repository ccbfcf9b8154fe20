"""What tests take from pytest, as far as they can without its runner: `raises`, `approx`, `mark`, `skip`, `fail`."""

import contextlib
import importlib
import itertools
import re
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from llm_finetuning.sandbox.box import comparison

_RELATIVE, _ABSOLUTE = 1e-6, 1e-12  # pytest's own


class Skipped(Exception):  # noqa: N818  it is what happened
    """A test that skips itself did not pass."""


class Failed(AssertionError):  # noqa: N818  it is what happened
    """A test that says itself that it failed."""


class _Raised:
    """What `raises` gives: the exception, once it is there."""

    value: Any = None

    @property
    def type(self) -> Any:
        return type(self.value)

    def match(self, pattern: str) -> bool:
        if re.search(pattern, str(self.value)) is None:
            raise Failed(f"{pattern!r} does not match {str(self.value)[:200]!r}")
        return True


@contextlib.contextmanager
def _raising(expected: Any, match: str | None) -> Iterator[_Raised]:
    raised = _Raised()
    try:
        yield raised
    except expected as error:
        raised.value = error
    else:
        raise Failed(f"did not raise {expected}")
    if match is not None:
        raised.match(match)


def raises(expected: Any, *args: Any, match: str | None = None, **kwargs: Any) -> Any:
    """Expect an exception, around a block or of a call."""
    if not args:
        return _raising(expected, match)
    with _raising(expected, match) as raised:
        args[0](*args[1:], **kwargs)
    return raised


class approx:  # noqa: N801  pytest's name
    """A number, or a container of numbers, that another is near to."""

    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # an array leaves the comparison to this side
    __array_priority__ = 100

    def __init__(
        self,
        expected: Any,
        rel: float | None = None,
        abs: float | None = None,  # noqa: A002  pytest's own names
        nan_ok: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Take what is expected, and how far from it is near."""
        self._expected = expected
        self._absolute = _ABSOLUTE if abs is None else abs
        self._relative = rel if rel is not None else (_RELATIVE if abs is None else 0.0)
        self._nan_ok = nan_ok

    def __eq__(self, other: object) -> bool:
        nan = isinstance(self._expected, float) and self._expected != self._expected
        if nan and not self._nan_ok:
            return False
        return comparison.close(other, self._expected, self._relative, self._absolute)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __repr__(self) -> str:
        return f"approx({self._expected!r})"


class _Mark:
    """`pytest.mark`: parameters are run, a skip is no pass, everything else changes nothing."""

    @staticmethod
    def parametrize(names: str | Sequence[str], values: Sequence[Any], **_: Any) -> Callable[[Any], Any]:
        listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        cases = [_case(listed, value) for value in values]

        def decorate(function: Any) -> Any:
            before = getattr(function, "test_cases", [{}])
            function.test_cases = [{**case, **other} for case, other in itertools.product(cases, before)]
            return function

        return decorate

    @staticmethod
    def skip(function: Any = None, *, reason: str = "") -> Any:
        return _skipping(reason) if function is None or isinstance(function, str) else _skipping(reason)(function)

    @staticmethod
    def skipif(condition: Any, *, reason: str = "") -> Callable[[Any], Any]:
        return _skipping(reason) if condition else _unchanged

    def __getattr__(self, name: str) -> Any:
        def marker(*args: Any, **_: Any) -> Any:
            return args[0] if len(args) == 1 and callable(args[0]) else _unchanged

        return marker


def _unchanged(function: Any) -> Any:
    return function


def _skipping(reason: str) -> Callable[[Any], Any]:
    def decorate(_: Any) -> Any:
        def skipped(*_: Any, **__: Any) -> None:
            raise Skipped(reason)

        return skipped

    return decorate


def _case(names: list[str], value: Any) -> dict[str, Any]:
    values = value.values if isinstance(value, _Param) else [value] if len(names) == 1 else list(value)
    return dict(zip(names, values, strict=True))


class _Param:
    def __init__(self, *values: Any, **_: Any) -> None:
        self.values = values


def skip(reason: str = "", **_: Any) -> None:
    """Leave the test, which then did not pass."""
    raise Skipped(reason)


def fail(reason: str = "", **_: Any) -> None:
    """Fail the test."""
    raise Failed(reason)


def importorskip(name: str, *_: Any, **__: Any) -> Any:
    """Import a module, or leave the test."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Skipped(str(error)) from None


@contextlib.contextmanager
def warns(expected: Any = Warning, match: str | None = None) -> Iterator[Any]:
    """Expect a warning of the test's own process."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught
    if not any(issubclass(one.category, expected) and re.search(match or "", str(one.message)) for one in caught):
        raise Failed(f"no warning {expected}")


def module() -> types.ModuleType:
    """Return a module `pytest` that has these names."""
    made = types.ModuleType("pytest")
    vars(made).update(raises=raises, approx=approx, mark=_Mark(), param=_Param, skip=skip, fail=fail, warns=warns)
    vars(made).update(importorskip=importorskip, deprecated_call=lambda: warns(DeprecationWarning))
    return made
