"""Reading one JSON document strictly, as RFC 8259 writes it and nothing more.

What Python's own reader lets through is refused: NaN and Infinity, numbers beyond a double's range, duplicate keys,
halves of surrogate pairs, a byte order mark. Numbers keep the value they were written with: a fraction that a double
does not hold to the last digit is a `Decimal`, so that 1.0000000000000000001 is not 1 and 1e23 is 10**23.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate
from typing import Any

MAX_CHARACTERS = 1 << 20  # of one document
MAX_DEPTH = 200  # arrays and objects within each other; far below what crashes a recursive reader
MAX_DIGITS = 400  # of one number; also how far its exponent may go below zero

_SPACE = " \t\n\r"  # what JSON calls whitespace; a no-break space is none
_BOM = "\ufeff"
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_BRACKET = re.compile(r"[\[\]{}]")
_FENCE = re.compile(r"(`{3,})([^`\n]*)\n")
_FENCE_END = re.compile(r"^ {0,3}(`{3,})[ \t\r]*$", re.MULTILINE)
_SHORT = 16  # characters: a double holds every fraction of so few, to the last digit
_INFINITY = float("inf")
_EXPONENT_DIGITS = 4
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON value, or why there is none."""

    value: Any  # None, bool, int, float, Decimal, str, list or dict; None where there is a problem
    problem: str | None = None  # a short code, see `read_json`


class _Unacceptable(Exception):  # noqa: N818  a code on its way out of the decoder, not an error
    """Well-formed for Python, refused here; its only argument is the code."""


def read_json(text: str, *, fence: bool = True) -> Document:
    """Return the one JSON document that a text is; never raises.

    With `fence`, one surrounding code fence of three or more backquotes on lines of their own is taken off, bare or
    tagged json, with nothing outside it.

    The problems: `empty`; `too_large`, over `MAX_CHARACTERS`; `bom`; `too_deep`, over `MAX_DEPTH`; `not_json`;
    `trailing_text`, something after the document, a second one too; `duplicate_key`, at any depth and after
    unescaping; `not_finite`, NaN, Infinity or a number over 1.8e308; `number_too_long`, over `MAX_DIGITS`;
    `lone_surrogate`, half a pair in a string or key; `fence_language`, a tag other than json; `fence_unclosed`.
    """
    if len(text) > MAX_CHARACTERS:
        return Document(None, "too_large")
    body = text.strip(_SPACE)
    if fence and body.startswith("```"):
        body, problem = _inside_fence(body)
        if problem is not None:
            return Document(None, problem)
    if not body:
        return Document(None, "empty")
    if body[0] == _BOM:
        return Document(None, "bom")
    if body.count("[") + body.count("{") > MAX_DEPTH and _depth(body) > MAX_DEPTH:
        return Document(None, "too_deep")
    return _parse(body)


def _parse(body: str) -> Document:
    try:
        value, end = _DECODER.raw_decode(body)
    except _Unacceptable as refused:
        return Document(None, str(refused))
    except json.JSONDecodeError:
        return Document(None, "not_json")
    if end != len(body):
        return Document(None, "trailing_text")
    if not body.isascii() and not encodes(body):
        return Document(None, "lone_surrogate")
    if "\\u" in body and _SURROGATE_ESCAPE.search(body) and not encodes(_dumped(value)):
        return Document(None, "lone_surrogate")
    return Document(value)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def encodes(text: str) -> bool:
    """Tell whether a string is free of lone halves of surrogate pairs."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _inside_fence(body: str) -> tuple[str, str | None]:
    """Return what stands inside the fence that a trimmed text begins with, and what is wrong with the fence."""
    opened = _FENCE.match(body)
    if opened is None:
        return "", "not_json"
    marks, tag = opened.groups()
    if tag.strip().lower() not in ("", "json"):
        return "", "fence_language"
    for end in _FENCE_END.finditer(body, opened.end()):  # no JSON string spans lines: the first such line ends it
        if len(end.group(1)) >= len(marks):
            outside = body[end.end() :].strip(_SPACE)
            return body[opened.end() : end.start()].strip(_SPACE), "trailing_text" if outside else None
    return "", "fence_unclosed"


def _depth(body: str) -> int:
    """Return how deep brackets outside strings go, as deep as a reader would go before it stops at a fault."""
    unescaped = body.replace("\\\\", "").replace('\\"', "")
    brackets = _BRACKET.findall("".join(unescaped.split('"')[::2]))
    return max(accumulate(_STEPS[bracket] for bracket in brackets), default=0)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Unacceptable("duplicate_key")
    return members


def _integer(literal: str) -> int:
    if len(literal) > MAX_DIGITS and len(literal.lstrip("-")) > MAX_DIGITS:
        raise _Unacceptable("number_too_long")
    return int(literal)


def _fraction(literal: str) -> float | Decimal:
    """Return a number written with a point or an exponent, exactly."""
    if len(literal) < _SHORT and "e" not in literal and "E" not in literal:
        return float(literal)
    return _exact_fraction(literal)


def _exact_fraction(literal: str) -> float | Decimal:
    number = float(literal)
    if number in (_INFINITY, -_INFINITY):
        raise _Unacceptable("not_finite")
    mantissa, _, exponent = literal.lower().partition("e")
    if not mantissa.strip("-0."):
        return number  # zero, whatever its exponent
    if len(mantissa) > MAX_DIGITS or len(exponent.lstrip("+-0")) > _EXPONENT_DIGITS:
        raise _Unacceptable("number_too_long")
    exact = Decimal(literal)
    if exact.adjusted() < -MAX_DIGITS:
        raise _Unacceptable("number_too_long")
    # A whole number is itself; a fraction stands for the shortest decimal that names its double.
    same = Decimal(number) if number.is_integer() else Decimal(repr(number))
    return number if same == exact else exact


def _constant(_literal: str) -> float:
    raise _Unacceptable("not_finite")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)
