"""The tools of a row: each one's name and the JSON Schema of its arguments, read from any of the usual shapes."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from llm_finetuning.rewards.json_text import read_json

_PARAMETERS = ("parameters", "input_schema", "inputSchema")  # OpenAI; Anthropic; MCP
_TABLES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")  # name -> schema
_DATA = ("enum", "const", "default", "examples")  # values, not schemas
_REFERABLE = ("properties", "patternProperties", "$defs", "definitions", "$schema")
# What BFCL's function documents write for JSON Schema's types.
_BFCL_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
_HOPS = 8  # references that lead to references
_BACKTRACKS = 100_000  # steps of one match of a pattern with look-around; beyond it the pattern does not match


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A tool that a call may name."""

    name: str
    parameters: Mapping[str, Any]  # the JSON Schema of the arguments, without the nulls of table storage
    together: jsonschema_rs.Validator  # the same, compiled
    alone: jsonschema_rs.Validator  # the rules of each argument by itself

    def accepts(self, arguments: Mapping[str, Any]) -> bool:
        """Tell whether arguments as a whole keep to the schema."""
        return self.together.is_valid(arguments)

    def admits(self, name: str, value: Any) -> bool:
        """Tell whether a value keeps to the schema of one argument."""
        return self.alone.is_valid({name: value})

    def below(self, schema: Any) -> Mapping[str, Any]:
        """Return the schema that a local reference leads to, or the schema itself; {} where it says nothing."""
        for _ in range(_HOPS):
            if not isinstance(schema, dict):
                return {}
            reference = schema.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#/"):
                return schema
            schema = functools.reduce(_member, reference[2:].split("/"), self.parameters)
        return {}


@functools.lru_cache(maxsize=256)
def read_tools(text: str) -> Mapping[str, Tool] | None:
    """Return name -> tool of JSON text: OpenAI's list, a flat list, or name -> schema; None if it is none of them."""
    try:
        tools = [_tool(name, parameters) for name, parameters in _named(read_json(text, fence=False).value)]
    except _Unreadable:
        return None
    by_name = {tool.name: tool for tool in tools}
    return by_name if len(by_name) == len(tools) else None


class _Unreadable(Exception):  # noqa: N818  caught in `read_tools`
    """Not in one of the shapes."""


def _named(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and the schema of each tool; what is null is a column of another row."""
    if isinstance(value, str):  # JSON text within JSON text, as some data sets store each tool
        value = read_json(value, fence=False).value
    if isinstance(value, list):
        for item in value:
            yield from _named(item)
    elif not isinstance(value, dict):
        raise _Unreadable
    elif isinstance(value.get("function"), dict) and isinstance(value["function"].get("name"), str):
        yield from _named(value["function"])
    elif isinstance(value.get("name"), str):
        yield value["name"], next((value[key] for key in _PARAMETERS if value.get(key) is not None), {})
    else:
        yield from ((name, schema) for name, schema in value.items() if schema is not None)


def _tool(name: str, parameters: Any) -> Tool:
    if not isinstance(parameters, dict):
        raise _Unreadable
    cleaned = _cleaned(parameters)
    alone = {key: cleaned[key] for key in _REFERABLE if key in cleaned}
    try:
        return Tool(name, cleaned, _compiled(cleaned), _compiled(alone))
    except ValueError:  # ValidationError is one
        raise _Unreadable from None


def _compiled(schema: Any) -> jsonschema_rs.Validator:
    """Return a schema made ready to decide; raises ValueError for a faulty one, and fetches nothing.

    Formats are not asserted: a value is paid for being the gold's, so they could only turn golds away.
    """
    return jsonschema_rs.validator_for(
        schema,
        validate_formats=False,
        retriever=_refuse,
        pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS),
    )


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema")


def _cleaned(schema: Any) -> Any:
    """Return a schema without the keywords that are null because another row has them, types in JSON Schema's words."""
    if isinstance(schema, list):
        return [_cleaned(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned = {}
    for key, member in schema.items():
        if key in _DATA:
            cleaned[key] = member
        elif key in _TABLES and isinstance(member, dict):
            cleaned[key] = {name: _cleaned(below) for name, below in member.items() if below is not None}
        elif key == "type":
            cleaned |= _type(member)
        elif member is not None:
            cleaned[key] = _cleaned(member)
    for key in _DATA:  # null is a value only for what may be null
        if cleaned.get(key, key) is None and (key in ("enum", "examples") or not _may_be_null(cleaned, key)):
            del cleaned[key]
    return cleaned


def _type(kind: Any) -> dict[str, Any]:
    if kind is None or kind == "any":
        return {}
    if isinstance(kind, str):
        return {"type": _BFCL_TYPES.get(kind, kind)}
    return {"type": kind}


def _may_be_null(schema: Mapping[str, Any], besides: str) -> bool:
    rules = {key: rule for key, rule in schema.items() if key != besides}
    return "type" not in rules or admits_null(rules)


def admits_null(schema: Mapping[str, Any]) -> bool:
    """Tell whether a schema lets null through, as far as its own type, values and alternatives say."""
    kinds = schema.get("type")
    if kinds is not None and kinds != "null" and not (isinstance(kinds, list) and "null" in kinds):
        return False
    for key in ("anyOf", "oneOf"):
        branches = schema.get(key)
        if isinstance(branches, list) and not any(not isinstance(b, dict) or admits_null(b) for b in branches):
            return False
    values = schema.get("enum")
    if isinstance(values, list) and None not in values:
        return False
    return schema.get("const") is None


def _member(value: Any, step: str) -> Any:
    step = step.replace("~1", "/").replace("~0", "~")
    return value.get(step) if isinstance(value, dict) else None
