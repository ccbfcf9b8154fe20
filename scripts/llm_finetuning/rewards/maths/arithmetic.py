r"""Reading the arithmetic of an expression: numbers, signs, products, powers and brackets, with a depth limit.

What a name or a command means is left to `grammar`, which also says how the rules fit together.
"""

import abc
from collections.abc import Sequence
from fractions import Fraction

from llm_finetuning.rewards.maths.lexer import Token, decimal_value, repeating_value
from llm_finetuning.rewards.maths.nodes import Node, TooLargeError, UnreadableError, number

MAX_DEPTH = 90
PLUS_MINUS = frozenset(["\\pm", "\\mp"])
OPENING = {"(": ")", "[": "]", "{": "}", "\\{": "\\}"}
CLOSING = {
    "\\lfloor": ("\\rfloor", "floor"),
    "\\lceil": ("\\rceil", "ceil"),
    "\\lvert": ("\\rvert", "abs"),
    "\\vert": ("\\vert", "abs"),
    "\\lVert": ("\\rVert", "abs"),
    "\\|": ("\\|", "abs"),
    "|": ("|", "abs"),
}
FRACTIONS = frozenset(["\\frac", "\\dfrac", "\\tfrac", "\\cfrac", "\\sfrac"])

_TIMES = frozenset(["*", "\\cdot", "\\times", "\\ast"])
_DIVIDES = frozenset(["/", "\\div"])
_BASE_WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_BASES = range(2, 17)
_ENDING = (
    frozenset(
        ["\\cdot", "\\times", "\\div", "\\ast", "\\pm", "\\mp", "\\cup", "\\cap", "\\in", "\\le", "\\ge", "\\leq"]
    )
    | frozenset(
        ["\\geq", "\\ne", "\\neq", "\\lt", "\\gt", "\\approx", "\\equiv", "\\setminus", "\\mid", "\\to", "\\or"]
    )
    | frozenset(
        ["\\rfloor", "\\rceil", "\\rvert", "\\rVert", "\\pmod", "\\mod", "\\bmod", "\\land", "\\lor", "\\wedge"]
    )
    | frozenset(["\\vee", "\\choose", "\\rangle", "\\circ", "\\degree", "\\prime", "\\quad", "\\ldots", "\\dots"])
    | frozenset(["\\cdots", "\\notin", "\\subset", "\\sim", "\\Rightarrow", "\\implies", "\\iff", "\\vdots", "\\colon"])
)


class Arithmetic(abc.ABC):
    """The place in the tokens, the depth, and one method a rule."""

    def __init__(self, tokens: Sequence[Token], sign: int) -> None:
        r"""Start before the first token; `sign` is what `\pm` stands for."""
        self.tokens = tokens
        self.place = 0
        self.depth = 0
        self.plus_minus = sign
        self.bars = 0  # open |, inside of which a | closes

    @property
    def text(self) -> str:
        """Return the token at the place, '' at the end."""
        return self.tokens[self.place].text if self.place < len(self.tokens) else ""

    @property
    def kind(self) -> str:
        """Return the kind of the token at the place, `end` after the last."""
        return self.tokens[self.place].kind if self.place < len(self.tokens) else "end"

    def take(self, text: str) -> None:
        """Pass over the token `text`; raises UnreadableError if another stands here."""
        if self.text != text or self.kind == "text":
            raise UnreadableError(f"{text} expected")
        self.place += 1

    def sum(self) -> Node:
        """Read products with signs between them."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooLargeError("too deep")
        terms = [self.product()]
        while self.text in {"+", "-"} or self.text in PLUS_MINUS:
            sign = self.sign()
            term = self.product()
            terms.append(negative(term) if sign < 0 else term)
        self.depth -= 1
        return terms[0] if len(terms) == 1 else Node("add", tuple(terms))

    def sign(self) -> int:
        """Pass over signs and return their product; without one, 1."""
        sign = 1
        while self.text in {"+", "-"} or self.text in PLUS_MINUS:
            sign *= {"+": 1, "-": -1, "\\pm": self.plus_minus, "\\mp": -self.plus_minus}[self.text]
            self.place += 1
        return sign

    def product(self) -> Node:
        """Read factors that stand side by side or with a sign of multiplication or division between them."""
        sign = self.sign()
        node = self.factor()
        while True:
            text = self.text
            if text in _TIMES:
                self.place += 1
                node = _times(node, self.factor())
            elif text in _DIVIDES:
                self.place += 1
                node = Node("div", (node, self.factor()))
            elif self.starts_factor():
                node = self.beside(node)
            else:
                return negative(node) if sign < 0 else node

    def beside(self, node: Node) -> Node:
        """Read the factor that stands beside `node` without a sign between them."""
        first = self.place
        if self.kind in {"num", "rep"} and self.tokens[first - 1].kind in {"num", "rep", "word"}:
            raised = first + 1 < len(self.tokens) and self.tokens[first + 1].text == "^"
            if raised and self.tokens[first - 1].kind == "word":
                return _times(node, self.factor())  # n2^n
            if not (self.tokens[first].spaced and self._is_plain_fraction(first) and _is_whole(node)):
                raise UnreadableError("two numbers side by side")
            self.place += 3
            part = Fraction(int(self.tokens[first].text), int(self.tokens[first + 2].text))
            return number(Fraction(node.number or 0) + part)
        factor = self.factor()
        mixed = (
            self.tokens[first].text in FRACTIONS
            and self.tokens[first - 1].kind == "num"
            and _is_whole(node)
            and factor.kind == "div"
            and all(_is_whole(part) for part in factor.parts)
        )
        if mixed:
            top, bottom = (part.number or Fraction(0) for part in factor.parts)
            if 0 < top < bottom:
                return number(Fraction(node.number or 0) + top / bottom)
        return _times(node, factor)

    def _is_plain_fraction(self, first: int) -> bool:
        """Tell whether `a/b` with whole a < b follows, which after a whole number makes it a mixed number."""
        three = self.tokens[first : first + 3]
        return (
            [token.kind for token in three] == ["num", "op", "num"]
            and three[1].text == "/"
            and three[0].text.isdigit()
            and three[2].text.isdigit()
            and len(three[2].text) < 10  # noqa: PLR2004  a denominator that a person writes
            and int(three[0].text) < int(three[2].text)
        )

    def starts_factor(self) -> bool:
        """Tell whether the token at the place begins a factor."""
        kind, text = self.kind, self.text
        if kind in {"num", "rep", "word"}:
            return text != "mod"
        if kind == "op":
            return text in {"(", "[", "{"} or (text == "|" and not self.bars)
        if kind == "cmd":
            return text[1:].isalpha() and text not in _ENDING
        return False

    def factor(self) -> Node:
        """Read an atom with its signs, marks and exponent."""
        self.depth += 1
        if self.depth > 2 * MAX_DEPTH:
            raise TooLargeError("too deep")
        sign = self.sign()
        node = self.postfix(self.atom())
        if self.text in {"^", "**"}:
            node = self.power(node)
        self.depth -= 1
        return negative(node) if sign < 0 else node

    def power(self, base: Node) -> Node:
        """Read the exponent of `base`, and what follows it."""
        self.place += 1
        exponent = self.factor() if self.text != "{" else self._group_power()
        return self.postfix(Node("pow", (base, exponent)))

    def _group_power(self) -> Node:
        exponent = self.argument()
        if self.text in {"^", "**"}:
            return self.power(exponent)
        return exponent

    def postfix(self, node: Node) -> Node:
        """Read the marks after `node`: factorials, percent signs and degrees."""
        while True:
            text = self.text
            if text == "!" and self.kind == "op":
                self.place += 1
                node = Node("call", (node,), name="factorial")
            elif text == "\\%" or (text == "%" and self.kind == "op"):
                self.place += 1
                node = Node("div", (node, number(100)))
            elif text in {"^", "**"} and self._is_degree():
                node = _times(node, Node("div", (Node("const", name="pi"), number(180))))
            elif text in {"\\degree", "\\circ"}:
                self.place += 1
                node = _times(node, Node("div", (Node("const", name="pi"), number(180))))
            else:
                return node

    def _is_degree(self) -> bool:
        after = [token.text for token in self.tokens[self.place + 1 : self.place + 4]]
        length = 2 if after[:1] == ["\\circ"] else 4 if after == ["{", "\\circ", "}"] else 0
        self.place += length
        return bool(length)

    def atom(self) -> Node:
        """Read a number, a name, a command or a bracket."""
        kind, text = self.kind, self.text
        if kind == "num":
            self.place += 1
            return self._based(text) if self.text == "_" else number(decimal_value(text), text)
        if kind == "rep":
            self.place += 1
            return number(repeating_value(text))
        if kind == "word":
            return self.word(text)
        if kind == "cmd":
            return self.command(text)
        if kind == "op" and text in OPENING:
            return self.bracketed()
        if kind == "op" and text == "|":
            return self.enclosed(text)
        raise UnreadableError("an operand is missing" if kind != "text" else "words")

    def bracketed(self) -> Node:
        """Read `(sum)`; of many brackets around one thing the inner ones are passed over without recursion."""
        opening = self.text
        if opening not in OPENING:
            raise UnreadableError("a bracket expected")
        self.place += 1
        saved, self.bars = self.bars, 0
        node = self.sum()
        if opening == "{" and self.text == "\\choose":
            self.place += 1
            node = Node("call", (node, self.sum()), name="binom")
        self.bars = saved
        self.take(OPENING[opening])
        return node

    def enclosed(self, opening: str) -> Node:
        """Read what stands between a pair of bars, or of the brackets of a rounding."""
        closing, name = CLOSING[opening]
        self.place += 1
        saved, self.bars = self.bars, self.bars + (opening == "|")
        node = self.sum()
        self.bars = saved
        self.take(closing)
        return Node("call", (node,), name=name)

    def argument(self) -> Node:
        r"""Read what a command takes: a group, or the single next token, of a number the first digit only (`\frac12`)."""  # noqa: E501  one sentence, as a docstring's first line has to be
        if self.text == "{" and self.kind == "op":
            return self.bracketed()
        if self.kind == "num":
            digits, rest = self.text[0], self.text[1:]
            if digits == "." or rest.startswith("."):
                raise UnreadableError("a decimal without braces")
            if rest:
                left = Token("num", rest)
                self.tokens = [*self.tokens[: self.place], Token("num", digits), left, *self.tokens[self.place + 1 :]]
            self.place += 1
            return number(int(digits), digits)
        return self.atom()

    @abc.abstractmethod
    def word(self, text: str) -> Node:
        """Read what a word begins: a variable, a constant or a function."""

    @abc.abstractmethod
    def command(self, text: str) -> Node:
        """Read what a command begins."""

    def subscript(self) -> str:
        """Return the text of a subscript, which only names."""
        self.take("_")
        if self.text != "{":
            text = self.text
            if not text:
                raise UnreadableError("an empty subscript")
            self.place += 1
            return text
        first, depth = self.place, 0
        while self.place < len(self.tokens):
            depth += {"{": 1, "}": -1}.get(self.text, 0)
            self.place += 1
            if depth == 0:
                return "".join(token.text for token in self.tokens[first + 1 : self.place - 1])
        raise UnreadableError("a subscript does not close")

    def _based(self, digits: str) -> Node:
        """Read `1010_2`: a number in a base, which keeps its base."""
        subscript = self.subscript().strip("()")
        base = _BASE_WORDS.get(subscript) or (int(subscript) if subscript.isdigit() and len(subscript) < 3 else 0)  # noqa: PLR2004  digits of a base
        if base not in _BASES or not digits.isdigit():
            raise UnreadableError("no base")
        try:
            return number(int(digits, base), f"base{base}:{digits}")
        except ValueError:
            raise UnreadableError("a digit outside the base") from None


def negative(node: Node) -> Node:
    """Return the node of the opposite; of a plain number that is a number."""
    if node.kind == "num" and node.number is not None and not node.name.startswith("base"):
        return number(-node.number, "-" + node.name if node.name else "")
    return Node("neg", (node,))


def _times(left: Node, right: Node) -> Node:
    if left.kind == "mul":
        return Node("mul", (*left.parts, right))
    return Node("mul", (left, right))


def _is_whole(node: Node) -> bool:
    return node.kind == "num" and node.number is not None and node.name.lstrip("-").isdigit()
