r"""One spelling for what is written in many ways: unicode signs, math delimiters, sizes, spaces, styles.

The result is LaTeX-like ASCII that `lexer` reads. Cleaning is a fixed number of linear passes.
"""

import re
import unicodedata

from llm_finetuning.rewards.maths.lexer import closing_brace
from llm_finetuning.rewards.maths.nodes import UnreadableError

_SIGNS = {
    "\N{MINUS SIGN}": "-",
    "\N{EN DASH}": "-",
    "\N{HYPHEN}": "-",
    "\N{NON-BREAKING HYPHEN}": "-",
    "\N{FULLWIDTH HYPHEN-MINUS}": "-",
    "\N{MULTIPLICATION SIGN}": "\\times ",
    "\N{MIDDLE DOT}": "\\cdot ",
    "\N{DOT OPERATOR}": "\\cdot ",
    "\N{BULLET OPERATOR}": "\\cdot ",
    "\N{ASTERISK OPERATOR}": "*",
    "\N{DIVISION SIGN}": "\\div ",
    "\N{FRACTION SLASH}": "/",
    "\N{DIVISION SLASH}": "/",
    "\N{SQUARE ROOT}": "\\sqrt ",
    "\N{CUBE ROOT}": "\\sqrt[3] ",
    "\N{INFINITY}": "\\infty ",
    "\N{LESS-THAN OR EQUAL TO}": "\\le ",
    "\N{GREATER-THAN OR EQUAL TO}": "\\ge ",
    "\N{LESS-THAN OR SLANTED EQUAL TO}": "\\le ",
    "\N{GREATER-THAN OR SLANTED EQUAL TO}": "\\ge ",
    "\N{NOT EQUAL TO}": "\\ne ",
    "\N{ALMOST EQUAL TO}": "\\approx ",
    "\N{IDENTICAL TO}": "\\equiv ",
    "\N{ELEMENT OF}": "\\in ",
    "\N{UNION}": "\\cup ",
    "\N{INTERSECTION}": "\\cap ",
    "\N{LOGICAL OR}": "\\lor ",
    "\N{LOGICAL AND}": "\\land ",
    "\N{EMPTY SET}": "\\emptyset ",
    "\N{LATIN CAPITAL LETTER O WITH STROKE}": "\\emptyset ",
    "\N{DEGREE SIGN}": "^\\circ ",
    "\N{DEGREE CELSIUS}": "^\\circ C",
    "\N{MASCULINE ORDINAL INDICATOR}": "^\\circ ",
    "\N{ANGLE}": "\\angle ",
    "\N{WHITE UP-POINTING TRIANGLE}": "\\triangle ",
    "\N{PLUS-MINUS SIGN}": "\\pm ",
    "\N{MINUS-OR-PLUS SIGN}": "\\mp ",
    "\N{DOUBLE-STRUCK CAPITAL R}": "\\mathbb{R}",
    "\N{DOUBLE-STRUCK CAPITAL Z}": "\\mathbb{Z}",
    "\N{DOUBLE-STRUCK CAPITAL N}": "\\mathbb{N}",
    "\N{DOUBLE-STRUCK CAPITAL Q}": "\\mathbb{Q}",
    "\N{DOUBLE-STRUCK CAPITAL C}": "\\mathbb{C}",
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{MIDLINE HORIZONTAL ELLIPSIS}": "...",
    "\N{LEFT FLOOR}": "\\lfloor ",
    "\N{RIGHT FLOOR}": "\\rfloor ",
    "\N{LEFT CEILING}": "\\lceil ",
    "\N{RIGHT CEILING}": "\\rceil ",
    "\N{MATHEMATICAL LEFT ANGLE BRACKET}": "\\langle ",
    "\N{MATHEMATICAL RIGHT ANGLE BRACKET}": "\\rangle ",
    "\N{SET MINUS}": "\\setminus ",
    "\N{PRIME}": "'",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHTWARDS DOUBLE ARROW}": "\\Rightarrow ",
    "\N{IDEOGRAPHIC FULL STOP}": ".",
    "\N{IDEOGRAPHIC COMMA}": ",",
    "\N{RATIO}": ":",
    "\N{ZERO WIDTH SPACE}": "",
    "\N{ZERO WIDTH NON-JOINER}": "",
    "\N{ZERO WIDTH JOINER}": "",
    "\N{ZERO WIDTH NO-BREAK SPACE}": "",
    "\N{WORD JOINER}": "",
    "\N{SOFT HYPHEN}": "",
    "\N{MICRO SIGN}": "\\mu ",
}
_GREEK_NAMES = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi psi omega"  # noqa: E501  a list of words
for _name in _GREEK_NAMES.split():
    _SIGNS[unicodedata.lookup(f"GREEK SMALL LETTER {'LAMDA' if _name == 'lambda' else _name.upper()}")] = f"\\{_name} "
for _name in ("gamma", "delta", "theta", "lamda", "xi", "pi", "sigma", "phi", "psi", "omega"):
    _SIGNS[unicodedata.lookup(f"GREEK CAPITAL LETTER {_name.upper()}")] = (
        f"\\{_name.replace('lamda', 'lambda').capitalize()} "
    )
_TRANSLATION = str.maketrans(_SIGNS)

_RAISED = {raised: plain for raised, plain in zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ", "0123456789+-()ni", strict=True)}  # noqa: C416  the signs themselves
_LOWERED = {lowered: plain for lowered, plain in zip("₀₁₂₃₄₅₆₇₈₉₊₋ₙₖ", "0123456789+-nk", strict=True)}  # noqa: C416  likewise
_RAISED_RUN = re.compile(f"[{''.join(_RAISED)}]+")
_LOWERED_RUN = re.compile(f"[{''.join(_LOWERED)}]+")
_VULGAR = re.compile("(\\d?)([¼-¾⅐-⅞↉])")

_SPACES = re.compile(
    r"(?<!\\)\\[,;:> ~]|~|\\q?quad(?![A-Za-z])|\\(?:text|mbox|mathrm)\s*\{\s*\}"
    r"|\\(?:hspace|vspace|phantom)\*?\{[^{}]*\}|\\thinspace|\\enspace|&nbsp;"
)
_SIZES = re.compile(
    r"\\(?:left|right|middle|[bB]igg?[lrm]?)(?![A-Za-z])\.?|\\!|\\displaystyle|\\textstyle|\\limits|\\nolimits|\\mathstrut"
)
_STYLE = re.compile(
    r"\\(?:large|Large|LARGE|huge|Huge|normalsize|small|bfseries|rmfamily|tfrac|dfrac|cfrac|nicefrac|tiny)(?![A-Za-z])"
)
# Bold or underlined mathematics: `\\boldsymbol{5}`, `{\\bf 5}`; a styled name keeps its command, see `lexer`.
_BOLD = re.compile(
    r"\\(?:boldsymbol|bm|pmb|ensuremath|underline|mathbf|mathrm|mathit|mathsf|bf)(?![A-Za-z])(?=\s*\{\s*[^{}A-Za-z\s])"
    r"|\\(?:ensuremath|pmb)(?=\s*\{)|\\(?:bf|it|em|sf|tt)(?![A-Za-z])(?!\s*\{)"
)
_COLOUR = re.compile(r"\\(?:color|textcolor|colorbox)\s*(?:\[[^\]]*\])?\{[^{}]*\}")
_SPELLINGS = re.compile(
    r"\\(?:lbrace|rbrace|leqslant|geqslant|leq|geq|neq|lt|gt|varnothing|lvert|rvert|mid|lbrack|rbrack|colon|dots|cdots"
    r"|cr|dotsc|dotsb|ldots|vee|wedge|backslash|percent|space|thickspace|varphi|varepsilon|vartheta|varrho|imath|degree|textdegree|textasciicircum|times|cdotp)(?![A-Za-z])"
)
_SPELLED = {
    "cr": "\\\\ ",
    "lbrace": "\\{",
    "rbrace": "\\}",
    "leqslant": "\\le ",
    "geqslant": "\\ge ",
    "leq": "\\le ",
    "geq": "\\ge ",
    "neq": "\\ne ",
    "lt": "<",
    "gt": ">",
    "varnothing": "\\emptyset ",
    "lvert": "|",
    "rvert": "|",
    "mid": "|",
    "lbrack": "[",
    "rbrack": "]",
    "colon": ":",
    "dots": "...",
    "cdots": "...",
    "dotsc": "...",
    "dotsb": "...",
    "ldots": "...",
    "vee": "\\lor ",
    "wedge": "\\land ",
    "backslash": "\\setminus ",
    "percent": "\\% ",
    "space": " ",
    "thickspace": " ",
    "varphi": "\\phi ",
    "varepsilon": "\\epsilon ",
    "vartheta": "\\theta ",
    "varrho": "\\rho ",
    "imath": "i ",
    "degree": "^\\circ ",
    "textdegree": "^\\circ ",
    "textasciicircum": "^",
    "times": "\\times ",
    "cdotp": "\\cdot ",
}
_GROUPED = re.compile(r"(?<=\d)(?:\{,\}|,\\!|\\,|\{\\,\}|\\;|\\ )(?=\d{3}(?!\d))")
_TEXT_SIGN = re.compile(r"\\(?:text|mbox|mathrm|textrm)\s*\{\s*(\\[$%])\s*\}")
_TEXT_MODULUS = re.compile(r"\\(?:text|mbox|mathrm|textrm)\s*\{\s*\(\s*mod\s*\}")
_TANGENT = re.compile(r"\\(?:operatorname\s*\{\s*)?(arc)?(c?)tg(?![A-Za-z])\s*\}?")  # as written east of the Oder
_INFIX = re.compile(
    r"(?<!\\)\{((?:[^{}\\]|\\(?!over|choose)[A-Za-z]+|\{[^{}]*\})*?)\\(over|choose)(?![A-Za-z])"
    r"((?:[^{}\\]|\\(?!over|choose)[A-Za-z]+|\{[^{}]*\})*)\}"
)
_OVER = re.compile(r"\\(?:over|choose)(?![A-Za-z])")
_TIMES_TEN = re.compile(r"(?<=\d)\s*[xX]\s*(?=10\s*\^)")
_DELIMITERS = re.compile(r"(?<!\\)\\[()\[\]]|(?<!\\)\$+")
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_MAX_BRACES = 20  # around a whole answer
_ENDING = " \t\r\n.,;:!?"
_PLAIN = re.compile(r"[-+]?[0-9]{1,300}(?:\.[0-9]{1,300})?")


def clean(text: str) -> str:
    """Return the one spelling of an answer, without delimiters, sizes, styles and closing punctuation.

    Raises UnreadableError where a box inside it does not close.
    """
    text = text.strip()
    if _PLAIN.fullmatch(text):
        return text
    if not text.isascii():
        text = _ascii(text)
    if "\\" in text or "$" in text or "{" in text or "~" in text:
        text = _plain_latex(text)
    if "10" in text and ("x" in text or "X" in text):
        text = _TIMES_TEN.sub("\\\\times ", text)
    text = _without_emphasis(text)
    text = " ".join(text.split())
    for _ in range(_MAX_BRACES):
        if not text.startswith("{") or closing_brace(text, 0) != len(text) - 1:
            break
        text = text[1:-1].strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].strip()
    return _without_ending(text)


def _ascii(text: str) -> str:
    text = _VULGAR.sub(_vulgar, text)
    text = _RAISED_RUN.sub(lambda run: "^{" + "".join(_RAISED[sign] for sign in run.group()) + "}", text)
    text = _LOWERED_RUN.sub(lambda run: "_{" + "".join(_LOWERED[sign] for sign in run.group()) + "}", text)
    return unicodedata.normalize("NFKC", text.translate(_TRANSLATION)).translate(_TRANSLATION)


def _vulgar(match: re.Match[str]) -> str:
    value = unicodedata.normalize("NFKC", match[2]).replace("\N{FRACTION SLASH}", "/")
    return f"{match[1]} {value}" if match[1] else value


def _plain_latex(text: str) -> str:
    if "\\$" in text or "\\%" in text or "\\&" in text:
        text = _TEXT_SIGN.sub(r"\1", text).replace("\\&", " and ")
    text = _DELIMITERS.sub(" ", text)
    text = _GROUPED.sub(",", text)
    text = _SIZES.sub("", text)
    text = _SPACES.sub(" ", text)
    text = _BOLD.sub("", text)
    text = _STYLE.sub(lambda match: "\\frac" if match.group().endswith("frac") else " ", text)
    if "\\c" in text or "\\textc" in text:
        text = _COLOUR.sub("", text)
    if "mod" in text:
        text = _TEXT_MODULUS.sub("(mod ", text)
    if "tg" in text:
        text = _TANGENT.sub(lambda name: f"\\{name[1] or ''}{'cot' if name[2] else 'tan'} ", text)
    if ("\\over" in text or "\\choose" in text) and _OVER.search(text):
        text = _INFIX.sub(_prefixed, f"{{{text}}}")
    text = _SPELLINGS.sub(lambda match: _SPELLED[match.group()[1:]], text)
    if "box" in text:
        text = _unboxed(text)
    return text


def _prefixed(match: re.Match[str]) -> str:
    command = "\\frac" if match[2] == "over" else "\\binom"
    return f"{{{command}{{{match[1].strip()}}}{{{match[3].strip()}}}}}"


def _unboxed(text: str) -> str:
    """Take the boxes off; boxes in boxes are opened from outside in, each closing brace looked for once."""
    places = [match.end() - 1 for match in _BOX.finditer(text)]
    if not places:
        return text
    drop = set()
    stack: list[int] = []
    boxes = set(places)
    for match in _BRACE.finditer(text):
        if match.group() == "{":
            stack.append(match.start())
        elif match.group() == "}" and stack and stack.pop() in boxes:
            drop.add(match.start())
    if len(drop) != len(places):
        raise UnreadableError("a box does not close")
    kept = "".join(sign for place, sign in enumerate(text) if place not in drop)
    return _BOX.sub("", kept)


_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_FACTORIAL = re.compile(r"(?:[\d)}\]]|(?<![A-Za-z])[A-Za-z])!$")
_EMPHASIS = re.compile(r"\*\*(?=\S)([^*]+?)(?<=\S)\*\*|__(?=\S)([^_]+?)(?<=\S)__|`([^`]+)`")


def _without_emphasis(text: str) -> str:
    if "**" not in text and "`" not in text and "__" not in text:
        return text
    # Only around the whole answer or its first part: inside, ** is a power.
    match = _EMPHASIS.match(text.strip())
    if match is None:
        return text
    rest = text.strip()[match.end() :]
    return f"{match[1] or match[2] or match[3]}{rest}"


def _without_ending(text: str) -> str:
    before = None
    while before != text:
        before = text
        if text.endswith("!") and _FACTORIAL.search(text):
            return text
        if text.endswith("..."):
            return text
        stripped = text.rstrip(_ENDING)
        if stripped.endswith("\\") and stripped != text:
            stripped = stripped[:-1].rstrip()
        text = stripped
    return text


_UPRIGHT = re.compile(r"\\(?:text|mathrm)\{([^{}\\]*)\}")
_RULE = re.compile(r"^(\\\{[^{}|:]*):")  # such that, written as a colon


def literal(text: str) -> str:
    """Return cleaned text without spaces and without what only sets letters upright, to compare letter by letter."""
    if "\\text{" in text or "\\mathrm{" in text:
        text = _UPRIGHT.sub(r"\1", text)
    if text.startswith("\\{"):
        text = _RULE.sub(r"\1|", text)
    return "".join(text.split())
