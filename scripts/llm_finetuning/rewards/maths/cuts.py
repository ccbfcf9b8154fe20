"""Cutting an answer at the separators and relations that stand outside all brackets."""

import re

_OPEN = frozenset(["(", "[", "{", "\\{", "\\langle", "\\lfloor", "\\lceil"])
_CLOSE = frozenset([")", "]", "}", "\\}", "\\rangle", "\\rfloor", "\\rceil"])
SEPARATORS = frozenset([",", ";", "and", "or", "\\lor", "\\land"])
_CUT = re.compile(
    r"\\begin\s*\{[^{}]*\}|\\end\s*\{[^{}]*\}|\\[{}]|\\(?:langle|rangle|lfloor|rfloor|lceil|rceil)(?![A-Za-z])"
    r"|\\(?:text|mbox|mathrm|textrm)\s*\{[^{}]*\}|\\[A-Za-z]+|\\.|[()\[\]{},;:]|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])"
)
_THREE_DIGITS = re.compile(r"\d{3}(?!\d)")


def cut(text: str, separators: frozenset[str]) -> tuple[list[str], list[str]]:
    """Return the pieces between the separators that stand outside all brackets, and those separators."""
    pieces, found, begin, level = [], [], 0, 0
    for match in _CUT.finditer(text):
        sign = match.group()
        if sign in _OPEN or sign.startswith("\\begin"):
            level += 1
        elif sign in _CLOSE or sign.startswith("\\end"):
            level -= 1
        elif level == 0 and sign in separators and not _is_grouping(text, match, sign):
            pieces.append(text[begin : match.start()])
            found.append(sign)
            begin = match.end()
    pieces.append(text[begin:])
    return pieces, found


def _is_grouping(text: str, match: re.Match[str], sign: str) -> bool:
    """Tell whether a comma groups thousands (`1,234`) rather than separates."""
    if sign != "," or match.start() == 0 or not text[match.start() - 1].isdigit():
        return False
    if not _THREE_DIGITS.match(text, match.end()):
        return False
    before = re.search(r"\d+(?:,\d{3})*$", text[max(0, match.start() - 60) : match.start()])
    return before is not None and len(before.group().split(",")[0]) <= 3 and not before.group().startswith("0")  # noqa: PLR2004  digits before the first comma


_RELATION = re.compile(
    r"\\(?:le|ge|ne|in|approx|equiv|sim|simeq|cong|notin|to|rightarrow)(?![A-Za-z])|<=|>=|!=|==|=<|[<>=]|(?<![A-Za-z\\])in(?![A-Za-z])"
)
_OPERATORS = {
    "\\le": "<=",
    "\\ge": ">=",
    "\\ne": "!=",
    "\\in": "in",
    "in": "in",
    "==": "=",
    "=<": "<=",
    "\\approx": "~",
}
_OPERATORS |= {"\\simeq": "~", "\\cong": "~", "\\equiv": "\\equiv"}
_CUT_RELATION = re.compile(
    r"\\begin\s*\{[^{}]*\}|\\end\s*\{[^{}]*\}|\\[{}]|\\(?:text|mbox|mathrm|textrm)\s*\{[^{}]*\}|\\[A-Za-z]+|\\.|<=|>=|!=|==|=<|[()\[\]{}<>=]|(?<![A-Za-z\\])in(?![A-Za-z])"
)


def cut_relations(text: str) -> tuple[list[str], list[str]]:  # noqa: D103  pieces and the signs between them
    pieces, found, begin, level = [], [], 0, 0
    for match in _CUT_RELATION.finditer(text):
        sign = match.group()
        if sign in _OPEN or sign.startswith("\\begin"):
            level += 1
        elif sign in _CLOSE or sign.startswith("\\end"):
            level -= 1
        elif level == 0 and _RELATION.fullmatch(sign):
            pieces.append(text[begin : match.start()].strip())
            found.append(_OPERATORS.get(sign, sign))
            begin = match.end()
    pieces.append(text[begin:].strip())
    return pieces, found


def cut_items(inside: str) -> tuple[list[str], list[str]]:
    """Cut at commas; inside brackets a comma groups thousands only where others are followed by a space."""
    pieces, separators = cut(inside, frozenset([",", ";"]))
    if ", " in inside or "," not in inside:
        return pieces, separators
    loose = [
        part
        for piece in pieces
        for part in (re.split(r"(?<=\d),(?=\d{3}(?!\d))", piece) if "(" not in piece and "{" not in piece else [piece])
    ]
    return loose, [","] * (len(loose) - 1)


def cut_rule(inside: str) -> bool:
    """Tell whether a set is given by a rule: one `:` or `|` outside all brackets, with a membership after it."""
    _, colons = cut(inside, frozenset([":"]))
    return (len(colons) == 1 or inside.count("|") == 1) and "\\in" in inside


def closes_last(text: str) -> bool:  # noqa: D103  the name says it
    level = 0
    for match in _CUT.finditer(text):
        sign = match.group()
        if sign in _OPEN:
            level += 1
        elif sign in _CLOSE:
            level -= 1
            if level == 0:
                return match.end() == len(text)
    return False
