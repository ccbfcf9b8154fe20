r"""The type of a whole answer: number, words, set, tuple, region of the line, relation, matrix, residue, ratio.

`read_answer` goes from outside in: names and phrases before the answer, units after it, then lists, unions, relations,
brackets, and last the expression itself.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from llm_finetuning.rewards.maths import units, words
from llm_finetuning.rewards.maths.grammar import has_plus_minus, read_expression
from llm_finetuning.rewards.maths.lexer import decimal_value, tokenise
from llm_finetuning.rewards.maths.nodes import Node, TooLargeError, UnreadableError, UnsupportedError, number, variables

MAX_LENGTH = 20_000  # characters of an answer that is read; a longer one is compared as text alone
MAX_ITEMS = 200

_MAX_DEPTH = 12


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number or expression; `digits` are the significant ones of a plain decimal, 0 for anything else."""

    node: Node
    unit: str = ""
    is_percent: bool = False
    digits: int = 0
    has_commas: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """An answer in words, as it was written."""

    text: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """Sound notation outside the grammar: equal only letter for letter, or by the referee."""

    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """Several values: a `list` and a `set` without order, a `tuple` and a `series` (with dots) in order."""

    kind: str
    items: "tuple[Value, ...]"
    brackets: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the real line; None is an infinite end."""

    low: Node | None
    high: Node | None
    has_low: bool
    has_high: bool


@dataclass(frozen=True, slots=True)
class Region:
    """A union of spans, with the variable that lies in it where one is named."""

    spans: tuple[Span, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Relation:
    """`left OP right`, OP one of = < <= != in."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Named:
    """`name = value`; `left` is the name as an expression where it is one."""

    name: str
    value: "Value"
    left: Node | None


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of expressions."""

    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class Residue:
    """A residue and its modulus."""

    node: Node
    modulus: Node


@dataclass(frozen=True, slots=True)
class Ratio:
    """`a : b : c`."""

    items: tuple[Node, ...]


Value = Scalar | Words | Opaque | Group | Region | Relation | Named | Matrix | Residue | Ratio

_NUMBER = re.compile(r"[-+]?\s?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?<=\d)")
_SPACED_NUMBER = re.compile(r"(?<![\d.])\d{1,3}(?: \d{3})+(?!\d)(?! *[/:])")
_LEAD = re.compile(
    r"^(?:\\(?:Rightarrow|therefore|implies|Longrightarrow)|=|:|(?:(?:so|thus|hence|therefore|finally)\b,?\s*)?(?:\\(?:text|mbox|mathrm|textbf)\s*\{\s*)?"
    r"(?:the\s+)?(?:final\s+|correct\s+|exact\s+)?(?:answer|solution|result)s?\s*(?:is|are|:|=)\s*:?(?!\s*n[o']t)\s*\}?)\s*",
    re.IGNORECASE,
)
_WHOLE_TEXT = re.compile(r"\\(?:text|mbox|mathrm|textrm|textbf|mathbf|textit|texttt|operatorname)\s*\{")
_CONNECTIVE = re.compile(r"\\(?:text|mbox|mathrm|textrm|hbox|textbf|textit)\s*\{\s*,?\s*(and|or)\s*,?\s*\}")
_SCALE_GROUP = re.compile(r"\\(?:text|mbox|mathrm|textrm)\s*\{\s*(hundred|thousand|million|billion|trillion)\s*\}")
# A segment is named by its ends with or without a line over them; a vector by its letter.
_SEGMENT = re.compile(
    r"\\(?:overline|overrightarrow|overleftrightarrow|vec|widehat|bar)\s*\{\s*([A-Z]{2,3})\s*\}|\\vec\s*\{?\s*([a-z])\s*\}?"
)
_BASED = re.compile(r"\(\s*(\d+)\s*\)_")
_SINGLE_LETTERS = re.compile(r"[A-Za-z](?:,? (?:and|or) [A-Za-z])+")
_LETTERS_ONLY = re.compile(r"[A-Za-z][A-Za-z'.-]*(?:[ -][A-Za-z'.-]+)*")
_PRODUCT = re.compile(r"[abc]{2,3}|[b-df-hj-np-tv-z]{2,3}|a[b-df-hj-mp-rt-z]|[b-df-hj-np-rt-z]a")
_CUT = re.compile(
    r"\\begin\s*\{[^{}]*\}|\\end\s*\{[^{}]*\}|\\[{}]|\\(?:langle|rangle|lfloor|rfloor|lceil|rceil)(?![A-Za-z])"
    r"|\\(?:text|mbox|mathrm|textrm)\s*\{[^{}]*\}|\\[A-Za-z]+|\\.|[()\[\]{},;:]|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])"
)
_OPEN = frozenset(["(", "[", "{", "\\{", "\\langle", "\\lfloor", "\\lceil"])
_CLOSE = frozenset([")", "]", "}", "\\}", "\\rangle", "\\rfloor", "\\rceil"])
_SEPARATORS = frozenset([",", ";", "and", "or", "\\lor", "\\land"])
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
_OPERATORS |= {"\\simeq": "~", "\\cong": "~", "\\sim": "~", "\\equiv": "\\equiv"}
_MOD = re.compile(
    r"^(?P<value>.*?)\s*(?:\\pmod\s*(?P<a>\{[^{}]*\}|\d|\w)|\\(?:bmod|mod)\s*(?P<b>.+)"
    r"|\(\s*(?:\\(?:bmod|mod|text\s*\{\s*mod\s*\}|mathrm\s*\{\s*mod\s*\})|mod|modulo)\s*(?P<c>[^()]+)\)|(?:mod|modulo|\\text\s*\{\s*mod\s*\}|\\mathrm\s*\{\s*mod\s*\})\s*(?P<d>[\w{}]+))$",
    re.DOTALL,
)
_ANNOTATION = re.compile(
    r"[,;]?\s*(?:\(\s*)?(?:(?:\\(?:text|mbox)\s*\{)?\s*(?:where|for|with|for any|for all|for some)\s*\}?\s*)?\\?(?:forall\s*)?"
    r"(?P<name>[a-zA-Z](?:_\w)?)\s*(?:\\in|in)\s*(?:\\mathbb\s*\{?\s*[ZN]\s*\}?|\\mathbf\s*\{\s*[ZN]\s*\}|Z|N)(?:\^\s*\{?\+\}?|_\s*\{?\+\}?)?\s*\)?$"
    r"|[,;]?\s*(?:\\(?:text|mbox)\s*\{)?\s*(?:where|for|with)\s+\$?(?P<other>[a-zA-Z])\$?\s+(?:is\s+)?(?:an?y?\s+)?(?:arbitrary\s+)?integer\s*\}?$"
)
_NAME = re.compile(
    r"(?P<variable>\\?[A-Za-z]+(?:\s*_\s*(?:\{[^{}]*\}|\w))?'*)|(?P<function>\\?[A-Za-z](?:_\w|_\{\w+\})?'*(?:\^\s*\{?\s*(?:-1|\\prime|'|\(\d\))\s*\}?)?\s*\(\s*[^()=]{1,30}\s*\))"
    r"|(?P<derivative>\\frac\s*\{\s*d\s*(?:\^\s*\{?2\}?)?\s*\w?(?:\s*\(\w\))?\s*\}\s*\{\s*d\s*\w(?:\s*\^\s*\{?2\}?)?\s*\}|d\w\s*/\s*d\w)|(?P<accent>\\(?:vec|overrightarrow|overline|hat|bar|mathbf|bm|boldsymbol|angle|triangle|mathrm|text|operatorname)\s*(?:\{[^{}]*\}|\w+)(?:_\w|_\{\w+\})?)"
    r"|(?P<norm>\|\s*\w+\s*\|)|(?P<measure>m?\s*\\angle\s*[A-Z]{1,3})|(?P<many>\(\s*[a-zA-Z](?:_\w)?(?:\s*,\s*[a-zA-Z](?:_\w)?)+\s*\))"
)
_NAMED_SETS = re.compile(
    r"\\(?:mathbb|mathbf|mathcal)\s*\{?\s*([RZNQC])\s*\}?|(?<![A-Za-z])(?:all real numbers|all reals|the real numbers)(?![A-Za-z])"
)
_EMPTY = re.compile(r"\\emptyset|\\\{\s*\\\}|\{\s*\}")
_DOTS = "..."
_NOTHING = frozenset(["nan", "none", "null"])
_UNSAFE = frozenset(["\\int", "\\lim"])


_SPECIAL: dict[str, Value] = dict.fromkeys(
    ["no solution", "no solutions", "no real solution", "no real solutions", "empty set"], Group("set", ())
)
_SPECIAL |= dict.fromkeys(
    ["all real numbers", "all reals", "real numbers", "any real number", "all real number"],
    Region((Span(None, None, has_low=False, has_high=False),)),
)


def read_answer(text: str, depth: int = 0) -> Value:
    """Return the typed answer of cleaned text; raises UnreadableError or TooLargeError."""
    if len(text) > MAX_LENGTH or depth > _MAX_DEPTH:
        raise TooLargeError("too long an answer")
    text = text.strip(" ")
    if not text:
        raise UnreadableError("nothing")
    quick = _plain_number(text)
    if quick is not None:
        return quick
    text = _SCALE_GROUP.sub(r" \1 ", _CONNECTIVE.sub(r" \1 ", _unwrapped(text))).strip()
    segment = _SEGMENT.fullmatch(text)
    if segment:
        text = segment[1] or segment[2]
    special = _SPECIAL.get(words.folded(text)) if text[-1:].isalpha() else None
    if special is not None:
        return special
    if words.is_calendar(text):
        return Words(text)
    if _is_words(text):
        value = words.written_number(text)
        return Words(text) if value is None else Scalar(number(value))
    try:
        return _read(text, depth)
    except UnsupportedError:
        return _words_or(text, Opaque(text))
    except UnreadableError:
        return _words_or(text, None)


def _words_or(text: str, otherwise: Value | None) -> Value:
    """Return the words where the text has some, else what is left to say of it."""
    plain = words.plain_text(text)
    written = words.written_number(plain)
    if written is not None:
        return Scalar(number(written))
    has_words = re.search(r"(?<![\\A-Za-z])[A-Za-z]{3,}", plain.replace("\\ ", " "))
    if has_words and words.is_text(plain) and not re.search(r"\\(?:frac|sqrt|int|sum|lim|begin)", plain):
        return Words(text)
    if otherwise is None:
        raise UnreadableError(text[:80])
    return otherwise


def _plain_number(text: str) -> Scalar | None:
    if not _NUMBER.fullmatch(text):
        return None
    literal = text.replace(",", "").replace(" ", "")
    value = decimal_value(literal.lstrip("+-"))
    digits = len(literal.lstrip("+-").replace(".", "").lstrip("0")) if "." in literal else 0
    return Scalar(
        number(-value if literal[0] == "-" else value, literal.lstrip("+")), digits=digits, has_commas="," in text
    )


def _unwrapped(text: str) -> str:
    """Take off what stands around or before the answer: text groups around all of it, `the answer is`."""
    for _ in range(6):
        before = text
        match = _WHOLE_TEXT.match(text)
        if match:
            from llm_finetuning.rewards.maths.lexer import closing_brace

            end = closing_brace(text, match.end() - 1)
            if end == len(text) - 1:
                text = text[match.end() : -1].strip()
        lead = _LEAD.match(text)
        if lead and lead.end() < len(text):
            text = text[lead.end() :]
        text = text.strip(" ")
        if text == before:
            break
    return text if text.endswith(_DOTS) else text.rstrip(" .") or text


def _is_words(text: str) -> bool:
    """Tell words from products of variables: `no` and `dog` are words, `xy`, `ab` and `pi` are not."""
    if not _LETTERS_ONLY.fullmatch(text) or len(text) == 1 or _SINGLE_LETTERS.fullmatch(text):
        return False
    from llm_finetuning.rewards.maths.lexer import CONSTANTS, FUNCTIONS

    if " " not in text and (text in CONSTANTS or _PRODUCT.fullmatch(text)):
        return False
    first = text.split()[0]
    return not (first in FUNCTIONS and len(text.split()) > 1 and len(text.split()[1]) <= 2)  # noqa: PLR2004  sin x, sin 2x


def _read(text: str, depth: int) -> Value:
    text = _BASED.sub(r"\1_", text)
    agreed = _parenthesised_words(text)
    if agreed is not None:
        return agreed
    percent = units.split_percent(text)
    if percent[1] and percent[0]:
        inner = read_answer(percent[0], depth + 1)
        if isinstance(inner, Scalar) and not inner.unit:
            return Scalar(Node("div", (inner.node, number(100))), is_percent=True)
        if isinstance(inner, Named) and isinstance(inner.value, Scalar):
            return replace(inner, value=Scalar(Node("div", (inner.value.node, number(100))), is_percent=True))
    money, currency = units.split_currency(text)
    if currency:
        return _with_unit(read_answer(money, depth + 1), currency)
    scaled = words.SCALED.match(text)
    if scaled:
        return _scaled(scaled, depth)
    value, unit = units.split_unit(text)
    if value != text and value.strip():
        try:
            return _with_unit(read_answer(value.strip(" ~"), depth + 1), unit)
        except UnreadableError:
            pass  # what looked like a unit may belong to the value
    return _structured(text, depth)


def _with_unit(value: Value, unit: str) -> Value:
    if not unit:
        return value
    if isinstance(value, Scalar):
        return replace(value, unit=value.unit or unit) if not value.is_percent else value
    if isinstance(value, Named):
        return replace(value, value=_with_unit(value.value, unit))
    if isinstance(value, Group):
        return replace(value, unit=value.unit or unit)
    if isinstance(value, Words | Opaque):
        raise UnreadableError("a unit on words")
    return value


def _scaled(match: re.Match[str], depth: int) -> Value:
    inner = read_answer(match["value"], depth + 1)
    if not isinstance(inner, Scalar):
        raise UnreadableError("a scale on no number")
    value = Scalar(Node("mul", (inner.node, number(words.scale_of(match["scale"])))), unit=inner.unit)
    rest = match["rest"].strip()
    return _with_unit(value, units.split_unit("1 " + rest)[1]) if rest else value


_PARENTHESISED = re.compile(r"^(?P<value>[^()]+?)\s*\((?P<words>[A-Za-z][A-Za-z -]*)\)$")


def _parenthesised_words(text: str) -> Value | None:
    """Read `9 (nine)`: words in brackets that say the same number."""
    if not text.endswith(")"):
        return None
    match = _PARENTHESISED.match(text)
    if match is None:
        return None
    value = _plain_number(match["value"])
    written = words.written_number(match["words"])
    return value if value is not None and written is not None and written == value.node.number else None


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


_THREE_DIGITS = re.compile(r"\d{3}(?!\d)")


def _is_grouping(text: str, match: re.Match[str], sign: str) -> bool:
    """Tell whether a comma groups thousands (`1,234`) rather than separates."""
    if sign != "," or match.start() == 0 or not text[match.start() - 1].isdigit():
        return False
    if not _THREE_DIGITS.match(text, match.end()):
        return False
    before = re.search(r"\d+(?:,\d{3})*$", text[max(0, match.start() - 60) : match.start()])
    return before is not None and len(before.group().split(",")[0]) <= 3 and not before.group().startswith("0")  # noqa: PLR2004  digits before the first comma


def _structured(text: str, depth: int) -> Value:
    shortened = _ANNOTATION.sub("", text) if "in" in text else text
    if shortened.strip() and shortened != text:
        text = shortened.strip()
    pieces, separators = cut(text, _SEPARATORS)
    if separators:
        return _listed([piece.strip() for piece in pieces], separators, depth)
    pieces, unions = cut(text, frozenset(["\\cup"]))
    if unions:
        return _united([piece.strip() for piece in pieces], depth)
    if _EMPTY.fullmatch(text):
        return Group("set", ())
    modular = _MOD.match(text) if "mod" in text else None
    if modular:
        return _residue(modular, depth)
    related = _relation(text, depth)
    if related is not None:
        return related
    if ":" in text:
        parts, colons = cut(text, frozenset([":"]))
        if colons:
            return _ratio([part.strip() for part in parts])
    return _bracketed(text, depth) or _matrix(text) or _scalar(text)


def _listed(pieces: Sequence[str], separators: Sequence[str], depth: int) -> Value:
    kept = [piece for piece in pieces if piece]
    if not kept or len(kept) > MAX_ITEMS:
        raise TooLargeError("too many items") if kept else UnreadableError("nothing but separators")
    if len(kept) < len(pieces) - sum(
        one == "," and other in {"and", "or"} for one, other in zip(separators, separators[1:], strict=False)
    ):
        raise UnreadableError("an empty item")
    if any(piece == _DOTS for piece in kept):
        return Group(
            "series", tuple(Words(_DOTS) if piece == _DOTS else read_answer(piece, depth + 1) for piece in kept)
        )
    items = [read_answer(piece, depth + 1) for piece in kept]
    if any(isinstance(item, Words) for item in items) and not all(isinstance(item, Words) for item in items):
        # Prose with a comma in it is one text, unless every part of it is an answer of its own.
        if any(isinstance(item, Words) and " " in item.text for item in items):
            raise UnreadableError("prose")
    joined = _joined_regions(items, separators)
    if joined is not None:
        return joined
    items = _with_shared_name(items)
    return items[0] if len(items) == 1 else Group("list", tuple(items))


def _with_shared_name(items: Sequence[Value]) -> list[Value]:
    """Turn `x = 1, 2` and `x = 1 or x = 2` into the plain list of values of one variable."""
    if len(items) < 2 or not isinstance(items[0], Named):  # noqa: PLR2004  several
        return list(items)
    name = items[0].name
    if all(isinstance(item, Named) and item.name == name for item in items):
        return [item.value for item in items if isinstance(item, Named)]
    if all(not isinstance(item, Named | Relation | Region) for item in items[1:]):
        return [items[0].value, *items[1:]]
    return list(items)


def _joined_regions(items: Sequence[Value], separators: Sequence[str]) -> Value | None:
    """Return the union (or) or the intersection (and, comma) of inequalities in one variable."""
    if not all(isinstance(item, Region) for item in items):
        return None
    regions = [item for item in items if isinstance(item, Region)]
    names = {region.name for region in regions}
    if len(names) > 1 or "" in names:
        return None
    if "or" in separators or "\\lor" in separators:
        return Region(tuple(span for region in regions for span in region.spans), regions[0].name)
    spans = [region.spans for region in regions]
    if len(regions) == 2 and all(len(one) == 1 for one in spans):  # noqa: PLR2004  a pair
        first, second = spans[0][0], spans[1][0]
        if first.low is not None and first.high is None and second.low is None:
            return Region((Span(first.low, second.high, first.has_low, second.has_high),), regions[0].name)
        if second.low is not None and second.high is None and first.low is None:
            return Region((Span(second.low, first.high, second.has_low, first.has_high),), regions[0].name)
    return None


def _united(pieces: Sequence[str], depth: int) -> Value:
    spans: list[Span] = []
    name = ""
    for piece in pieces:
        value = read_answer(piece, depth + 1)
        if isinstance(value, Region):
            name = name or value.name
        region = as_region(value)
        if region is None:
            raise UnsupportedError("a union of something else than sets")
        spans.extend(region.spans)
    return Region(tuple(spans), name)


def as_region(value: Value) -> Region | None:
    """Return a value as a region of the line: an interval, or a finite set of numbers; None if it is neither."""
    if isinstance(value, Region):
        return value
    if isinstance(value, Group):
        if value.kind == "tuple" and len(value.items) == 2 and value.brackets == "()":  # noqa: PLR2004  two ends
            low, high = value.items
            if isinstance(low, Scalar) and isinstance(high, Scalar):
                return Region((_span(low.node, high.node, has_low=False, has_high=False),))
        if value.kind in {"set", "list"} and all(isinstance(item, Scalar) for item in value.items):
            nodes = [item.node for item in value.items if isinstance(item, Scalar)]
            return Region(tuple(Span(node, node, has_low=True, has_high=True) for node in nodes))
    return None


def _span(low: Node, high: Node, *, has_low: bool, has_high: bool) -> Span:
    begin = None if _is_infinite(low) else low
    end = None if _is_infinite(high) else high
    return Span(begin, end, has_low and begin is not None, has_high and end is not None)


def _is_infinite(node: Node) -> bool:
    if node.kind == "neg":
        return _is_infinite(node.parts[0])
    return node.kind == "const" and node.name == "inf"


def _residue(match: re.Match[str], depth: int) -> Value:
    modulus = (match["a"] or match["b"] or match["c"] or match["d"]).strip("{} ")
    pieces = re.split(r"\\equiv|=", match["value"])
    value = expression(pieces[-1].strip(" ,"))
    del depth
    return Residue(value, expression(modulus))


def _relation(text: str, depth: int) -> Value | None:
    """Read a chain of relations outside all brackets, None if there is none."""
    pieces, operators = _cut_relations(text)
    if not operators:
        return None
    if not pieces[0] and operators[0] in {"=", "~"}:
        pieces, operators = pieces[1:], operators[1:]
        if not operators:
            return read_answer(pieces[0], depth + 1)
    if any(not piece for piece in pieces):
        raise UnreadableError("a relation without a side")
    if operators == ["in"]:
        return _membership(pieces[0], pieces[1], depth)
    if set(operators) <= {"=", "~"}:
        return _chain(pieces, operators, depth)
    if set(operators) <= {"<", "<=", ">", ">="}:
        return _inequality(pieces, operators)
    if operators == ["!="]:
        left, right = expression(pieces[0]), expression(pieces[1])
        if left.kind == "var" and not variables(right):
            return Region(
                (Span(None, right, has_low=False, has_high=False), Span(right, None, has_low=False, has_high=False)),
                left.name,
            )
        return Relation("!=", left, right)
    raise UnsupportedError("a mixed relation")


def _cut_relations(text: str) -> tuple[list[str], list[str]]:
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


_CUT_RELATION = re.compile(
    r"\\begin\s*\{[^{}]*\}|\\end\s*\{[^{}]*\}|\\[{}]|\\(?:text|mbox|mathrm|textrm)\s*\{[^{}]*\}|\\[A-Za-z]+|\\.|<=|>=|!=|==|=<|[()\[\]{}<>=]|(?<![A-Za-z\\])in(?![A-Za-z])"
)


def _membership(left: str, right: str, depth: int) -> Value:
    name = _name_of(left)
    value = read_answer(right, depth + 1)
    if not name:
        raise UnsupportedError("a membership of an expression")
    if isinstance(value, Region):
        return replace(value, name=name)
    region = as_region(value)
    if isinstance(value, Group) and value.kind == "tuple" and region is not None:
        return replace(region, name=name)
    if isinstance(value, Group) and value.kind == "set":
        return Named(name, value, None)
    return Named(name, value, None)


def _name_of(text: str) -> str:
    """Return the one spelling of what an answer may be called (x, f(x), dy/dx, \\vec v), '' if it is no name."""
    match = _NAME.fullmatch(text.strip())
    if match is None:
        return ""
    plain = re.sub(
        r"\\(?:vec|overrightarrow|overline|hat|bar|mathbf|bm|boldsymbol|mathrm|text|operatorname)|[\s{}]", "", text
    )
    if match["derivative"]:
        plain = plain.replace("\\frac", "").replace("/", "").replace("^", "")
        first = re.fullmatch(r"d([a-z])d[a-z]", plain)
        return first[1] + "'" if first else plain
    letters = re.sub(r"\\[A-Za-z]+", "x", plain)
    if match["variable"] and "_" not in plain and len(letters.rstrip("'")) > 3 and not text.startswith("\\"):  # noqa: PLR2004  a name like ABC
        return plain.casefold()
    return plain


def _chain(pieces: Sequence[str], operators: Sequence[str], depth: int) -> Value:
    """Read `name = a = b ~ c`: all members must agree, and the first exact one is the value."""
    name = _name_of(pieces[0])
    if name and not pieces[0].strip().isdigit():
        left: Node | None
        try:
            left = expression(pieces[0])
        except (UnreadableError, TooLargeError):
            left = None
        if len(pieces) == 2:  # noqa: PLR2004  name and value
            value = read_answer(pieces[1], depth + 1)
            if isinstance(value, Words) and left is not None and re.search(r"\d", value.text):
                raise UnreadableError("words after an equals sign")
            tupled = _NAME.fullmatch(pieces[0].strip())
            if tupled and tupled["many"] and isinstance(value, Group) and value.kind == "tuple":
                return Named(name, value, None)
            return Named(name, value, left)
        return Named(name, _agreeing(pieces[1:], operators[1:], depth), left)
    left_node, right_node = expression(pieces[0]), expression(pieces[1])
    if len(pieces) == 2 and (variables(left_node) | variables(right_node)) and operators[0] == "=":  # noqa: PLR2004  two sides
        return Relation("=", left_node, right_node)
    return _agreeing(pieces, operators, depth)


def _agreeing(pieces: Sequence[str], operators: Sequence[str], depth: int) -> Value:
    from llm_finetuning.rewards.maths.comparison import agree_in_chain

    values = [read_answer(piece, depth + 1) for piece in pieces]
    if not agree_in_chain(values, operators):
        raise UnreadableError("a chain that does not hold")
    if all(operator == "~" for operator in operators) or "~" not in operators:
        return values[0] if "~" in operators else values[-1]
    return values[operators.index("~")]


_FLIPPED = {">": "<", ">=": "<="}


def _inequality(pieces: Sequence[str], operators: Sequence[str]) -> Value:
    nodes = [_bound(piece) for piece in pieces]
    signs = list(operators)
    if all(sign in _FLIPPED for sign in signs):
        nodes.reverse()
        signs = [_FLIPPED[sign] for sign in reversed(signs)]
    if any(sign in _FLIPPED for sign in signs):
        raise UnsupportedError("inequalities in both directions")
    if len(nodes) == 3 and nodes[1].kind == "var" and nodes[1].name not in variables(nodes[0]) | variables(nodes[2]):  # noqa: PLR2004  a < x < b
        span = _span(nodes[0], nodes[2], has_low=signs[0] == "<=", has_high=signs[1] == "<=")
        return Region((span,), nodes[1].name)
    if len(nodes) != 2:  # noqa: PLR2004  one relation
        return _between(nodes, signs)
    left, right = nodes
    if left.kind == "var" and not variables(right):
        return Region((_span(Node("const", name="inf"), right, has_low=False, has_high=signs[0] == "<="),), left.name)
    if right.kind == "var" and not variables(left):
        return Region((_span(left, Node("const", name="inf"), has_low=signs[0] == "<=", has_high=False),), right.name)
    return _absolute(left, right, signs[0]) or Relation(signs[0], left, right)


def _between(nodes: Sequence[Node], signs: Sequence[str]) -> Value:
    if (
        len(nodes) == 3
        and nodes[1].kind == "call"
        and nodes[1].name == "abs"
        and signs[0] == "<"
        and nodes[0].number == 0
    ):  # noqa: PLR2004  0 < |x-a| < b
        inner = _absolute(nodes[1], nodes[2], signs[1])
        if isinstance(inner, Region):
            centre = _centre(nodes[1].parts[0])
            if centre is not None:
                span = inner.spans[0]
                return Region(
                    (
                        Span(span.low, centre, span.has_low, has_high=False),
                        Span(centre, span.high, has_low=False, has_high=span.has_high),
                    ),
                    inner.name,
                )
    raise UnsupportedError("a chain of inequalities")


def _bound(text: str) -> Node:
    return expression(text)


def _centre(node: Node) -> Node | None:
    """Return a of `x`, `x - a` or `x + a` with a constant, None for anything else."""
    if node.kind == "var":
        return number(0)
    if node.kind == "add" and len(node.parts) == 2 and node.parts[0].kind == "var" and not variables(node.parts[1]):  # noqa: PLR2004  x and a
        return Node("neg", (node.parts[1],))
    return None


def _absolute(left: Node, right: Node, sign: str) -> Value | None:
    """Read |x - a| < b and |x - a| > b as regions."""
    inside = left.kind == "call" and left.name == "abs" and not variables(right)
    outside = right.kind == "call" and right.name == "abs" and not variables(left)
    if inside == outside:
        return None
    body, bound = (left.parts[0], right) if inside else (right.parts[0], left)
    centre = _centre(body)
    if centre is None:
        return None
    (name,) = variables(body)
    low, high = Node("add", (centre, Node("neg", (bound,)))), Node("add", (centre, bound))
    closed = sign == "<="
    if inside:
        return Region((Span(low, high, closed, closed),), name)
    return Region(
        (Span(None, low, has_low=False, has_high=closed), Span(high, None, has_low=closed, has_high=False)), name
    )


def _ratio(pieces: Sequence[str]) -> Value:
    if any(piece == _DOTS for piece in pieces):
        return Group(
            "series", tuple(Words(_DOTS) if piece == _DOTS else Scalar(expression(piece)) for piece in pieces), "::"
        )
    return Ratio(tuple(expression(piece) for piece in pieces))


_BRACKETED = re.compile(r"(?P<open>\\\{|\\langle|[(\[])(?P<inside>.*)(?P<close>\\\}|\\rangle|[)\]])", re.DOTALL)
_BUILDER = re.compile(
    r"(?P<name>[A-Za-z](?:_\w)?(?:\s*(?:\\in|in)\s*\\mathbb\s*\{?\s*R\s*\}?)?)\s*(?:\||:)\s*(?P<rule>.*)", re.DOTALL
)


def _bracketed(text: str, depth: int) -> Value | None:
    """Read a set, tuple or interval whose bracket opens at the start and closes at the end."""
    named = _NAMED_SETS.fullmatch(text)
    if named:
        whole_line = named[1] in {"R", None}
        return Region((Span(None, None, has_low=False, has_high=False),)) if whole_line else Words(f"set {named[1]}")
    without = _without(text, depth)
    if without is not None:
        return without
    match = _BRACKETED.fullmatch(text)
    if match is None or not _closes_last(text):
        return None
    opening, closing, inside = match["open"], match["close"], match["inside"].strip()
    if opening == "\\{":
        return _set(inside, depth)
    pieces, separators = _cut_items(inside)
    if not separators:
        if opening == "[" and closing == "]" and inside.startswith("["):
            raise UnsupportedError("a nested list of one")
        return None
    items = tuple(read_answer(piece.strip(), depth + 1) for piece in pieces)
    brackets = ("(" if opening == "\\langle" else opening) + (")" if closing == "\\rangle" else closing)
    if (
        opening == "["
        and closing == "]"
        and all(isinstance(item, Group) and item.brackets == "[]" or isinstance(item, Region) for item in items)
    ):
        rows = _rows_of(items)
        if rows is not None:
            return Matrix(rows)
    if len(items) == 2 and brackets != "()" and opening != "\\langle":  # noqa: PLR2004  an interval
        low, high = items
        if isinstance(low, Scalar) and isinstance(high, Scalar):
            return Region((_span(low.node, high.node, has_low=brackets[0] == "[", has_high=brackets[1] == "]"),))
        raise UnsupportedError("an interval of something else than numbers")
    if brackets not in {"()", "[]"}:
        raise UnreadableError("brackets that do not match")
    return Group("tuple", items, "<>" if opening == "\\langle" else brackets)


def _rows_of(items: Sequence[Value]) -> tuple[tuple[Node, ...], ...] | None:
    """Return `[[1,2],[3,4]]` as rows; a row of two was read as an interval."""
    rows: list[tuple[Node, ...]] = []
    for item in items:
        if isinstance(item, Region):
            span = item.spans[0]
            if len(item.spans) != 1 or span.low is None or span.high is None or not (span.has_low and span.has_high):
                return None
            rows.append((span.low, span.high))
        elif isinstance(item, Group) and all(isinstance(part, Scalar) for part in item.items):
            rows.append(tuple(part.node for part in item.items if isinstance(part, Scalar)))
        else:
            return None
    return tuple(rows) if len({len(row) for row in rows}) == 1 else None


def _cut_items(inside: str) -> tuple[list[str], list[str]]:
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


def _set(inside: str, depth: int) -> Value:
    builder = _BUILDER.fullmatch(inside)
    if builder:
        value = read_answer(builder["rule"], depth + 1)
        if isinstance(value, Region):
            return value
        raise UnsupportedError("a set by a rule")
    if not inside:
        return Group("set", ())
    pieces, _ = _cut_items(inside)
    if any(piece.strip() == _DOTS for piece in pieces):
        return Group(
            "series",
            tuple(
                Words(_DOTS) if piece.strip() == _DOTS else read_answer(piece.strip(), depth + 1) for piece in pieces
            ),
            "{}",
        )
    if len(pieces) == 1 and cut(inside, _SEPARATORS)[1]:
        pieces = cut(inside, _SEPARATORS)[0]
    items = [read_answer(piece.strip(), depth + 1) for piece in pieces]
    spread: list[Value] = []
    for item in items:
        spread.extend(item.items if isinstance(item, Group) and item.kind == "list" else [item])
    return Group("set", tuple(spread))


def _without(text: str, depth: int) -> Value | None:
    r"""Read `\mathbb{R} \setminus \{0\}` as the spans around the points."""
    pieces, found = cut(text, frozenset(["\\setminus"]))
    if len(found) != 1:
        return None
    base, taken = (
        as_region(read_answer(pieces[0].strip(), depth + 1)),
        as_region(read_answer(pieces[1].strip(), depth + 1)),
    )
    if base is None or taken is None or base.spans != (Span(None, None, has_low=False, has_high=False),):
        raise UnsupportedError("a difference of sets")
    from llm_finetuning.rewards.maths.comparison import around

    return Region(around([span.low for span in taken.spans if span.low is not None]))


def _closes_last(text: str) -> bool:
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


_MATRIX = re.compile(
    r"(?P<before>.*?)(?:[(\[]\s*)?\\begin\s*\{(?P<kind>[pbBvV]?matrix|array|smallmatrix|psmallmatrix|bsmallmatrix)\*?\}(?:\s*\{[clr| ]*\})?(?P<body>.*?)\\end\s*\{(?P=kind)\*?\}\s*[)\]]?",
    re.DOTALL,
)


def _matrix(text: str) -> Value | None:
    """Read a matrix, with a scalar before it multiplied in; bars around it make a determinant, which is not read."""
    if "\\begin" not in text:
        return None
    match = _MATRIX.fullmatch(text)
    if match is None or match["kind"] in {"vmatrix", "Vmatrix"}:
        raise UnsupportedError("an environment")
    body = match["body"].strip().removesuffix("\\\\").strip()
    rows = [[expression(cell.strip()) for cell in row.split("&")] for row in re.split(r"\\\\(?:\s*\[[^\]]*\])?", body)]
    if len({len(row) for row in rows}) != 1 or len(rows) * len(rows[0]) > MAX_ITEMS:
        raise UnreadableError("rows of several lengths")
    before = match["before"].strip().removesuffix("\\cdot").removesuffix("\\times").strip()
    if before:
        factor = number(-1) if before == "-" else expression(before)
        rows = [[Node("mul", (factor, cell)) for cell in row] for row in rows]
    return Matrix(tuple(tuple(row) for row in rows))


def _scalar(text: str) -> Value:
    tokens = tokenise(_SPACED_NUMBER.sub(lambda run: run.group().replace(" ", ""), _ungrouped(text)))
    if not tokens:
        raise UnreadableError("nothing")
    if tokens[0].kind == "text" and len(tokens) == 1:
        return Words(tokens[0].text)
    while len(tokens) > 2 and tokens[0].text == "(" and tokens[-1].text == ")" and _encloses(tokens):  # noqa: PLR2004  a pair and something in it
        tokens = tokens[1:-1]
    if has_plus_minus(tokens):
        pair = tuple(Scalar(read_expression(tokens, sign=sign)) for sign in (1, -1))
        return Group("list", pair)
    node = read_expression(tokens)
    if node.kind == "neg" and node.parts[0].kind == "num" and node.parts[0].number is not None:
        node = number(-node.parts[0].number)
    return Scalar(node, digits=_digits(node), has_commas="," in text)


def _encloses(tokens: Sequence[object]) -> bool:
    level = 0
    for place, token in enumerate(tokens):
        level += {"(": 1, ")": -1}.get(getattr(token, "text", ""), 0)
        if level == 0:
            return place == len(tokens) - 1
    return False


def _digits(node: Node) -> int:
    return (
        len(node.name.lstrip("-").replace(".", "").lstrip("0"))
        if node.kind == "num" and "." in node.name and "e" not in node.name.lower()
        else 0
    )


def _ungrouped(text: str) -> str:
    return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)


def expression(text: str) -> Node:
    """Return one expression of cleaned text; raises UnreadableError or TooLargeError."""
    value = _plain_number(text)
    if value is not None:
        return value.node
    tokens = tokenise(_SPACED_NUMBER.sub(lambda run: run.group().replace(" ", ""), _ungrouped(text)))
    if not tokens:
        raise UnreadableError("nothing")
    if has_plus_minus(tokens):
        raise UnsupportedError("plus or minus inside something else")
    return read_expression(tokens)
