"""A small document that a JSON Schema should accept, for schemas without conditions and patterns."""

import json
from collections.abc import Mapping
from typing import Any

_DEPTH = 8
_BY_TYPE: Mapping[str, Any] = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "null": None}
_BY_FORMAT = {"date": "2024-05-17", "date-time": "2024-05-17T12:00:00Z", "email": "a@example.org", "time": "12:00:00Z"}


def instance(schema: Any, depth: int = 0) -> Any:  # noqa: C901, PLR0911  one line a keyword
    """Return a value of the wanted type with every property that is named; an empty object for what is not known."""
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except ValueError:
            return {}
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return {}
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return instance(schema[key][0], depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema:
        return {key: instance(part, depth + 1) for key, part in dict(schema.get("properties") or {}).items()}
    if kind == "array":
        return [instance(schema.get("items"), depth + 1) for _ in range(max(1, int(schema.get("minItems") or 1)))]
    return _scalar(str(kind), schema)


def _scalar(kind: str, schema: Mapping[str, Any]) -> Any:
    value = _BY_TYPE.get(kind, {})
    if kind == "string":
        value = _BY_FORMAT.get(str(schema.get("format")), value)
        return str(value).ljust(int(schema.get("minLength") or 0), "x")[: schema.get("maxLength")]
    if kind in ("integer", "number"):
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        if low is not None:
            return low + 1 if "exclusiveMinimum" in schema else low
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        return value if high is None or value < high else high - 1
    return value
