"""Cutting cleaned LaTeX or plain notation into tokens, in one linear pass."""

import re
from fractions import Fraction
from typing import NamedTuple

from llm_finetuning.rewards.maths.nodes import TooLargeError, UnreadableError

MAX_TOKENS = 4000
MAX_LITERAL = 6000  # digits of one number

TEXT_COMMANDS = frozenset(
    [
        "text",
        "mbox",
        "textrm",
        "textnormal",
        "textit",
        "textbf",
        "texttt",
        "textsf",
        "hbox",
        "mathrm",
        "rm",
        "mathbf",
        "mathit",
        "mathsf",
        "mathtt",
        "operatorname",
        "bf",
        "it",
        "bm",
        "boldsymbol",
        "unit",
        "emph",
        "underline",
    ]
)
_LETTER_COMMANDS = frozenset(["mathrm", "rm", "mathbf", "mathit", "mathsf", "bf", "it", "bm", "boldsymbol", "textit"])
FUNCTIONS = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "arcsin",
        "arccos",
        "arctan",
        "sinh",
        "cosh",
        "tanh",
        "exp",
        "log",
        "ln",
        "lg",
        "sqrt",
        "cbrt",
        "abs",
        "max",
        "min",
        "gcd",
        "lcm",
        "floor",
        "ceil",
        "asin",
        "acos",
        "atan",
        "arccot",
        "arcsec",
        "arccsc",
        "binom",
        "coth",
        "arsinh",
        "arcosh",
        "artanh",
        "arcsinh",
        "arccosh",
        "arctanh",
    ]
)
CONSTANTS = frozenset(["pi", "inf", "infty", "infinity", "oo"])
GREEK = frozenset(
    [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "varepsilon",
        "zeta",
        "eta",
        "theta",
        "vartheta",
        "iota",
        "kappa",
        "lambda",
        "mu",
        "nu",
        "xi",
        "rho",
        "varrho",
        "sigma",
        "tau",
        "upsilon",
        "phi",
        "varphi",
        "chi",
        "psi",
        "omega",
        "Gamma",
        "Delta",
        "Theta",
        "Lambda",
        "Xi",
        "Pi",
        "Sigma",
        "Upsilon",
        "Phi",
        "Psi",
        "Omega",
        "ell",
        "hbar",
    ]
)
_KNOWN_WORDS = FUNCTIONS | CONSTANTS | {"alpha", "beta", "theta", "lambda", "omega", "phi", "frac", "in", "mod"}

_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<rep>\d*\.\d*(?:\\dot\s*(?:\{\d\}|\d)\d*\\dot\s*(?:\{\d\}|\d)|\\(?:overline|bar|dot)\s*(?:\{\s*\d+\s*\}|\d)|(?<=\.)\(\d+\)|(?<=\d)(?:\\[lc]?dots|\.\.\.)))"
    r"|(?P<num>(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+(?![\w.]))?)"
    r"|(?P<cmd>\\[A-Za-z]+|\\.)"
    r"|(?P<word>[A-Za-z]+)"
    r"|(?P<op>\*\*|<=|>=|!=|==|\.\.\.|.)",
    re.DOTALL,
)
_WORD_FUNCTION = re.compile("|".join(sorted((FUNCTIONS | {"pi"}) - {"min", "max"}, key=len, reverse=True)))
_SHORT_WORD = 3


class Token(NamedTuple):
    """A piece of notation; kinds: num, rep, cmd, word, text, op, begin, end. `spaced`: white space stood before it."""

    kind: str
    text: str
    spaced: bool = False


def tokenise(text: str) -> list[Token]:
    """Return the tokens; raises UnreadableError where braces or text groups do not close."""
    tokens: list[Token] = []
    place, spaced = 0, False
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise UnreadableError("no token")
        kind, piece = str(match.lastgroup), match.group()
        place = match.end()
        if kind == "space":
            spaced = True
            continue
        if kind == "cmd":
            place = _command(text, piece, place, tokens, spaced=spaced)
        elif kind == "word":
            tokens.extend(_words(piece, spaced=spaced))
        else:
            tokens.append(Token(kind, piece, spaced))
        spaced = False
        if len(tokens) > MAX_TOKENS:
            raise TooLargeError("too many tokens")
    return tokens


def _command(text: str, piece: str, place: int, tokens: list[Token], *, spaced: bool) -> int:
    """Append the token of one command and return the place after what it consumed."""
    name = piece[1:]
    if name in TEXT_COMMANDS:
        content, end = group_after(text, place)
        content = content.strip()
        if (name in _LETTER_COMMANDS and len(content) == 1) or content in FUNCTIONS:
            tokens.append(Token("word", content, spaced))
        else:
            tokens.append(Token("text", content, spaced))
        return end
    if name in {"begin", "end"}:
        content, end = group_after(text, place)
        if content == "array" and name == "begin":
            _, end = group_after(text, end)
        tokens.append(Token(name, content.rstrip("*"), spaced))
        return end
    tokens.append(Token("cmd", piece, spaced))
    return place


def group_after(text: str, place: int) -> tuple[str, int]:
    """Return the content of the brace group (or the single character) at `place` and the place after it."""
    while place < len(text) and text[place].isspace():
        place += 1
    if place >= len(text):
        raise UnreadableError("a command without its argument")
    if text[place] != "{":
        return text[place], place + 1
    end = closing_brace(text, place)
    if end < 0:
        raise UnreadableError("a brace does not close")
    return text[place + 1 : end], end + 1


_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


def closing_brace(text: str, opening: int) -> int:
    """Return the place of the brace that closes the one at `opening`, or -1; escaped braces do not count."""
    depth = 0
    for match in _BRACE.finditer(text, opening):
        if match.group() == "{":
            depth += 1
        elif match.group() == "}":
            depth -= 1
            if depth == 0:
                return match.start()
    return -1


def _words(piece: str, *, spaced: bool) -> list[Token]:
    """Split a run of letters into known names and single letters; a longer unknown run stays one word."""
    if len(piece) == 1 or piece in _KNOWN_WORDS:
        return [Token("word", piece, spaced)]
    match = _WORD_FUNCTION.match(piece)
    if match and len(piece) - match.end() <= _SHORT_WORD:
        rest = _words(piece[match.end() :], spaced=False)
        return [Token("word", match.group(), spaced), *rest]
    tail = _WORD_FUNCTION.search(piece)
    if tail and 0 < tail.start() <= _SHORT_WORD - 1 and tail.end() == len(piece):
        return [*_words(piece[: tail.start()], spaced=spaced), Token("word", tail.group(), spaced=False)]
    if len(piece) <= _SHORT_WORD:
        return [Token("word", letter, spaced and place == 0) for place, letter in enumerate(piece)]
    return [Token("text", piece, spaced)]


def decimal_value(literal: str) -> Fraction:
    """Return the exact value of a decimal literal; raises TooLargeError for one of too many digits."""
    mantissa, _, exponent = literal.lower().partition("e")
    if len(mantissa) > MAX_LITERAL or (exponent and (len(exponent) > 5 or abs(int(exponent)) > MAX_LITERAL)):  # noqa: PLR2004  digits of an exponent
        raise TooLargeError("too many digits")
    whole, _, decimals = mantissa.partition(".")
    digits = _integer((whole + decimals) or "0")
    power = (int(exponent) if exponent else 0) - len(decimals)
    return Fraction(digits * 10**power) if power >= 0 else Fraction(digits, 10**-power)


def _integer(digits: str) -> int:
    # Python refuses int() of more than 4,300 digits at once.
    half = 4000
    value = 0
    for place in range(0, len(digits), half):
        part = digits[place : place + half]
        value = value * 10 ** len(part) + int(part)
    return value


_REPEATING = re.compile(
    r"(?P<whole>\d*)\.(?P<fixed>\d*?)(?:\\(?:overline|bar|dot)\s*\{?\s*(?P<a>\d+)\s*\}?|\((?P<b>\d+)\))"
)
_ENDLESS = re.compile(r"(?P<whole>\d*)\.(?P<fixed>\d*?)(?P<again>(?P<a>\d)(?P=a){2,}|(?P<b>\d{2,12})(?P=b)+)(?:\\|\.)")
_MAX_REPEATING = 200


def repeating_value(literal: str) -> Fraction:
    r"""Return the value of `0.1\overline{6}`, `0.(3)` or `0.333...`; raises UnreadableError for no visible period."""
    if len(literal) > _MAX_REPEATING:
        raise TooLargeError("too many digits")
    dots = literal.find("\\dot")
    if literal.count("\\dot") == 2:  # noqa: PLR2004  over the first and the last digit of the period
        literal = f"{literal[:dots]}({re.sub(r'[^0-9]', '', literal[dots:])})"
    match = _REPEATING.match(literal) or _ENDLESS.match(literal)
    if match is None:
        raise UnreadableError("no period")
    period = match["a"] or match["b"]
    whole, fixed = match["whole"] or "0", match["fixed"]
    scale = 10 ** len(fixed)
    return Fraction(int(whole + fixed), scale) + Fraction(int(period), (10 ** len(period) - 1) * scale)
