"""What a reward is, and how the brief's list becomes what `GRPOTrainer` gets.

A reward is called as TRL 1.16.0 calls it: keyword arguments, one value a completion, in order; None abstains.
Library rewards say why through TRL's own `log_extra`, under the column `<name>_reason`, so that the same words stand
in `scores.jsonl` and in the trainer's completion tables.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from llm_finetuning.types import Text

LogExtra = Callable[[str, list[Any]], None]

REASON_SUFFIX = "_reason"

_THINK_END = re.compile(r"</(?:think(?:ing)?|thought|reasoning)>", re.IGNORECASE)
_THINK_START = re.compile(r"<(?:think(?:ing)?|thought|reasoning)>", re.IGNORECASE)


class RewardFunction(Protocol):
    """A callable in TRL's signature; library rewards are objects with a name and a range."""

    __name__: str
    range: tuple[float, float]  # lowest and highest value it pays

    def __call__(self, *, completions: Sequence[Text], **kwargs: Any) -> list[float | None]:
        """Return one value a completion, in order; None where it abstains."""
        ...


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a reward says of one completion; `reason` is a short code."""

    value: float | None
    reason: str


def text_of(completion: Text | None) -> str:
    """Return the text of a completion in either of TRL's forms; what the model said in a chat is joined.

    Messages of other roles (what a tool answered) are not the model's words. None, a cell left empty, is no text.
    """
    if isinstance(completion, str):
        return completion
    messages = [message for message in completion or [] if message.get("role", "assistant") == "assistant"]
    return "".join(_content_of(message.get("content")) for message in messages)


def _content_of(content: Any) -> str:
    if isinstance(content, list):  # parts of a multimodal message
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return str(content or "")


def after_reasoning(text: str) -> str | None:
    """Return what stands after the last closing thinking tag, or None if a thinking part was opened and never closed.

    A text without such tags is returned whole; reasoning is never credited as an answer.
    """
    if "<" not in text:
        return text
    ends = [match.end() for match in _THINK_END.finditer(text)]
    tail = text[ends[-1] :] if ends else text
    return None if _THINK_START.search(tail) else tail


def report(log_extra: LogExtra | None, name: str, judgements: Sequence[Judgement]) -> list[float | None]:
    """Hand the reasons to TRL and return the values."""
    if log_extra is not None:
        log_extra(name + REASON_SUFFIX, [judgement.reason for judgement in judgements])
    return [judgement.value for judgement in judgements]
