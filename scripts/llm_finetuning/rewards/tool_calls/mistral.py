"""Mistral: `[TOOL_CALLS] [{...}]` (tokenisers v3 and v7) and `[TOOL_CALLS]name[ARGS]{...}` (v11 on).

Source: https://github.com/mistralai/mistral-common. The markers are special tokens, which TRL takes off when it
decodes: a text that is nothing but the list, or nothing but names with their objects, is read without them.
"""

import re

from llm_finetuning.rewards.tool_calls.reading import (
    MALFORMED,
    MAX_CALLS,
    Call,
    Cursor,
    Reading,
    arguments_of,
    call_of,
    fault,
)

TAG, ARGUMENTS, CALL_ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
_NAME = re.compile(r"[^\s\[\]{}\"]+")
_IDENTITY = re.compile(r"\w+")


def read(text: str) -> Reading:
    """Return the calls after the markers, or those that a text without markers is."""
    cursor = Cursor(text)
    before = cursor.until(TAG)
    if before is None:
        return _bare(text)
    if before.lstrip()[:2] == "[{":
        return _bare(text)  # the marker stands in a string
    calls: list[Call] = []
    around = [before]
    declined = False
    while True:
        found = _after_tag(cursor)
        if isinstance(found, Reading):
            return found
        calls += found
        declined = declined or not found
        between = cursor.until(TAG)
        around.append(cursor.rest() if between is None else between)
        if between is None:
            return Reading(tuple(calls), around="\n".join(around), declined=declined and not calls)


def _after_tag(cursor: Cursor) -> list[Call] | Reading:
    cursor.space()
    if cursor.sees("["):
        return _list(cursor)
    call = _named(cursor)
    return call if isinstance(call, Reading) else [call]


def _list(cursor: Cursor) -> list[Call] | Reading:
    document = cursor.json()
    if document.problem is not None:
        return fault(document)
    calls = [call_of(item) for item in document.value] if isinstance(document.value, list) else [None]
    return MALFORMED if None in calls else [call for call in calls if call is not None]


def _named(cursor: Cursor) -> Call | Reading:
    name = cursor.match(_NAME)
    if name is None:
        return MALFORMED
    if cursor.take(CALL_ID) and cursor.match(_IDENTITY) is None:
        return MALFORMED
    cursor.take(ARGUMENTS)
    document = cursor.json()
    if document.problem is not None:
        return fault(document)
    arguments = arguments_of(document.value)
    return MALFORMED if arguments is None else Call(name, arguments)


def _bare(text: str) -> Reading:
    cursor = Cursor(text)
    cursor.space()
    if cursor.sees("["):
        found = _list(cursor)
        named = isinstance(found, list) and bool(found)
        return Reading(tuple(found)) if isinstance(found, list) and named and cursor.at_end() else Reading(around=text)
    calls: list[Call] = []
    while not cursor.at_end():
        call = _named(cursor)
        if isinstance(call, Reading) or len(calls) > MAX_CALLS:
            return Reading(around=text)
        calls.append(call)
    return Reading(tuple(calls)) if calls else Reading(around=text)
