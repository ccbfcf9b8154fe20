"""Stand-ins for objects of another process: what is done to one is asked of the other side.

Values that are compared with what a test expects never leave the process that holds the expected one: a stand-in is
equal to another stand-in of the same side, if that side says so, and to nothing else; it has no order with anything
else; arithmetic with a test's own data is asked of the other side only for classes that the tests name themselves, and
what a subtraction or a division gave cannot be read as a number (`abs(f(x) - expected)` would let the other side, which
is told what to subtract, say zero).
"""

import operator
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import Any

_FORWARDED = (  # noqa: SIM905  words read best so
    "__len__ __bool__ __getitem__ __setitem__ __delitem__ __missing__ __reversed__ __length_hint__ __call__ __enter__ "
    "__exit__ __aenter__ __aexit__ __index__ __int__ __float__ __complex__ __round__ __trunc__ __floor__ __ceil__ "
    "__abs__ __neg__ __pos__ __invert__ __hash__ __repr__ __str__ __format__ __bytes__ __fspath__ __dir__ __aiter__"
).split()
_BINARY = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and or xor".split()  # noqa: SIM905  words read best so
_ARITHMETIC = [f"__{side}{name}__" for name in _BINARY for side in ("", "r", "i")]
_COMPARISONS = ["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"]
_TELLING = frozenset(
    f"__{side}{name}__" for name in ("sub", "truediv", "floordiv", "mod", "divmod", "xor") for side in ("", "r", "i")
)
_READ_AS_NUMBER = frozenset(
    "__len__ __bool__ __index__ __int__ __float__ __complex__ __round__ __trunc__ __floor__ __ceil__ __abs__ __neg__ "  # noqa: SIM905  words read best so
    "__pos__ __invert__".split()
)
SPECIALS = (
    *_FORWARDED, *_ARITHMETIC, *_COMPARISONS, "__iter__", "__next__", "__contains__", "__await__", "__anext__",
    "__instancecheck__", "__subclasscheck__",
)  # fmt: skip
_LOCAL = frozenset(
    ("__class__", "__reduce__", "__reduce_ex__", "__getstate__", "__slots__", "__copy__", "__deepcopy__")
)
_CHUNK = 256
_MAX_SEARCHED = 100_000  # items that `in` looks at


class Proxy:
    """Knows its side and what that side calls it; nothing else. Its class is made for the type that it stands for."""

    __slots__ = ("__weakref__", "based", "kinds", "mark", "peer", "telling")


peer_of: Callable[[Any], Any] = Proxy.__dict__["peer"].__get__
mark_of: Callable[[Any], int] = Proxy.__dict__["mark"].__get__
kinds_of: Callable[[Any], tuple[int, ...]] = Proxy.__dict__["kinds"].__get__
_telling: Callable[[Any], bool] = Proxy.__dict__["telling"].__get__
_based: Callable[[Any], bool] = Proxy.__dict__["based"].__get__


def is_proxy(value: Any) -> bool:
    """Say whether a value is a stand-in, without asking it."""
    return issubclass(type(value), Proxy)


def new_proxy(kind: type, peer: Any, mark: int, kinds: tuple[int, ...]) -> Any:
    """Return a stand-in of a class that `proxy_class` made; `kinds` are the marks of the classes of its type."""
    made: Any = object.__new__(kind)
    for name, value in (("peer", peer), ("mark", mark), ("kinds", kinds), ("telling", False), ("based", False)):
        Proxy.__dict__[name].__set__(made, value)
    return made


def set_based(proxy: Any) -> None:
    """Note that a stand-in is one for a container of a subclass, whose contents can be had as plain data."""
    Proxy.__dict__["based"].__set__(proxy, True)  # noqa: FBT003  a slot is set


def proxy_class(name: str, specials: list[str]) -> type:
    """Return a class with the special methods that a type of the other side has, and only those."""
    members: dict[str, Any] = {
        "__slots__": (),
        "__getattribute__": _get,
        "__setattr__": _assign,
        "__delattr__": _delete,
    }
    members |= {"__copy__": _copy, "__deepcopy__": _deepcopy}
    for special in specials:
        if special == "!__hash__":
            members["__hash__"] = None
        elif special in _MADE:
            members[special] = _MADE[special]
    if "__eq__" in members and "__hash__" not in members:
        members["__hash__"] = object.__hash__
    if "__next__" in members:
        members["__iter__"] = _self
    elif "__len__" in members and "__iter__" in members:
        members["__iter__"] = _iterate_sized
    return type(name, (Proxy,), members)


def reduced_class(name: str, base: type) -> type:
    """Return a subclass of a plain type for instances of a subclass of it: the base's own in all but further names."""
    return type(name, (base,), {"__getattr__": _get_further, "__repr__": _repr_further, "__str__": _str_further})


def bridge(proxy: Any) -> Coroutine[Any, Any, Any]:
    """Return a coroutine that runs the other side's to its end."""

    async def run() -> Any:
        return peer_of(proxy).ask("await", proxy)

    return run()


def _get(self: Any, name: str) -> Any:
    if name in _LOCAL:
        return object.__getattribute__(self, name)
    return peer_of(self).ask("get", self, name)


def _assign(self: Any, name: str, value: Any) -> None:
    peer_of(self).ask("set", self, name, value)


def _delete(self: Any, name: str) -> None:
    peer_of(self).ask("del", self, name)


def _copy(self: Any) -> Any:
    return peer_of(self).ask("copy", self)


def _deepcopy(self: Any, _: Any = None) -> Any:
    return peer_of(self).ask("deepcopy", self)


def _get_further(self: Any, name: str) -> Any:
    origin = vars(self).get("origin")
    if origin is None or name in _LOCAL or name.startswith("__array"):
        raise AttributeError(name)
    return peer_of(origin).ask("get", origin, name)


def _repr_further(self: Any) -> Any:
    return peer_of(vars(self)["origin"]).ask("special", vars(self)["origin"], "__repr__", (), {})


def _str_further(self: Any) -> Any:
    return peer_of(vars(self)["origin"]).ask("special", vars(self)["origin"], "__str__", (), {})


def _call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
    return peer_of(self).ask("call", self, args, kwargs)


def _forwarding(name: str) -> Callable[..., Any]:
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if _telling(self) and name in _READ_AS_NUMBER:
            raise TypeError("what was subtracted from or divided by a test's own data is not read as a number")
        return peer_of(self).ask("special", self, name, args, kwargs)

    return method


def _comparing(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not is_proxy(other) or peer_of(other) is not peer_of(self):
            if not _based(self):
                return NotImplemented
            contents = peer_of(self).ask(
                "reduce", self
            )  # the other side tells them before it could know the other value
            return NotImplemented if is_proxy(contents) else getattr(operator, name)(contents, other)
        return peer_of(self).ask("special", self, name, (other,), {})

    return method


def _calculating(name: str) -> Callable[..., Any]:
    def method(self: Any, other: Any, *more: Any) -> Any:
        peer = peer_of(self)
        own = is_proxy(other) and peer_of(other) is peer
        if not own and peer.guarded and not peer.names_any(kinds_of(self)):
            return NotImplemented
        result = peer.ask("special", self, name, (other, *more), {})
        told = (not own and name in _TELLING) or _telling(self) or (own and _telling(other))
        if peer.guarded and told and result is not NotImplemented:
            if not is_proxy(result):
                raise TypeError("what was subtracted from or divided by a test's own data is not read as a number")
            Proxy.__dict__["telling"].__set__(result, True)  # noqa: FBT003  a slot is set
        return result

    return method


def _iterate(self: Any) -> Iterator[Any]:
    peer = peer_of(self)
    return _pull(peer, peer.ask("iter", self), 1)


def _iterate_sized(self: Any) -> Iterator[Any]:
    peer = peer_of(self)
    return _pull(peer, peer.ask("iter", self), _CHUNK)


def _pull(peer: Any, iterator: Any, size: int) -> Iterator[Any]:
    ended = False
    while not ended:
        items, ended = peer.ask("take", iterator, size)
        yield from items


def _self(self: Any) -> Any:
    return self


def _next(self: Any) -> Any:
    items, ended = peer_of(self).ask("take", self, 1)
    if ended:
        raise StopIteration
    return items[0]


def _contains(self: Any, item: Any) -> bool:
    peer = peer_of(self)
    own = is_proxy(item) and peer_of(item) is peer
    if own or not peer.guarded:
        return bool(peer.ask("special", self, "__contains__", (item,), {}))
    if hasattr(type(self), "__iter__"):  # the other side is not told what is looked for
        for count, held in enumerate(self):
            if held is item or held == item:
                return True
            if count > _MAX_SEARCHED:
                break
        return False
    if not peer.names_any(kinds_of(self)):
        raise TypeError(f"argument of type {type(self).__name__!r} is not iterable")
    return bool(peer.ask("special", self, "__contains__", (item,), {}))


def _await(self: Any) -> Generator[None, None, Any]:
    yield from ()
    return peer_of(self).ask("await", self)


async def _anext(self: Any) -> Any:
    items, ended = peer_of(self).ask("anext", self)
    if ended:
        raise StopAsyncIteration
    return items[0]


def _checking(op: str) -> Callable[[Any, Any], bool]:
    def method(self: Any, other: Any) -> bool:
        origin = origin_of(other)
        subject = other if origin is None else origin
        return is_proxy(subject) and peer_of(subject) is peer_of(self) and bool(peer_of(self).ask(op, subject, self))

    return method


def origin_of(value: Any) -> Any:
    """Return the stand-in behind a reduced value; None for any other value."""
    return vars(value).get("origin") if type(value).__dict__.get("__getattr__") is _get_further else None


_MADE: dict[str, Any] = {name: _forwarding(name) for name in _FORWARDED}
_MADE |= {name: _calculating(name) for name in _ARITHMETIC}
_MADE |= {name: _comparing(name) for name in _COMPARISONS}
_OTHERS: dict[str, Any] = {
    "__call__": _call,
    "__iter__": _iterate,
    "__next__": _next,
    "__contains__": _contains,
    "__await__": _await,
    "__anext__": _anext,
    "__instancecheck__": _checking("isinstance"),
    "__subclasscheck__": _checking("issubclass"),
}
_MADE |= _OTHERS
