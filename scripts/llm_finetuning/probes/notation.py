"""The same answer written otherwise, in the winning form."""

import re
from collections.abc import Iterator
from typing import Literal

from llm_finetuning.probes import golds
from llm_finetuning.probes.case import Attempt, Case

_THOUSANDS = 1000
Weight = Literal["blocks", "warns"]


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield equal notations; those that everybody reads the same block when refused, the others only warn."""
    seen = {case.gold.answer}
    for text, about, weighs in _equal(case):
        if text not in seen:
            seen.add(text)
            yield Attempt(text=case.write(text), about=f"{about}: {text} for {case.gold.answer}", weighs=weighs)


def _equal(case: Case) -> Iterator[tuple[str, str, Weight]]:
    answer = case.gold.answer
    if case.gold.kind == "number":
        yield from _numbers(answer)
    elif case.gold.kind == "choice":
        letter = golds.letter(case.gold)
        yield f"({letter})", "the letter in brackets", "warns"
        yield letter, "the letter alone", "warns"
        yield letter.lower(), "the small letter", "warns"
        if "box" in case.form:
            yield f"\\text{{{letter}}}", "the letter as text", "warns"
    elif case.gold.kind == "text":
        plain = answer.replace(" ", "").isalpha()
        yield answer.lower(), "small letters", "blocks" if plain else "warns"
        yield answer.upper(), "capitals", "blocks" if plain else "warns"
        yield f"{answer[0].upper()}{answer[1:]}", "a capital at the beginning", "blocks" if plain else "warns"
    elif case.gold.kind == "expression":
        yield from _expressions(answer)
    elif case.gold.kind == "quantity":
        yield re.sub(r"(?<=\d)\s?(?=[A-Za-z])", " ", answer), "a space before the unit", "warns"
        yield re.sub(r"(?<=\d)\s(?=[A-Za-z])", "", answer), "no space before the unit", "warns"


def _numbers(answer: str) -> Iterator[tuple[str, str, Weight]]:
    plain = answer.replace(",", "").lstrip("+")
    whole, point, decimals = plain.partition(".")
    if abs(float(plain)) >= _THOUSANDS:
        grouped = f"{int(whole):,}" + (f".{decimals}" if point else "")
        yield grouped, "thousands commas", "blocks"
        yield plain, "no thousands commas", "blocks"
    if point:
        yield f"{plain}0", "a zero at the end", "warns"
        yield f"{plain.rstrip('0').rstrip('.')}", "no zeros at the end", "warns"
    else:
        yield f"{plain}.0", "a decimal point", "warns"
        yield f"{plain}.00", "two decimals", "warns"
    yield f"${plain}", "a dollar sign", "warns"


def _expressions(answer: str) -> Iterator[tuple[str, str, Weight]]:
    for pattern, replaced, about in (
        (r"\\frac\{(\d)\}\{(\d)\}", r"\\frac\1\2", "a fraction without braces"),
        (r"\\frac\{(\d+)\}\{(\d+)\}", r"\\dfrac{\1}{\2}", "a large fraction"),
        (r"\\frac\{(\d+)\}\{(\d+)\}", r"\1/\2", "a slash"),
        (r"(?<![\d.])(\d+)/(\d+)(?![\d.])", r"\\frac{\1}{\2}", "a fraction in LaTeX"),
        (r"\\left|\\right", "", "no stretched brackets"),
        (r",\s*", ", ", "spaces after commas"),
        (r",\s+", ",", "no spaces after commas"),
    ):
        yield re.sub(pattern, replaced, answer), about, "warns"
