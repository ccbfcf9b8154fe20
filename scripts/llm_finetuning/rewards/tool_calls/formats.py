"""The wire formats that a brief can name, and which one a text is in."""

import re
from collections.abc import Callable, Mapping

from llm_finetuning.rewards.tool_calls import (
    deepseek,
    harmony,
    llama_json,
    mistral,
    openai_messages,
    pythonic,
    tagged_json,
    xml_parameters,
)
from llm_finetuning.rewards.tool_calls.reading import Reading

# Every marker of every format: beside the calls that were read, one is a second answer in another format.
MARKERS = (
    *(tagged_json.OPEN, tagged_json.CLOSE),
    *(xml_parameters.FUNCTION, xml_parameters.FUNCTION_END, xml_parameters.PARAMETER, xml_parameters.PARAMETER_END),
    *(llama_json.TAG, pythonic.OPEN, pythonic.CLOSE, mistral.TAG, mistral.ARGUMENTS),
    *(deepseek.CALLS, deepseek.CALLS_END, deepseek.CALL, deepseek.CALL_END, deepseek.SEPARATOR),
    *(harmony.START, harmony.CHANNEL, harmony.MESSAGE, harmony.CALL, harmony.RECIPIENT),
)
# All but the recipient begin with a bracket: passing over prose is then a search for one character.
MARKER = re.compile(f"[<[](?i:{'|'.join(re.escape(m[1:]) for m in MARKERS if m[0] in '<[')})|{harmony.RECIPIENT}")

# What ends a turn. Samplers leave it in the text or take it off; at the end of a text it says nothing.
TURN_ENDS = (
    "</s>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|eom|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    deepseek.TURN_END,
    "<|return|>",
)


def read_marked(text: str) -> Reading:
    """Return the calls in the format that the text is whole, or else in the one whose marker stands first."""
    body = text.lstrip()
    first = MARKER.search(text)
    bare = Reading(around=text)
    if body[:1] in ("{", "[") and not body.startswith(mistral.TAG):
        bare = _read_bare(text, body)
    elif first is None:
        bare = mistral.read(text)
    if bare.calls or bare.declined or first is None:
        return bare
    marker = first.group().lower()
    if marker == tagged_json.OPEN and text[first.end() :].lstrip().startswith(xml_parameters.FUNCTION):
        return xml_parameters.read(text)
    return _READER_OF.get(marker, tagged_json.read)(text)


def _read_bare(text: str, body: str) -> Reading:
    if body.startswith("{"):
        found = openai_messages.read(text)
        return found if found.calls or found.problem or found.declined else llama_json.read(text)
    if body[:1] == "[" and body[1:].lstrip().startswith("{"):
        found = openai_messages.read(text)
        return found if found.calls or found.problem else mistral.read(text)
    return pythonic.read(text)


_READER_OF: Mapping[str, Callable[[str], Reading]] = {
    llama_json.TAG: llama_json.read,
    pythonic.OPEN: pythonic.read,
    mistral.TAG.lower(): mistral.read,
    deepseek.CALLS: deepseek.read,
    harmony.START: harmony.read,
    harmony.CHANNEL: harmony.read,
    harmony.RECIPIENT: harmony.read,
}

FORMATS: Mapping[str, Callable[[str], Reading]] = {
    "auto": read_marked,  # the one below whose marker stands first, or that the whole text is
    "hermes": tagged_json.read,  # <tool_call>{"name": ..., "arguments": {...}}</tool_call>
    "qwen3": tagged_json.read,  # the same; Qwen2.5 too
    "qwen3coder": xml_parameters.read,  # <tool_call><function=name><parameter=key>value</parameter></function>...
    "openai": openai_messages.read,  # {"tool_calls": [{"function": {"name": ..., "arguments": "{...}"}}]}
    "llama3": llama_json.read,  # <|python_tag|>{"name": ..., "parameters": {...}}, or without the tag
    "pythonic": pythonic.read,  # [name(key="value"), other()]
    "mistral": mistral.read,  # [TOOL_CALLS] [{"name": ..., "arguments": {...}}], [TOOL_CALLS]name[ARGS]{...}
    "deepseek": deepseek.read,  # V3, R1 and V3.1
    "harmony": harmony.read,  # gpt-oss, raw text
}


def without_turn_ends(text: str) -> str:
    """Return a text without the end-of-turn tokens and the white space at its end."""
    end = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        for token in TURN_ENDS:
            if text.endswith(token, 0, end):
                end -= len(token)
                break
        else:
            return text[:end]
