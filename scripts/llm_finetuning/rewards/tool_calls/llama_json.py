"""Llama 3.1 to 3.3: JSON objects with `name` and `parameters`, after `<|python_tag|>` or as the whole text.

Source: https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1. Several objects stand one after the other or
with `;` between them; `arguments` for `parameters` is read too, as vLLM's `llama3_json` parser does. The built-in tools
(`brave_search.call(...)`, code) are not.
"""

from llm_finetuning.rewards.tool_calls.reading import MALFORMED, Cursor, Reading, call_of, fault

TAG = "<|python_tag|>"
_KEYS = ("parameters", "arguments")


def read(text: str) -> Reading:
    """Return the calls; text may stand before the tag, nothing after the last object."""
    body = text.lstrip()
    if body.startswith("{"):
        found = _objects(Cursor(body))
        # A text that is JSON, or looks like it, and names nothing, is an answer.
        return Reading(around=text) if found.problem and '"name"' not in body and TAG not in body else found
    before, tag, after = body.partition(TAG)
    if not tag:
        return Reading(around=text)
    found = _objects(Cursor(after))
    return found if found.problem else Reading(found.calls, around=before)


def _objects(cursor: Cursor) -> Reading:
    calls = []
    while True:
        document = cursor.json()
        if document.problem is not None:
            return fault(document)
        call = call_of(document.value, _KEYS)
        if call is None:
            return MALFORMED
        calls.append(call)
        if cursor.at_end():
            return Reading(tuple(calls))
        cursor.take(";")
        if cursor.at_end():
            return MALFORMED
