"""The multi-precision value of one expression at one point, within limits on its size and on the work."""

import threading
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from llm_finetuning.rewards.maths.exact import MAX_TERMS, UndefinedError
from llm_finetuning.rewards.maths.nodes import Node, TooLargeError
from llm_finetuning.rewards.maths.points import Point

_LOCAL = threading.local()

_MAX_MAGNITUDE = 100_000  # bits of the exponent of an intermediate value
_MAX_ANGLE = 256  # bits of an argument of a periodic function
_MAX_GAMMA = 3_000


def mpmath_context() -> Any:
    """Return this thread's context, in the precision that the last Evaluation set."""
    # One context a thread: mpmath's precision belongs to the context, and its global one to the user.
    if not hasattr(_LOCAL, "context"):
        from mpmath.ctx_mp import MPContext

        _LOCAL.context = MPContext()
    return _LOCAL.context


class Evaluation:
    """Computes nodes at one point and precision, within a budget of work that pairs share."""

    def __init__(self, digits: int, point: Point | None, budget: list[float]) -> None:
        """Set the precision in decimal digits; `budget` holds the work that is left and is drawn down."""
        self.context = mpmath_context()
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

    def _combined(self, node: Node, values: Sequence[Any]) -> Any:  # noqa: C901, PLR0911  one return a kind of node
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
    return ctx.ln(value) / run._not_zero(ctx.ln(base))  # noqa: SLF001  a function of Evaluation, in its file


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
        return 1 / run._not_zero(function(run, value))  # noqa: SLF001  a function of Evaluation, in its file

    return reciprocal


def _tangent(run: Evaluation, value: Any) -> Any:
    run._not_zero(_periodic("cos")(run, value))  # noqa: SLF001  a function of Evaluation, in its file
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
    return lambda run, value: getattr(run.context, name)(1 / run._not_zero(value))  # noqa: SLF001  a function of Evaluation, in its file


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
