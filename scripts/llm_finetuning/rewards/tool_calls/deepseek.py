"""DeepSeek V3, R1 (`function<|tool_sep|>name` and a fenced object) and V3.1 (`name<|tool_sep|>` and the object).

Source: the chat templates of the three models. The bars and the underscores of the markers are the full-width and
block characters of their tokenisers.
"""

from llm_finetuning.rewards.json_text import Document
from llm_finetuning.rewards.tool_calls.reading import MALFORMED, UNCLOSED, Call, Cursor, Reading, arguments_of, fault

_BAR, _LINE = "\N{FULLWIDTH VERTICAL LINE}", "\N{LOWER ONE EIGHTH BLOCK}"
CALLS, CALLS_END = (f"<{_BAR}tool{_LINE}calls{_LINE}{edge}{_BAR}>" for edge in ("begin", "end"))
CALL, CALL_END = (f"<{_BAR}tool{_LINE}call{_LINE}{edge}{_BAR}>" for edge in ("begin", "end"))
SEPARATOR = f"<{_BAR}tool{_LINE}sep{_BAR}>"
TURN_END = f"<{_BAR}end{_LINE}of{_LINE}sentence{_BAR}>"
_FENCE, _FENCE_END = "```json\n", "\n```"


def read(text: str) -> Reading:
    """Return the calls of the one list of calls; text may stand before and after it."""
    cursor = Cursor(text)
    before = cursor.until(CALLS)
    if before is None:
        return Reading(around=text)
    calls = []
    cursor.space()
    while cursor.take(CALL):
        call = _call(cursor)
        if isinstance(call, Reading):
            return call
        calls.append(call)
        cursor.space()
    if not cursor.take(CALLS_END):
        return UNCLOSED if cursor.at_end() else MALFORMED
    around = before + "\n" + cursor.rest()
    return Reading(tuple(calls), around=around) if calls else MALFORMED


def _call(cursor: Cursor) -> Call | Reading:
    name = cursor.until(SEPARATOR)
    if name is None:
        return UNCLOSED
    fenced = name == "function"  # V3 says the kind of tool first, V3.1 its name
    if fenced:
        name = cursor.until("\n")
        if name is None or not cursor.take(_FENCE):
            return MALFORMED
    document: Document = cursor.json()
    if document.problem is not None:
        return fault(document)
    if fenced and not cursor.take(_FENCE_END):
        return MALFORMED
    cursor.space()
    arguments = arguments_of(document.value)
    if arguments is None or not cursor.take(CALL_END):
        return MALFORMED
    return Call(name, arguments)
