"""Whether two expressions have one value: the test of equality by growing precision, at points.

The precision follows the literals: two expressions are computed with 40 + n and with 90 + 2n digits, n being the digits
that the literals of both sides can carry, and count as equal only if their difference shrinks with the precision. With
variables the same holds at random points, drawn from a seed that is secret and new in every run. (The identity test is
that of Schwartz and Zippel, widened to analytic functions; unequal is firm, equal holds with overwhelming probability.)
"""

import math
import threading
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from llm_finetuning.rewards.maths.evaluation import Evaluation, mpmath_context
from llm_finetuning.rewards.maths.exact import UndefinedError, exact_value
from llm_finetuning.rewards.maths.nodes import Node, TooLargeError, mentions, variables
from llm_finetuning.rewards.maths.points import NEEDED_POINTS, POINTS, Point

MAX_DIGITS = 3_000  # of the literals of an expression that is not rational
MAX_WORK = 4_000  # node evaluations at 100 digits, for one comparison

_MAX_VARIABLES = 12


class UndecidedError(Exception):
    """No point was found at which both sides have a real value."""


def literal_digits(node: Node) -> int:
    """Return a bound on the decimal digits, before and after the point, that the literals of a node can carry."""
    if node.kind == "num":
        value = node.number or Fraction(0)
        return (value.numerator.bit_length() + value.denominator.bit_length()) * 302 // 1000
    parts = [literal_digits(part) for part in node.parts]
    if node.kind == "pow":
        exponent = _rough(node.parts[1])
        if not variables(node.parts[0]) and exponent is not None:
            return parts[1] + min(MAX_DIGITS * 2, int(abs(exponent) * max(parts[0], 1)))
    if node.kind == "call":
        rough = _rough(node.parts[0])
        if node.name == "factorial" and rough is not None and rough > 1:
            return parts[0] + int(min(rough * math.log10(rough), MAX_DIGITS * 2))
        if node.name in {"exp", "sinh", "cosh"} and rough is not None:
            return parts[0] + int(min(abs(rough) * 0.5, MAX_DIGITS * 2))
    return sum(parts)


def _rough(node: Node) -> float | None:
    """Return a float near a rational constant, None for anything else."""
    try:
        value = exact_value(node)
        return None if value is None else float(value)
    except OverflowError:
        return math.inf
    except (TooLargeError, UndefinedError):
        return None


def are_equal(left: Node, right: Node, budget: list[float] | None = None) -> bool:
    """Tell whether two expressions have one value, at every point tried if they have variables.

    Raises TooLargeError, UndefinedError (a constant side has no value) and UndecidedError (no point has one).
    """
    names = variables(left) | variables(right)
    budget = [float(MAX_WORK)] if budget is None else budget
    if not names:
        exact = _exactly_equal(left, right)
        if exact is not None:
            return exact
    digits = literal_digits(left) + literal_digits(right)
    if digits > MAX_DIGITS:
        raise TooLargeError("too many digits in the literals")
    if not names:
        return _agree(left, right, digits, None, budget)
    if len(names) > _MAX_VARIABLES:
        raise TooLargeError("too many variables")
    return _agree_at_points(left, right, digits, budget)


def _exactly_equal(left: Node, right: Node) -> bool | None:
    one = exact_value(left)
    if one is None:
        return None
    other = exact_value(right)
    return None if other is None else one == other


def _agree_at_points(left: Node, right: Node, digits: int, budget: list[float]) -> bool:
    is_real = not (mentions(left, "const", "i") or mentions(right, "const", "i"))
    needs_all = _has_steps(left) or _has_steps(right)
    agreed, signed = 0, 0
    for point in POINTS:
        if agreed >= NEEDED_POINTS and not needs_all and (signed or point.kind == "whole"):
            return True
        needs_all = needs_all and point is not POINTS[-1]
        try:
            if not _agree(left, right, digits, point, budget, is_real=is_real):
                return False
        except (UndefinedError, UndecidedError):
            continue
        except TooLargeError:
            if point.kind != "wide":
                raise
            continue
        agreed += 1
        signed += point.kind == "signed"
    if agreed:
        return True
    raise UndecidedError("no point at which both sides are real")


def _has_steps(node: Node) -> bool:
    """Tell whether an expression may agree with another near zero alone."""
    return (node.kind == "call" and node.name in _STEPS) or any(map(_has_steps, node.parts))


_STEPS = frozenset(["max", "min", "abs", "floor", "ceil"])


def _agree(
    left: Node, right: Node, digits: int, point: Point | None, budget: list[float], *, is_real: bool = False
) -> bool:
    """Tell whether the difference at one point shrinks with the precision."""
    low, high = 40 + digits, 90 + 2 * digits
    first, size = _difference(left, right, Evaluation(low, point, budget), is_real=is_real)
    if first > size * 1e-6 and first > mpmath_context().mpf(10) ** (-low // 2):
        return False
    second, _ = _difference(left, right, Evaluation(high, point, budget), is_real=is_real)
    context = mpmath_context()
    floor = context.mpf(10) ** -low * max(size, 1)
    return bool(second <= max(first, floor) * context.mpf(10) ** (-(high - low) // 2))


def _difference(left: Node, right: Node, run: Evaluation, *, is_real: bool) -> tuple[Any, Any]:
    """Return the absolute difference and the larger absolute value."""
    one, other = _value_of_gold(left, run), run.value(right)
    if is_real:
        for value in (one, other):
            if isinstance(value, run.context.mpc) and abs(run.context.im(value)) > abs(value) * run.context.mpf(10) ** (
                -run.digits // 2
            ):
                raise UndecidedError("not real here")
    return abs(one - other), max(abs(one), abs(other))


_GOLDS = threading.local()  # values belong to a thread's mpmath context
_MAX_GOLDS = 1024


def _value_of_gold(node: Node, run: Evaluation) -> Any:
    """Return the left side's value, computed once for all answers of a group; the work is charged each time."""
    key = (id(node), run.digits, run.point)
    known: dict[Any, tuple[Node, Any, float]] = _GOLDS.__dict__.setdefault("known", {})
    found = known.get(key)
    if found is not None and found[0] is node and run.budget[0] >= found[2]:
        run.budget[0] -= found[2]
        return found[1]
    before = run.budget[0]
    value = run.value(node)
    if len(known) >= _MAX_GOLDS:
        known.clear()
    known[key] = (node, value, before - run.budget[0])  # the node is kept, so that its id stays its own
    return value


def ratio(left: Node, right: Node) -> int:
    """Return the sign of the constant c with left = c * right at all points tried; 0 if there is none.

    For relations: `2x - y + 1 = 0` says what `y = 2x + 1` says. Raises as `are_equal` does.
    """
    names = variables(left) | variables(right)
    digits = literal_digits(left) + literal_digits(right)
    if digits > MAX_DIGITS or len(names) > _MAX_VARIABLES:
        raise TooLargeError("too many digits in the literals")
    budget = [float(MAX_WORK)]
    at = Evaluation(40 + digits, POINTS[0], budget)
    one, other = at.value(left), at.value(right)
    if at.is_noise(one) or at.is_noise(other):
        return 0  # 0 = 0 says nothing
    quotient = one / other
    if abs(at.context.im(quotient)) > abs(quotient) * 1e-20:
        return 0
    # left(p) * right(q) == left(q) * right(p) for every further point q, at growing precision.
    for point in POINTS[1 : 1 + NEEDED_POINTS]:
        try:
            if not _proportional(left, right, digits, point, budget):
                return 0
        except (UndefinedError, UndecidedError):
            continue
    return 1 if at.context.re(quotient) > 0 else -1


def _proportional(left: Node, right: Node, digits: int, point: Point, budget: list[float]) -> bool:
    differences = []
    for precision in (40 + digits, 90 + 2 * digits):
        here, there = Evaluation(precision, POINTS[0], budget), Evaluation(precision, point, budget)
        one = here.value(left) * there.value(right)
        other = there.value(left) * here.value(right)
        differences.append(abs(one - other) / max(abs(one), abs(other), here.context.mpf(10) ** -precision))
        if differences[0] > 1e-6:  # noqa: PLR2004  far from proportional
            return False
    context = mpmath_context()
    return bool(
        differences[1]
        <= max(differences[0], context.mpf(10) ** -(40 + digits)) * context.mpf(10) ** (-(50 + digits) // 2)
    )


def real_value(node: Node, digits: int = 30, coordinates: Mapping[str, Fraction] | None = None) -> Any:
    """Return a constant's real value as an mpmath number; raises UndefinedError where it is not real."""
    del coordinates
    run = Evaluation(digits + min(literal_digits(node), MAX_DIGITS), None, [float(MAX_WORK)])
    value = run.value(node)
    if abs(run.context.im(value)) > abs(value) * run.context.mpf(10) ** (-digits // 2):
        raise UndefinedError("not real")
    return run.context.re(value)
