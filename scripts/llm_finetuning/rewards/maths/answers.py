"""The type of a whole answer: number, words, set, tuple, region of the line, relation, matrix, residue, ratio.

`read_answer` goes from outside in: names and phrases before the answer, units after it, then lists, unions, relations,
brackets, and last the expression itself.
"""

import re
from dataclasses import replace

from llm_finetuning.rewards.maths import groups, relations, units, words
from llm_finetuning.rewards.maths.cuts import SEPARATORS, cut
from llm_finetuning.rewards.maths.forms import DOTS, Group, Named, Opaque, Read, Region, Scalar, Span, Value, Words
from llm_finetuning.rewards.maths.lexer import CONSTANTS, FUNCTIONS, closing_brace
from llm_finetuning.rewards.maths.nodes import Node, TooLargeError, UnreadableError, UnsupportedError, number
from llm_finetuning.rewards.maths.scalars import matrix, plain_number, scalar

MAX_LENGTH = 20_000  # characters of an answer that is read; a longer one is compared as text alone

_MAX_DEPTH = 12

_LEAD = re.compile(
    r"^(?:\\(?:Rightarrow|therefore|implies|Longrightarrow)|=|:|(?:(?:so|thus|hence|therefore|finally)\b,?\s*)?(?:\\(?:text|mbox|mathrm|textbf)\s*\{\s*)?"
    r"(?:the\s+)?(?:final\s+|correct\s+|exact\s+)?(?:answer|solution|result)s?\s*(?:is|are|:|=)\s*:?(?!\s*n[o']t)\s*\}?)\s*",
    re.IGNORECASE,
)
# `the area is` before a number, in a text group or not.
_SUBJECT = re.compile(
    r"^(?:\\(?:text|mbox)\s*\{\s*)?(?:(?:the|its)\s[A-Za-z ]{1,40}?\s(?:is|are|equals)|exactly|precisely)"
    r"\s*:?\s*\}?\s*(?=[-\d\\$])",
    re.IGNORECASE,
)
_SYSTEM = re.compile(
    r"(?:\\\{)?\s*\\begin\s*\{(?P<kind>cases|array|aligned)\}(?:\s*\{[lcr| ]*\})?(?P<rows>.*)"
    r"\\end\s*\{(?P=kind)\}\s*",
    re.DOTALL,
)
_TRANSPOSED = re.compile(r"\s*\^\s*(?:\{\s*)?(?:\\(?:top|intercal)|\\(?:mathrm|mathsf|text)\s*\{\s*T\s*\}|T)\s*\}?$")
_WHOLE_TEXT = re.compile(r"\\(?:text|mbox|mathrm|textrm|textbf|mathbf|textit|texttt|operatorname)\s*\{")
_EXCLAIMED = re.compile(r"(?<=[A-Za-z])!+$")  # `yes!` in a text group is no factorial
_CONNECTIVE = re.compile(r"\\(?:text|mbox|mathrm|textrm|hbox|textbf|textit)\s*\{\s*,?\s*(and|or)\s*,?\s*\}")
_SCALE_GROUP = re.compile(r"\\(?:text|mbox|mathrm|textrm)\s*\{\s*(hundred|thousand|million|billion|trillion)\s*\}")
# A segment is named by its ends with or without a line over them; a vector by its letter.
_SEGMENT = re.compile(
    r"\\(?:overline|overrightarrow|overleftrightarrow|vec|widehat|bar)\s*\{\s*([A-Z]{2,3})\s*\}|\\vec\s*\{?\s*([a-z])\s*\}?"
)
_NEGATIVE = re.compile(r"^(?:minus|negative)\s+(?=[\d.\\])", re.IGNORECASE)
_NAMED_BASE = re.compile(
    r"(?<=\w)\s*(?:_\s*\{?\s*)?(?:\\(?:text|mathrm)\s*\{)?[ (]*(?:in )?base[ -]?\}?\s*(\d+|[a-z]+)[\s)}]*$"
)
_RATIO = re.compile(r"(?P<one>\d[\d.]*)\s*(?:\\(?:text|mbox)\s*\{\s*to\s*\}|to)\s*(?P<other>\d[\d.]*)")
# French brackets: `]a,b[` is open at both ends.
_TURNED = re.compile(r"([\[\](])\s*([^\[\](),;{}]+[,;][^\[\](),;{}]+)([\[\])])")
_BASED = re.compile(r"\(\s*(\d+)\s*\)_")
_SINGLE_LETTERS = re.compile(r"[A-Za-z](?:,? (?:and|or) [A-Za-z])+")
_LETTERS_ONLY = re.compile(r"[A-Za-z][A-Za-z'.-]*(?:[ -][A-Za-z'.-]+)*")
_PRODUCT = re.compile(r"[abc]{2,3}|[b-df-hj-np-tv-z]{2,3}|a[b-df-hj-mp-rt-z]|[b-df-hj-np-rt-z]a")
_ANNOTATION = re.compile(
    r"[,;]?\s*(?:\(\s*)?(?:(?:\\(?:text|mbox)\s*\{)?\s*(?:where|for|with|for any|for all|for some)\s*\}?\s*)?\\?(?:forall\s*)?"  # noqa: E501  a pattern, whole on a line
    r"(?P<name>[a-zA-Z](?:_\w)?)\s*(?:\\in|in)\s*(?:\\mathbb\s*\{?\s*[ZN]\s*\}?|\\mathbf\s*\{\s*[ZN]\s*\}|Z|N)(?:\^\s*\{?\+\}?|_\s*\{?\+\}?)?\s*\)?$"
    r"|[,;]?\s*(?:\\(?:text|mbox)\s*\{)?\s*(?:where|for|with)\s+\$?(?P<other>[a-zA-Z])\$?\s+(?:is\s+)?(?:an?y?\s+)?(?:arbitrary\s+)?integer\s*\}?$"
    r"|[,;]?\s*(?:\\(?:text|mbox)\s*\{)?\s*for (?:all|any|every)(?: real)?(?: numbers?)?\s*\}?\s*[a-zA-Z]\s*"
    r"(?:\\in\s*\\mathbb\s*\{?\s*R\s*\}?)?\s*\}?$"
)
_EMPTY = re.compile(r"\\emptyset|\\\{\s*\\\}|\{\s*\}")
_SPECIAL: dict[str, Value] = dict.fromkeys(
    ["no solution", "no solutions", "no real solution", "no real solutions", "empty set"], Group("set", ())
)
_SPECIAL |= dict.fromkeys(["infinity", "positive infinity", "plus infinity"], Scalar(Node("const", name="inf")))
_SPECIAL |= dict.fromkeys(["negative infinity", "minus infinity"], Scalar(Node("neg", (Node("const", name="inf"),))))
_SPECIAL |= dict.fromkeys(["all integers", "the integers", "any integer"], Words("set Z"))
_SPECIAL |= dict.fromkeys(["positive integers", "all positive integers"], Words("set Z+"))
_SPECIAL |= dict.fromkeys(
    ["all real numbers", "all reals", "real numbers", "any real number", "all real number"],
    Region((Span(None, None, has_low=False, has_high=False),)),
)


def read_answer(text: str, depth: int = 0) -> Value:  # noqa: PLR0911  one return a kind of answer
    """Return the typed answer of cleaned text; raises UnreadableError or TooLargeError."""
    if len(text) > MAX_LENGTH or depth > _MAX_DEPTH:
        raise TooLargeError("too long an answer")
    text = text.strip(" ")
    if not text:
        raise UnreadableError("nothing")
    quick = plain_number(text)
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


def _unwrapped(text: str) -> str:
    """Take off what stands around or before the answer: text groups around all of it, `the answer is`."""
    for _ in range(6):
        before = text
        match = _WHOLE_TEXT.match(text)
        if match:
            end = closing_brace(text, match.end() - 1)
            if end == len(text) - 1:
                text = _EXCLAIMED.sub("", text[match.end() : -1].strip())
        lead = _LEAD.match(text) or _SUBJECT.match(text)
        if lead and lead.end() < len(text):
            text = text[lead.end() :]
        text = text.strip(" ")
        if text == before:
            break
    return text if text.endswith(DOTS) else text.rstrip(" .") or text


def _is_words(text: str) -> bool:
    """Tell words from products of variables: `no` and `dog` are words, `xy`, `ab` and `pi` are not."""
    if not _LETTERS_ONLY.fullmatch(text) or len(text) == 1 or _SINGLE_LETTERS.fullmatch(text):
        return False
    if " " not in text and (text in CONSTANTS or _PRODUCT.fullmatch(text)):
        return False
    if "-" in text and all(_is_factor(part) for part in re.split(r"[ -]+", text)):
        return False
    first = text.split(maxsplit=1)[0]
    return not (first in FUNCTIONS and len(text.split()) > 1 and len(text.split()[1]) <= 2)  # noqa: PLR2004  sin x, sin 2x


def _is_factor(part: str) -> bool:
    """Tell whether letters are a variable, a constant or a product of variables, as on both sides of `y-x`."""
    return len(part) < 2 or part in CONSTANTS or bool(_PRODUCT.fullmatch(part))  # noqa: PLR2004  one letter


def _read(text: str, depth: int) -> Value:  # noqa: PLR0911  one return a kind of answer
    text = _rewritten(text)
    agreed = _parenthesised_words(text)
    if agreed is not None:
        return agreed
    percent = units.split_percent(text)
    if percent[1] and percent[0] and not ("=" in text or "\\approx" in text):
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
    return _structured(text, lambda part: read_answer(part, depth + 1))


def _rewritten(text: str) -> str:
    """Return one spelling of a sign in words, a number's base and intervals in French brackets."""
    text = _NEGATIVE.sub("-", _BASED.sub(r"\1_", text))
    if "base" in text:
        text = _NAMED_BASE.sub(_with_base, text)
    if "[" in text or "]" in text:
        text = _TURNED.sub(_turned, text)
    return text


def _with_base(match: re.Match[str]) -> str:
    return f"_{{{match[1]}}}" if match[1].isdigit() else f"_{{\\text{{{match[1]}}}}}"


def _turned(match: re.Match[str]) -> str:
    opening, closing = match[1], match[3]
    return f"{'(' if opening == ']' else opening}{match[2]}{')' if closing == '[' else closing}"


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
    value = plain_number(match["value"])
    written = words.written_number(match["words"])
    return value if value is not None and written is not None and written == value.node.number else None


def _arranged(text: str, read: Read) -> Value | None:
    """Read a system of equations, a transposed vector or matrix, `2 to 3`, or several residues of one modulus."""
    system = _SYSTEM.fullmatch(text) if "\\begin" in text else None
    if system and "=" in system["rows"]:
        rows = [row.replace("&", " ").strip(" ,;") for row in system["rows"].split("\\\\")]
        return read(", ".join(row for row in rows if row))
    turned = _TRANSPOSED.search(text) if "^" in text else None
    if turned and text[: turned.start()].endswith((")", "]", "}")):
        column = groups.transposed(read(text[: turned.start()]))
        if column is not None:
            return column
    pieces, meets = cut(text, frozenset(["\\cap"])) if "\\cap" in text else ([], [])
    if meets:
        common = groups.of_named_sets([piece.strip() for piece in pieces], "intersection")
        if common is None:
            raise UnsupportedError("an intersection")
        return common
    proportion = _RATIO.fullmatch(text) if "to" in text else None
    if proportion:
        return groups.ratio([proportion["one"], proportion["other"]])
    if "mod" in text:
        pieces, separators = cut(text, SEPARATORS)
        several = relations.MODULAR.match(text)
        if several and separators and not relations.MODULAR.match(pieces[0].strip()):
            return relations.residues(several)
    return None


def _structured(text: str, read: Read) -> Value:  # noqa: PLR0911  one return a kind of structure
    shortened = _ANNOTATION.sub("", text) if "in" in text or "for" in text else text
    if shortened.strip() and shortened != text:
        text = shortened.strip()
    whole = _arranged(text, read)
    if whole is not None:
        return whole
    pieces, separators = cut(text, SEPARATORS)
    if separators:
        return groups.listed([piece.strip() for piece in pieces], separators, read)
    pieces, unions = cut(text, frozenset(["\\cup"])) if "\\cup" in text else ([], [])
    if unions:
        stripped = [piece.strip() for piece in pieces]
        return groups.of_named_sets(stripped, "union") or groups.united(stripped, read)
    if _EMPTY.fullmatch(text):
        return Group("set", ())
    modular = relations.MODULAR.match(text) if "mod" in text else None
    if modular:
        return relations.residue(modular, read)
    related = relations.relation(text, read)
    if related is not None:
        return related
    if ":" in text:
        parts, colons = cut(text, frozenset([":"]))
        if colons:
            return groups.ratio([part.strip() for part in parts])
    return groups.bracketed(text, read) or matrix(text) or scalar(text)
