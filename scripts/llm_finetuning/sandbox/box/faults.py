"""Exceptions of another process: raised here as the same exception of Python, or as a stand-in class of the same name.

Only what derives from `Exception` is raised: an exit, an interrupt or a skip of a test runner arrives as a plain error
of its name, so that it ends nothing here. `StopIteration` becomes a `RuntimeError`, as in a generator, because
`all(map(f, cases))` would take it for the end of the cases.
"""

import builtins
import sys
from collections.abc import Callable, Mapping
from typing import Any

_MAX_TEXT = 10_000
_MAX_BASES = 20
_NOT_RAISED = frozenset((StopIteration, StopAsyncIteration))
BUILTIN: Mapping[str, type[Exception]] = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, Exception) and value not in _NOT_RAISED
}
_MODULES = frozenset(
    "json.decoder decimal re re._constants sre_constants queue _queue asyncio.exceptions concurrent.futures._base csv "  # noqa: SIM905  words read best so
    "_csv struct zlib binascii configparser statistics subprocess dataclasses copy pickle _pickle shutil ast tokenize "
    "numpy.linalg numpy.exceptions numpy.core._exceptions numpy._core._exceptions io zipfile tarfile enum "
    "xml.etree.ElementTree urllib.error threading string ipaddress locale zoneinfo._common calendar".split()
)

_name_of: Callable[[type], str] = type.__dict__["__name__"].__get__
_bases_of: Callable[[type], tuple[type, ...]] = type.__dict__["__bases__"].__get__


def describe_class(kind: type, mark: Callable[[Any], int]) -> Any:
    """Return what tells an exception class: the name of a builtin or library one, or mark, name and bases."""
    name = _name_of(kind)
    if getattr(builtins, name, None) is kind:
        return name
    module = type.__getattribute__(kind, "__module__")
    if type(module) is str and module in _MODULES and getattr(sys.modules.get(module), name, None) is kind:
        return f"{module}:{name}"
    bases = [base for base in _bases_of(kind) if issubclass(base, BaseException)]
    return [mark(kind), name[:_MAX_TEXT], [describe_class(base, mark) for base in bases[:_MAX_BASES]]]


def text_of(error: BaseException) -> str:
    """Return what an exception says, at most ten thousand characters, whatever its own methods do."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001  whatever it raises
        return "(its text cannot be read)"
    return str.__getitem__(text, slice(0, _MAX_TEXT))


class Classes:
    """The exception classes that stand for those of the other side; one for each."""

    def __init__(self) -> None:
        """Begin without any."""
        self._known: dict[Any, type[Exception]] = {}
        self.marks: dict[type, int] = {}

    def of(self, told: Any, depth: int = 0) -> type[Exception]:
        """Return the class that a description tells; raises ValueError or TypeError for none."""
        if depth > _MAX_BASES:
            raise ValueError("no exception class")
        if type(told) is str:
            return self._named(told)
        mark, name, bases = told
        if type(mark) is not int or type(name) is not str or type(bases) is not list:
            raise ValueError("no exception class")
        if mark not in self._known:
            made = self._made(name, tuple(self.of(base, depth + 1) for base in bases[:_MAX_BASES]))
            self._known[mark] = made
            self.marks[made] = mark
        return self._known[mark]

    def _named(self, name: str) -> type[Exception]:
        if name in BUILTIN:
            return BUILTIN[name]
        if name in {"StopIteration", "StopAsyncIteration"}:
            return RuntimeError
        module, _, attribute = name.rpartition(":")
        found = getattr(sys.modules.get(module), attribute, None) if module in _MODULES else None
        if isinstance(found, type) and issubclass(found, Exception) and not issubclass(found, tuple(_NOT_RAISED)):
            return found
        if name not in self._known:
            self._known[name] = self._made(attribute, (Exception,))
        return self._known[name]

    @staticmethod
    def _made(name: str, bases: tuple[type[Exception], ...]) -> type[Exception]:
        bases = tuple(dict.fromkeys(bases)) or (Exception,)
        members = {"__init__": _take_nothing, "__str__": _told_text, "__getattr__": _told_attribute}
        try:
            return type(name, bases, members)
        except TypeError:  # bases that do not go together
            return type(name, bases[:1], members)


def build(kind: type[Exception], args: tuple[Any, ...], text: str, origin: Any) -> Exception:
    """Return an exception as the other side has it: its arguments, its text, and where to ask for the rest."""
    error: Exception
    try:
        error = kind(*args) if kind in BUILTIN.values() else kind.__new__(kind, *args)
    except (TypeError, ValueError):
        kind = type(kind.__name__, (kind,), {"__init__": _take_nothing, "__str__": _told_text})
        error = kind.__new__(kind)
    error.args = args
    vars(error).update(_text=text, _origin=origin)
    return error


def origin_of(error: BaseException) -> Any:
    """Return the stand-in behind an exception of the other side; None for one of this side."""
    return vars(error).get("_origin")


def _take_nothing(self: Exception, *args: Any, **_: Any) -> None:
    self.args = args


def _told_text(self: Exception) -> str:
    text = vars(self).get("_text")
    return text if type(text) is str else Exception.__str__(self)


def _told_attribute(self: Exception, name: str) -> Any:
    origin = vars(self).get("_origin")
    if origin is None or name.startswith("__"):
        raise AttributeError(name)
    return getattr(origin, name)
