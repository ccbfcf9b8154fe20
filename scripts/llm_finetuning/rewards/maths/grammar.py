r"""Reading one expression: a recursive descent over tokens, with a depth limit.

    sum      = sign* product ((+ | - | \pm | \mp) product)*
    product  = factor ((* | / | \cdot | \times | \div | nothing) factor)*
    factor   = sign* postfix (^ factor)?
    postfix  = atom (! | % | degree | ' | subscript)*
    atom     = number | variable | constant | function argument | (sum) | {sum} | |sum| | \frac | \sqrt | \binom | \sum

A whole number directly before a proper literal fraction is a mixed number. `2^10` is a power of ten, `1/2x` is read
from left to right, `\sin 2x` takes the whole product, `\sin x \cos x` does not.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

from llm_finetuning.rewards.maths.lexer import FUNCTIONS, GREEK, Token, decimal_value, repeating_value
from llm_finetuning.rewards.maths.nodes import Node, TooLargeError, UnreadableError, UnsupportedError, number

MAX_DEPTH = 90

_TIMES = frozenset(["*", "\\cdot", "\\times", "\\ast"])
_DIVIDES = frozenset(["/", "\\div"])
_PLUS_MINUS = frozenset(["\\pm", "\\mp"])
_OPENING = {"(": ")", "[": "]", "{": "}", "\\{": "\\}"}
_CLOSING = {
    "\\lfloor": ("\\rfloor", "floor"),
    "\\lceil": ("\\rceil", "ceil"),
    "\\lvert": ("\\rvert", "abs"),
    "\\vert": ("\\vert", "abs"),
    "\\lVert": ("\\rVert", "abs"),
    "\\|": ("\\|", "abs"),
    "|": ("|", "abs"),
}
_FRACTIONS = frozenset(["\\frac", "\\dfrac", "\\tfrac", "\\cfrac", "\\sfrac"])
_BINOMIALS = frozenset(["\\binom", "\\dbinom", "\\tbinom"])
_SAME = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "arcsinh": "arsinh", "arccosh": "arcosh"}
_INVERSE = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot", "sec": "arcsec", "csc": "arccsc"}
_INVERSE |= {"sinh": "arsinh", "cosh": "arcosh", "tanh": "artanh"}
_SEVERAL = frozenset(["max", "min", "gcd", "lcm", "binom"])
_ACCENTS = frozenset(["\\vec", "\\overrightarrow", "\\hat", "\\overline", "\\bar", "\\tilde", "\\mathbb", "\\mathcal"])
_UNSUPPORTED = frozenset(
    ["\\int", "\\lim", "\\iint", "\\oint", "\\partial", "\\nabla", "\\infty", "\\to", "\\sup", "\\inf"]
)
_MEANINGLESS = frozenset(["\\displaystyle", "\\textstyle", "\\limits", "\\nolimits", "\\bigl", "\\bigr", "\\!"])
_BASE_WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_BASES = range(2, 17)
_INFINITE = frozenset(["\\infty", "infty", "infinity", "oo", "inf"])


def read_expression(tokens: Sequence[Token], *, sign: int = 1) -> Node:
    r"""Return the expression that all the tokens make; `sign` is what `\pm` stands for.

    Raises UnreadableError (UnsupportedError where a command is unknown) or TooLargeError (too deep).
    """
    reader = _Reader(tokens, sign)
    node = reader.sum()
    if reader.place < len(tokens):
        raise UnreadableError("something after the expression")
    return node


def has_plus_minus(tokens: Sequence[Token]) -> bool:
    r"""Tell whether `\pm` or `\mp` stands among the tokens."""
    return any(token.text in _PLUS_MINUS for token in tokens)


class _Reader:
    """The place in the tokens, the depth, and one method a rule."""

    def __init__(self, tokens: Sequence[Token], sign: int) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = 0
        self.plus_minus = sign
        self.bars = 0  # open |, inside of which a | closes

    @property
    def text(self) -> str:
        return self.tokens[self.place].text if self.place < len(self.tokens) else ""

    @property
    def kind(self) -> str:
        return self.tokens[self.place].kind if self.place < len(self.tokens) else "end"

    def take(self, text: str) -> None:
        if self.text != text or self.kind == "text":
            raise UnreadableError(f"{text} expected")
        self.place += 1

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooLargeError("too deep")
        terms = [self.product()]
        while self.text in {"+", "-"} or self.text in _PLUS_MINUS:
            sign = self._sign()
            term = self.product()
            terms.append(_negative(term) if sign < 0 else term)
        self.depth -= 1
        return terms[0] if len(terms) == 1 else Node("add", tuple(terms))

    def _sign(self) -> int:
        sign = 1
        while self.text in {"+", "-"} or self.text in _PLUS_MINUS:
            sign *= {"+": 1, "-": -1, "\\pm": self.plus_minus, "\\mp": -self.plus_minus}[self.text]
            self.place += 1
        return sign

    def product(self) -> Node:
        sign = self._sign()
        node = self.factor()
        while True:
            text = self.text
            if text in _TIMES:
                self.place += 1
                node = _times(node, self.factor())
            elif text in _DIVIDES:
                self.place += 1
                node = Node("div", (node, self.factor()))
            elif self._starts_factor():
                node = self._beside(node)
            else:
                return _negative(node) if sign < 0 else node

    def _beside(self, node: Node) -> Node:
        """Read the factor that stands beside `node` without a sign between them."""
        first = self.place
        if self.kind in {"num", "rep"} and self.tokens[first - 1].kind in {"num", "rep", "word"}:
            if not (self.tokens[first].spaced and self._is_plain_fraction(first) and _is_whole(node)):
                raise UnreadableError("two numbers side by side")
            self.place += 3
            part = Fraction(int(self.tokens[first].text), int(self.tokens[first + 2].text))
            return number(Fraction(node.number or 0) + part)
        factor = self.factor()
        mixed = (
            self.tokens[first].text in _FRACTIONS
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

    def _starts_factor(self) -> bool:
        kind, text = self.kind, self.text
        if kind in {"num", "rep", "word"}:
            return text != "mod"
        if kind == "op":
            return text in {"(", "[", "{"} or (text == "|" and not self.bars)
        if kind == "cmd":
            return text[1:].isalpha() and text not in _ENDING
        return False

    def factor(self) -> Node:
        self.depth += 1
        if self.depth > 2 * MAX_DEPTH:
            raise TooLargeError("too deep")
        sign = self._sign()
        node = self.postfix(self.atom())
        if self.text in {"^", "**"}:
            node = self._power(node)
        self.depth -= 1
        return _negative(node) if sign < 0 else node

    def _power(self, base: Node) -> Node:
        self.place += 1
        exponent = self.factor() if self.text != "{" else self._group_power()
        return self.postfix(Node("pow", (base, exponent)))

    def _group_power(self) -> Node:
        exponent = self.argument()
        if self.text in {"^", "**"}:
            return self._power(exponent)
        return exponent

    def postfix(self, node: Node) -> Node:
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
        kind, text = self.kind, self.text
        if kind == "num":
            self.place += 1
            return self._based(text) if self.text == "_" else number(decimal_value(text), text)
        if kind == "rep":
            self.place += 1
            return number(repeating_value(text))
        if kind == "word":
            return self._word(text)
        if kind == "cmd":
            return self._command(text)
        if kind == "op" and text in _OPENING:
            return self.bracketed()
        if kind == "op" and text == "|":
            return self._enclosed(text)
        raise UnreadableError("an operand is missing" if kind != "text" else "words")

    def bracketed(self) -> Node:
        """Read `(sum)`; of many brackets around one thing the inner ones are passed over without recursion."""
        opening = self.text
        if opening not in _OPENING:
            raise UnreadableError("a bracket expected")
        self.place += 1
        saved, self.bars = self.bars, 0
        node = self.sum()
        if opening == "{" and self.text == "\\choose":
            self.place += 1
            node = Node("call", (node, self.sum()), name="binom")
        self.bars = saved
        self.take(_OPENING[opening])
        return node

    def _enclosed(self, opening: str) -> Node:
        closing, name = _CLOSING[opening]
        self.place += 1
        saved, self.bars = self.bars, self.bars + (opening == "|")
        node = self.sum()
        self.bars = saved
        self.take(closing)
        return Node("call", (node,), name=name)

    def argument(self) -> Node:
        r"""Read what a command takes: a group, or the single next token, of a number the first digit only (`\frac12`)."""  # noqa: E501 a table of notations, one case a line
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

    def _word(self, text: str) -> Node:
        self.place += 1
        if text in FUNCTIONS:
            return self.function(text)
        if text == "pi":
            return Node("const", name="pi")
        if text in _INFINITE:
            return Node("const", name="inf")
        if text in {"e", "i"} and self.text != "_":
            return Node("const", name=text)
        if len(text) > 1:
            if text not in GREEK:
                raise UnreadableError("words")
            text = "\\" + text
        return self._variable(text)

    def _variable(self, name: str) -> Node:
        while self.text in {"'", "\\prime", "_"} or (self.text == "^" and self._next_is_prime()):
            if self.text == "_":
                name += "_" + self._subscript()
            else:
                self.place += 1
                name += "'"
        return Node("var", name=name)

    def _next_is_prime(self) -> bool:
        if [token.text for token in self.tokens[self.place + 1 : self.place + 4]] == ["{", "\\prime", "}"]:
            self.tokens = [*self.tokens[: self.place], Token("op", "'"), *self.tokens[self.place + 4 :]]
            return True
        if self.place + 1 < len(self.tokens) and self.tokens[self.place + 1].text == "\\prime":
            self.tokens = [*self.tokens[: self.place], Token("op", "'"), *self.tokens[self.place + 2 :]]
            return True
        return False

    def _subscript(self) -> str:
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
        subscript = self._subscript().strip("()")
        base = _BASE_WORDS.get(subscript) or (int(subscript) if subscript.isdigit() and len(subscript) < 3 else 0)  # noqa: PLR2004  digits of a base
        if base not in _BASES or not digits.isdigit():
            raise UnreadableError("no base")
        try:
            return number(int(digits, base), f"base{base}:{digits}")
        except ValueError:
            raise UnreadableError("a digit outside the base") from None

    def _command(self, text: str) -> Node:  # noqa: C901, PLR0911 a table of notations, one case a line
        self.place += 1
        name = text[1:]
        if text in _MEANINGLESS:
            return self.atom()
        if text in _FRACTIONS:
            return Node("div", (self.argument(), self.argument()))
        if text in _BINOMIALS:
            return Node("call", (self.argument(), self.argument()), name="binom")
        if text == "\\sqrt":
            return self._root()
        if text in {"\\sum", "\\prod"}:
            return self._series(name)
        if name in FUNCTIONS:
            return self.function(name)
        if name == "pi":
            return Node("const", name="pi")
        if text == "\\infty":
            return Node("const", name="inf")
        if name in GREEK:
            return self._variable(text)
        if text in _CLOSING:
            self.place -= 1
            return self._enclosed(text)
        if text == "\\{":
            raise UnreadableError("a set inside an expression")
        if text in _ACCENTS:
            return self._variable(text + "".join(self._accented()))
        raise UnsupportedError(text)

    def _accented(self) -> list[str]:
        first = self.place
        if self.text == "{":
            self.bracketed()
        else:
            self.place += 1
        return [token.text for token in self.tokens[first : self.place]]

    def _root(self) -> Node:
        degree = number(2)
        if self.text == "[":
            self.place += 1
            degree = self.sum()
            self.take("]")
        base = self.bracketed() if self.text == "(" else self.argument_of_root()
        return Node("root", (base, degree))

    def argument_of_root(self) -> Node:
        r"""Read what follows `\sqrt`: a group, or one token; digits are taken whole, since nobody means 1 by `\sqrt17`."""  # noqa: E501 a table of notations, one case a line
        if self.kind == "num":
            text = self.text
            self.place += 1
            return number(decimal_value(text), text)
        return self.argument()

    def function(self, name: str) -> Node:
        """Read a function's argument, with `^2` and `^{-1}` and `_2` between the name and it."""
        if name in {"sqrt", "cbrt"}:
            base = self.bracketed() if self.text in _OPENING else self.argument_of_root()
            return Node("root", (base, number(2 if name == "sqrt" else 3)))
        power: Node | None = None
        base_of_log: Node | None = None
        while self.text in {"^", "_"} and self.kind == "op":
            mark = self.text
            self.place += 1
            argument = self.argument() if self.text != "-" else self._signed_argument()
            power, base_of_log = (argument, base_of_log) if mark == "^" else (power, argument)
        if power is not None and power.number == -1 and name in _INVERSE:
            name, power = _INVERSE[name], None
        node = self._called(_SAME.get(name, name), base_of_log)
        return node if power is None else Node("pow", (node, power))

    def _signed_argument(self) -> Node:
        self.place += 1
        argument = self.argument()
        return number(-argument.number) if argument.number is not None else _negative(argument)

    def _called(self, name: str, base: Node | None) -> Node:
        if name in _SEVERAL:
            return Node("call", tuple(self._arguments()), name=name)
        argument = self._operand()
        if name == "log" and base is not None:
            return Node("call", (argument, base), name="log")
        if base is not None:
            raise UnreadableError("a subscript on a function")
        if name == "lg":
            return Node("call", (argument, number(10)), name="log")
        return Node("call", (argument,), name=name)

    def _arguments(self) -> list[Node]:
        opening = self.text
        if opening not in _OPENING:
            raise UnreadableError("a bracket expected")
        self.place += 1
        closing = _OPENING[opening]
        if opening == "\\{":
            closing = "\\}"
        found = [self.sum()]
        while self.text == ",":
            self.place += 1
            found.append(self.sum())
        self.take(closing)
        return found

    def _operand(self) -> Node:
        """Read the argument of a function: a bracket, or the product up to the next sign or function."""
        if self.text in {"(", "[", "{"} and self.kind == "op":
            node = self.bracketed()
            return node if self.text not in {"^", "**"} or self._is_degree_next() else self._power(node)
        sign = self._sign()
        self.depth += 1
        if self.depth > 2 * MAX_DEPTH:
            raise TooLargeError("too deep")
        node = self.factor()
        while self._starts_factor() and not self._starts_function():
            node = self._beside(node)
        self.depth -= 1
        return _negative(node) if sign < 0 else node

    def _is_degree_next(self) -> bool:
        return self.place + 1 < len(self.tokens) and self.tokens[self.place + 1].text == "\\circ"

    def _starts_function(self) -> bool:
        text = self.text
        return (
            (self.kind == "word" and text in FUNCTIONS)
            or (self.kind == "cmd" and text[1:] in FUNCTIONS and text != "\\sqrt")
            or (self.kind == "op" and text in {"(", "["})
        )

    def _series(self, name: str) -> Node:
        r"""Read `\sum_{k=1}^{n} body`; the body is the product that follows."""
        variable, low, high = "", None, None
        while self.text in {"_", "^"}:
            mark = self.text
            self.place += 1
            if mark == "_":
                self.take("{")
                variable = self.text
                self.place += 1
                self.take("=")
                low = self.sum()
                self.take("}")
            else:
                high = self.argument()
        if low is None or high is None or not variable.isalpha():
            raise UnsupportedError("a sum without limits")
        node = Node(name, (low, high, self.product()), name=variable)
        return _rename_constant(node, variable) if variable in {"i", "e"} else node


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


def _negative(node: Node) -> Node:
    if node.kind == "num" and node.number is not None and not node.name.startswith("base"):
        return number(-node.number, "-" + node.name if node.name else "")
    return Node("neg", (node,))


def _times(left: Node, right: Node) -> Node:
    if left.kind == "mul":
        return Node("mul", (*left.parts, right))
    return Node("mul", (left, right))


def _is_whole(node: Node) -> bool:
    return node.kind == "num" and node.number is not None and node.name.lstrip("-").isdigit()


def _rename_constant(node: Node, name: str) -> Node:
    """Turn the constant `name` into the variable that a sum binds."""
    change: Callable[[Node], Node] = lambda part: _rename_constant(part, name)  # noqa: E731  a partial for map
    if node.kind == "const" and node.name == name:
        return Node("var", name=name)
    return node._replace(parts=tuple(map(change, node.parts)))
