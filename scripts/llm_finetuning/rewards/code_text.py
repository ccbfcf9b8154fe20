"""Where the one program stands in a completion: explicit policies, each with a stated rule.

Every policy reads only what follows the reasoning (`after_reasoning`). Fences are CommonMark's
(https://spec.commonmark.org/0.31.2/#fenced-code-blocks): three or more backticks or tildes on a line of their own,
closed by as many of the same; they may be indented, as in a list.
"""

import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llm_finetuning.rewards import extraction
from llm_finetuning.rewards.contract import after_reasoning

_FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})([^\n`]*)$", re.MULTILINE)
_PYTHON = ("", "python", "python3", "py", "py3")


@dataclass(frozen=True, slots=True)
class ExtractedCode:
    """The program, or why there is none."""

    code: str | None
    reason: str  # found, no_code, unclosed, conflicting, reasoning_unclosed


def extract_code(policy: str, text: str) -> ExtractedCode:
    """Return the program of a completion under one of `POLICIES`."""
    final = after_reasoning(text)
    if final is None:
        return ExtractedCode(None, "reasoning_unclosed")
    return POLICIES[policy](final)


def with_prefix(prefix: str, code: str, entry_point: str | None) -> str:
    """Return a program from the prompt's code and its completion, as HumanEval's prompts ask for one.

    A completion that writes the function anew replaces it: what stands before the function in the prompt is kept.
    Without an `entry_point` the function is the last one that begins in the first column of the prompt's code.
    """
    heads = list(re.finditer(r"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", prefix, re.MULTILINE))
    if entry_point is not None:
        heads = [head for head in heads if head[1] == entry_point]
    if heads and re.search(rf"^(?:async[ \t]+)?(?:def|class)[ \t]+{heads[-1][1]}\b", code, re.MULTILINE):
        return prefix[: heads[-1].start()] + code
    return prefix + code


def _whole(text: str) -> ExtractedCode:
    return ExtractedCode(text, "found") if text.strip() else ExtractedCode(None, "no_code")


def _last_fence(text: str) -> ExtractedCode:
    """Read the last fence that is Python's or names no language; one that is cut off is no program."""
    found, opened = None, None
    for mark in _FENCE.finditer(text):
        if opened is None:
            opened = mark
        elif mark[2].startswith(opened[2]) and not mark[3].strip():
            found = _body(text, opened, mark.start()) if _is_python(opened) else found
            opened = None
    if opened is not None and _is_python(opened):
        return ExtractedCode(None, "unclosed")
    return ExtractedCode(None, "no_code") if found is None else _whole(found)


def _is_python(fence: re.Match[str]) -> bool:
    words = fence[3].strip().strip("{}").lstrip(".").split()
    return (words[0].lower() if words else "") in _PYTHON


def _body(text: str, opened: re.Match[str], end: int) -> str:
    body = text[opened.end() + 1 : end]
    return textwrap.dedent(body) if opened[1] else body


def _answer_tag(text: str) -> ExtractedCode:
    """Read the one `<answer>` element, or the last fence in it."""
    found = extraction.extract("answer_tag", text)
    if found.answer is None:
        return ExtractedCode(None, "no_code" if found.reason == "no_answer" else found.reason)
    fenced = _last_fence(found.answer)
    return _whole(found.answer) if fenced.reason == "no_code" else fenced


POLICIES: Mapping[str, Callable[[str], ExtractedCode]] = {
    "last_fence": _last_fence,  # the last fence of Python or of no language
    "whole": _whole,  # all that follows the reasoning
    "answer_tag": _answer_tag,  # <answer>...</answer>, or the last fence in it
}
