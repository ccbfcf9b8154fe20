"""Hostile completions: none holds a batch longer than the limit, on any thread, and memory stays flat."""

import threading
import time
from pathlib import Path

import pytest

from llm_finetuning.rewards.choice_answer import ChoiceAnswer
from llm_finetuning.rewards.exact_answer import ExactAnswer
from llm_finetuning.rewards.extraction import POLICIES
from llm_finetuning.rewards.math_answer import MathAnswer

LIMIT_S = 2.0  # CPU seconds for one completion, however hostile; honest ones take under a millisecond
MIB = 1_000_000

TEXTS = {
    "tower": r"\boxed{9^{9^{9^{9^{9}}}}}",
    "stars": "The answer is 9**9**9**9**9",
    "tower of a variable": r"\boxed{x^{x^{x^{x^{x^{x}}}}}}",
    "factorials": r"\boxed{(((9!)!)!)!}",
    "factorial": r"\boxed{(10^{9})!}",
    "binomial": r"\boxed{\binom{10^9}{5\cdot 10^8}}",
    "long sum": r"\boxed{\sum_{n=1}^{10^{12}} n}",
    "sums in sums": r"\boxed{\sum_{a=1}^{9999}\sum_{b=1}^{9999}\sum_{c=1}^{9999} \sin(abc)}",
    "exact sums in sums": r"\boxed{\sum_{a=1}^{9999}\sum_{b=1}^{9999}\sum_{c=1}^{9999} abc}",
    "products": r"\boxed{\prod_{a=1}^{9999}\prod_{b=1}^{9999} (a+b)^{9}}",
    "harmonic": r"\boxed{\sum_{n=1}^{10000} \frac{1}{n}}",
    "growing powers": r"\boxed{\sum_{n=1}^{10000} 3^n}",
    "huge angle": r"\boxed{\sin(10^{10^{8}})}",
    "huge exponent": r"\boxed{e^{e^{e^{e^{9}}}}}",
    "tiny": r"\boxed{10^{-10^{9}}}",
    "surds of digits": r"\boxed{\sqrt{" + "7" * 5000 + "}}",
    "logarithms of digits": r"\boxed{\ln{" + "7" * 2500 + r"}+\sin{" + "3" * 2500 + "}}",
    "many digits": r"\boxed{" + "7" * MIB + "}",
    "many fractions": r"\boxed{" + "+".join(rf"\frac{{1}}{{{n}}}" for n in range(1000, 1900)) + "}",
    "many roots": r"\boxed{" + "+".join(rf"\sqrt{{{n}}}" for n in range(2, 400)) + "}",
    "polynomial": r"\boxed{(x+y+z+w)^{300}}",
    "parentheses": r"\boxed{" + "(" * 5000 + "5" + ")" * 5000 + "}",
    "nested roots": r"\boxed{" + r"\sqrt{" * 400 + "5" + "}" * 400 + "}",
    "nested sines": r"\boxed{" + r"\sin(" * 80 + "5" + ")" * 80 + "}",
    "nested boxes": r"\boxed{" * 150_000 + "5" + "}" * 150_000,
    "open boxes": r"\boxed{" * 150_000,
    "empty boxes": r"\boxed{}" * 100_000,
    "box at the end": "a b " * (MIB // 4) + r"\boxed{5}",
    "box at the start": r"\boxed{5}" + " a b" * (MIB // 4),
    "brackets": "[" * MIB,
    "brackets in a box": r"\boxed{" + "[" * 19_000 + "}",
    "braces": "{" * MIB,
    "braces in a box": r"\boxed{" + "{" * 9_000 + "5" + "}" * 9_000 + "}",
    "numbers": " ".join(map(str, range(200_000))),
    "numbers in a list": "The answer is " + ", ".join(map(str, range(200_000))),
    "numbers in a box": r"\boxed{" + ", ".join(map(str, range(4_000))) + "}",
    "minus signs": r"\boxed{" + "-" * 19_000 + "5}",
    "bars": r"\boxed{" + "|" * 19_000 + "}",
    "dollars": "$" * MIB,
    "spaces": "The answer is" + " " * MIB + "5",
    "spaces in a box": r"\boxed{5" + " " * 19_000 + "5}",
    "hashes": "####" * (MIB // 4),
    "hash lines": "####\n" * (MIB // 5),
    "answers": "answer is " * (MIB // 10),
    "answer colons": "Answer: " * (MIB // 8),
    "answer tags": "<answer>" * (MIB // 8),
    "thinking tags": "<think>" * (MIB // 7),
    "closed thinking": "<think></think>" * (MIB // 15),
    "backslashes": "\\" * MIB,
    "backslashes in a box": r"\boxed{" + "\\" * 19_000 + "}",
    "percent": r"\boxed{5" + "%" * 19_000 + "}",
    "letters": r"\boxed{" + "a" * 19_000 + "}",
    "words": r"\boxed{" + "is the " * 2_500 + "}",
    "words with units": r"\boxed{5 " + "cm " * 5_000 + "}",
    "unions": r"\boxed{" + r"(1,2)\cup" * 1_500 + "(1,2)}",
    "relations": r"\boxed{" + "x=" * 5_000 + "5}",
    "commas": r"\boxed{" + "," * 19_000 + "}",
    "matrix": r"\boxed{\begin{pmatrix}" + r"1&2\\" * 3_000 + r"\end{pmatrix}}",
    "exponents": r"\boxed{" + "2^" * 5_000 + "2}",
    "text groups": r"\boxed{" + r"\text{a" * 2_000 + "}" * 2_000 + "}",
    "stars around": "*" * MIB + "5" + "*" * MIB,
    "underscores": r"\boxed{x" + "_" * 19_000 + "}",
    "thousands": r"\boxed{" + "1,234" + ",234" * 4_000 + "}",
    "digits and spaces": r"\boxed{" + "1 " * 9_000 + "}",
    "dots": r"\boxed{0." + "3" * 180 + "...}",
    "combining": r"\boxed{" + "e\u0301" * 9_000 + "}",
    "vulgar fractions": "½" * MIB,
    "nulls": "\0" * MIB,
    "newlines": "\n" * MIB + "5",
    "lone surrogates": "\ud800" * 1000 + r"\boxed{5}",
}

HONEST = {"box at the end", "box at the start", "spaces", "nested boxes", "newlines", "lone surrogates", "stars around"}
GOLDS = ("5", r"\sqrt{2}+x", r"\{1,2\}", "Paris", "B", r"x^2+y^2=25", r"(2,\infty)")


@pytest.mark.parametrize("name", TEXTS)
def test_no_completion_takes_long(name: str) -> None:
    """Each text, under each kind of gold, is judged within the limit, and only honest ones may be paid."""
    reward = MathAnswer()
    for gold in GOLDS:
        begun = time.process_time()
        (value,) = reward(completions=[TEXTS[name]], answer=[gold])
        assert time.process_time() - begun < LIMIT_S
        assert value == 0.0 or (name in HONEST and gold == "5")


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_no_policy_takes_long(policy: str) -> None:
    """Every policy reads every text in linear time."""
    for make in (MathAnswer, ExactAnswer, ChoiceAnswer):
        reward = make(extract=policy)
        for text in TEXTS.values():
            begun = time.process_time()
            reward(completions=[text], answer=["5" if make is not ChoiceAnswer else "B"])
            assert time.process_time() - begun < LIMIT_S


def test_threads_are_served_alike() -> None:
    """Off the main thread the verdicts are the same: nothing relies on signals."""
    reward = MathAnswer()
    texts = [rf"\boxed{{\sqrt{{{n * n * 2}}}}}" for n in range(1, 60)] + [TEXTS["tower"], TEXTS["nested sines"]]
    golds = [rf"{n}\sqrt{{2}}" for n in range(1, 60)] + ["5", "5"]
    found: list[list[float | None]] = []
    threads = [threading.Thread(target=lambda: found.append(reward(completions=texts, answer=golds))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [[1.0] * 59 + [0.0, 0.0]] * 4


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096 / 2**20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc for the resident size")
def test_memory_stays_flat_over_twenty_thousand_calls() -> None:
    """What is remembered is bounded."""
    reward = MathAnswer()

    def calls(begin: int, end: int) -> None:
        for n in range(begin, end):
            reward(completions=[rf"\boxed{{\frac{{{n}}}{{7}}+x}}"], answer=[rf"x+\frac{{{n}}}{{7}}"])

    calls(0, 5_000)
    before = resident_mib()
    calls(5_000, 20_000)

    assert resident_mib() - before < 8
