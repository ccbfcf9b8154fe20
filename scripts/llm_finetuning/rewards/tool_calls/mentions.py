"""Calls beside calls: what in a text could be taken for a call, though the format in use does not read it.

A text that can be read as a call by one reader and as none by another is never paid, whichever the gold holds.
"""

import re
from collections.abc import Container

from llm_finetuning.rewards.tool_calls import llama_json, mistral, openai_messages, pythonic
from llm_finetuning.rewards.tool_calls.formats import MARKER

_NAMED = re.compile(r"""["']name["']\s{0,8}:\s{0,8}["']([^"'\n]{1,256})["']""")  # in JSON, or nearly
_LISTED = re.compile(r"\[\s{0,8}([^\W\d][\w.]{0,255})\(")
_BARE = re.compile(r"\s*([^\W\d][\w.-]*)\s{0,8}[({]")
_FENCE = "```"


def mentions_call(text: str, tools: Container[str]) -> bool:
    """Tell whether a text holds a marker, names a tool as a call does, or is as a whole a call in a bare format."""
    if not text or text.isspace():
        return False
    if MARKER.search(text) is not None:
        return True
    if any(name in tools for pattern in (_NAMED, _LISTED) for name in pattern.findall(text)):
        return True
    bare = _BARE.match(text)
    if bare is not None and bare.group(1) in tools and text.rstrip().endswith((")", "}")):
        return True
    body = _inside_fence(text.strip())
    return body[:1] in ("{", "[") and any(
        found.calls or found.problem
        for found in (reader(body) for reader in (openai_messages.read, llama_json.read, pythonic.read, mistral.read))
    )


def _inside_fence(body: str) -> str:
    """Return what one code fence around a whole text holds."""
    if not (body.startswith(_FENCE) and body.endswith(_FENCE) and "\n" in body):
        return body
    return body.partition("\n")[2].removesuffix(_FENCE).strip()
