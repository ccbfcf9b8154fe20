"""What of a completion is read as the answer to an item: after the reasoning, without the prompt said again.

In a chat the whole reply is read. A continuation of plain text is read up to the next question or the first empty line
after the answer began, since a base model goes on after it; an item about content then takes its first line alone.
"""

import re
from collections.abc import Sequence
from typing import Any

from llm_finetuning.rewards.contract import after_reasoning, text_of
from llm_finetuning.types import Text

MAX_CHARACTERS = 8_000  # of a completion; what follows is not read

_NEXT_QUESTION = re.compile(r"^[ \t]*Question:", re.MULTILINE)
_BREAK = re.compile(r"\n[ \t]*\n")
_ASKED = re.compile(r"Question: (.*)\nAnswer:\s*\Z", re.DOTALL)


def reply(prompt: Text, completion: Text | None) -> str | None:
    """Return the text that is graded, '' for none, and None where a thinking part was opened and never closed."""
    text = after_reasoning(text_of(completion)[:MAX_CHARACTERS])
    if text is None:
        return None
    text = _without(asked(prompt), text)
    if not isinstance(prompt, str):
        return text.strip()
    following = _NEXT_QUESTION.search(text)
    text = (text[: following.start()] if following else text).strip()
    return _BREAK.split(text, maxsplit=1)[0].strip()


def asked(prompt: Text) -> str:
    """Return the question of a prompt as its item has it."""
    if isinstance(prompt, str):
        last = prompt.rpartition("\n\nQuestion: ")
        found = _ASKED.search(last[1].lstrip() + last[2]) if last[1] else _ASKED.search(prompt)
        return found[1] if found else prompt
    return text_of([{**message, "role": "assistant"} for message in _users(prompt)])


def _users(prompt: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message for message in prompt if message.get("role") == "user"]


def _without(question: str, text: str) -> str:
    """Return the text without the question, however its white space was said again."""
    words = question.split()
    if not words or words[0] not in text:
        return text
    return re.sub(r"\s+".join(map(re.escape, words)), "", text)
