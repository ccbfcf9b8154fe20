"""Reading a judge's answer: the verdict is what the field `verdict` says, and nothing else in the answer is one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_finetuning.rewards.contract import after_reasoning
from llm_finetuning.rewards.json_text import Document, read_json

_STOPPED = ("stop", "eos", "eos_token", "end_turn")
_CUT = ("length", "max_tokens")
_FIELDS = {"reasons", "verdict"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one answer says; `value` is None where it is no verdict."""

    value: float | None
    reason: str  # pass, fail, judge_cut, judge_refused, judge_unparsed
    words: str  # the judge's reasons, or what is wrong with its answer


@dataclass(frozen=True, slots=True)
class Said:
    """The word in an answer's field `verdict`; None where there is none of those that were asked for."""

    word: str | None
    reason: str  # the word itself, or judge_cut, judge_refused, judge_unparsed
    words: str


def read_verdict(choice: Mapping[str, Any]) -> Verdict:
    """Return the verdict in a choice of a chat completion, as `read_word` reads it; never raises."""
    said = read_word(choice, ("pass", "fail"))
    return Verdict(None if said.word is None else float(said.word == "pass"), said.reason, said.words)


def read_word(choice: Mapping[str, Any], known: Sequence[str]) -> Said:
    """Return the one of the known words that a choice of a chat completion says; never raises.

    The text must be one JSON object with the two fields `reasons` and `verdict`, once each, alone or in one code fence,
    and nothing after it. Of a judge that thinks aloud only what follows its reasoning counts; `reasoning_content` is
    not looked at.
    """
    message, finish = choice.get("message"), choice.get("finish_reason")
    message = message if isinstance(message, dict) else {}
    if message.get("refusal") or finish == "content_filter":
        return Said(None, "judge_refused", str(message.get("refusal") or finish))
    if finish in _CUT:
        return Said(None, "judge_cut", "the verdict is cut off; raise max_tokens")
    content = message.get("content")
    if finish not in _STOPPED or not isinstance(content, str):
        return Said(None, "judge_unparsed", f"no text, or an end that is none: finish_reason {finish!r}")
    document = _document(content)
    if document.problem is not None:
        return Said(None, "judge_unparsed", document.problem)
    return _of_fields(document.value, known)


def _document(content: str) -> Document:
    whole = read_json(content)
    if whole.problem is None:
        return whole  # tags inside its strings are quotations
    tail = after_reasoning(content)
    return Document(None, "reasoning_unclosed") if tail is None else read_json(tail)


def _of_fields(value: Any, known: Sequence[str]) -> Said:
    if not isinstance(value, dict) or set(value) != _FIELDS or not isinstance(value["reasons"], str):
        return Said(None, "judge_unparsed", "not an object of the fields `reasons` (text) and `verdict`")
    said = value["verdict"]
    if not isinstance(said, str) or said not in known:
        return Said(None, "judge_unparsed", f"`verdict` is none of {', '.join(known)}")
    return Said(said, said, value["reasons"])
