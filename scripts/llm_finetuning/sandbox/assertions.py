"""From an assertion to a call that the judge compares itself: the forms that need no test code to run.

`f(2) == 4`, `4 == f(2)`, `f(2) != 5`, `f(2) is None`, `f(2)`, `not f(2)`, `abs(f(2) - 4.0) < 1e-6`,
`math.isclose(f(2), 4.0, rel_tol=1e-9)`, and `unittest`'s spelling of them. Arguments and results are literals.
"""

import ast
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from llm_finetuning.sandbox.jobs import Call
from llm_finetuning.sandbox.literals import NotLiteral, value_of

Relation = Literal["equal", "not_equal", "identical", "not_identical", "true", "false", "close"]

_OPPOSITE: Mapping[Relation, Relation] = {
    "equal": "not_equal",
    "not_equal": "equal",
    "identical": "not_identical",
    "not_identical": "identical",
    "true": "false",
    "false": "true",
}
_MAX_TEXT = 300  # characters of a test in a report


class NotPlain(Exception):  # noqa: N818  an answer, not an error
    """The assertion is none of the forms; its test code has to be run."""


def call_of(condition: ast.expr, functions: Mapping[str, str]) -> Call:
    """Return the call that an assertion's condition stands for; raises NotPlain for any other form.

    `functions` are the candidate's names: as the text calls them -> as the candidate does.
    """
    call = _call(condition, functions)
    text = " ".join(ast.unparse(condition).split())
    return dataclasses.replace(call, text=text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "...")


def call_of_method(name: str, arguments: Sequence[ast.expr], functions: Mapping[str, str]) -> Call:
    """Return the call that `self.assertEqual(f(2), 4)` and its like stand for; raises NotPlain for any other."""
    build = _METHODS.get(name)
    if build is None:
        raise NotPlain(f"self.{name} is run, not read")
    try:
        condition = build(*arguments)
    except TypeError:
        raise NotPlain(f"self.{name} with other arguments than usual") from None
    return call_of(condition, functions)


def constant_true(condition: ast.expr) -> bool:
    """Tell whether an assertion holds whatever the candidate is: HumanEval has `assert True, "..."`."""
    try:
        return bool(value_of(condition))
    except NotLiteral:
        return False


def _call(condition: ast.expr, functions: Mapping[str, str]) -> Call:
    match condition:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            call = _call(inner, functions)
            if call.relation not in _OPPOSITE:
                raise NotPlain("not of a comparison with a tolerance")
            return dataclasses.replace(call, relation=_OPPOSITE[call.relation])
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return _comparison(left, operator, right, functions)
        case ast.Call() if (wanted := _isclose(condition)) is not None:
            return _close(*wanted, functions)
        case ast.Call():
            return _made(condition, functions, relation="true")
    raise NotPlain("not a call, nor a comparison of a call with a literal")


def _comparison(left: ast.expr, operator: ast.cmpop, right: ast.expr, functions: Mapping[str, str]) -> Call:
    if isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        return _within(left, operator, right, functions)
    relations: Mapping[type[ast.cmpop], Relation] = {
        ast.Eq: "equal",
        ast.NotEq: "not_equal",
        ast.Is: "identical",
        ast.IsNot: "not_identical",
    }
    relation = relations.get(type(operator))
    if relation is None:
        raise NotPlain("a comparison by something else than ==, != and is")
    made, literal = (left, right) if _is_candidate(left, functions) else (right, left)
    expected = _literal(literal)
    if relation in ("identical", "not_identical") and not (expected is None or isinstance(expected, bool)):
        raise NotPlain("`is` with something else than None, True and False")
    return _made(made, functions, relation=relation, expected=expected)


def _within(left: ast.expr, operator: ast.cmpop, right: ast.expr, functions: Mapping[str, str]) -> Call:
    """Read `abs(f(x) - literal) < tolerance`, either way round."""
    if isinstance(operator, ast.Gt | ast.GtE):
        left, right = right, left
    match left:
        case ast.Call(func=ast.Name(id="abs"), args=[ast.BinOp(left=first, op=ast.Sub(), right=second)], keywords=[]):
            tolerance = _number(right)
            if isinstance(operator, ast.Lt | ast.Gt):  # a strict bound excludes the tolerance itself
                tolerance = math.nextafter(tolerance, -math.inf)
            if tolerance < 0:
                raise NotPlain("a tolerance that nothing is within")
            made, literal = (first, second) if _is_candidate(first, functions) else (second, first)
            return _made(made, functions, relation="close", expected=_number(literal), absolute_tolerance=tolerance)
    raise NotPlain("an inequality other than abs(f(x) - literal) < tolerance")


def _isclose(node: ast.Call) -> tuple[ast.expr, ast.expr, float, float] | None:
    """Return the two sides and the tolerances of `math.isclose`, or None if it is another call."""
    match node.func:
        case ast.Attribute(value=ast.Name(id="math"), attr="isclose"):
            pass
        case _:
            return None
    tolerances = {"rel_tol": 1e-9, "abs_tol": 0.0}
    for keyword in node.keywords:
        if keyword.arg not in tolerances:
            raise NotPlain("isclose with other arguments than usual")
        tolerances[keyword.arg] = _number(keyword.value)
    if len(node.args) != 2:  # noqa: PLR2004  the two sides
        raise NotPlain("isclose without its two values")
    return node.args[0], node.args[1], tolerances["rel_tol"], tolerances["abs_tol"]


def _close(first: ast.expr, second: ast.expr, relative: float, absolute: float, functions: Mapping[str, str]) -> Call:
    made, literal = (first, second) if _is_candidate(first, functions) else (second, first)
    return _made(
        made,
        functions,
        relation="close",
        expected=_number(literal),
        relative_tolerance=relative,
        absolute_tolerance=absolute,
    )


def _is_candidate(node: ast.expr, functions: Mapping[str, str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions


def _made(node: ast.expr, functions: Mapping[str, str], **comparison: Any) -> Call:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions):
        raise NotPlain("not a call of the candidate")
    keywords = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise NotPlain("** in a call")
        keywords[keyword.arg] = _literal(keyword.value)
    return Call(
        text="",
        function=functions[node.func.id],
        arguments=[_literal(argument) for argument in node.args],
        keywords=keywords,
        **comparison,
    )


def _literal(node: ast.expr) -> Any:
    try:
        return value_of(node)
    except NotLiteral as error:
        raise NotPlain(f"not a literal: {error}") from None


def _number(node: ast.expr) -> float:
    value = _literal(node)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise NotPlain("a tolerance or a value near it that is no number")
    return value


def _equal(first: ast.expr, second: ast.expr, _message: ast.expr | None = None) -> ast.expr:
    return ast.Compare(left=first, ops=[ast.Eq()], comparators=[second])


def _unequal(first: ast.expr, second: ast.expr, _message: ast.expr | None = None) -> ast.expr:
    return ast.Compare(left=first, ops=[ast.NotEq()], comparators=[second])


def _true(value: ast.expr, _message: ast.expr | None = None) -> ast.expr:
    return value


def _false(value: ast.expr, _message: ast.expr | None = None) -> ast.expr:
    return ast.UnaryOp(op=ast.Not(), operand=value)


def _none(value: ast.expr, _message: ast.expr | None = None) -> ast.expr:
    return ast.Compare(left=value, ops=[ast.Is()], comparators=[ast.Constant(value=None)])


_METHODS: Mapping[str, Callable[..., ast.expr]] = {
    "assertEqual": _equal,
    "assertEquals": _equal,
    "assertListEqual": _equal,
    "assertNotEqual": _unequal,
    "assertTrue": _true,
    "assertFalse": _false,
    "assertIsNone": _none,
}
