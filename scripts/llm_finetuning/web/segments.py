"""Cut a text into parts that a page can set apart: reasoning, code, formulas, plain text.

Every part is text, never markup: the page makes elements of its own and puts these words into them.
"""

import re
from typing import TypedDict

from llm_finetuning.console import visible


class Segment(TypedDict):
    """One part of a text; all parts together are the whole of it, in order."""

    kind: str  # reasoning, code, math or text
    text: str


_REASONING = re.compile(r"<(think(?:ing)?|thought|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_LATE_END = re.compile(r"\A.*?</(?:think(?:ing)?|thought|reasoning)>", re.DOTALL | re.IGNORECASE)
_CODE = re.compile(r"^```[^\n]*\n.*?(?:^```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_MATH = re.compile(
    r"\$\$[^$]{1,2000}\$\$|\\\[[^\0]{1,2000}?\\\]|\\\([^\0]{1,500}?\\\)|\$(?!\s)[^$\n]{1,300}(?<!\s)\$(?!\d)"
    r"|\\(?:boxed|fbox)\s*\{(?:[^{}\n]|\{(?:[^{}\n]|\{[^{}\n]*\})*\}){0,500}\}"
)
_MAX_CUT = 200_000  # characters that are looked at; a longer rest is one plain part


def segments(text: str) -> list[Segment]:
    """Return the parts; a closing thinking tag without an opening one ends reasoning that the prompt had opened."""
    parts: list[Segment] = []
    place = 0
    head = None if _REASONING.match(text) else _LATE_END.match(text[:_MAX_CUT])
    if head and not _REASONING.search(text[:_MAX_CUT], 0, head.end()):
        parts.append(_segment("reasoning", head.group()))
        place = head.end()
    for match in _REASONING.finditer(text, place, _MAX_CUT):
        parts += _plain(text[place : match.start()])
        parts.append(_segment("reasoning", match.group()))
        place = match.end()
    return parts + _plain(text[place:])


def _plain(text: str) -> list[Segment]:
    parts: list[Segment] = []
    place = 0
    for match in _CODE.finditer(text, 0, _MAX_CUT):
        parts += _formulas(text[place : match.start()])
        parts.append(_segment("code", match.group()))
        place = match.end()
    return parts + _formulas(text[place:])


def _formulas(text: str) -> list[Segment]:
    parts: list[Segment] = []
    place = 0
    for match in _MATH.finditer(text, 0, _MAX_CUT):
        if match.start() > place:
            parts.append(_segment("text", text[place : match.start()]))
        parts.append(_segment("math", match.group()))
        place = match.end()
    if place < len(text):
        parts.append(_segment("text", text[place:]))
    return parts


def _segment(kind: str, text: str) -> Segment:
    return Segment(kind=kind, text=visible(text))
