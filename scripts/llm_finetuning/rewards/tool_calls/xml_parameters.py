"""Qwen3-Coder, Qwen3.5 and Nemotron 3: `<function=name>` and `<parameter=key>` inside `<tool_call>`.

Source: the chat template of Qwen3-Coder. A value is the text between its tags without one newline at each end, so it
cannot hold `</parameter>`; its type is what the tool's schema says.
"""

from llm_finetuning.rewards.tool_calls.reading import MALFORMED, UNCLOSED, Call, Cursor, Reading

OPEN, CLOSE = "<tool_call>", "</tool_call>"
FUNCTION, FUNCTION_END = "<function=", "</function>"
PARAMETER, PARAMETER_END = "<parameter=", "</parameter>"


def read(text: str) -> Reading:
    """Return the calls of all elements; one that is not a call spoils the text."""
    cursor = Cursor(text)
    calls, around = [], []
    while (before := cursor.until(OPEN)) is not None:
        around.append(before)
        call = _element(cursor)
        if isinstance(call, Reading):
            return call
        calls.append(call)
    around.append(cursor.rest())
    return Reading(tuple(calls), around="\n".join(around))


def _element(cursor: Cursor) -> Call | Reading:
    cursor.space()
    name = _tag(cursor, FUNCTION)
    if name is None:
        return _fault(cursor)
    arguments: dict[str, str] = {}
    cursor.space()
    while cursor.sees(PARAMETER):
        key = _tag(cursor, PARAMETER)
        if key is None or key in arguments:
            return MALFORMED
        value = cursor.until(PARAMETER_END)
        if value is None:
            return UNCLOSED
        arguments[key] = value.removeprefix("\n").removesuffix("\n")
        cursor.space()
    if not cursor.take(FUNCTION_END):
        return _fault(cursor)
    cursor.space()
    return Call(name, arguments, verbatim=True) if cursor.take(CLOSE) else _fault(cursor)


def _fault(cursor: Cursor) -> Reading:
    return UNCLOSED if cursor.at_end() else MALFORMED


def _tag(cursor: Cursor, opening: str) -> str | None:
    """Return the name in a tag such as `<function=name>` and pass the tag; None if it is not one."""
    if not cursor.take(opening):
        return None
    end = cursor.text.find(">", cursor.place)
    name = cursor.text[cursor.place : end] if end >= 0 else "\n"
    cursor.place = end + 1 if end >= 0 else cursor.place
    return None if not name or "\n" in name or "<" in name else name
