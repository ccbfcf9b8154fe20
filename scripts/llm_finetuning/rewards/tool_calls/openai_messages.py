"""OpenAI's message with `tool_calls`: as TRL hands it on in a chat completion, or as JSON text.

Source: https://platform.openai.com/docs/api-reference/chat/object. Arguments are JSON text there; TRL has an object.
"""

from collections.abc import Sequence
from typing import Any

from llm_finetuning.rewards.json_text import read_json
from llm_finetuning.rewards.tool_calls.reading import MALFORMED, Call, Reading, call_of, strict_value

_KEY = '"tool_calls"'


def read(text: str) -> Reading:
    """Return the calls of a text that is one such message, or the list of its calls, and nothing else."""
    body = text.strip()
    if body[:1] not in ("{", "["):
        return Reading(around=text)
    document = read_json(body, fence=False)
    if isinstance(document.value, dict) and "tool_calls" in document.value:
        return _message(document.value)
    if isinstance(document.value, list) and document.value and all(map(_is_item, document.value)):
        calls = calls_of(document.value)
        return MALFORMED if calls is None else Reading(calls)
    return MALFORMED if document.problem is not None and _KEY in body else Reading(around=text)


def _message(message: dict[str, Any]) -> Reading:
    content = message.get("content")
    if "name" in message or message.get("function_call") is not None or not isinstance(content, str | None):
        return MALFORMED
    items = message["tool_calls"]
    calls = calls_of(items or []) if isinstance(items, list | None) else None
    return MALFORMED if calls is None else Reading(calls, around=content or "", declined=not calls)


def read_items(items: Any, content: str, *, verbatim: bool) -> Reading:
    """Return the calls of a chat message's `tool_calls`; with `verbatim`, texts among the values have no type yet."""
    document = strict_value(items) if isinstance(items, list | tuple) else None
    calls = calls_of(document.value) if document is not None and document.problem is None else None
    if calls is None:
        return MALFORMED
    return Reading(tuple(Call(call.name, call.arguments, verbatim) for call in calls), around=content)


def calls_of(items: Sequence[Any]) -> tuple[Call, ...] | None:
    """Return the calls of a list in OpenAI's shape, or `name` and `arguments` without `function`; None for another."""
    calls = [_item(item) for item in items]
    return tuple(call for call in calls if call is not None) if None not in calls else None


def _item(item: Any) -> Call | None:
    if not isinstance(item, dict) or item.get("type") not in (None, "function"):
        return None
    if not _is_item(item):
        return call_of(item)
    return call_of(item["function"]) if "name" not in item and "arguments" not in item else None


def _is_item(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("function"), dict)
