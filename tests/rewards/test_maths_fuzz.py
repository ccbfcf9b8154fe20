"""Every rule of the grammar against sympy: equal pairs are equal, unequal ones are not.

A seeded slice runs always; `FINETUNE_FUZZ_PAIRS=5000` runs the whole. sympy comes with Math-Verify.
"""

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from llm_finetuning.rewards.math_answer import MathAnswer

sympy = pytest.importorskip("sympy")

PAIRS = int(os.environ.get("FINETUNE_FUZZ_PAIRS", "340"))

Pair = tuple[Any, Any, Any]  # an expression, another form of it, and one that differs


def whole(draw: random.Random, low: int = -9, high: int = 9) -> Any:
    value = draw.randint(low, high)
    return sympy.Integer(value or 1)


def polynomial(draw: random.Random) -> Pair:
    x = sympy.Symbol("x")
    a, b, c = whole(draw), whole(draw), whole(draw)
    product = (a * x + b) * (x + c)
    return product, sympy.expand(product), sympy.expand(product + whole(draw))


def two_variables(draw: random.Random) -> Pair:
    x, y = sympy.symbols("x y")
    product = (whole(draw) * x + whole(draw) * y) ** 2
    return product, sympy.expand(product), sympy.expand(product) + x * y


def rational(draw: random.Random) -> Pair:
    value = sympy.Rational(draw.randint(-99, 99), draw.randint(2, 60))
    return value, value + sympy.Integer(0), value + sympy.Rational(1, draw.randint(100, 10**6))


def rational_function(draw: random.Random) -> Pair:
    x = sympy.Symbol("x")
    value = 1 / (x + whole(draw, 1)) + whole(draw) / (x + 10)
    return value, sympy.together(value), value + 1 / x


def surd(draw: random.Random) -> Pair:
    n, k = draw.randint(2, 40), whole(draw)
    value = k * sympy.sqrt(sympy.Integer(n), evaluate=False)
    return value, k * sympy.sqrt(n), k * sympy.sqrt(n) + sympy.Rational(1, 10 ** draw.randint(1, 30))


def nested_surd(draw: random.Random) -> Pair:
    a, b = draw.randint(2, 20), draw.randint(2, 20)
    inner = a + b + 2 * sympy.sqrt(a * b)
    return sympy.sqrt(inner, evaluate=False), sympy.sqrt(a) + sympy.sqrt(b), sympy.sqrt(a) + sympy.sqrt(b + 1)


def denominator(draw: random.Random) -> Pair:
    a, b = draw.randint(2, 30), whole(draw)
    value = b / (1 + sympy.sqrt(a + 1))
    return value, sympy.radsimp(value), value + sympy.Rational(1, 1000)


def logarithm(draw: random.Random) -> Pair:
    a, b = draw.randint(2, 30), draw.randint(2, 30)
    return sympy.log(a) + sympy.log(b), sympy.log(a * b), sympy.log(a * b + 1)


def exponential(draw: random.Random) -> Pair:
    x, k = sympy.Symbol("x"), whole(draw)
    return sympy.exp(x) ** 2 * sympy.exp(k), sympy.exp(2 * x + k), sympy.exp(2 * x + k + 1)


def trigonometric(draw: random.Random) -> Pair:
    x, k = sympy.Symbol("x"), whole(draw)
    return k * sympy.sin(2 * x), 2 * k * sympy.sin(x) * sympy.cos(x), 2 * k * sympy.sin(x)


def angle(draw: random.Random) -> Pair:
    value = sympy.pi * sympy.Rational(draw.randint(1, 23), 12)
    return sympy.cos(value, evaluate=False), sympy.simplify(sympy.cos(value)), sympy.sin(value) + 3


def inverse(draw: random.Random) -> Pair:
    a = draw.randint(2, 30)
    return sympy.atan(sympy.Rational(1, a)), sympy.pi / 2 - sympy.atan(a), sympy.atan(sympy.Rational(1, a + 1))


def complex_number(draw: random.Random) -> Pair:
    one, other = whole(draw) + whole(draw) * sympy.I, whole(draw) + whole(draw) * sympy.I
    product = sympy.Mul(one, other, evaluate=False)
    return product, sympy.expand(one * other), sympy.expand(one * other) + sympy.I


def power(draw: random.Random) -> Pair:
    n, k = sympy.Symbol("n"), draw.randint(2, 7)
    return sympy.Integer(k) ** (n + 1), k * sympy.Integer(k) ** n, sympy.Integer(k) ** n + 1


def big_number(draw: random.Random) -> Pair:
    base, exponent = draw.randint(2, 12), draw.randint(20, 200)
    value = sympy.Pow(base, exponent, evaluate=False)
    return value, sympy.Integer(base) ** exponent, sympy.Integer(base) ** exponent + 1


def counting(draw: random.Random) -> Pair:
    n = draw.randint(4, 30)
    k = draw.randint(1, n - 1)
    return sympy.binomial(n, k, evaluate=False), sympy.binomial(n, k), sympy.binomial(n, k) + 1


def factorial(draw: random.Random) -> Pair:
    n = draw.randint(3, 40)
    return sympy.factorial(n, evaluate=False), sympy.factorial(n), sympy.factorial(n) - 1


def absolute(draw: random.Random) -> Pair:
    x, k = sympy.Symbol("x", real=True), draw.choice([1, 90]) * whole(draw)
    return sympy.Abs(x - k), sympy.Abs(sympy.expand(k - x)), draw.choice([-1, 1]) * (x - k)


def closed_sum(draw: random.Random) -> Pair:
    n = sympy.Symbol("n")
    k = sympy.Symbol("k")
    power_of = draw.randint(1, 3)
    total = sympy.Sum(k**power_of, (k, 1, n))
    return total, sympy.factor(total.doit()), total.doit() + n


def root(draw: random.Random) -> Pair:
    a, b = draw.randint(2, 9), draw.randint(3, 5)
    return sympy.Pow(a**b * 2, sympy.Rational(1, b), evaluate=False), a * sympy.root(2, b), a * sympy.root(3, b)


FAMILIES: list[Callable[[random.Random], Pair]] = [
    polynomial,
    two_variables,
    rational,
    rational_function,
    surd,
    nested_surd,
    denominator,
    logarithm,
    exponential,
    trigonometric,
    angle,
    inverse,
    complex_number,
    power,
    big_number,
    counting,
    factorial,
    absolute,
    closed_sum,
    root,
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_no_error_in_either_direction(family: Callable[[random.Random], Pair]) -> None:
    """What sympy writes for one value in two forms is paid; another value is not."""
    draw = random.Random(f"{family.__name__} 7")
    reward = MathAnswer()
    wrong = []
    for _ in range(max(1, PAIRS // (2 * len(FAMILIES)))):
        gold, same, other = family(draw)
        if sympy.simplify(same - other) == 0:
            continue
        gold_text = sympy.latex(gold)
        completions = [rf"So \boxed{{{sympy.latex(form)}}}." for form in (same, other)]
        values = reward(completions=completions, answer=[gold_text, gold_text])
        if values != [1.0, 0.0]:
            wrong.append((gold_text, completions, values))

    assert not wrong
