"""The process that runs a data set's test code: the candidate's names are stand-ins that call over to it.

It shares nothing with the candidate but the stream, and tells the judge on a channel of its own which tests held and
that it came to the end. What it asks of the candidate is in `proxies`; what it does for the candidate is `perform`:
it calls functions that the tests handed over, and serves objects of the tests' own classes by their public names.
"""

import ast
import builtins
import contextlib
import io
import os
import random
import re
import socket
import sys
import threading
import types
import unittest
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llm_finetuning.sandbox.box import frames, proxies, pytest_shim, scope
from llm_finetuning.sandbox.box.peer import (
    REPLACE,
    WISH_PRINTED,
    WISH_RESTORE,
    Ended,
    Missing,
    Peer,
    Uncrossable,
    new_token,
    picture,
    refill,
    send,
)
from llm_finetuning.sandbox.box.running import Runner
from llm_finetuning.sandbox.box.values import Encoder, Malformed, Refused

MODULE = "tests"
_ANSWERED = 6  # parts of an answer
_REPLACED = ("SystemExit", "KeyboardInterrupt", "GeneratorExit")
_UNCOUNTED = frozenset(("find", "refill", "reduce", "names", "isinstance", "issubclass", "copy", "deepcopy"))
_HANDED_BY_NAME = frozenset(
    (abs, all, any, bin, callable, chr, divmod, hash, hex, len, max, min, oct, ord, pow, repr, round, sorted, sum)
)
_SERVED_SPECIALS = frozenset(
    "__len__ __bool__ __getitem__ __setitem__ __delitem__ __contains__ __str__ __repr__ __format__ __hash__ __eq__ "  # noqa: SIM905  words read best so
    "__ne__ __lt__ __le__ __gt__ __ge__ __enter__ __exit__ __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ "
    "__truediv__ __int__ __float__ __index__ __neg__ __abs__ __reversed__".split()
)
_KEPT_OF_MOCKS = ("assert", "call", "mock", "method_calls", "reset", "return_value", "side_effect", "configure")
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_TOLD_OF_FUNCTIONS = frozenset(("__name__", "__qualname__", "__doc__"))
_SERVED_LIBRARY = frozenset((io.StringIO, io.BytesIO, random.Random, re.Pattern, re.Match, types.SimpleNamespace))
_LONG = 1 << 16  # characters of a text
_MOST_LENT = 15
_REFERENCES = ("h", "H", "o", "y", "e")  # tags of what is nothing but a reference
_SMALL = (type(None), bool, int, float)


@dataclass(slots=True)
class _Lent:
    """A container of the candidate's that the tests hold a copy of; what they do to the copy is done to it too."""

    owner: Any  # None for one at the top level
    name: str
    value: Any
    picture: str


class Tester(Peer):
    """The tests' end: it asks, and does for the candidate only what `perform` says."""

    guarded = True

    def __init__(self, rpc: socket.socket, judge: socket.socket) -> None:
        """Take the streams to the candidate and to the judge."""
        super().__init__(rpc)
        self.calls = 0
        self._judge = judge
        self.missing: list[str] = []
        self.fault = ""  # of the tests themselves
        self.ended: Ended | None = None
        self._number = 0
        self._named: set[int] = set()
        self._lent: list[_Lent] = []
        self._level = 0  # of requests that are open
        self._given = False  # whether the tests hold anything of the candidate's that may be deep or large
        self._turn = threading.RLock()
        self._stdout = sys.stdout

    def ask(self, op: str, *args: Any) -> Any:
        """Have the candidate do something; raises what it raised, or Ended once it is gone."""
        with self._turn:
            if self.ended is not None:
                raise self.ended
            try:
                self._give_back()
                value = self._ask(op, args)
                self._take_again(op)
            except Ended as ended:
                self.ended = ended
                raise
            except Malformed as reason:
                self.ended = Ended(f"answered with {reason}", forged=True)
                raise self.ended from None
            except Missing as missing:
                self.missing.append(str(missing))
                raise NameError(f"the program defines no `{missing}`", name=str(missing)) from None
            return value

    def _lend(self, owner: Any, name: str, value: Any) -> None:
        if type(value) in REPLACE:
            told = picture((value,))
            if told and len(told) <= _LONG:
                self._lent = [*self._lent[-_MOST_LENT:], _Lent(owner, name, value, told)]

    def _give_back(self) -> None:
        """Have the candidate's containers hold what the tests made of their copies."""
        if self._level:
            return
        for lent in self._lent:
            now = picture((lent.value,))
            if now != lent.picture:
                lent.picture = now
                self._ask("refill", (lent.owner, lent.name, lent.value))

    def _take_again(self, op: str) -> None:
        """Have the copies of containers at the candidate's top level hold what it made of them."""
        lent = [one for one in self._lent if one.owner is None]
        if not lent or self._level or op in _UNCOUNTED:
            return
        for one, (has, value) in zip(lent, self._look_up([one.name for one in lent]), strict=True):
            if has is True:
                refill(one.value, value)
                one.picture = picture((one.value,))

    def _ask(self, op: str, args: tuple[Any, ...]) -> Any:
        self._number += 1
        number, token = self._number, new_token()
        encoder = Encoder(self.refer)
        wishes = WISH_RESTORE if sys.stdout is self._stdout else WISH_RESTORE | WISH_PRINTED
        try:
            send(self.channel, [number, token, op, encoder.encode(args), wishes])
        except (Refused, ValueError) as reason:
            if self._given:  # it may be made of what the candidate gave, which is then what is wrong with it
                raise Uncrossable(f"an argument cannot be handed to the program: {reason}") from None
            self.fault = f"an argument cannot be handed to the candidate: {reason}"
            raise
        waits = not self.calls
        if waits:
            self._say_called(called=True)
        self.calls += op not in _UNCOUNTED
        self._level += 1
        try:
            while (message := self._receive(number, token))[2] == "?":
                self._given = True
                send(self.channel, [number, token, "!", *self.answer(message[3], message[4], message[5])])
        finally:
            self._level -= 1
        value, printed = None, message[5]
        self._given |= (op != "find" and _is_large(message[3])) or message[4] is not None
        try:
            value = self._read(message, encoder.shared)
            if waits and not self.calls:
                self._say_called(called=False)
        finally:
            if type(printed) is str and wishes & WISH_PRINTED:
                sys.stdout.write(printed)
        if op == "get" and proxies.is_proxy(value) and proxies.mark_of(args[0]) in self._named:
            self._named.add(proxies.mark_of(value))  # a class inside a class that the tests name
        if op == "get" and proxies.is_proxy(args[0]):
            self._lend(args[0], args[1], value)
        return value

    def _receive(self, number: int, token: str) -> list[Any]:
        try:
            message = frames.receive(self.channel)
        except frames.Broken as reason:
            raise Ended(str(reason), forged=not str(reason).startswith("the stream ended")) from None
        if type(message) is not list or len(message) != _ANSWERED or message[:2] != [number, token]:
            raise Ended("wrote an answer to nothing that was asked", forged=True)
        return message

    def _read(self, message: list[Any], shared: list[Any]) -> Any:
        if message[2] == "m":
            raise Missing(str(message[3])[:200])
        return self.read_answer(message[2:5], shared)

    def find(self, names: Sequence[str]) -> dict[str, Any]:
        """Return what the candidate has of these names at its top level; raises Ended if it does not say."""
        with self._turn:
            found = self._look_up(names)
        there = {name: value for name, (has, value) in zip(names, found, strict=True) if has is True}
        for name, value in there.items():
            if not proxies.is_proxy(value):
                if not self.calls:
                    self._say_called(called=True)
                self.calls += 1  # a constant was read
                self._given |= not isinstance(value, _SMALL)
                self._lend(None, name, value)
            elif name.lstrip("_")[:1].isupper():
                self._named.add(proxies.mark_of(value))
        return there

    def _look_up(self, names: Sequence[str]) -> list[tuple[Any, Any]]:
        if self.ended is not None:
            raise self.ended
        try:
            pairs = [(has, value) for has, value in self._ask("find", (list(names),))]
        except Ended as ended:
            self.ended = ended
            raise
        except (Exception, Missing):  # noqa: BLE001  it raises nothing; whatever it says is no fault of the tests
            pairs = []
        if len(pairs) != len(names):
            self.ended = Ended("answered with no names", forged=True)
            raise self.ended
        return pairs

    def _say_called(self, *, called: bool) -> None:
        """Tell the judge whether what happens to this end from now on may be the candidate's doing."""
        frames.send(self._judge, ["called", called])

    def names_any(self, kinds: tuple[int, ...]) -> bool:
        """Say whether the tests name one of the classes, as a class is named: a function's results are not trusted."""
        return not self._named.isdisjoint(kinds)

    def refer(self, value: Any) -> Any:
        """Write an object of the tests; common builtin functions cross by name, so that using them asks nothing."""
        if type(value) is types.BuiltinFunctionType and value in _HANDED_BY_NAME:
            return ["y", value.__name__]
        return super().refer(value)

    def perform(self, op: str, args: tuple[Any, ...]) -> Any:  # noqa: PLR0911  one for each kind
        """Do what the candidate asks: a call of what was handed to it, or what is public of the tests' own objects."""
        target = args[0]
        if op == "call" and callable(target) and not (isinstance(target, type) and issubclass(target, type)):
            return target(*args[1], **args[2])
        if op == "iter":
            return iter(target)
        if op == "take":
            return _take(target, int(args[1]))
        if op == "isinstance":
            return isinstance(args[0], args[1])
        if op == "special" and args[1] in _SERVED_SPECIALS and _is_own(target):
            return getattr(type(target), args[1])(target, *args[2], **args[3])
        if op == "get":
            return _public(target, args[1])
        if op == "set" and _is_own(target, mocks=False) and not args[1].startswith("_"):
            return setattr(target, args[1], args[2])
        raise TypeError(f"an object of the tests does not do this ({op[:20]})")


def serve(channel: socket.socket, rpc: socket.socket) -> None:
    """Run one suite, tell the judge of each test and of the end; never returns.

    The first message is `{"source", "names", "entry_points"}`.
    """
    try:
        work(channel, rpc)
    finally:
        os._exit(0)


def work(channel: socket.socket, rpc: socket.socket) -> None:
    """Do what `serve` does and return."""
    with contextlib.suppress(frames.Broken):  # the judge is gone
        job = frames.receive(channel)
        warnings.simplefilter("ignore")
        tester = Tester(rpc, channel)
        Runner(channel, tester, _namespace).run(job["source"], job["names"], job["entry_points"])


def _namespace(
    tester: Tester, source: str, tree: ast.Module, entry_points: Sequence[str]
) -> tuple[dict[str, Any], set[str]]:
    """Return the tests' globals, with stand-ins for the candidate's names, and the names that nothing defines."""
    declared = {name.partition(".")[0] for name in entry_points}
    wanted = scope.undefined(source)
    modules = scope.library_modules(tree, wanted - declared)
    sought = sorted(declared or wanted - modules)
    found = tester.find(sought)
    tester.missing.extend(name for name in sought if name not in found and name in wanted)
    own = dict(vars(builtins))
    own.update({name: tester.classes.of(name) for name in _REPLACED})
    for name in scope.CANDIDATE_MODULES | scope.unknown_modules(tree, declared):
        sys.modules[name] = _Module(name, tester)
    sys.modules["pytest"] = pytest_shim.module()
    tests = types.ModuleType(MODULE)
    sys.modules[MODULE] = tests
    vars(tests).update({name: __import__(name) for name in modules})
    vars(tests).update(found, __builtins__=own, __file__=f"{MODULE}.py")
    return vars(tests), wanted - modules - found.keys() - (declared or wanted)


class _Module(types.ModuleType):
    """The candidate as a module that tests import."""

    def __init__(self, name: str, tester: Tester) -> None:
        super().__init__(name)
        self.__dict__["_tester"] = tester

    def __getattr__(self, name: str) -> Any:
        tester = self.__dict__["_tester"]
        if name == "__all__":
            return [one for one in tester.ask("names") if type(one) is str]
        if name.startswith("__"):
            raise AttributeError(name)
        found = tester.find([name])
        if name not in found:
            tester.missing.append(name)
            raise AttributeError(f"the program defines no `{name}`")
        return found[name]


def _is_own(value: Any, *, mocks: bool = True) -> bool:
    kind = type(value)
    if kind.__module__ == MODULE:
        return not isinstance(value, unittest.TestCase | type) and not kind.__name__.startswith("Test")
    return mocks and kind.__module__ == "unittest.mock"


def _is_large(told: Any) -> bool:
    if type(told) is list:
        return not told or told[0] not in _REFERENCES
    return type(told) is str and len(told) > _LONG


def _public(value: Any, name: str) -> Any:
    mocked = type(value).__module__ == "unittest.mock"
    if name in _TOLD_OF_FUNCTIONS and isinstance(value, _FUNCTIONS):
        return getattr(value, name)  # what `functools.wraps` takes over
    if name.startswith("_") or (mocked and name.startswith(_KEPT_OF_MOCKS)):
        raise AttributeError(f"{name!r} of an object of the tests is not shown")
    if not _is_own(value) and type(value) not in _SERVED_LIBRARY:
        raise AttributeError(f"an object of the tests shows no {name!r}")
    found = getattr(value, name)
    if isinstance(found, types.ModuleType | types.FrameType | types.CodeType | types.TracebackType | type):
        raise AttributeError(f"{name!r} of an object of the tests is not shown")  # noqa: TRY004  it hides it
    return found


def _take(iterator: Any, size: int) -> tuple[list[Any], bool]:
    items: list[Any] = []
    for item in iterator:
        items.append(item)
        if len(items) >= size:
            return items, False
    return items, True
