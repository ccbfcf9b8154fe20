"""Text that parsers choke on. It is wrong work, so it must not be paid; above all no reward may raise on it."""

from collections.abc import Iterator

from llm_finetuning.probes.case import Attempt, Case
from llm_finetuning.probes.golds import WRITTEN

_INSIDE = ("1/0", "", "{", "}", "\\frac{", "((((", "5 = ", "²", "٣", "9" * 5000, "0x1g", "-", ".", ",", "1..2", "--5")
_ALONE = {
    "\x00\x01\x02": "control characters",
    "\\boxed{" * 50: "fifty boxes opened",
    "<answer>" * 50: "fifty tags opened",
    "{" * 500: "five hundred braces",
    "[" * 2000 + "]" * 2000: "two thousand brackets",
    "\U0001f600 \u202e\u200b": "signs of no width and direction",
    "</think>" * 3: "a thought closed thrice",
    '{"a": ': "JSON cut off",
    "```": "a fence alone",
    "a" * 3000 + "!": "one long word",
    " " * 3000 + "x": "long white space",
    "1" + ",1" * 500: "five hundred numbers",
}


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield oddities inside the winning form and alone."""
    if case.gold.kind in WRITTEN:
        for text in _INSIDE:
            if text != case.gold.answer:
                yield Attempt(text=case.write(text), about=f"{text[:12]!r} in place of an answer")
    for text, about in _ALONE.items():
        yield Attempt(text=text[: case.characters], about=about)
