r"""Reading one expression: a recursive descent over tokens, with a depth limit.

    sum      = sign* product ((+ | - | \pm | \mp) product)*
    product  = factor ((* | / | \cdot | \times | \div | nothing) factor)*
    factor   = sign* postfix (^ factor)?
    postfix  = atom (! | % | degree | ' | subscript)*
    atom     = number | variable | constant | function argument | (sum) | {sum} | |sum| | \frac | \sqrt | \binom | \sum

A whole number directly before a proper literal fraction is a mixed number. `2^10` is a power of ten, `1/2x` is read
from left to right, `\sin 2x` takes the whole product, `\sin x \cos x` does not. The rules from sum to bracket are
in `arithmetic`, those for names, functions and commands here.
"""

from collections.abc import Callable, Sequence

from llm_finetuning.rewards.maths.arithmetic import (
    CLOSING,
    FRACTIONS,
    MAX_DEPTH,
    OPENING,
    PLUS_MINUS,
    Arithmetic,
    negative,
)
from llm_finetuning.rewards.maths.lexer import FUNCTIONS, GREEK, Token, decimal_value
from llm_finetuning.rewards.maths.nodes import Node, TooLargeError, UnreadableError, UnsupportedError, number

_BINOMIALS = frozenset(["\\binom", "\\dbinom", "\\tbinom"])
_SAME = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "arcsinh": "arsinh", "arccosh": "arcosh"}
_INVERSE = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot", "sec": "arcsec", "csc": "arccsc"}
_INVERSE |= {"sinh": "arsinh", "cosh": "arcosh", "tanh": "artanh"}
_SEVERAL = frozenset(["max", "min", "gcd", "lcm", "binom"])
_ACCENTS = frozenset(["\\vec", "\\overrightarrow", "\\hat", "\\overline", "\\bar", "\\tilde", "\\mathbb", "\\mathcal"])
_MEANINGLESS = frozenset(["\\displaystyle", "\\textstyle", "\\limits", "\\nolimits", "\\bigl", "\\bigr", "\\!"])
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
    return any(token.text in PLUS_MINUS for token in tokens)


class _Reader(Arithmetic):
    """The rules for names, functions and commands."""

    def word(self, text: str) -> Node:
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
                name += "_" + self.subscript()
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

    def command(self, text: str) -> Node:  # noqa: C901, PLR0911  one return a kind of command
        self.place += 1
        name = text[1:]
        if text in _MEANINGLESS:
            return self.atom()
        if text in FRACTIONS:
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
        if text in CLOSING:
            self.place -= 1
            return self.enclosed(text)
        if text == "\\{":
            raise UnreadableError("a set inside an expression")
        if text in _ACCENTS:
            accent = "\\overline" if text == "\\bar" else text
            return self._variable(accent + "".join(self._accented()))
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
        r"""Read what follows `\sqrt`: a group, or one token; digits are taken whole, since nobody means 1 by `\sqrt17`."""  # noqa: E501  one sentence, as a docstring's first line has to be
        if self.kind == "num":
            text = self.text
            self.place += 1
            return number(decimal_value(text), text)
        return self.argument()

    def function(self, name: str) -> Node:
        """Read a function's argument, with `^2` and `^{-1}` and `_2` between the name and it."""
        if name in {"sqrt", "cbrt"}:
            base = self.bracketed() if self.text in OPENING else self.argument_of_root()
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
        return number(-argument.number) if argument.number is not None else negative(argument)

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
        if opening not in OPENING:
            raise UnreadableError("a bracket expected")
        self.place += 1
        closing = OPENING[opening]
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
            return node if self.text not in {"^", "**"} or self._is_degree_next() else self.power(node)
        sign = self.sign()
        self.depth += 1
        if self.depth > 2 * MAX_DEPTH:
            raise TooLargeError("too deep")
        node = self.factor()
        while self.starts_factor() and not self._starts_function():
            node = self.beside(node)
        self.depth -= 1
        return negative(node) if sign < 0 else node

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


def _rename_constant(node: Node, name: str) -> Node:
    """Turn the constant `name` into the variable that a sum binds."""
    change: Callable[[Node], Node] = lambda part: _rename_constant(part, name)  # noqa: E731  a partial for map
    if node.kind == "const" and node.name == name:
        return Node("var", name=name)
    return node._replace(parts=tuple(map(change, node.parts)))
