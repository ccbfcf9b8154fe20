r"""Multi-precision values of expressions at points, and the test of equality by growing precision.

The precision follows the literals: two expressions are computed with 40 + n and with 90 + 2n digits, n being the digits
that the literals of both sides can carry, and count as equal only if their difference shrinks with the precision. With
variables the same holds at random points, drawn from a seed that is secret and new in every run. (The identity test is
that of Schwartz and Zippel, widened to analytic functions; unequal is firm, equal holds with overwhelming probability.)
"""

import functools
import hashlib
import math
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from llm_finetuning.rewards.maths.exact import MAX_TERMS, UndefinedError, exact_value
from llm_finetuning.rewards.maths.nodes import Node, TooLargeError, mentions, variables

MAX_DIGITS = 3_000  # of the literals of an expression that is not rational
MAX_WORK = 4_000  # node evaluations at 100 digits, for one comparison

_SEED = secrets.token_bytes(16)
_LOCAL = threading.local()

_MAX_MAGNITUDE = 100_000  # bits of the exponent of an intermediate value
_MAX_ANGLE = 256  # bits of an argument of a periodic function
_MAX_GAMMA = 3_000
_MAX_VARIABLES = 12
_SPREAD = 1 << 40


class UndecidedError(Exception):
    """No point was found at which both sides have a real value."""


def _context() -> Any:
    # One context a thread: mpmath's precision belongs to the context, and its global one to the user.
    if not hasattr(_LOCAL, "context"):
        from mpmath.ctx_mp import MPContext

        _LOCAL.context = MPContext()
    return _LOCAL.context


class Point:
    """Values for the variables; `kind` is positive, signed or whole, `turn` tells points of a kind apart."""

    def __init__(self, kind: str, turn: int) -> None:
        """Name the point; its coordinates follow from the secret seed and each variable's name."""
        self.kind = kind
        self.turn = turn

    def coordinate(self, name: str) -> Fraction:
        """Return this point's value of a variable."""
        return _coordinate(self.kind, self.turn, name)


@functools.lru_cache(maxsize=4096)
def _coordinate(kind: str, turn: int, name: str) -> Fraction:
    digest = hashlib.blake2b(f"{kind}{turn}{name}".encode(), key=_SEED, digest_size=8).digest()
    draw = int.from_bytes(digest, "big")
    if kind == "whole":
        return Fraction(2 + draw % 9)
    size = Fraction(draw % _SPREAD, _SPREAD) * 3 + Fraction(1, 7)
    # By turns all negative, all positive and as drawn: |x + 2| is x + 2, and |60 - x| is 60 - x, on one side alone.
    is_negative = kind != "positive" and (turn % 4 == 0 or (draw >> 63 and turn % 4 != 1))
    if kind == "wide":
        size = size * (40 if turn < 4 else 10**5) + 10  # noqa: PLR2004  the second four lie far out
    return -size if is_negative else size


POINTS: tuple[Point, ...] = (
    Point("positive", 0),
    Point("signed", 0),
    Point("signed", 1),
    Point("positive", 1),
    Point("signed", 2),
)
POINTS += (
    Point("wide", 0),
    Point("wide", 1),
    Point("wide", 2),
    Point("wide", 4),
    Point("wide", 5),
    Point("signed", 3),
    Point("whole", 0),
    Point("whole", 1),
    Point("whole", 2),
    Point("whole", 3),
)
_LAST = POINTS[-1]
NEEDED_POINTS = 3


class Evaluation:
    """Computes nodes at one point and precision, within a budget of work that pairs share."""

    def __init__(self, digits: int, point: Point | None, budget: list[float]) -> None:
        """Set the precision in decimal digits; `budget` holds the work that is left and is drawn down."""
        self.context = _context()
        self.digits = digits
        self.context.dps = digits
        self.point = point
        self.bound: dict[str, int] = {}
        self.budget = budget
        self.price = (digits / 100) ** 1.5 if digits > 100 else 1.0  # noqa: PLR2004  the unit of work

    def value(self, node: Node) -> Any:
        """Return an mpmath number; raises TooLargeError and UndefinedError."""
        self.budget[0] -= self.price
        if self.budget[0] < 0:
            raise TooLargeError("too much work")
        kind = node.kind
        if kind == "num":
            return self._fraction(node.number or Fraction(0))
        if kind == "var":
            return self._variable(node.name)
        if kind == "const":
            return self._constant(node.name)
        if kind in {"sum", "prod"}:
            return self._series(node)
        values = [self.value(part) for part in node.parts]
        result = self._combined(node, values)
        if not self.context.isfinite(result):
            raise UndefinedError("not finite")
        if self.context.mag(result) > _MAX_MAGNITUDE:
            raise TooLargeError("too large")
        return result

    def _fraction(self, value: Fraction) -> Any:
        return self.context.mpf(value.numerator) / value.denominator

    def _variable(self, name: str) -> Any:
        if name in self.bound:
            return self.context.mpf(self.bound[name])
        if self.point is None:
            raise UndefinedError("a variable without a value")
        return self._fraction(self.point.coordinate(name))

    def _constant(self, name: str) -> Any:
        if name == "pi":
            return +self.context.pi
        if name == "e":
            return +self.context.e
        if name == "i":
            return self.context.mpc(0, 1)
        raise UndefinedError("infinite")

    def _combined(self, node: Node, values: Sequence[Any]) -> Any:  # noqa: C901, PLR0911 a table of notations, one case a line
        kind = node.kind
        if kind == "add":
            total = values[0]
            for value in values[1:]:
                total = total + value
            return total
        if kind == "mul":
            product = values[0]
            for value in values[1:]:
                product = product * value
            return product
        if kind == "neg":
            return -values[0]
        if kind == "div":
            return values[0] / self._not_zero(values[1])
        if kind == "pow":
            return self._power(values[0], values[1])
        if kind == "root":
            return self._root(values[0], values[1])
        function = _CALLS.get(node.name)
        if function is None:
            raise UndefinedError(node.name)
        self.budget[0] -= 4 * self.price
        try:
            return function(self, *values)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError):
            raise UndefinedError(node.name) from None

    def _not_zero(self, value: Any) -> Any:
        if value == 0 or self.is_noise(value):
            raise UndefinedError("division by zero")
        return value

    def is_noise(self, value: Any) -> bool:
        """Tell whether a value is smaller than the precision can show beside 1, such as sin(pi)."""
        return bool(self.context.mag(value) < -3.2 * self.digits)

    def _power(self, base: Any, exponent: Any) -> Any:
        if base == 0:
            if self.context.re(exponent) <= 0:
                raise UndefinedError("zero to nothing positive")
            return self.context.mpf(0)
        size = self.context.mag(exponent)
        growth = abs(self.context.mag(base)) + 1
        if size > 40 or growth * 2 ** max(size, 0) > _MAX_MAGNITUDE:  # noqa: PLR2004  2**40 bits are beyond any limit
            raise TooLargeError("too large a power")
        self.budget[0] -= 3 * self.price
        return self.context.power(base, exponent)

    def _root(self, base: Any, degree: Any) -> Any:
        ctx = self.context
        if degree == 0:
            raise UndefinedError("a root of degree zero")
        if base == 0:
            return ctx.mpf(0)
        self.budget[0] -= 2 * self.price
        if degree == 2:  # noqa: PLR2004  a square root
            return ctx.sqrt(base)
        is_odd = ctx.isint(degree) and int(degree) % 2 == 1
        if is_odd and ctx.im(base) == 0 and ctx.re(base) < 0:
            return -ctx.power(-ctx.re(base), 1 / degree)
        return self._power(base, 1 / degree)

    def _series(self, node: Node) -> Any:
        low, high = (self._whole(self.value(part)) for part in node.parts[:2])
        if high - low > MAX_TERMS:
            raise TooLargeError("too many terms")
        outer = self.bound
        total = self.context.mpf(node.kind == "prod")
        for index in range(low, high + 1):
            self.bound = {**outer, node.name: index}
            term = self.value(node.parts[2])
            total = total * term if node.kind == "prod" else total + term
        self.bound = outer
        return total

    def _whole(self, value: Any) -> int:
        if self.context.im(value) != 0 or not self.context.isint(value):
            raise UndefinedError("a limit that is not whole")
        return int(self.context.re(value))


def _log(run: Evaluation, value: Any, base: Any = None) -> Any:
    ctx = run.context
    if value == 0 or run.is_noise(value):
        raise UndefinedError("logarithm of zero")
    if base is None:
        return ctx.ln(value)
    return ctx.ln(value) / run._not_zero(ctx.ln(base))  # noqa: SLF001  its own module


def _factorial(run: Evaluation, value: Any) -> Any:
    ctx = run.context
    if abs(value) > _MAX_GAMMA:
        raise TooLargeError("too large a factorial")
    return ctx.factorial(value)


def _binomial(run: Evaluation, n: Any, k: Any) -> Any:
    if abs(n) > _MAX_GAMMA or abs(k) > _MAX_GAMMA:
        raise TooLargeError("too large a binomial coefficient")
    return run.context.binomial(n, k)


def _step(rounding: Callable[[Any, Any], Any]) -> Callable[[Evaluation, Any], Any]:
    def stepped(run: Evaluation, value: Any) -> Any:
        ctx = run.context
        nearest = ctx.nint(value)
        # A value that is whole but for rounding noise is whole.
        return nearest if abs(value - nearest) < ctx.mpf(10) ** (-run.digits // 2) else rounding(ctx, value)

    return stepped


def _periodic(name: str) -> Callable[[Evaluation, Any], Any]:
    def periodic(run: Evaluation, value: Any) -> Any:
        if run.context.mag(value) > _MAX_ANGLE:
            raise TooLargeError("too large an angle")
        return getattr(run.context, name)(value)

    return periodic


def _reciprocal(name: str) -> Callable[[Evaluation, Any], Any]:
    function = _periodic(name)

    def reciprocal(run: Evaluation, value: Any) -> Any:
        return 1 / run._not_zero(function(run, value))  # noqa: SLF001  its own module

    return reciprocal


def _tangent(run: Evaluation, value: Any) -> Any:
    run._not_zero(_periodic("cos")(run, value))  # noqa: SLF001  its own module
    return run.context.tan(value)


def _exponential(name: str) -> Callable[[Evaluation, Any], Any]:
    def exponential(run: Evaluation, value: Any) -> Any:
        if abs(value) > _MAX_MAGNITUDE:
            raise TooLargeError("too large an exponent")
        return getattr(run.context, name)(value)

    return exponential


def _plain(name: str) -> Callable[[Evaluation, Any], Any]:
    return lambda run, value: getattr(run.context, name)(value)


def _of_reciprocal(name: str) -> Callable[[Evaluation, Any], Any]:
    return lambda run, value: getattr(run.context, name)(1 / run._not_zero(value))  # noqa: SLF001  its own module


_CALLS: dict[str, Callable[..., Any]] = {
    "sin": _periodic("sin"),
    "cos": _periodic("cos"),
    "tan": _tangent,
    "cot": _reciprocal("tan"),
    "sec": _reciprocal("cos"),
    "csc": _reciprocal("sin"),
    "sinh": _exponential("sinh"),
    "cosh": _exponential("cosh"),
    "tanh": _exponential("tanh"),
    "coth": _exponential("coth"),
    "exp": _exponential("exp"),
    "arcsin": _plain("asin"),
    "arccos": _plain("acos"),
    "arctan": _plain("atan"),
    "arccot": lambda run, value: run.context.pi / 2 - run.context.atan(value),
    "arcsec": _of_reciprocal("acos"),
    "arccsc": _of_reciprocal("asin"),
    "arsinh": _plain("asinh"),
    "arcosh": _plain("acosh"),
    "artanh": _plain("atanh"),
    "ln": _log,
    "log": _log,
    "abs": lambda run, value: abs(value),
    "floor": _step(lambda ctx, value: ctx.floor(value)),
    "ceil": _step(lambda ctx, value: ctx.ceil(value)),
    "max": lambda run, *values: max(values),
    "min": lambda run, *values: min(values),
    "factorial": _factorial,
    "binom": _binomial,
}


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
        needs_all = needs_all and point is not _LAST
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
    if first > size * 1e-6 and first > _context().mpf(10) ** (-low // 2):
        return False
    second, _ = _difference(left, right, Evaluation(high, point, budget), is_real=is_real)
    context = _context()
    floor = context.mpf(10) ** -low * max(size, 1)
    return bool(second <= max(first, floor) * context.mpf(10) ** (-(high - low) // 2))


def _difference(left: Node, right: Node, run: Evaluation, *, is_real: bool) -> tuple[Any, Any]:
    """Return the absolute difference and the larger absolute value."""
    one, other = run.value(left), run.value(right)
    if is_real:
        for value in (one, other):
            if abs(run.context.im(value)) > abs(value) * run.context.mpf(10) ** (-run.digits // 2):
                raise UndecidedError("not real here")
    return abs(one - other), max(abs(one), abs(other))


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
    context = _context()
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
