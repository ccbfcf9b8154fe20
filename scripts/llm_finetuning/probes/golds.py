"""Read a gold: of what kind it is, the answer in it, and answers that are certainly wrong.

Nothing here decides whether an answer is right: wrong answers are made so that no reading of them is the gold.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["number", "quantity", "choice", "text", "expression", "json", "calls", "code", "prose", "none"]

WRITTEN = ("number", "quantity", "choice", "text", "expression")
"""Kinds whose answer is a few signs inside a sentence or a marker."""

NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|[-+]?\.\d+")
IN_TEXT = re.compile(rf"(?<![\w.,])(?:-\$(?=\d))?(?:{NUMBER.pattern})(?!\w|[.,]\d)")
"""A number of its own inside a text; `-$7` is one too."""
_QUANTITY = re.compile(rf"\$?(?:{NUMBER.pattern})\s?(?:%|°|[A-Za-z]{{1,12}}(?:[/^][A-Za-z0-9]+)*)?")
_CHOICE = re.compile(r"\(?([A-J])\)?[.):]?(?:\s+\S.*)?")
_BOX = re.compile(r"\\boxed\{")
_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_CODE = re.compile(r"^\s*(?:def |class |import |from \w+ import |@)", re.MULTILINE)
_MATHS = re.compile(r"[\\^_={}()\[\]<>+*/]|\d")
_LETTER_AND_MARKS = 3  # characters of `(B)`; what is longer holds the option's text too
_LONG = 80  # characters above which a text is prose
_OPPOSITE = {"yes": "no", "no": "yes", "true": "false", "false": "true"}
_STRANGE = ("7919", "48611")  # primes that no data set's answer is likely to be


@dataclass(frozen=True, slots=True)
class Gold:
    """One row's gold as the probes use it."""

    kind: Kind
    answer: str  # the answer alone, as it stands in the gold; JSON and calls as compact JSON text
    raw: Any
    worked: str | None = None  # the gold's own text where it is a whole solution


def read_gold(raw: Any) -> Gold:
    """Return what a gold cell holds; kind `none` for an empty one."""
    if raw is None or raw == "" or (isinstance(raw, str) and not raw.strip()):
        return Gold("none", "", raw)
    if isinstance(raw, bool):
        return Gold("text", str(raw), raw)
    if isinstance(raw, int | float):
        return Gold("number", f"{raw:g}" if isinstance(raw, float) else str(raw), raw)
    if isinstance(raw, dict | list):
        return _document(raw, raw)
    text = str(raw).strip()
    if text[0] in "[{":
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) or _is_calls(value) or (isinstance(value, list) and _nested(value)):
            return _document(value, raw)
    answer = _final(text)
    worked = text if answer != text else None
    kind = _kind(answer)
    if kind == "choice" and len(answer) > _LETTER_AND_MARKS:
        answer = str(_CHOICE.fullmatch(answer)[1])  # type: ignore[index]
    return Gold(kind, answer, raw, worked)


def _document(value: Any, raw: Any) -> Gold:
    kind: Kind = "calls" if _is_calls(value) else "json"
    return Gold(kind, json.dumps(value, ensure_ascii=False, separators=(", ", ": ")), raw)


def _nested(value: list[Any]) -> bool:
    return any(isinstance(part, dict | list) for part in value)


def _is_calls(value: Any) -> bool:
    listed = value if isinstance(value, list) else [value]
    return bool(listed) and all(
        isinstance(call, dict)
        and (("name" in call and ({"arguments", "parameters"} & set(call))) or isinstance(call.get("function"), dict))
        for call in listed
    )


def _final(text: str) -> str:
    """Return the answer in a worked solution: after the last `####`, in the last box, in `<answer>`."""
    if "####" in text:
        return text.rpartition("####")[2].strip()
    tagged = _TAG.findall(text)
    if tagged:
        return str(tagged[-1]).strip()
    boxes = list(_BOX.finditer(text))
    return _braced(text, boxes[-1].end()) if boxes else text


def _braced(text: str, begin: int) -> str:
    depth = 1
    for place in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[begin:place].strip()
    return text


def _kind(answer: str) -> Kind:
    if NUMBER.fullmatch(answer):
        return "number"
    # `A cat` is no choice: after the letter stands a bracket, a point or nothing.
    if _CHOICE.fullmatch(answer) and (len(answer) == 1 or answer[1] in ").:" or answer[0] == "("):
        return "choice"
    if _QUANTITY.fullmatch(answer):
        return "quantity"
    if _CODE.search(answer):
        return "code"
    if len(answer) > _LONG or "\n" in answer:
        return "prose"
    return "expression" if _MATHS.search(answer) else "text"


def letter(gold: Gold) -> str:
    """Return the letter of a choice."""
    found = _CHOICE.fullmatch(gold.answer)
    return found[1] if found else gold.answer


def wrong_answers(gold: Gold, others: Sequence[str], letters: Sequence[str]) -> list[str]:  # noqa: PLR0911  one a kind
    """Return up to two answers of the gold's kind that are wrong by much; none for a kind without an answer."""
    if gold.kind == "number":
        return _wrong_numbers(gold.answer)
    if gold.kind == "quantity":
        number = NUMBER.search(gold.answer)
        found = _wrong_numbers(number[0]) if number else []
        return [gold.answer.replace(number[0], wrong, 1) for wrong in found] if number else []
    if gold.kind == "choice":
        known = letter(gold)
        turned = [*letters[letters.index(known) + 1 :], *letters] if known in letters else letters
        return [gold.answer.replace(known, other) for other in turned if other != known][:2]
    folded = gold.answer.casefold().strip()
    if folded in _OPPOSITE:
        word = _OPPOSITE[folded]
        return [word.capitalize() if gold.answer[0].isupper() else word]
    apart = [other for other in dict.fromkeys(others) if _apart(folded, other.casefold().strip())]
    if gold.kind == "calls":
        apart = [other for other in apart if other.strip() != "[]"]  # no call at all is no wrong call
    if gold.kind == "expression":
        return [*apart[:1], *_STRANGE][:2]
    if gold.kind == "text":
        return [*apart[:2], "purple elephant"][:2]
    return apart[:2]


def _apart(one: str, other: str) -> bool:
    return bool(other) and one not in other and other not in one


def _wrong_numbers(answer: str) -> list[str]:
    plain = answer.replace(",", "").lstrip("+")
    _, point, decimals = plain.partition(".")
    value = float(plain)
    found = []
    for wrong in (value + 3 * abs(value) + 217, value + 229, 7919.0, 48611.0):
        text = f"{wrong:.{len(decimals)}f}" if point else f"{wrong:.0f}"
        if _apart(plain.lstrip("-"), text.lstrip("-")):
            found.append(text)
    return found[:2]


def number(text: str) -> float:
    """Return the value of a number as `NUMBER` or `IN_TEXT` finds it."""
    return float(text.replace("$", "").replace(",", ""))


def final_number(text: str) -> float | None:
    """Return the value of the last number in a text, None where it has none."""
    found = IN_TEXT.findall(text)
    return number(found[-1]) if found else None


def document(gold: Gold) -> Any:
    """Return the value of a JSON or calls gold."""
    return json.loads(gold.answer)
