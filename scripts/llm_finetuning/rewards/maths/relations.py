"""Reading equations, inequalities, memberships and residues."""

import re
from collections.abc import Sequence
from dataclasses import replace

from llm_finetuning.rewards.maths.comparison import agree_in_chain
from llm_finetuning.rewards.maths.cuts import SEPARATORS, cut, cut_relations
from llm_finetuning.rewards.maths.forms import (
    Group,
    Named,
    Read,
    Region,
    Relation,
    Residue,
    Scalar,
    Span,
    Value,
    Words,
    as_region,
    span_between,
)
from llm_finetuning.rewards.maths.nodes import Node, TooLargeError, UnreadableError, UnsupportedError, number, variables
from llm_finetuning.rewards.maths.regions import minus
from llm_finetuning.rewards.maths.scalars import expression

MODULAR = re.compile(
    r"^(?P<value>.*?)\s*(?:\\pmod\s*(?P<a>\{[^{}]*\}|\d|\w)|\\(?:bmod|mod)\s*(?P<b>.+)"
    r"|\(\s*(?:\\(?:bmod|mod|text\s*\{\s*mod\s*\}|mathrm\s*\{\s*mod\s*\})|mod|modulo)\s*(?P<c>[^()]+)\)|(?:mod|modulo|\\text\s*\{\s*mod\s*\}|\\mathrm\s*\{\s*mod\s*\})\s*(?P<d>[\w{}]+))$",
    re.DOTALL,
)


def residue(match: re.Match[str], read: Read) -> Value:  # noqa: ARG001, D103  reads what it is named for, called as the other forms are
    modulus = (match["a"] or match["b"] or match["c"] or match["d"]).strip("{} ")
    pieces = re.split(r"\\equiv|=", match["value"])
    value = expression(pieces[-1].strip(" ,"))
    return Residue(value, expression(modulus))


def residues(match: re.Match[str]) -> Value:
    r"""Read `n \equiv 1, 3 \pmod 8` as a list of residues of one modulus."""
    modulus = expression((match["a"] or match["b"] or match["c"] or match["d"]).strip("{} "))
    listed = re.split(r"\\equiv|=", match["value"])[-1]
    found = [expression(piece.strip()) for piece in cut(listed, SEPARATORS)[0] if piece.strip()]
    return Group("list", tuple(Residue(node, modulus) for node in found))


def relation(text: str, read: Read) -> Value | None:
    """Read a chain of relations outside all brackets, None if there is none."""
    pieces, operators = cut_relations(text)
    if not operators:
        return None
    if not pieces[0] and operators[0] in {"=", "~"}:
        pieces, operators = pieces[1:], operators[1:]
        if not operators:
            return read(pieces[0])
    if any(not piece for piece in pieces):
        raise UnreadableError("a relation without a side")
    if operators == ["\\equiv"] and "(" in pieces[0] and name_of(pieces[0]):
        operators = ["="]  # f(x) is the same everywhere
    if operators == ["in"]:
        return _membership(pieces[0], pieces[1], read)
    if set(operators) <= {"=", "~"}:
        return _chain(pieces, operators, read)
    if set(operators) <= {"<", "<=", ">", ">="}:
        return _inequality(pieces, operators)
    if operators == ["!="]:
        return _unequal(pieces, read)
    raise UnsupportedError("a mixed relation")


def _unequal(pieces: Sequence[str], read: Read) -> Value:
    points = as_region(read(pieces[1])) if "\\pm" in pieces[1] else None
    if points is not None and name_of(pieces[0]):
        return Region(minus([Span(None, None, has_low=False, has_high=False)], points.spans), name_of(pieces[0]))
    left, right = expression(pieces[0]), expression(pieces[1])
    if left.kind == "var" and not variables(right):
        return Region(
            (Span(None, right, has_low=False, has_high=False), Span(right, None, has_low=False, has_high=False)),
            left.name,
        )
    return Relation("!=", left, right)


def _membership(left: str, right: str, read: Read) -> Value:
    name = name_of(left)
    value = read(f"\\{right[:-1]}\\}}" if right[0] == "{" and right[-1] == "}" else right)
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


_NAME = re.compile(
    r"(?P<variable>(?:\\Delta\s*)?\\?[A-Za-z]+(?:\s*_\s*(?:\{[^{}]*\}|\w))?'*)|(?P<function>(?:\\?[A-Za-z]|\\Pr|\\mathbb\s*\{[PE]\})(?:_\w|_\{\w+\})?'*(?:\^\s*\{?\s*(?:-1|\\prime|'|\(\d\))\s*\}?)?\s*(?:\(\s*[^()=]{1,30}\s*\)|(?<=[PrE}])\s*\(\s*[^()]{1,30}\)))"
    r"|(?P<derivative>\\frac\s*\{\s*d\s*(?:\^\s*\{?2\}?)?\s*\w?(?:\s*\(\w\))?\s*\}\s*\{\s*d\s*\w(?:\s*\^\s*\{?2\}?)?\s*\}|d\w\s*/\s*d\w)|(?P<accent>\\(?:vec|overrightarrow|overline|hat|bar|mathbf|bm|boldsymbol|angle|triangle|mathrm|text|operatorname)\s*(?:\{[^{}]*\}|\w+)(?:_\w|_\{\w+\})?)"
    r"|(?P<norm>\|\s*\w+\s*\|)|(?P<measure>m?\s*\\angle\s*[A-Z]{1,3})|(?P<many>\(\s*(?:\\[a-z]+|[a-zA-Z])\s*(?:_\w)?(?:\s*,\s*(?:\\[a-z]+|[a-zA-Z])\s*(?:_\w)?)+\s*\))"
)


def name_of(text: str) -> str:
    r"""Return the one spelling of what an answer may be called (x, f(x), dy/dx, \\vec v), '' if it is no name."""
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


def _chain(pieces: Sequence[str], operators: Sequence[str], read: Read) -> Value:
    """Read `name = a = b ~ c`: all members must agree, and the first exact one is the value."""
    name = name_of(pieces[0])
    if name and not pieces[0].strip().isdigit():
        left: Node | None
        try:
            left = expression(pieces[0])
        except (UnreadableError, TooLargeError):
            left = None
        if len(pieces) == 2:  # noqa: PLR2004  name and value
            value = read(pieces[1])
            if isinstance(value, Words) and left is not None and re.search(r"\d", value.text):
                raise UnreadableError("words after an equals sign")
            tupled = _NAME.fullmatch(pieces[0].strip())
            if tupled and tupled["many"] and isinstance(value, Group) and value.kind == "tuple":
                return Named(name, value, None)
            return Named(name, value, left)
        return Named(name, _agreeing(pieces[1:], operators[1:], read), left)
    asked = _asked_for(pieces, operators, read)
    if asked is not None:
        return asked
    left_node, right_node = expression(pieces[0]), expression(pieces[1])
    if len(pieces) == 2 and (variables(left_node) | variables(right_node)) and operators[0] == "=":  # noqa: PLR2004  two sides
        return Relation("=", left_node, right_node)
    return _agreeing(pieces, operators, read)


def _asked_for(pieces: Sequence[str], operators: Sequence[str], read: Read) -> Value | None:
    r"""Read `\lim f(x) = 12`, `5 = x` and `m + n = 25 + 54 = 79`, which name what they are the value of."""
    if _OPERATION.match(pieces[0]):
        return Named("", _agreeing(pieces[1:], operators[1:], read), None)
    left = expression(pieces[0])
    if len(pieces) == 2:  # noqa: PLR2004  two sides
        is_name = len(pieces[1]) == 1 and bool(name_of(pieces[1]))
        return Named(pieces[1], read(pieces[0]), expression(pieces[1])) if is_name and not variables(left) else None
    if len(variables(left)) < 2 or variables(expression(pieces[1])):  # noqa: PLR2004  several
        return None
    total = _agreeing(pieces[1:], operators[1:], read)
    return Relation("=", left, total.node) if isinstance(total, Scalar) else None


def _agreeing(pieces: Sequence[str], operators: Sequence[str], read: Read) -> Value:
    values = [read(piece) for piece in pieces]
    if not agree_in_chain(values, operators):
        raise UnreadableError("a chain that does not hold")
    if all(operator == "~" for operator in operators) or "~" not in operators:
        return values[0] if "~" in operators else values[-1]
    return values[operators.index("~")]


_OPERATION = re.compile(r"\\(?:lim|int|iint|iiint|oint|sum|prod|max|min|sup|inf)(?![A-Za-z])[^=]*[A-Za-z)}\]]\s*$")
_FLIPPED = {">": "<", ">=": "<="}


def _inequality(pieces: Sequence[str], operators: Sequence[str]) -> Value:
    nodes = [expression(piece) for piece in pieces]
    signs = list(operators)
    if all(sign in _FLIPPED for sign in signs):
        nodes.reverse()
        signs = [_FLIPPED[sign] for sign in reversed(signs)]
    if any(sign in _FLIPPED for sign in signs):
        raise UnsupportedError("inequalities in both directions")
    if len(nodes) == 3 and nodes[1].kind == "var" and nodes[1].name not in variables(nodes[0]) | variables(nodes[2]):  # noqa: PLR2004  a < x < b
        span = span_between(nodes[0], nodes[2], has_low=signs[0] == "<=", has_high=signs[1] == "<=")
        return Region((span,), nodes[1].name)
    if len(nodes) != 2:  # noqa: PLR2004  one relation
        return _between(nodes, signs)
    left, right = nodes
    if left.kind == "var" and not variables(right):
        return Region(
            (span_between(Node("const", name="inf"), right, has_low=False, has_high=signs[0] == "<="),), left.name
        )
    if right.kind == "var" and not variables(left):
        return Region(
            (span_between(left, Node("const", name="inf"), has_low=signs[0] == "<=", has_high=False),), right.name
        )
    return _absolute(left, right, signs[0]) or Relation(signs[0], left, right)


def _between(nodes: Sequence[Node], signs: Sequence[str]) -> Value:
    if (
        len(nodes) == 3  # noqa: PLR2004  0 < |x - a| < d
        and nodes[1].kind == "call"
        and nodes[1].name == "abs"
        and signs[0] == "<"
        and nodes[0].number == 0
    ):
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
