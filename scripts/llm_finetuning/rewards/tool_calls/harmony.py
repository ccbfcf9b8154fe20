"""gpt-oss: messages with a channel; a call is one to `functions.name` in the commentary channel.

Source: https://github.com/openai/harmony. Only the raw text with its special tokens is read here; where TRL parses the
answer, its messages carry `tool_calls`. The analysis channel is reasoning and holds no call.
"""

import re

from llm_finetuning.rewards.tool_calls.reading import MALFORMED, Call, Cursor, Reading, arguments_of, fault

START, CHANNEL, MESSAGE, END, CALL = "<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>"
RECIPIENT = "to=functions."
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
_BEGIN = re.compile(r"<\|start\|>|<\|channel\|>|\bto=functions\.")
_KINDS = ("analysis", "commentary", "final")


def read(text: str) -> Reading:
    """Return the calls of all messages; what the other channels but analysis say stands around them."""
    cursor = Cursor(text)
    calls, around = [], []
    while (header := cursor.until(MESSAGE)) is not None:
        begins = _BEGIN.search(header)
        around.append(header[: begins.start()] if begins else header)
        found = _message(cursor, header)
        if isinstance(found, Reading):
            return found
        if isinstance(found, Call):
            calls.append(found)
        else:
            around.append(found)
    around.append(cursor.rest())
    return Reading(tuple(calls), around="\n".join(around))


def _message(cursor: Cursor, header: str) -> Call | str | Reading:
    channel, recipient = _CHANNEL.search(header), _RECIPIENT.search(header)
    kind = channel.group(1) if channel else ""
    if kind not in _KINDS:
        return MALFORMED
    if recipient is None:
        return _said(cursor, kind)
    name = recipient.group(1).removeprefix("functions.")
    if kind != "commentary" or name == recipient.group(1):
        return MALFORMED  # a built-in tool, or a call among the reasoning
    document = cursor.json()
    if document.problem is not None:
        return fault(document)
    arguments = arguments_of(document.value)
    ended = cursor.at_end() or cursor.take(CALL) or cursor.take(END)
    return Call(name, arguments) if ended and arguments is not None else MALFORMED


def _said(cursor: Cursor, kind: str) -> str | Reading:
    """Return what a message to the user says; reasoning is passed over, and must have an end."""
    content = cursor.until(END)
    if kind == "analysis":
        return "" if content is not None else Reading(problem="reasoning_unclosed")
    return cursor.rest() if content is None else content
