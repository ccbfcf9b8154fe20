"""What JSON has no number for, as null: readers other than Python's refuse NaN and Infinity."""

import math
from collections.abc import Mapping
from typing import Any


def strict(value: Any) -> Any:
    """Return a tree of JSON values in which each number that is none, or has no end, is None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: strict(part) for name, part in value.items()}
    return [strict(part) for part in value] if isinstance(value, list | tuple) else value
