"""Where the one final answer stands in a completion: explicit policies, each with a stated rule.

Every policy reads only what follows the reasoning (`after_reasoning`), takes one final answer, and finds none where
the final marker was opened but never closed: an earlier answer is never credited in its place.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llm_finetuning.rewards.contract import after_reasoning

# Digits with optional thousands commas, sign and decimals; not the middle of a word or of a longer number.
_NUMBER = re.compile(r"(?<![\w.,])[-+\u2212]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![\w]|[.,]\d)")
_ANSWER_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_ANSWER_OPEN = re.compile(r"<answer>", re.IGNORECASE)
_BOX_OPEN = re.compile(r"\\(?:boxed|fbox)\s*\{")


@dataclass(frozen=True, slots=True)
class Extracted:
    """The final answer, or why there is none."""

    answer: str | None
    reason: str  # found, no_answer, unclosed, conflicting, reasoning_unclosed


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
    numbers = _NUMBER.findall(text)
    return Extracted(numbers[-1], "found") if numbers else Extracted(None, "no_answer")


def _hash_marks(text: str) -> Extracted:
    """Read the line after the last `####`, as GSM8K's answers are written."""
    _, marks, tail = text.rpartition("####")
    if not marks:
        return Extracted(None, "no_answer")
    lines = tail.splitlines()
    return _whole(lines[0] if lines else "")


def _answer_tag(text: str) -> Extracted:
    """Read the one `<answer>` element; several with different contents conflict."""
    contents = [match.group(1).strip() for match in _ANSWER_TAG.finditer(text)]
    opened = len(_ANSWER_OPEN.findall(text))
    if opened > len(contents):
        return Extracted(None, "unclosed")
    if len(set(contents)) > 1:
        return Extracted(None, "conflicting")
    return _whole(contents[0]) if contents else Extracted(None, "no_answer")


def _boxed(text: str) -> Extracted:
    r"""Read the last `\boxed{...}` or `\fbox{...}` with its braces matched."""
    begins = [match.end() for match in _BOX_OPEN.finditer(text)]
    if not begins:
        return Extracted(None, "no_answer")
    depth, escaped = 1, False
    for place in range(begins[-1], len(text)):
        character = text[place]
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in "{}":
            depth += 1 if character == "{" else -1
            if depth == 0:
                return _whole(text[begins[-1] : place])
    return Extracted(None, "unclosed")


POLICIES: Mapping[str, Callable[[str], Extracted]] = {
    "whole": _whole,  # the whole text after the reasoning, trimmed
    "last_number": _last_number,  # the last number written in digits
    "hash_marks": _hash_marks,  # the line after the last ####
    "answer_tag": _answer_tag,  # <answer>...</answer>
    "boxed": _boxed,  # the last \boxed{...}
}
