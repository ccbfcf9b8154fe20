"""Hermes 2 Pro, Qwen2.5 and Qwen3: one JSON object in each `<tool_call>` element.

Source: https://github.com/NousResearch/Hermes-Function-Calling and the chat template of Qwen3.
"""

from llm_finetuning.rewards.json_text import Document, read_json
from llm_finetuning.rewards.tool_calls.reading import MALFORMED, UNCLOSED, Cursor, Reading, call_of

OPEN, CLOSE = "<tool_call>", "</tool_call>"


def read(text: str) -> Reading:
    """Return the calls of all elements; one that is not a call spoils the text."""
    cursor = Cursor(text)
    calls, around = [], []
    while (before := cursor.until(OPEN)) is not None:
        around.append(before)
        if text.find(CLOSE, cursor.place) < 0:
            return UNCLOSED
        call = call_of(_element(cursor).value)
        if call is None:
            return MALFORMED
        calls.append(call)
    around.append(cursor.rest())
    return Reading(tuple(calls), around="\n".join(around))


def _element(cursor: Cursor) -> Document:
    """Return the JSON of the element that the cursor stands in, and pass its end."""
    begins = cursor.place
    body = cursor.until(CLOSE)
    document = read_json(body or "", fence=False)
    if document.problem is None:
        return document
    cursor.place = begins  # the tag may stand in a string of it
    document = cursor.json()
    cursor.space()
    return document if cursor.take(CLOSE) else Document(None, "not_json")
