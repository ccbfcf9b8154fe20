"""JSON Schemas made ready to decide, and what is wrong with those that cannot.

Specification: https://json-schema.org/specification, drafts 4, 6, 7, 2019-09 and 2020-12. jsonschema-rs decides: its
numbers are exact, its regular expressions are those of ECMA-262 and linear in time, but for look-around and
back-references, whose backtracking is bounded. jsonschema words what is wrong with a schema; it is loaded only then.
"""

import json
import pickle
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import jsonschema_rs

from llm_finetuning.rewards.json_text import MAX_CHARACTERS, MAX_DEPTH, read_json

_Value: TypeAlias = dict[str, Any] | bool

BACKTRACK_LIMIT = 100_000  # steps of one match, about two milliseconds; beyond it the pattern does not match

_KEPT = 256  # compiled schemas
_BASE = "json-schema:///the-schema"  # makes every relative reference one that we can see
_EXPLAINED = 200_000  # faults that may be gathered to word the first
_DRAFT = re.compile(r"https?://json-schema\.org/[\w/#-]+\Z")
_SHOWN = 200  # characters of a library's message
_PLAIN_KEY = re.compile(r"[A-Za-z_$][\w$]*\Z")


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A compiled schema, or why there is none."""

    validator: jsonschema_rs.Validator | None
    problem: str | None = None  # schema_unreadable, schema_remote, schema_padded
    words: str = ""  # the problem for a person: what, where in the schema, how to mend it
    alternatives: int = 0  # how many subschemas stand in its anyOf, oneOf and allOf
    recursive: bool = False  # it has references, so alternatives may multiply with depth

    def accepts(self, value: Any) -> bool:
        """Tell whether a value is valid.

        The value nests at most `MAX_DEPTH` deep; deeper Python objects could crash the validator.
        """
        assert self.validator is not None
        return self.validator.is_valid(value)

    def violation(self, value: Any) -> str:
        """Return the first rule that a value breaks, in words and with its place; empty if it breaks none."""
        assert self.validator is not None
        if self.validator.is_valid(value):
            return ""
        if self.alternatives and self._most_faults(value) > _EXPLAINED:
            return "at $: not accepted under alternatives that are too many to list"
        try:
            self.validator.validate(value)
        except jsonschema_rs.ValidationError as fault:
            return f"at {_path(fault.instance_path)}: {_short(fault.message)} (rule {_path(fault.schema_path)})"
        raise AssertionError("the validator refuses a value and finds no fault in it")

    def _most_faults(self, value: Any) -> int:
        """Return how many faults the validator might gather: it lists those of every alternative."""
        nodes, depth = _extent(value)
        return nodes * int(max(self.alternatives, 2) ** (depth if self.recursive else 1))


def _extent(value: Any) -> tuple[int, int]:
    """Return how many values a document holds and how deep they nest."""
    below = [_extent(member) for _, member in _members(value)]
    return 1 + sum(nodes for nodes, _ in below), 1 + max((depth for _, depth in below), default=0)


class _Annotation:
    """A keyword that only annotates: `contentEncoding` and `contentMediaType` refuse nothing in any draft."""

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        """Take what the validator hands to a keyword."""

    def validate(self, instance: Any) -> None:
        """Accept everything."""


def schema_of(cell: Any) -> Schema:
    """Return the schema that an option or a dataset cell holds: a mapping, true, false, or one of these as JSON text.

    Never raises: a cell that holds no sound schema gives one with a `problem`. Compiled schemas are kept by content.
    """
    if isinstance(cell, str):
        return _schema_of_text(cell)
    if isinstance(cell, bool):
        return _schema_of_text("true" if cell else "false")
    if not isinstance(cell, Mapping):
        return _unreadable(f"a schema is a mapping, true or false, not {_kind(cell)}; correct the row or the option")
    try:
        key = pickle.dumps(cell)  # a fifth of the time of JSON text; two schemas never share a key
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError):
        return _schema_of_mapping(cell)
    schema = _BY_CONTENT.get(key)
    if schema is None:
        schema = _schema_of_mapping(cell)
        if len(_BY_CONTENT) >= _KEPT:
            _BY_CONTENT.clear()
        _BY_CONTENT[key] = schema
    return schema


_BY_CONTENT: dict[bytes, Schema] = {}


def _schema_of_mapping(cell: Mapping[str, Any]) -> Schema:
    try:
        text = json.dumps(cell, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        return _unreadable(f"the schema cannot be written as JSON ({_short(str(error))}); use plain values")
    return _schema_of_text(text)


def _plain(thing: Any) -> Any:
    """Return what table readers hand out in place of lists, dictionaries and numbers as those."""
    if isinstance(thing, Mapping):
        return dict(thing)
    if hasattr(thing, "tolist"):
        return thing.tolist()
    raise TypeError(f"{_kind(thing)} is no JSON")


@lru_cache(maxsize=_KEPT)
def _schema_of_text(text: str) -> Schema:
    document = read_json(text, fence=False)
    if document.problem is not None:
        limits = f", at most {MAX_CHARACTERS:,} characters and {MAX_DEPTH} levels"
        return _unreadable(f"the schema is not strict JSON ({document.problem}); write one JSON object{limits}")
    if not isinstance(document.value, dict | bool):
        return _unreadable(f"a schema is an object, true or false, not {_kind(document.value)}; correct it")
    return _compile(document.value, text)


def _compile(value: _Value, text: str) -> Schema:
    """Return the schema of a JSON value; `text` is that value as it was written."""
    sought: list[str] = []

    def refuse(uri: str) -> Any:
        sought.append(uri)
        raise ValueError("nothing is fetched")

    try:
        validator = jsonschema_rs.validator_for(
            value,
            validate_formats=True,
            retriever=refuse,
            base_uri=_BASE,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT),
            email_options=jsonschema_rs.EmailOptions(allow_display_text=False),
            keywords=dict.fromkeys(("contentEncoding", "contentMediaType"), _Annotation)
            if '"content' in text
            else None,
        )
    except ValueError as error:  # ValidationError is one
        return _faulty(value, error, sought)
    if _contradicts_null(value):
        return _padded(value)
    branches = '"anyOf"' in text or '"oneOf"' in text
    return Schema(validator, alternatives=_alternatives(value) if branches else 0, recursive='ef"' in text)


def _alternatives(value: Any) -> int:
    own = sum(len(list(_members(member))) for key, member in _members(value) if key in ("anyOf", "oneOf", "allOf"))
    return own + sum(_alternatives(member) for _, member in _members(value))


def _faulty(value: _Value, error: ValueError, sought: Sequence[str]) -> Schema:
    stripped = _without_nulls(value)
    if stripped != value and _compile(stripped, json.dumps(stripped, default=str)).problem is None:
        return _padded(value)
    message = error.message if isinstance(error, jsonschema_rs.ValidationError) else str(error)
    if message.startswith("Unknown meta-schema"):
        drafts = "draft-04, -06, -07, 2019-09 and 2020-12"
        return _unreadable(f"at $.$schema: {message.split(chr(39))[1]!r} names no known draft; the known are {drafts}")
    if message.startswith("Resource '"):
        uri = sought[-1].removeprefix(_BASE.rpartition("/")[0] + "/") if sought else message.split("'")[1]
        where = _path(_reference_to(value, uri) or [])
        words = f"at {where}: leads outside the schema, to {uri!r}; nothing is fetched: copy it under $defs"
        return Schema(None, "schema_remote", words)
    if message.startswith(("Pointer '", "Anchor '")):
        where = _path(_reference_to(value, "#" + message.split("'")[1]) or [])
        return _unreadable(f"at {where}: {_short(message)} in the schema; correct the reference")
    return _unreadable(_worded(value, error, message))


def _worded(value: _Value, error: ValueError, message: str) -> str:
    """Return the fault of a schema as jsonschema says it, or as the compiler does where jsonschema finds none."""
    from jsonschema import Draft202012Validator, SchemaError  # type: ignore[import-untyped]
    from jsonschema.validators import validator_for  # type: ignore[import-untyped]

    draft = value.get("$schema") if isinstance(value, dict) else None
    named = {"$schema": draft} if isinstance(draft, str) and _DRAFT.match(draft) else {}
    try:
        validator_for(named, default=Draft202012Validator).check_schema(value)
    except SchemaError as fault:
        # Of the alternatives that were not met, the one that looked deepest names the fault.
        inner = [other for other in fault.context if other.validator != "type"]
        told = max(inner, key=lambda other: len(other.path), default=fault)
        return (
            f"at {_path([*fault.path, *told.path] if inner else fault.path)}: {_short(told.message)}; correct it there"
        )
    except RecursionError:  # nested too deep for a recursive checker
        pass
    place = _path(error.instance_path) if isinstance(error, jsonschema_rs.ValidationError) else "$"
    if "regex" in message:
        return f"at {place}: {_short(message)} of ECMA-262 that can be checked; simplify the pattern"
    return f"at {place}: {_short(message)}; correct it there"


def _padded(value: _Value) -> Schema:
    words = (
        f"at {_path(_null_in(value) or [])}: null, as table storage pads rows that lack a key; take the nulls out: "
        "a column of schemas is best stored as JSON text"
    )
    return Schema(None, "schema_padded", words)


def _null_in(value: Any) -> list[str | int] | None:
    """Return the place of the first key whose value is null."""
    for key, member in _members(value):
        if member is None and isinstance(value, dict):
            return [key]
        below = _null_in(member)
        if below is not None:
            return [key, *below]
    return None


def _members(value: Any) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _contradicts_null(value: Any) -> bool:
    """Tell whether somewhere `const: null` stands beside a type that is not null, as padding leaves it."""
    if isinstance(value, dict) and value.get("const", value) is None:
        kinds = value.get("type", "null")
        if kinds != "null" and "null" not in kinds:
            return True
    return any(_contradicts_null(member) for _, member in _members(value))


def _reference_to(value: Any, target: str) -> list[str | int] | None:
    """Return the place of the reference that leads to an address outside, or to a `#fragment`."""
    for key, member in _members(value):
        if key in ("$ref", "$dynamicRef", "$recursiveRef") and isinstance(member, str):
            address, _, fragment = member.partition("#")
            wanted = f"#{fragment}" if target.startswith("#") else address.lstrip("./")
            if wanted and target.endswith(wanted):
                return [key]
        below = _reference_to(member, target)
        if below is not None:
            return [key, *below]
    return None


def _unreadable(words: str) -> Schema:
    return Schema(None, "schema_unreadable", words)


def _path(steps: Any) -> str:
    parts = [f".{step}" if isinstance(step, str) and _PLAIN_KEY.match(step) else f"[{step!r}]" for step in steps]
    return "$" + "".join(parts)


def _short(message: str) -> str:
    first = message.splitlines()[0] if message else ""
    return first if len(first) <= _SHOWN else first[:_SHOWN] + "..."


def _kind(thing: Any) -> str:
    names = {type(None): "null", str: "a text", list: "a list", int: "a number", float: "a number"}
    return names.get(type(thing), type(thing).__name__)
