"""config.yaml: every option with the reason for it, in a form that YAML 1.1 and 1.2 read alike.

The trainer reads it with PyYAML, which follows YAML 1.1: there `5e-07` is text, `on` is true, and `1:30` is ninety.
So floats are written with a point, and every text that is not a plain word stands in quotes.
"""

import dataclasses
import math
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from llm_finetuning.recipes.config import Option, RunConfig

WIDTH = 120
LONGEST_KEY = 1000  # characters; of one without a mark YAML reads 1,024 up to its colon (YAML 1.2.2, 7.4.2)

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS_OF_YAML = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})

_SOURCES = {
    "recipe": "",
    "variant": "variant: ",
    "brief": "brief: ",
    "machine": "machine: ",
    "fixed": "fixed: ",
}
_HEAD = """\
# Written by `finetune build`; train.py reads it and takes nothing that matters from a default of a library.
# The reason stands beside each option; `brief`, `variant` and `machine` say who asked for what the recipe would not do.
# An edited copy is refused: change the run's brief.yaml and build again.
"""


def text_of(config: RunConfig) -> str:
    """Return the config as YAML with comments."""
    return _HEAD + "".join(line + "\n" for name, value in _sections(config).items() for line in _section(name, value))


def _sections(config: RunConfig) -> dict[str, Any]:
    return {
        "method": config.method,
        "model": config.model,
        "adapter": config.adapter,
        "quantization": config.quantization,
        "trainer": config.trainer,
        "rewards": config.rewards,
        "data": config.data,
        "guards": config.guards,
        "shape": dataclasses.asdict(config.shape),
        "versions": config.versions,
    }


def plain(config: RunConfig) -> dict[str, Any]:
    """Return what a reader of the text gets: options without their reasons, tuples as lists."""
    return {name: listed(value) for name, value in _sections(config).items()}


def listed(value: Any) -> Any:
    """Return a value with tuples as lists and options as their values."""
    if isinstance(value, Option):
        return listed(value.value)
    if isinstance(value, Mapping):
        return {str(key): listed(item) for key, item in value.items()}
    return [listed(item) for item in value] if isinstance(value, list | tuple) else value


def _section(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield f"{name}:"
        for key, item in value.items():
            yield from _entry(f"  {scalar(str(key))}: ", item)
    elif isinstance(value, list | tuple) and value:
        yield f"{name}:"
        yield from (f"  - {flow(item)}" for item in value)
    else:
        yield f"{name}: {flow(value)}"


def _entry(start: str, item: Any) -> Iterator[str]:
    if not isinstance(item, Option):
        yield start + flow(item)
        return
    line = start + flow(item.value)
    comment = _SOURCES[item.source] + " ".join(item.why.split()) if item.why or _SOURCES[item.source] else ""
    comment = "".join(sign for sign in comment if sign.isprintable()).rstrip(": ")
    if not comment:
        yield line
    elif len(line) + len(comment) + 4 <= WIDTH:
        yield f"{line}  # {comment}"
    else:
        yield from textwrap.wrap(
            comment, WIDTH, initial_indent="  # ", subsequent_indent="  # ", break_long_words=False
        )
        yield line


def flow(value: Any) -> str:
    """Return a value on one line; raises TypeError for one that YAML has no plain form for."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(_key(str(key)) + flow(item) for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    return scalar(value)


def _key(key: str) -> str:
    """Return a key of a mapping on one line; a long one is marked as a key, or YAML does not take it for one."""
    text = scalar(key)
    return f"{text}: " if len(text) <= LONGEST_KEY else f"? {text} : "


def scalar(value: Any) -> str:
    """Return a number, text, truth value or None as both versions of YAML read it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if not isinstance(value, str):
        raise TypeError(f"{value!r}: a {type(value).__name__} has no place in config.yaml")
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS_OF_YAML:
        return value
    return '"' + "".join(_escaped(sign) for sign in value) + '"'


def _number(value: float) -> str:
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    mantissa, mark, exponent = repr(value).partition("e")
    return (mantissa if "." in mantissa else f"{mantissa}.0") + mark + exponent


def _escaped(sign: str) -> str:
    if sign in '"\\':
        return f"\\{sign}"
    code = ord(sign)
    if 0x20 <= code < 0x7F:  # noqa: PLR2004  ASCII that can be seen
        return sign
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"  # noqa: PLR2004
