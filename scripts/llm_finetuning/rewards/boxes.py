r"""The boxed final answer: which `\boxed{...}` counts, what stands in it, and what around it changes it.

The last box counts, or the outermost one around it. Boxes with nothing but separators between them are one list. A box
that is opened and not closed leaves no answer. A sign, power, factor or `not` beside the box makes the answer unclear;
a percent sign, degree or unit after it belongs to it.
"""

import re
from dataclasses import dataclass

from llm_finetuning.rewards.maths import units
from llm_finetuning.rewards.maths.lexer import closing_brace

_OPENING = re.compile(r"\\(?:boxed|fbox)\s*\{$")
_COMMAND = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_BARE = re.compile(r"\\[dt]?frac\s*\d\s*\d|\d[\d,.]*\d|\d|\\[A-Za-z]+\s*(?:\{[^{}]*\}\s*){0,2}|[^\s{}$\\]")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_GAP = re.compile(
    r"(?:[\s,;.:&(){}\[\]*]|\$|\\[()\[\],;:! ]|\\\\|\\q?quad|\\(?:text|mbox|mathrm|textrm)\s*\{|\b(?:and|or|and/or|also|either)\b)*",  # noqa: E501  a pattern, whole on a line
    re.IGNORECASE,
)
_WINDOW = 20_000  # characters before the last box in which a box around it is looked for
_MAX_CHAIN = 200
_MAX_GAP = 60


@dataclass(frozen=True, slots=True)
class Boxed:
    """What the final boxes hold, in order; `problem` says why it cannot be taken (unclosed, unclear), '' if it can."""

    contents: tuple[str, ...]
    problem: str
    end: int  # where the last box ends


def last_boxes(text: str) -> Boxed | None:
    """Return the final box, or the chain of adjacent ones; None if the text has no box."""
    place = _last_command(text, len(text))
    if place < 0:
        return None
    begin, content, end = _content(text, place)
    if content is None:
        return Boxed((), "unclosed", end)
    earlier = _last_command(text, begin)
    outer = begin if earlier < 0 else _outermost(text, begin, earlier)
    if outer != begin:
        begin, content, end = _content(text, outer)
        if content is None:
            return Boxed((), "unclosed", end)
        earlier = _last_command(text, begin)
    contents = [content]
    first = begin
    while earlier >= 0 and len(contents) < _MAX_CHAIN:
        _, before, stop = _content(text, earlier)
        if (
            before is None
            or not before.strip()
            or stop > first
            or first - stop > _MAX_GAP
            or not _GAP.fullmatch(text, stop, first)
        ):
            break
        contents.insert(0, before)
        first = earlier
        earlier = _last_command(text, first)
    suffix, problem = _after(text, begin, end)
    problem = problem or _before(text, first)
    distinct = tuple(dict.fromkeys(part.strip() for part in contents))
    if len(distinct) == 1:
        distinct = (distinct[0] + suffix,)
    return Boxed(distinct, problem, end)


def _last_command(text: str, before: int) -> int:
    return max(text.rfind("\\boxed", 0, before), text.rfind("\\fbox", 0, before))


def _content(text: str, place: int) -> tuple[int, str | None, int]:
    """Return the box's begin, its content (None if it does not close) and the place after it."""
    command = _COMMAND.match(text, place)
    if command is None:
        return place, None, len(text)
    opening = command.end()
    if opening < len(text) and text[opening] == "{":
        closing = closing_brace(text, opening)
        return (place, None, len(text)) if closing < 0 else (place, text[opening + 1 : closing], closing + 1)
    bare = _BARE.match(text, opening)
    return (place, None, len(text)) if bare is None else (place, bare.group(), bare.end())


def _outermost(text: str, begin: int, earlier: int) -> int:
    """Return the begin of the outermost box around `begin`, itself if none is; `earlier` is the box before it."""
    start = max(0, begin - _WINDOW)
    if earlier < start:
        return begin
    closed, outer = 0, begin
    for brace in reversed(list(_BRACE.finditer(text, start, begin))):
        if brace.group() == "}":
            closed += 1
        elif brace.group() == "{":
            if closed:
                closed -= 1
                continue
            command = _last_command(text, brace.start())
            if command >= 0 and _OPENING.fullmatch(text, command, brace.end()):
                outer = command
    return outer


_MATH_SPACE = re.compile(r"(?:\s|\\[,;:! ]|~|\\q?quad(?![A-Za-z]))*")
_DEGREE = re.compile(
    r"\^\s*(?:\\circ|\{\s*\\circ\s*\})(?:\s*\\(?:text|mathrm)\{[^{}]{0,12}\}|\s*[CF]\b)?|\\degree|\N{DEGREE SIGN}[CF]?"
)
_PERCENT = re.compile(r"\\?%")
_TEXT = re.compile(r"\\(?:text|mbox|mathrm|textrm|rm|hbox)\s*\{([^{}]*)\}(?:\s*\^\s*(?:\{\s*-?\d\s*\}|-?\d))?")
_CHANGES = re.compile(
    r"\^|_|\\(?:cdot|times|div|frac|dfrac|sqrt|pi|pm|mp|left|binom|sin|cos|ln|log|circ)(?![A-Za-z])|[*/+\-\u2212\u00d7\u00f7]\s*(?:\d|\\[A-Za-z(\[]|\$|[A-Za-z](?![A-Za-z]))|\d|[A-Za-z](?![A-Za-z'])"
)
_SPACED_CHANGES = re.compile(
    r"\^|\\(?:cdot|times|div|frac|dfrac|sqrt|pi|pm|mp|binom)(?![A-Za-z])|[*/+\-\u2212\u00d7\u00f7]\s*(?:\d|\\(?!\]|\))[A-Za-z]|[A-Za-z](?![A-Za-z]))"
)
_HEDGE = re.compile(
    r"[\s,;$]*(?:\\[)\]])?\s*(?:\\(?:text|mbox)\s*\{\s*)?\b(?:or|and/or)\b\s*\}?\s*(?:maybe|perhaps|possibly|even|else|also)?\s*[-$\\(]*\s*[\dA-Z\\]",
    re.IGNORECASE,
)
_UNIT_WORD = re.compile(r"([A-Za-z]+(?:\s*/\s*[A-Za-z]+)?(?:\^\{?\d\}?)?)\s*(?=[.,;:!?)$*]|\\[)\]]|$)", re.MULTILINE)
_LEAVES_MATH = re.compile(r"\s*(?:\$+|\\[)\]])")


def _after(text: str, begin: int, end: int) -> tuple[str, str]:  # noqa: PLR0911  one return a kind of tail
    """Return what after the box belongs to the answer, and why the answer is unclear ('' if it is not)."""
    tail = text[end : end + 200]
    if _HEDGE.match(tail):
        return "", "conflicting"
    if _LEAVES_MATH.match(tail):
        return "", ""
    space = _MATH_SPACE.match(tail)
    assert space is not None
    rest = tail[space.end() :]
    for pattern in (_DEGREE, _PERCENT):
        match = pattern.match(rest)
        if match:
            return match.group(), ""
    group = _TEXT.match(rest)
    if group:
        is_unit = bool(units.split_unit("1 " + group.group())[1])
        return (" " + group.group(), "") if is_unit else ("", "")
    word = _UNIT_WORD.match(rest)
    if word and re.split(r"[\s/^]", word[1])[0] in units.CANONICAL:
        return " " + word[1], ""
    changes = _SPACED_CHANGES if space.group() else _CHANGES
    if changes.match(rest):
        return "", "unclear"
    if rest.startswith("!") and _is_in_math(text, begin):
        return "", "unclear"
    return "", ""


def _is_in_math(text: str, begin: int) -> bool:
    line = text[max(0, text.rfind("\n", 0, begin)) : begin]
    return line.count("$") % 2 == 1 or line.rfind("\\(") > line.rfind("\\)") or line.rfind("\\[") > line.rfind("\\]")


_CHANGED_BEFORE = re.compile(
    r"(?:\\(?:cdot|times|sqrt|pm|mp|div|frac|dfrac|neg|not|neq|ne|sin|cos|tan|ln|log)|[\^_/+\u2212]|\d|(?<![-=])[<>]|\\(?:lt|gt|leq?|geq?|leqslant|geqslant)|\\sqrt\s*(?:\[\d+\])?\s*\{|[\^_]\s*\{|\\[dt]?frac\s*\{|\\[dt]?frac\s*\{[^{}]*\}\s*\{|(?<!\*)\*)\s*$"
)
_NEGATED = re.compile(
    r"(?:\b(?:can)?not|n't|\bnever|\brather than|\binstead of)\s+(?:equal\s+to\s+|be\s+)?[$\\(\[]*\s*$", re.IGNORECASE
)
_TAG = re.compile(r"(?:(?:<[|/]?[A-Za-z_][^<>\s]*>)+|(?:^|\n)[ \t]*>)$")  # or the sign of a quotation
_DENIAL = re.compile(r"[Nn]ot|NOT|ever|rather|instead")
_QUIET = ("", "$", "=", ":", ",", ".", "(", "[")  # after these nothing before the box can change it
_MINUS = re.compile(r"(?P<before>(?:^|.|\n))(?P<gap>[ \t]*)-(?P<space>[ \t]*)$", re.DOTALL)


def _before(text: str, begin: int) -> str:
    """Return why what stands before the box makes it unclear, '' if it does not."""
    head = text[max(0, begin - 80) : begin]
    if ("n't" in head or _DENIAL.search(head)) and _NEGATED.search(head):
        return "negated"
    bare = head.rstrip()
    if bare[-1:] in _QUIET:
        return ""
    if bare[-1] == ">":
        bare = _TAG.sub("", bare).rstrip()
    if (
        _CHANGED_BEFORE.search(bare)
        and not (bare[-1:].isdigit() and bare != head)
        and not re.search(r"(?:^|\n)\s*[*+]$", bare)
    ):
        return "unclear"
    minus = _MINUS.search(head)
    if minus:
        before = minus["before"]
        is_bullet = before in {"", "\n"}
        is_dash = bool(minus["gap"]) and bool(minus["space"]) and before.isalpha()
        if not is_bullet and not is_dash:
            return "unclear"
    return ""
