r"""Llama 4, Llama 3.2 and the prompt of BFCL: `[f(a=1, b="x"), g()]`, calls as Python writes them.

Source: https://github.com/ShishirPatil/gorilla (BFCL) and https://www.llama.com/docs/model-cards-and-prompt-formats.
Only literals are read, by a grammar of its own: nothing is evaluated, each character is read once, and no warning about
an escape is raised, none of which `ast.parse` promises for a hostile text. Arguments have names: positional ones,
`**`, names for values and expressions are refused. A tuple is a list. A parameter may be named as a Python keyword.
"""

import re
from typing import Any

from llm_finetuning.rewards.json_text import encodes, read_json
from llm_finetuning.rewards.tool_calls.reading import MALFORMED, Call, Cursor, Reading

OPEN, CLOSE = "<|python_start|>", "<|python_end|>"
MAX_DEPTH = 100  # lists and dictionaries within each other
_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_KEY = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][-+]?\d+)?(?!\w)")
_STRING = re.compile(
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
    r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    r'|"(?!"")[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    r"|'(?!'')[^'\\\n]*(?:\\.[^'\\\n]*)*'",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(\n|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPED = {"\n": "", "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CONSTANTS = {"True": True, "False": False, "None": None}
_BEGIN = re.compile(r"\[\s*[^\W\d][\w.]*\s*\(")
_LAST_CODE_POINT = 0x10FFFF
_OCTAL = "01234567"


class _NotLiteral(Exception):  # noqa: N818  caught in `read`: the text is not in the grammar
    """What stands here is no literal."""


def read(text: str) -> Reading:
    """Return the calls of a text that is one list of calls, between Llama 4's markers or not, and nothing else."""
    body = text.strip()
    marked = body.startswith(OPEN)
    body = body.removeprefix(OPEN).removesuffix(CLOSE).strip()
    if not marked and not body.startswith("["):
        return Reading(around=text)
    cursor = Cursor(body)
    try:
        calls = _calls(cursor)
    except _NotLiteral:
        return MALFORMED if marked or _BEGIN.match(body) else Reading(around=text)
    return Reading(tuple(calls), declined=not calls)


def _calls(cursor: Cursor) -> list[Call]:
    calls = []
    if not cursor.take("["):
        raise _NotLiteral
    cursor.space()
    while not cursor.take("]"):
        name = cursor.match(_NAME)
        cursor.space()
        if name is None or not cursor.take("("):
            raise _NotLiteral
        calls.append(Call(name, _arguments(cursor)))
        _comma(cursor, "]")
    if not cursor.at_end():
        raise _NotLiteral
    return calls


def _comma(cursor: Cursor, closing: str) -> None:
    """Pass the comma after an item; before the closing bracket it may be left out."""
    cursor.space()
    if not cursor.take(",") and not cursor.sees(closing):
        raise _NotLiteral
    cursor.space()


def _arguments(cursor: Cursor) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    cursor.space()
    while not cursor.take(")"):
        key = cursor.match(_KEY)
        cursor.space()
        if key is None or key in arguments or not cursor.take("="):
            raise _NotLiteral
        arguments[key] = _value(cursor, 0)
        _comma(cursor, ")")
    return arguments


def _value(cursor: Cursor, depth: int) -> Any:
    cursor.space()
    if depth > MAX_DEPTH:
        raise _NotLiteral
    first = cursor.text[cursor.place : cursor.place + 1]
    if first in ("'", '"'):
        return _text(cursor)
    if cursor.take("["):
        return _items(cursor, "]", depth)[0]
    if cursor.take("("):
        items, commas = _items(cursor, ")", depth)
        return items[0] if len(items) == 1 and not commas else items
    if cursor.take("{"):
        return _members(cursor, depth)
    if first and first in "+-.0123456789":
        return _number(cursor)
    word = cursor.match(_KEY)
    if word not in _CONSTANTS:
        raise _NotLiteral
    return _CONSTANTS[word]


def _items(cursor: Cursor, closing: str, depth: int) -> tuple[list[Any], bool]:
    """Return the items up to a closing bracket, and whether a comma followed the first."""
    items: list[Any] = []
    commas = False
    cursor.space()
    while not cursor.take(closing):
        items.append(_value(cursor, depth + 1))
        cursor.space()
        commas = commas or cursor.sees(",")
        _comma(cursor, closing)
    return items, commas


def _members(cursor: Cursor, depth: int) -> dict[str, Any]:
    members: dict[str, Any] = {}
    cursor.space()
    while not cursor.take("}"):
        key = _text(cursor)
        cursor.space()
        if key in members or not cursor.take(":"):
            raise _NotLiteral
        members[key] = _value(cursor, depth + 1)
        _comma(cursor, "}")
    return members


def _number(cursor: Cursor) -> Any:
    sign = "-" if cursor.take("-") else ""
    if not sign:
        cursor.take("+")
    cursor.space()
    written = cursor.match(_NUMBER)
    if written is None or "__" in written or written.endswith("_"):
        raise _NotLiteral
    whole, point, fraction = written.replace("_", "").partition(".")
    # Python may leave out the digits on one side of the point, JSON may not.
    fraction = f".{fraction}" if not point or fraction[:1].isdigit() else f".0{fraction}"
    document = read_json(sign + (whole or "0") + (fraction if point else ""), fence=False)
    if document.problem is not None:
        raise _NotLiteral
    return document.value


def _text(cursor: Cursor) -> str:
    """Return a string, or several side by side as the one string that Python makes of them."""
    parts = []
    while (written := cursor.match(_STRING)) is not None:
        marks = 3 if written[:3] in ('"""', "'''") and len(written) > 5 else 1  # noqa: PLR2004  both ends
        body = written[marks:-marks]
        parts.append(_ESCAPE.sub(_unescaped, body) if "\\" in body else body)
        cursor.space()
    text = "".join(parts)
    if not parts or not encodes(text):
        raise _NotLiteral
    return text


def _unescaped(escape: re.Match[str]) -> str:
    """Return what an escape stands for; one that Python does not know stands for itself, with its backslash."""
    mark = escape.group(1)
    if mark[0] in _OCTAL:
        return chr(int(mark, 8))
    if len(mark) > 1:
        code = int(mark[1:], 16)
        if code > _LAST_CODE_POINT:
            raise _NotLiteral
        return chr(code)
    if mark in "xuUN":  # cut short, or a name of a character
        raise _NotLiteral
    return _ESCAPED.get(mark, mark if mark in "\\'\"" else f"\\{mark}")
