"""What every wire format shares: a call, what was read of a text, and a cursor that reads it once, left to right."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_finetuning.rewards.json_text import Document, read_json

MAX_CALLS = 256  # of one gold; a text with more of them cannot be right

_STRUCTURE = re.compile(r'["{}\[\]]')
_IN_STRING = re.compile(r'["\\]')
_ARGUMENT_KEYS = ("arguments", "parameters", "function")  # of all formats: two of them in one call are two calls


@dataclass(frozen=True, slots=True)
class Call:
    """One call as the model wrote it."""

    name: str
    arguments: Mapping[str, Any]
    verbatim: bool = False  # the format writes values without their types; the tool's schema says what they are


@dataclass(frozen=True, slots=True)
class Reading:
    """The calls of a text, or why it is none; `around` is what stands beside them."""

    calls: tuple[Call, ...] = ()
    problem: str | None = None  # malformed, unclosed
    around: str = ""
    declined: bool = False  # an empty list of calls was written out


MALFORMED = Reading(problem="malformed")
UNCLOSED = Reading(problem="unclosed")


def fault(document: Document) -> Reading:
    """Return what a call is whose JSON has a problem: cut off, or broken."""
    return UNCLOSED if document.problem == "unclosed" else MALFORMED


def call_of(value: Any, keys: Sequence[str] = ("arguments",)) -> Call | None:
    """Return the call that a JSON value is, its arguments under one of `keys`; None if it is none.

    Missing, null or blank arguments are no arguments. Further keys (`id`, `type`) say nothing, except a key under
    which another format would look for the arguments: such a call says two things.
    """
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    given = [key for key in _ARGUMENT_KEYS if key in value]
    if len(given) > 1 or any(key not in keys for key in given):
        return None
    arguments = arguments_of(value[given[0]] if given else None)
    return None if arguments is None else Call(value["name"], arguments)


def arguments_of(value: Any) -> dict[str, Any] | None:
    """Return arguments given as an object or as JSON text of one; None if they are neither."""
    if isinstance(value, str):
        document = read_json(value, fence=False) if value.strip() else Document(None)
        if document.problem is not None:
            return None
        value = document.value
    if value is None:
        return {}
    return value if isinstance(value, dict) else None


def strict_value(value: Any) -> Document:
    """Return a Python value, or the one that JSON text holds, within the bounds of `read_json`."""
    if not isinstance(value, str):
        try:
            value = json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            return Document(None, "not_json")
    return read_json(value, fence=False)


class Cursor:
    """A place in a text; what is taken moves it on."""

    __slots__ = ("place", "text")

    def __init__(self, text: str, place: int = 0) -> None:
        """Stand at `place`, in characters from the start."""
        self.text = text
        self.place = place

    def space(self) -> None:
        """Pass white space."""
        while self.place < len(self.text) and self.text[self.place].isspace():
            self.place += 1

    def at_end(self) -> bool:
        """Tell whether only white space is left; passes it."""
        self.space()
        return self.place >= len(self.text)

    def sees(self, literal: str) -> bool:
        """Tell whether the text goes on with a literal."""
        return self.text.startswith(literal, self.place)

    def take(self, literal: str) -> bool:
        """Pass a literal, if the text goes on with it."""
        found = self.sees(literal)
        if found:
            self.place += len(literal)
        return found

    def until(self, literal: str) -> str | None:
        """Return what stands before the next such literal and pass both; None, unmoved, if there is none."""
        end = self.text.find(literal, self.place)
        if end < 0:
            return None
        taken = self.text[self.place : end]
        self.place = end + len(literal)
        return taken

    def match(self, pattern: re.Pattern[str]) -> str | None:
        """Pass what a pattern matches here and return it; None if it does not."""
        found = pattern.match(self.text, self.place)
        if found is None:
            return None
        self.place = found.end()
        return found.group()

    def rest(self) -> str:
        """Return all that is left and pass it."""
        taken = self.text[self.place :]
        self.place = len(self.text)
        return taken

    def json(self) -> Document:
        """Return the object or list that begins here, after white space, and pass it.

        Where it ends is found by its brackets, so that a marker inside one of its strings ends nothing. The problem of
        one whose brackets do not close is `unclosed`, beside those of `read_json`.
        """
        self.space()
        if not self.sees("{") and not self.sees("["):
            return Document(None, "not_json")
        end = _end_of_json(self.text, self.place)
        if end < 0:
            return Document(None, "unclosed")
        document = read_json(self.text[self.place : end], fence=False)
        self.place = end
        return document


def _end_of_json(text: str, place: int) -> int:
    """Return where the bracket that opens at `place` is closed again; -1 if it is not."""
    depth = 0
    while (mark := _STRUCTURE.search(text, place)) is not None:
        place = mark.end()
        if mark.group() == '"':
            place = _end_of_string(text, place)
            if place < 0:
                return -1
        elif mark.group() in "{[":
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return place
    return -1


def _end_of_string(text: str, place: int) -> int:
    while (mark := _IN_STRING.search(text, place)) is not None:
        if mark.group() == '"':
            return mark.end()
        place = mark.end() + 1
    return -1
