"""Plain values to JSON and back, exactly; whatever else there is crosses as a reference or not at all.

None, booleans, small integers, floats and most strings are themselves; all else is a list of a tag and its parts.
What is decoded has exact types of the standard library or numpy, so comparing it never runs a line of the sender's.
An instance of a subclass is reduced to its base value by the methods of the base. A list, dict, set or array that
stands twice in one message is one object again on the other side; one that contains itself is refused.
"""

import base64
import collections
import datetime as dt
import decimal
import fractions
import functools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llm_finetuning.sandbox.box import arrays, times

MAX_DEPTH = 100  # a level takes six frames to write, and the interpreter stops at a thousand
_SMALL = 1 << 63
_FRACTION_BITS = 1 << 16  # reducing a fraction takes quadratic time
_CHUNK = 64  # insertions between two looks at the clock; each may take as long as all before, if hashes collide
_SCALARS = frozenset({type(None), bool, int, float, str})
_BYTES_IN_NAME = 200

Encoded = Any
Reference = Callable[[Any], Encoded]
Resolve = Callable[[list[Any]], Any]


class Refused(ValueError):  # noqa: N818  it is what happened
    """The value cannot cross: it contains itself, is too deep, or is no plain data."""


class Malformed(ValueError):  # noqa: N818  it is what happened
    """The message is none that `Encoder` writes, or takes too long to read."""


MALFORMED = (
    *(ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError, MemoryError),
    ImportError,  # an array where numpy is not
)
"""What reading a malformed message raises."""


class Encoder:
    """Writes the values of one message. `known` are objects that the other side has, in order: they cross as places."""

    def __init__(self, reference: Reference | None = None, known: Sequence[Any] = ()) -> None:
        """Take what writes an object that is no plain data; without it such an object is refused."""
        self._reference = reference
        self._known = {id(value): place for place, value in enumerate(known)}
        self._laid_open = 0
        self._open: set[int] = set()
        self._places: dict[int, int] = {}
        self.shared: list[Any] = []  # the mutable values written, in order; also keeps their ids from being reused
        self._kept: list[Any] = []

    def encode(self, value: Any) -> Encoded:
        """Return what crosses for a value; raises Refused."""
        kind = type(value)
        if kind in _SCALARS:
            return _scalar(value)
        writer = _WRITERS.get(kind)
        if writer is not None:
            return writer(self, value)
        return self._other(value, kind)

    def contents(self, value: Any) -> Encoded:
        """Return the contents of a known mutable value, whatever else says that it is known."""
        self._laid_open = id(value)
        return self.encode(value)

    def items(self, values: list[Any] | tuple[Any, ...]) -> list[Encoded]:
        """Return what crosses for each of the values."""
        kinds = set(map(type, values))
        if kinds <= _SCALARS and (int not in kinds or _all_small(values)) and (str not in kinds or _all_ascii(values)):
            return list(values)
        return [self.encode(value) for value in values]

    def keys(self, values: Any) -> list[Encoded]:
        """Return what crosses for the members of a set or the keys of a dict, which the other side must hash.

        An instance of a list, say, that can be hashed here crosses as an object, if objects can.
        """
        members = list(values)
        return self.items(members) if set(map(type, members)) <= _SCALARS else [self._key(value) for value in members]

    def _key(self, value: Any) -> Encoded:
        kind = type(value)
        if kind is tuple:
            return self.within(value, lambda: ["t", [self._key(part) for part in value]], mutable=False)
        base = next((base for base in kind.__mro__ if base in _BASES), None)
        return self._object(value, kind) if base in _UNHASHABLE and kind not in _WRITERS else self.encode(value)

    def within(self, value: Any, write: Callable[[], Encoded], *, mutable: bool = True) -> Encoded:
        """Write a container once: a mutable one that was written before, or is known, crosses as its place."""
        mark = id(value)
        laid_open, self._laid_open = self._laid_open, 0
        if mark in self._known and mark != laid_open:
            return ["a", self._known[mark]]
        if mark in self._open:
            raise Refused("a value that contains itself")
        if mark in self._places:
            return ["r", self._places[mark]]
        if len(self._open) >= MAX_DEPTH:
            raise Refused(f"a value nested more than {MAX_DEPTH} deep")
        if mutable:
            self._places[mark] = len(self.shared)
            self.shared.append(value)
        self._open.add(mark)
        try:
            return write()
        finally:
            self._open.discard(mark)

    def _other(self, value: Any, kind: type) -> Encoded:
        array = arrays.encode(self, value)
        if array is not None:
            return array
        if _BASES.keys().isdisjoint(kind.__mro__):
            return self._object(value, kind)
        base = base_value(value)
        self._kept.append(base)
        reduced = self.encode(base)
        return reduced if self._reference is None else ["w", self._reference(value), reduced]

    def _object(self, value: Any, kind: type) -> Encoded:
        if self._reference is None:
            raise Refused(f"a value of type {kind.__name__[:_BYTES_IN_NAME]}, which is no plain data")
        return self._reference(value)


class Decoder:
    """Reads the values of one message. `known` are the objects of this side that the message names by place."""

    def __init__(
        self, resolve: Resolve | None = None, known: Sequence[Any] = (), deadline: float | None = None
    ) -> None:
        """Take what reads a reference, and the time on the monotonic clock by which all must be read."""
        self._resolve = resolve
        self._known = known
        self._deadline = deadline
        self.shared: list[Any] = []  # the mutable values read, in order

    def decode(self, value: Encoded) -> Any:
        """Return the value; raises Malformed, whatever the message holds."""
        try:
            return self.read(value)
        except Malformed:
            raise
        except MALFORMED as e:
            raise Malformed(f"no value: {type(e).__name__}") from None

    def read(self, value: Encoded) -> Any:
        """Return the value; raises all sorts of things for a malformed one."""
        if type(value) is not list:
            if type(value) in _SCALARS:
                return value
            raise Malformed("no value")
        reader = _READERS.get(value[0])
        if reader is not None:
            return reader(self, value)
        if self._resolve is None:
            raise Malformed("a reference where none can be")
        return self._resolve(value)

    def items(self, values: Any) -> list[Any]:
        """Return the values of a sequence."""
        if type(values) is not list:
            raise Malformed("no sequence")
        if set(map(type, values)) <= _SCALARS:
            return values
        read = self.read
        return [read(value) for value in values]

    def share(self, value: Any) -> Any:
        """Register a mutable value."""
        self.shared.append(value)
        return value

    def insert(self, add: Callable[[Any], Any], values: Sequence[Any]) -> None:
        """Insert into a hashed container, with an eye on the clock: hashes may have been made to collide."""
        for start in range(0, len(values), _CHUNK):
            add(values[start : start + _CHUNK])
            if self._deadline is not None and time.monotonic() > self._deadline:
                raise Malformed("a value that takes too long to read")

    def place(self, value: list[Any]) -> Any:
        """Return the object that stands at a place of this message or of the one that it answers."""
        places = self.shared if value[0] == "r" else self._known
        if type(value[1]) is not int or value[1] < 0:
            raise Malformed("no place")
        return places[value[1]]

    def wrapped(self, value: list[Any]) -> Any:
        """Read an instance of a subclass: the base value alone, or what the reader of references makes of both."""
        base = self.read(value[2])
        return base if self._resolve is None else self._resolve(["w", value[1], base])


def plain(value: Any) -> Encoded:
    """Return what crosses for plain data; raises Refused for anything else."""
    try:
        return Encoder().encode(value)
    except RecursionError:
        raise Refused("a value nested too deep") from None


def _scalar(value: Any) -> Encoded:
    if type(value) is int and not -_SMALL < value < _SMALL:
        return ["i", f"{value:x}"]
    if type(value) is str and not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:  # JSON would join two halves of a pair into one character
            return ["u", value.encode("utf-8", "surrogatepass").hex()]
    return value


def base_value(value: Any) -> Any:
    """Return the plain value that an instance of a subclass of a plain type holds; raises TypeError for any other."""
    for base in type(value).__mro__:
        if base in _BASES:
            return _BASES[base](value)
    raise TypeError(f"{type(value).__name__} is no subclass of a plain type")


def _all_small(values: Iterable[Any]) -> bool:
    integers = [value for value in values if type(value) is int]  # a boolean is none
    return min(integers) > -_SMALL and max(integers) < _SMALL


def _all_ascii(values: Iterable[Any]) -> bool:
    return all(value.isascii() for value in values if type(value) is str)


def _write_dict(encoder: Encoder, tag: str, value: Any, *extra: Any) -> Encoded:
    def write() -> Encoded:
        return [tag, encoder.keys(value.keys()), encoder.items(list(value.values())), *extra]

    return encoder.within(value, write)


def _read_dict(decoder: Decoder, value: list[Any], empty: Any) -> Any:
    made = decoder.share(empty)
    keys, held = decoder.items(value[1]), decoder.items(value[2])
    pairs = list(zip(keys, held, strict=True))
    update = made.update if type(made) is collections.OrderedDict else functools.partial(dict.update, made)
    decoder.insert(update, pairs)
    return made


def _read_list(decoder: Decoder, value: list[Any]) -> list[Any]:
    made = decoder.share([])
    made.extend(decoder.items(value[1]))
    return made  # type: ignore[no-any-return]


def _read_set(decoder: Decoder, value: list[Any]) -> set[Any]:
    made: set[Any] = decoder.share(set())
    decoder.insert(made.update, decoder.items(value[1]))
    return made


def _read_frozenset(decoder: Decoder, value: list[Any]) -> frozenset[Any]:
    made: set[Any] = set()
    decoder.insert(made.update, decoder.items(value[1]))
    return frozenset(made)


def _read_deque(decoder: Decoder, value: list[Any]) -> collections.deque[Any]:
    made: collections.deque[Any] = decoder.share(collections.deque(maxlen=value[2]))
    made.extend(decoder.items(value[1]))
    return made


def _read_fraction(_: Decoder, value: list[Any]) -> fractions.Fraction:
    parts = [int(part, 16) for part in value[1:3]]
    if max(part.bit_length() for part in parts) > _FRACTION_BITS:
        raise Malformed("a fraction of too many digits")
    return fractions.Fraction(*parts)


def _factory(name: Any) -> Any:
    return _FACTORIES[name]


_FACTORIES: dict[str | None, Any] = {
    None: None, "int": int, "float": float, "str": str, "list": list, "dict": dict, "set": set, "bool": bool
}  # fmt: skip
_FACTORY_NAMES = {factory: name for name, factory in _FACTORIES.items()}
_UNHASHABLE = frozenset((list, dict, set, bytearray, collections.deque, collections.OrderedDict))
_CONSTANTS = {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}


def _b64(value: bytes | bytearray) -> str:
    return base64.b64encode(value).decode("ascii")


_WRITERS: dict[type, Callable[[Encoder, Any], Encoded]] = {
    list: lambda e, v: e.within(v, lambda: ["l", e.items(v)]),
    tuple: lambda e, v: e.within(v, lambda: ["t", e.items(v)], mutable=False),
    dict: lambda e, v: _write_dict(e, "d", v),
    set: lambda e, v: e.within(v, lambda: ["s", e.keys(v)]),
    frozenset: lambda e, v: e.within(v, lambda: ["f", e.keys(v)], mutable=False),
    bytes: lambda e, v: ["b", _b64(v)],
    bytearray: lambda e, v: e.within(v, lambda: ["B", _b64(v)]),
    complex: lambda e, v: ["c", v.real, v.imag],
    range: lambda e, v: ["g", *map(_scalar, (v.start, v.stop, v.step))],
    slice: lambda e, v: e.within(v, lambda: ["S", *map(e.encode, (v.start, v.stop, v.step))], mutable=False),
    decimal.Decimal: lambda e, v: ["D", decimal.Decimal.__str__(v)],
    fractions.Fraction: lambda e, v: ["F", f"{v.numerator:x}", f"{v.denominator:x}"],
    dt.date: lambda e, v: ["E", v.year, v.month, v.day],
    dt.timedelta: lambda e, v: ["L", v.days, v.seconds, v.microseconds],
    dt.timezone: lambda e, v: ["Z", times.zone_of(v.utcoffset(None), v.tzname(None))],
    dt.time: times.write_time,
    dt.datetime: times.write_datetime,
    collections.Counter: lambda e, v: _write_dict(e, "C", v),
    collections.OrderedDict: lambda e, v: _write_dict(e, "O", v),
    collections.defaultdict: lambda e, v: _write_dict(e, "U", v, _FACTORY_NAMES.get(v.default_factory)),
    collections.deque: lambda e, v: e.within(v, lambda: ["q", e.items(tuple(v)), v.maxlen]),
    type(Ellipsis): lambda e, v: ["k", "Ellipsis"],
    type(NotImplemented): lambda e, v: ["k", "NotImplemented"],
}

_READERS: dict[str, Callable[[Decoder, list[Any]], Any]] = {
    "l": _read_list,
    "t": lambda d, v: tuple(d.items(v[1])),
    "d": lambda d, v: _read_dict(d, v, {}),
    "s": _read_set,
    "f": _read_frozenset,
    "r": Decoder.place,
    "a": Decoder.place,
    "w": Decoder.wrapped,
    "i": lambda d, v: int(v[1], 16),
    "u": lambda d, v: bytes.fromhex(v[1]).decode("utf-8", "surrogatepass"),
    "b": lambda d, v: base64.b64decode(v[1], validate=True),
    "B": lambda d, v: d.share(bytearray(base64.b64decode(v[1], validate=True))),
    "c": lambda d, v: complex(v[1], v[2]),
    "g": lambda d, v: range(*map(d.read, v[1:4])),
    "S": lambda d, v: slice(*map(d.read, v[1:4])),
    "D": lambda d, v: decimal.Decimal(v[1]),
    "F": _read_fraction,
    "E": lambda d, v: dt.date(*v[1:4]),
    "L": lambda d, v: dt.timedelta(*v[1:4]),
    "Z": lambda d, v: times.read_zone(v[1]),
    "T": times.read_time,
    "Y": times.read_datetime,
    "C": lambda d, v: _read_dict(d, v, collections.Counter()),
    "O": lambda d, v: _read_dict(d, v, collections.OrderedDict()),
    "U": lambda d, v: _read_dict(d, v, collections.defaultdict(_factory(v[3]))),
    "q": _read_deque,
    "k": lambda d, v: _CONSTANTS[v[1]],
    "n": arrays.read,
}

# How an instance of a subclass becomes its base value: by the base's own methods, whatever the subclass overrides.
_BASES: dict[type, Callable[[Any], Any]] = {
    int: lambda v: int.__add__(v, 0),
    float: float.__pos__,
    str: lambda v: str.__getitem__(v, slice(None)),
    bytes: lambda v: bytes.__getitem__(v, slice(None)),
    bytearray: lambda v: bytearray(memoryview(v)),
    complex: complex.__pos__,
    list: lambda v: list.__getitem__(v, slice(None)),
    tuple: lambda v: tuple.__getitem__(v, slice(None)),
    collections.OrderedDict: lambda v: collections.OrderedDict(collections.OrderedDict.items(v)),
    dict: lambda v: dict(dict.items(v)),
    set: lambda v: set(set.__iter__(v)),
    frozenset: lambda v: frozenset(frozenset.__iter__(v)),
    collections.deque: lambda v: collections.deque(collections.deque.__iter__(v)),
}
