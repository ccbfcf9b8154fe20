"""Arrays and scalars of numpy, where it is installed; it is imported only once one of them comes by."""

import base64
import math
import re
import sys
from typing import Any

_PLAIN = re.compile(r"[<>|=](?:[biufcSU]\d{1,9}|[mM]8(?:\[\w{1,12}\])?)")
_MAX_BYTES = 1 << 27  # of one array: text of wide items takes much room for few bytes


def encode(encoder: Any, value: Any) -> list[Any] | None:
    """Return what crosses for an array or a scalar of numpy, None for anything else; objects in it cross one by one."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not type(value).__module__.startswith("numpy"):
        return None
    if type(value) is numpy.ndarray:
        return encoder.within(value, lambda: _encode_array(encoder, value))  # type: ignore[no-any-return]
    if isinstance(value, numpy.generic) and type(value) is value.dtype.type and _PLAIN.fullmatch(value.dtype.str):
        return ["n", value.dtype.str, None, base64.b64encode(value.tobytes()).decode("ascii")]
    return None


def _encode_array(encoder: Any, value: Any) -> list[Any]:
    shape = list(value.shape)
    if _PLAIN.fullmatch(value.dtype.str) and not value.dtype.hasobject:
        return ["n", value.dtype.str, shape, base64.b64encode(value.tobytes()).decode("ascii")]
    if value.dtype.kind == "O":
        return ["n", "O", shape, encoder.items(value.ravel().tolist())]
    raise ValueError(f"an array of {value.dtype.str[:20]}")


def read(decoder: Any, value: list[Any]) -> Any:
    """Return the array or the scalar; raises ValueError, TypeError or LookupError for a malformed one."""
    import numpy as np

    _, kind, shape, data = value
    if kind == "O":
        made = decoder.share(np.empty(math.prod(_shape(shape)), dtype=object))
        items = decoder.items(data)
        if len(items) != len(made):
            raise ValueError("an array of another size")
        for place, item in enumerate(items):
            made[place] = item
        made.shape = tuple(shape)
        return made
    if not _PLAIN.fullmatch(kind):
        raise ValueError("no kind of array")
    dtype, raw = np.dtype(kind), base64.b64decode(data, validate=True)
    count = 1 if shape is None else math.prod(_shape(shape))
    if count * dtype.itemsize != len(raw) or len(raw) > _MAX_BYTES or not dtype.itemsize:
        raise ValueError("an array of another size")
    flat = np.frombuffer(raw, dtype=dtype) if raw else np.empty(0, dtype=dtype)
    return flat[0] if shape is None else decoder.share(flat.copy().reshape(shape))


def _shape(shape: Any) -> list[int]:
    if type(shape) is not list or not all(type(side) is int and 0 <= side < 1 << 31 for side in shape):
        raise ValueError("no shape")
    if math.prod(side or 1 for side in shape) > _MAX_BYTES:
        raise ValueError("an array too large")
    return shape
