"""Wrong by little: what a tolerance, an absolute value, a prefix match or a conversion lets through."""

import re
from collections.abc import Iterator
from typing import Literal

from llm_finetuning.probes import golds
from llm_finetuning.probes.case import Attempt, Case

_TUPLE = re.compile(r"\(\s*([^(),]+?)\s*,\s*([^(),]+?)\s*\)")
_UNIT = re.compile(r"(?<=\d)(\s?)([A-Za-z°%]+)\s*$")
_UNITS = {"km": "m", "m": "km", "kg": "g", "g": "kg", "cm": "mm", "mm": "cm", "s": "min", "min": "h", "h": "min"}
_PERCENT = "a percent sign added"
_SMALL = 10_000  # whole numbers up to here: off by one is a mistake, not a rounding


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield the gold changed a little, written in the winning form."""
    known = case.gold.answer
    seen = {known}
    for wrong, about in _changed(case):
        if wrong not in seen:
            seen.add(wrong)
            # A percent sign beside a bare number is 42% to one reader and a slip to another.
            weighs: Literal["blocks", "warns"] = "warns" if about == _PERCENT else "blocks"
            yield Attempt(text=case.write(wrong), about=f"{about}: {wrong} for {known}", weighs=weighs)


def _changed(case: Case) -> Iterator[tuple[str, str]]:
    kind, answer = case.gold.kind, case.gold.answer
    if kind == "number":
        yield from _numbers(answer, case.tolerance)
        yield f"{answer}%", _PERCENT
    elif kind == "quantity":
        yield from _quantities(answer)
    elif kind == "text":
        yield from _texts(answer)
    elif kind == "expression":
        yield from _expressions(answer)


def _numbers(answer: str, tolerance: float) -> Iterator[tuple[str, str]]:
    plain = answer.replace(",", "").lstrip("+")
    value = float(plain)
    _, point, decimals = plain.partition(".")
    if value != 0:
        yield (plain[1:] if plain.startswith("-") else f"-{plain}"), "the sign changed"
        yield (f"{plain}0" if not point else _shown(value * 10, len(decimals))), "ten times as much"
        yield _shown(value * 100, len(decimals)), "a hundred times as much"
    if point and value != 0:
        yield plain.replace(".", ""), "its point dropped"
    step = 1.0 if not point else 3 * 10.0 ** -len(decimals)
    if abs(value) <= _SMALL and step > tolerance * abs(value):
        yield _shown(value + step, len(decimals)), "a little more"
        yield _shown(value - step, len(decimals)), "a little less"
    whole = plain.lstrip("-")
    sign = "-" if plain.startswith("-") else ""
    if not point:
        yield f"{sign}1{whole}", "a digit before it"
        if len(whole) > 1:
            yield f"{sign}{whole[:-1]}", "its last digit cut"
            yield f"{sign}{whole[1:].lstrip('0') or '0'}", "its first digit cut"
            if whole[-1] != whole[-2] and not (len(whole) == 2 and whole[-1] == "0"):  # noqa: PLR2004  07 reads as 7
                yield f"{sign}{whole[:-2]}{whole[-1]}{whole[-2]}", "two digits changed about"
    if abs(value) > 2 and not point:  # noqa: PLR2004  what is cut off is not nothing
        yield f"{plain}.5", "a half more"


def _shown(value: float, decimals: int) -> str:
    return f"{value:.{decimals}f}"


def _quantities(answer: str) -> Iterator[tuple[str, str]]:
    number = golds.NUMBER.search(answer)
    unit = _UNIT.search(answer)
    if number:
        for wrong, about in _numbers(number[0], 0.0):
            yield answer.replace(number[0], wrong, 1), about
    if unit and unit[2] == "%" and number:
        yield number[0] + "00%", "a hundred times as much"
    elif unit:
        yield (
            f"{answer[: unit.start()]}{unit[1]}{_UNITS.get(unit[2], 'kg' if unit[2] != 'kg' else 'km')}",
            "another unit",
        )


def _texts(answer: str) -> Iterator[tuple[str, str]]:
    yield f"not {answer}", "denied"
    if len(answer) > 3:  # noqa: PLR2004  a shorter rest may be a word of its own
        yield answer[:-2], "its end cut"
        yield answer[0], "its first letter alone"


def _expressions(answer: str) -> Iterator[tuple[str, str]]:
    pair = _TUPLE.fullmatch(answer)
    if pair and pair[1] != pair[2]:
        yield f"({pair[2]}, {pair[1]})", "the order changed"
    elif re.fullmatch(r"\d+/\d+", answer):
        one, other = answer.split("/")
        if one != other:
            yield f"{other}/{one}", "turned over"
    elif answer.startswith("-"):
        yield answer[1:], "the sign changed"
    elif re.match(r"[\w\\]", answer) and "=" not in answer and "," not in answer:
        yield f"-{answer}" if not re.search(r"[+\-]", answer) else f"-({answer})", "the sign changed"
    digits = list(re.finditer(r"\d+", answer))
    if digits:
        last = digits[-1]
        yield answer[: last.start()] + str(int(last[0]) + 1) + answer[last.end() :], "one number one more"
    if "=" not in answer:
        yield f"\\pm {answer}", "plus or minus it"
    yield "x = x", "an identity"
