"""Reading one number, one expression or one matrix of cleaned text."""

import re
from collections.abc import Sequence

from llm_finetuning.rewards.maths.forms import Group, Matrix, Scalar, Value, Words
from llm_finetuning.rewards.maths.grammar import has_plus_minus, read_expression
from llm_finetuning.rewards.maths.lexer import decimal_value, tokenise
from llm_finetuning.rewards.maths.nodes import Node, UnreadableError, UnsupportedError, number

_MAX_CELLS = 200
_MAX_DETERMINANT = 4  # rows

_NUMBER = re.compile(r"[-+]?\s?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?<=\d)")
_SPACED_NUMBER = re.compile(r"(?<![\d.])\d{1,3}(?: \d{3})+(?!\d)(?! *[/:])")


def plain_number(text: str) -> Scalar | None:  # noqa: D103  reads what it is named for
    if not _NUMBER.fullmatch(text):
        return None
    literal = text.replace(",", "").replace(" ", "")
    value = decimal_value(literal.lstrip("+-"))
    digits = len(literal.lstrip("+-").replace(".", "").lstrip("0")) if "." in literal else 0
    return Scalar(number(-value if literal[0] == "-" else value, literal.lstrip("+")), digits=digits)


def scalar(text: str) -> Value:  # noqa: D103  likewise
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
    return Scalar(node, digits=_digits(node))


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
    value = plain_number(text)
    if value is not None:
        return value.node
    tokens = tokenise(_SPACED_NUMBER.sub(lambda run: run.group().replace(" ", ""), _ungrouped(text)))
    if not tokens:
        raise UnreadableError("nothing")
    if has_plus_minus(tokens):
        raise UnsupportedError("plus or minus inside something else")
    return read_expression(tokens)


_MATRIX = re.compile(
    r"(?P<before>.*?)(?:[(\[]\s*)?\\begin\s*\{(?P<kind>[pbBvV]?matrix|array|smallmatrix|psmallmatrix|bsmallmatrix)\*?\}(?:\s*\{[clr| ]*\})?(?P<body>.*?)\\end\s*\{(?P=kind)\*?\}\s*[)\]]?",  # noqa: E501  a pattern, whole on a line
    re.DOTALL,
)


def matrix(text: str) -> Value | None:
    """Read a matrix, with a scalar before it multiplied in; bars around it make a determinant."""
    if "\\begin" not in text:
        return None
    match = _MATRIX.fullmatch(text)
    if match is None or match["kind"] == "Vmatrix":
        raise UnsupportedError("an environment")
    body = match["body"].strip().removesuffix("\\\\").strip()
    rows = [[expression(cell.strip()) for cell in row.split("&")] for row in re.split(r"\\\\(?:\s*\[[^\]]*\])?", body)]
    if len({len(row) for row in rows}) != 1 or len(rows) * len(rows[0]) > _MAX_CELLS:
        raise UnreadableError("rows of several lengths")
    if match["kind"] == "vmatrix" and not match["before"].strip():
        if len(rows) != len(rows[0]) or len(rows) > _MAX_DETERMINANT:
            raise UnsupportedError("a determinant of this size")
        return Scalar(_determinant(rows))
    before = match["before"].strip().removesuffix("\\cdot").removesuffix("\\times").strip()
    if before:
        factor = number(-1) if before == "-" else expression(before)
        rows = [[Node("mul", (factor, cell)) for cell in row] for row in rows]
    return Matrix(tuple(tuple(row) for row in rows))


def _determinant(rows: Sequence[Sequence[Node]]) -> Node:
    """Return the expansion by the first row."""
    if len(rows) == 1:
        return rows[0][0]
    terms = []
    for place, cell in enumerate(rows[0]):
        term = Node("mul", (cell, _determinant([[*row[:place], *row[place + 1 :]] for row in rows[1:]])))
        terms.append(Node("neg", (term,)) if place % 2 else term)
    return Node("add", tuple(terms))
