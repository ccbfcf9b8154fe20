"""What the options of `rubric_judge` must be; every fault is a ValueError in one line that names the option."""

import math
import os
import re
from pathlib import Path

from llm_finetuning.addresses import is_address

_FLOATING = re.compile(r"(?:^|[^a-z0-9])(latest|newest|nightly|current)(?:$|[^a-z0-9])", re.IGNORECASE)
_NO_NAMES = ("", "auto", "default", "model")


def address(url: object) -> str:
    """Return the address of a server."""
    if isinstance(url, str) and is_address(url):
        return url
    raise ValueError(f"url: {url!r} is no address as in http://127.0.0.1:8000/v1")


def snapshot(model: object) -> str:
    """Return the name of a model that stays the same model."""
    if not isinstance(model, str) or model.strip() != model or model.rpartition("/")[2].lower() in _NO_NAMES:
        raise ValueError(f"model: {model!r} names no model; give the snapshot that was calibrated")
    floating = _FLOATING.search(model)
    if floating:
        raise ValueError(f"model: {model!r} is an alias that moves ({floating.group(1)}); name one dated snapshot")
    return model


def whole(name: str, value: object, low: int, high: int) -> int:
    """Return a whole number in a range."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name}: {value!r} is not a whole number from {low} to {high}")
    return value


def seconds(name: str, value: object) -> float:
    """Return a positive time."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"{name}: {value!r} is not a number of seconds above 0")
    return float(value)


def column(value: object) -> str | None:
    """Return the name of a column, or None for none."""
    if value is None or (isinstance(value, str) and value):
        return value
    raise ValueError(f"answer_column: {value!r} is not the name of a column")


def api_key(variable: object) -> str | None:
    """Return the key that an environment variable holds, None where no variable is named."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip() if isinstance(variable, str) else ""
    if not key.isascii() or not key.isprintable() or not key:
        raise ValueError(f"api_key_env: the environment variable {variable} holds no key; set it before the run")
    return key


def rubric(path: object) -> str:
    """Return the text of the rubric file."""
    try:
        text = Path(str(path)).read_text("utf-8")
    except OSError as fault:
        raise ValueError(f"rubric_file: {path}: {fault.strerror}; name a text file with the rubric") from None
    except UnicodeDecodeError:
        raise ValueError(f"rubric_file: {path}: not UTF-8; save it as UTF-8 text") from None
    if not text.strip():
        raise ValueError(f"rubric_file: {path}: empty; write down what passes")
    return text
