"""One end of the conversation between the candidate and the tests: requests, answers, and references to objects.

A request is `[number, token, operation, arguments, wishes]`, its answer `[number, token, "v", value, ...]` or
`[number, token, "x", exception, ...]`. The token is drawn for each request, so an answer that was written before the
request was read is told apart. While a request is open, its receiver may ask back: `[number, token, "?", operation,
arguments]`, answered by `[number, token, "!", ...]`. Mutable arguments are sent back where they were changed.
"""

import builtins
import collections
import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from llm_finetuning.sandbox.box import faults, frames, proxies
from llm_finetuning.sandbox.box.values import MALFORMED, Decoder, Encoder, Malformed, Refused

WISH_RESTORE, WISH_PRINTED = 1, 2
DECODE_S = 2.0
_KINDS = frozenset(
    (object, type, bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, slice)
)
_mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_OWN_OF_OBJECT = frozenset("__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__".split())  # noqa: SIM905  words read best so


class Ended(BaseException):
    """The other side is gone or broke the protocol; `forged` says which. No test can catch it as an error."""

    def __init__(self, reason: str, *, forged: bool) -> None:
        """Take what happened."""
        super().__init__(reason)
        self.reason = reason
        self.forged = forged


class Missing(BaseException):
    """The candidate has no such name."""


class Uncrossable(Exception):  # noqa: N818  it is what happened
    """The result contains itself, is nested too deep, or is too large to be handed over."""


class Peer:
    """What both ends share; each end says what it does for the other in `perform`."""

    guarded = False  # whether comparisons with this side's own data are kept from the other side

    def __init__(self, channel: socket.socket) -> None:
        """Take the stream to the other side."""
        self.channel = channel
        self.classes = faults.Classes()
        self._objects: list[Any] = []
        self._marks: dict[int, int] = {}
        self._handed: set[int] = set()  # what the other side may name: types that were only told of are not in it
        self._proxies: dict[int, Any] = {}
        self._reductions: dict[int, Any] = {}
        self._kinds: dict[int, tuple[type, tuple[int, ...]]] = {}  # with the marks of the type's classes
        self._told: set[int] = set()  # the types that the other side has the description of
        self._told_before: set[int] = set()  # the answer that is being written

    def ask(self, op: str, *args: Any) -> Any:
        """Have the other side do something; raises what it raised there."""
        raise NotImplementedError

    def perform(self, op: str, args: tuple[Any, ...]) -> Any:
        """Do what the other side asks."""
        raise NotImplementedError

    def names_any(self, kinds: tuple[int, ...]) -> bool:
        """Say whether this side's code names one of the classes."""
        raise NotImplementedError

    def mark(self, value: Any) -> int:
        """Return the number by which the other side knows an object of this one."""
        known = self._marks.get(id(value))
        if known is None:
            known = self._marks[id(value)] = len(self._objects)
            self._objects.append(value)
        return known

    def hand(self, value: Any) -> int:
        """Return the number by which the other side may ask for an object of this one from now on."""
        mark = self.mark(value)
        self._handed.add(mark)
        return mark

    def object_of(self, mark: Any) -> Any:
        """Return the object of this side that a number stands for, if it was handed over."""
        if type(mark) is not int or mark not in self._handed:
            raise Malformed("no such object")
        return self._objects[mark]

    def refer(self, value: Any) -> Any:
        """Write an object that is no plain data."""
        if proxies.is_proxy(value) and proxies.peer_of(value) is self:
            return ["H", proxies.mark_of(value)]
        kind = type(value)
        if issubclass(kind, type):
            return self._refer_class(value)
        if issubclass(kind, BaseException):
            return ["X", *self.describe(value)]
        origin = proxies.origin_of(value)
        if origin is not None:
            return ["H", proxies.mark_of(origin)]
        if kind.__name__ == "coroutine":
            return ["o", self.hand(value), self._tell(kind)]
        return ["h", self.hand(value), self._tell(kind)]

    def _refer_class(self, value: type) -> Any:
        if value in _KINDS:
            return ["y", value.__name__]
        if value in self.classes.marks:
            return ["H", self.classes.marks[value]]
        if issubclass(value, BaseException):
            return ["e", faults.describe_class(value, self.hand)]
        return ["h", self.hand(value), self._tell(type(value))]

    def describe(self, error: BaseException) -> list[Any]:
        """Return what tells an exception: its class, text, arguments, and the number it is known by."""
        origin = faults.origin_of(error)
        if origin is not None and proxies.peer_of(origin) is self:
            return [None, proxies.mark_of(origin)]
        told = [faults.describe_class(type(error), self.hand), faults.text_of(error), self.hand(error)]
        told_before = self._told.copy()
        try:
            arguments = Encoder(self.refer).encode(tuple(error.args))
        except Exception:  # noqa: BLE001  whatever it raises
            self._told = told_before
            arguments = ["t", [told[1]]]
        return [*told, arguments, self._tell(type(error))]

    def _tell(self, kind: type) -> Any:
        """Return what tells a type: its number, and the first time its name, special methods and bases."""
        number = self.mark(kind)
        if number in self._told:
            return [number]
        self._told.add(number)
        lines = [vars(base) for base in _mro_of(kind)]
        specials = []
        for special in proxies.SPECIALS:
            holder = next((place for place, line in enumerate(lines) if special in line), None)
            if holder is None or (special in _OWN_OF_OBJECT and holder == len(lines) - 1):
                continue
            if special == "__hash__" and lines[holder][special] is None:
                special = "!__hash__"  # noqa: PLW2901  as told
            specials.append(special)
        return [number, kind.__name__, specials, [self.mark(base) for base in _mro_of(kind) if base not in _KINDS]]

    def resolve(self, told: list[Any]) -> Any:  # noqa: PLR0911  one for each kind
        """Read a reference; raises all sorts of things for a malformed one."""
        tag = told[0]
        if tag == "h":
            return self._proxy(told[1], told[2])
        if tag == "H":
            return self.object_of(told[1])
        if tag == "w":
            return self._reduced(told[1], told[2])
        if tag == "y":
            return self.named(told[1])
        if tag == "e":
            return self.classes.of(told[1])
        if tag == "X":
            return self.rebuild(told[1:])
        if tag == "o":
            return proxies.bridge(self._proxy(told[1], told[2]))
        raise Malformed("no reference")

    def named(self, name: Any) -> Any:
        """Return a builtin type by its name."""
        found = getattr(builtins, name)
        if found not in _KINDS:
            raise Malformed("no type")
        return found

    def rebuild(self, told: list[Any]) -> BaseException:
        """Return the exception that a description tells."""
        if told[0] is None:
            return self.object_of(told[1])  # type: ignore[no-any-return]
        kind, text, mark, arguments, about = told
        args = Decoder(self.resolve, deadline=time.monotonic() + DECODE_S).read(arguments)
        if type(text) is not str or type(args) is not tuple:
            raise Malformed("no exception")
        return faults.build(self.classes.of(kind), args, text, self._proxy(mark, about))

    def _proxy(self, mark: Any, about: Any) -> Any:
        if type(mark) is not int or type(about) is not list:
            raise Malformed("no reference")
        known = self._proxies.get(mark)
        if known is not None:
            return known
        if len(about) > 1:
            number, name, specials, bases = about
            if type(name) is not str or not all(type(base) is int for base in bases):
                raise Malformed("no type")
            self._kinds[number] = (proxies.proxy_class(name, specials), tuple(bases))
        made = proxies.new_proxy(self._kinds[about[0]][0], self, mark, self._kinds[about[0]][1])
        self._proxies[mark] = made
        return made

    def _reduced(self, told: Any, base: Any) -> Any:
        origin = self.resolve(told)
        if not proxies.is_proxy(origin):
            return origin  # an object of this side that comes home
        if self.guarded and type(base) in REPLACE and self.names_any(proxies.kinds_of(origin)):
            # A container of a class that the tests name lives on the other side, whose methods change it.
            proxies.set_based(origin)
            return origin
        mark = proxies.mark_of(origin)
        known = self._reductions.get(mark)
        if known is not None and type(known).__mro__[1] is type(base) and known == base:
            return known  # one member of an enumeration is one object
        made = proxies.reduced_class(type(origin).__name__, type(base))(base)
        vars(made)["origin"] = origin
        if isinstance(base, int | str | float):
            self._reductions[mark] = made
        return made

    def answer(self, op: Any, encoded: Any, wishes: Any) -> list[Any]:
        """Do what was asked and return the answer's parts; raises Malformed for what is no request."""
        decoder = Decoder(self.resolve, deadline=time.monotonic() + DECODE_S if self.guarded else None)
        args = decoder.decode(encoded)
        if type(op) is not str or type(args) is not tuple or type(wishes) is not int:
            raise Malformed("no request")
        shared = decoder.shared if wishes & WISH_RESTORE else []
        before = picture(args) if shared else ""
        self._told_before = self._told.copy()
        encoder = Encoder(self.refer, known=shared)
        try:
            try:
                told = ["v", encoder.encode(self.perform(op, args))]
            except (Ended, Missing, Refused):
                raise
            except BaseException as error:  # noqa: BLE001  whatever it raises
                told = ["x", self.describe(error)]
            changed = bool(shared) and picture(args) != before
            return [*told, [encoder.contents(value) for value in shared] if changed else None]
        except (Refused, RecursionError) as reason:
            return self.unsaid(str(reason) if isinstance(reason, Refused) else "a value nested too deep")

    def unsaid(self, reason: str) -> list[Any]:
        """Return an answer in place of one that cannot be sent: what it would have told of types is not known there."""
        self._told = self._told_before
        return ["r", reason, None]

    def read_answer(self, parts: Any, shared: list[Any]) -> Any:
        """Return the value of an answer or raise its exception; raises Malformed for what is no answer."""
        kind, told, changes = parts
        if kind == "r":
            raise Uncrossable(f"the result cannot be handed over: {str(told)[:200]}")
        decoder = Decoder(self.resolve, shared, time.monotonic() + DECODE_S)
        if kind == "v":
            value = decoder.decode(told)
            self._restore(changes, shared, decoder)
            return value
        if kind != "x":
            raise Malformed("no answer")
        try:
            error = self.rebuild(told)
        except MALFORMED as fault:
            raise Malformed(f"no exception: {type(fault).__name__}") from None
        self._restore(changes, shared, decoder)
        raise error

    @staticmethod
    def _restore(changes: Any, shared: list[Any], decoder: Decoder) -> None:
        if changes is None:
            return
        if type(changes) is not list or len(changes) != len(shared):
            raise Malformed("no changes")
        for value, told in zip(shared, changes, strict=True):
            new = decoder.decode(told)
            if type(new) is type(value):
                REPLACE.get(type(value), _replace_array)(value, new)


def new_token() -> str:
    """Return what an answer must repeat: nothing that was forked from the same worker can guess it."""
    return os.urandom(8).hex()


def send(channel: socket.socket, message: Any) -> None:
    """Send a message; raises Ended if the other side is gone, ValueError if it is too large."""
    try:
        frames.send(channel, message)
    except frames.Broken as reason:
        raise Ended(str(reason), forged=False) from None


def picture(args: tuple[Any, ...]) -> str:
    """Return what tells whether mutable arguments were changed; other objects count as themselves."""
    try:
        return json.dumps(Encoder(lambda value: ["#", id(value)]).encode(args))
    except (Refused, RecursionError):
        return ""  # what cannot be written was changed, since it was read


def refill(held: Any, new: Any) -> None:
    """Give a container the contents of another of its type; anything else is left as it is."""
    if type(held) is type(new) and type(held) in REPLACE:
        REPLACE[type(held)](held, new)


def _replace_sequence(value: Any, new: Any) -> None:
    value[:] = new


def _replace_hashed(value: Any, new: Any) -> None:
    value.clear()
    value.update(new)


def _replace_dict(value: Any, new: Any) -> None:
    value.clear()
    dict.update(value, new)


def _replace_deque(value: Any, new: Any) -> None:
    value.clear()
    value.extend(new)


def _replace_array(value: Any, new: Any) -> None:
    if value.shape == new.shape:
        value[...] = new


REPLACE: Mapping[type, Callable[[Any, Any], None]] = {
    list: _replace_sequence,
    bytearray: _replace_sequence,
    set: _replace_hashed,
    dict: _replace_dict,
    collections.OrderedDict: _replace_hashed,
    collections.Counter: _replace_dict,
    collections.defaultdict: _replace_dict,
    collections.deque: _replace_deque,
}
