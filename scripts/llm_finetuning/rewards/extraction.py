r"""Where the one final answer stands in a completion: explicit policies, each with a stated rule.

Every policy reads only what follows the reasoning (`after_reasoning`), takes one final answer, and finds none where
the final marker was opened but never closed: an earlier answer is never credited in its place.

`final`, the default of `math_answer`, takes the first of these that is there: the one `<answer>` element (the box in
it, if it has one); the last `\boxed{...}`; the line after the last `####`; what follows the last `the answer is`; a
text that is one short line, or a last line that is nothing but a formula. `boxes` and `phrases` state their rules.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llm_finetuning.rewards.boxes import Boxed, last_boxes
from llm_finetuning.rewards.contract import after_reasoning
from llm_finetuning.rewards.phrases import bare_answer, cut_answer, marked_answer, phrase_answer

# A number as people write it: digits with optional thousands commas, decimals, an exponent; or a fraction.
NUMBER = re.compile(r"[-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?|[-+]?\d+/0*[1-9]\d*")
_ANSWER_MARK = re.compile(r"<(/?)answer>", re.IGNORECASE)
_ANSWER_OPEN = re.compile(r"<answer>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Extracted:
    """The final answer, or why there is none."""

    answer: str | None
    reason: str  # found, no_answer, unclosed, conflicting, unclear, negated, reasoning_unclosed
    also: str | None = None  # a second final after it; it must say the same for either to count


def extract(policy: str, text: str) -> Extracted:
    """Return the final answer of a completion under one of `POLICIES`."""
    final = after_reasoning(text)
    if final is None:
        return Extracted(None, "reasoning_unclosed")
    return POLICIES[policy](final)


def _whole(text: str) -> Extracted:
    answer = text.strip()
    return Extracted(answer, "found") if answer else Extracted(None, "no_answer")


def _last_number(text: str) -> Extracted:
    """Read the number that the last digit of the text belongs to, whole: `1e5`, `3/4` and `.5` are one number each.

    Where that digit stands in something else (`12:30`, `3,4`, `v1.2.3`, `5km`) the answer is unclear: an earlier number
    never stands in.
    """
    last = max(text.rfind(digit) for digit in "0123456789")
    if last < 0:
        return Extracted(None, "no_answer")
    end = last + 1
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    number = text[_begin_of_number(text, last) : end].replace("\N{MINUS SIGN}", "-")
    return Extracted(number, "found") if NUMBER.fullmatch(number) else Extracted(None, "unclear")


def _begin_of_number(text: str, place: int) -> int:
    """Return where the run of letters and digits around a digit begins, joined over `.` `,` `:` `/` `^` and `e-`."""
    while place > 0:
        before, further = text[place - 1], text[place - 2] if place > 1 else " "
        joins = before in ".,:/^" and further.isdigit()
        exponent = before in "+-" and further in "eE" and place > 2 and text[place - 3].isdigit()  # noqa: PLR2004  1e-5
        if not (before.isalnum() or before == "_" or joins or exponent or (before == "." and not further.isalnum())):
            break
        place -= 1
    signed = place > 0 and text[place - 1] in "+-\N{MINUS SIGN}"
    # A minus after a digit or a bracket subtracts; it is no sign of the number.
    subtracts = place > 1 and (text[place - 2].isalnum() or text[place - 2] in ")]}")
    return place - 1 if signed and not subtracts else place


def _hash_marks(text: str) -> Extracted:
    """Read the line after the last `####`, as GSM8K's answers are written."""
    _, marks, tail = text.rpartition("####")
    if not marks:
        return Extracted(None, "no_answer")
    lines = tail.splitlines()
    return _whole(lines[0] if lines else "")


def _answer_tag(text: str) -> Extracted:
    """Read the one `<answer>` element; several with different contents conflict."""
    contents, begins, opened = [], -1, 0
    for mark in _ANSWER_MARK.finditer(text):
        if not mark.group(1):
            opened += 1
            begins = mark.end() if begins < 0 else begins
        elif begins >= 0:
            contents.append(text[begins : mark.start()].strip())
            begins = -1
    if opened > len(contents):
        return Extracted(None, "unclosed")
    if len(set(contents)) > 1:
        return Extracted(None, "conflicting")
    return _whole(contents[0]) if contents else Extracted(None, "no_answer")


def _boxed(text: str) -> Extracted:
    r"""Read the last `\boxed{...}` or `\fbox{...}`; adjacent boxes are one list."""
    boxed = last_boxes(text)
    return Extracted(None, "no_answer") if boxed is None else _content(boxed)


def _content(boxed: Boxed) -> Extracted:
    if boxed.problem:
        return Extracted(None, boxed.problem)
    kept = [content for content in boxed.contents if content.strip()]
    if len(kept) < len(boxed.contents):
        return Extracted(None, "no_answer")
    if len(kept) == 1:
        return _whole(kept[0])
    return Extracted(", ".join(kept), "found")


def _final(text: str) -> Extracted:
    if "<" in text and _ANSWER_OPEN.search(text):
        tagged = _answer_tag(text)
        if tagged.answer is None:
            return tagged
        inner = _boxed(tagged.answer)
        return tagged if inner.reason == "no_answer" and "\\boxed" not in tagged.answer else inner
    if "box" in text:
        boxed = last_boxes(text)
        if boxed is not None:
            found = _content(boxed)
            also = marked_answer(text, boxed.end) if found.answer is not None else None
            return Extracted(found.answer, found.reason, also)
    if "####" in text:
        return _hash_marks(text)
    phrase = phrase_answer(text)
    if phrase is not None:
        return _whole(phrase)
    bare = bare_answer(text)
    return Extracted(None, "no_answer") if bare is None else _whole(bare)


POLICIES: Mapping[str, Callable[[str], Extracted]] = {
    "whole": _whole,  # the whole text after the reasoning, trimmed
    "last_number": _last_number,  # the last number written in digits
    "hash_marks": _hash_marks,  # the line after the last ####
    "answer_tag": _answer_tag,  # <answer>...</answer>
    "boxed": _boxed,  # the last \boxed{...}
    "final": _final,  # the first of answer_tag, boxed, hash_marks, an answer phrase, a bare line
}

__all__ = ["POLICIES", "Extracted", "cut_answer", "extract"]
