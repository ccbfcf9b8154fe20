"""Event files of TensorBoard, read after the layout of their records and messages; scalars alone.

A file is TFRecords: length (8 bytes, little end first), checksum (4), the message, checksum (4). A message is an Event
(tensorflow/core/util/event.proto): 1 wall_time, 2 step, 5 summary; its Values (framework/summary.proto) have 1 tag,
2 simple_value, 8 tensor; a TensorProto (framework/tensor.proto) has 1 dtype, 4 tensor_content, 5 float_val,
6 double_val, 7 int_val, 8 string_val, 10 int64_val. Checksums are not looked at: a torn end shows by its length.
"""

import functools
import re
import struct
from collections.abc import Iterator
from typing import Any

from llm_finetuning.diagnosis.reading.json_text import parsed, plain_options
from llm_finetuning.diagnosis.reading.source import Source, Table

ARGUMENTS = "args/text_summary"  # where transformers leaves the training arguments as JSON

_HEAD, _TAIL = 12, 4  # bytes around a message
_VERSION = b"brain.Event:"  # stands in a file's first message
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIDTH = {_FIXED64: 8, _FIXED32: 4}
_VALUES = {5: "<f", 6: "<d"}  # a tensor's fields of numbers
_WHOLE = (7, 10)
_CONTENT = {1: "<f", 2: "<d", 3: "<i", 9: "<q"}  # dtype -> how tensor_content holds it


_LENGTH, _FLOAT = struct.Struct("<Q"), struct.Struct("<f")
_USUAL = re.compile(
    rb"\x09.{8}"  # wall_time
    rb"\x10(?P<step>[\x80-\xff]{0,9}[\0-\x7f])"
    rb"\x2a[\0-\x7f]\x0a[\0-\x7f]"  # a summary with one value, both short
    rb"\x0a(?P<width>[\0-\x7f])(?P<tag>.+)\x15(?P<value>.{4})",
    re.DOTALL,
)
"""One scalar with simple_value, as torch's SummaryWriter writes all: read in half the time of the general way."""


class _TornError(ValueError):
    """A message that ends too early."""


def read_events(source: Source) -> Table | None:
    """Return the log of an event file; None for any other file."""
    data = source.data
    if _VERSION not in data[:64]:
        return None
    rows: list[dict[str, Any]] = []
    options: dict[str, Any] = {}
    notes: list[str] = []
    wrong, last = 0, None
    for message in _messages(data, notes):
        try:
            step, values = _event(message)
        except _TornError:
            wrong += 1
            continue
        for tag, value in values:
            if isinstance(value, bytes):
                options.update(_arguments(tag, value))
                continue
            if step != last:
                rows.append({"step": step})
                last = step
            rows[-1][tag] = value
    if wrong:
        notes.append(f"{wrong} records hold no event and were left out")
    return Table(form="tensorboard", rows=rows, options=options, notes=tuple(notes))


def _messages(data: bytes, notes: list[str]) -> Iterator[memoryview]:
    view, at = memoryview(data), 0
    while at + _HEAD <= len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        if at + _HEAD + length > len(data):
            break
        yield view[at + _HEAD : at + _HEAD + length]
        at += _HEAD + length + _TAIL
    if at < len(data):
        notes.append("the last record is torn and was left out, as in a log that is being written")


def _arguments(tag: str, value: bytes) -> dict[str, Any]:
    found = parsed(value.decode("utf-8", "replace")) if tag == ARGUMENTS else None
    return plain_options(found) if isinstance(found, dict) else {}


def _event(message: memoryview) -> tuple[int, list[tuple[str, Any]]]:
    """Return an event's step and its values by tag: numbers, and text as bytes."""
    usual = _USUAL.fullmatch(message)
    if usual is not None and usual["width"][0] == len(usual["tag"]):
        step, _ = _varint(usual["step"], 0)
        return step, [(_text(usual["tag"]), *_FLOAT.unpack(usual["value"]))]
    step, values = 0, []
    for field, value in _fields(message):
        if field == 2 and isinstance(value, int):  # noqa: PLR2004
            step = value
        elif field == 5 and isinstance(value, memoryview):  # noqa: PLR2004
            values += [
                found
                for inner, part in _fields(value)
                if inner == 1 and isinstance(part, memoryview) and (found := _value(part)) is not None
            ]
    return step, values


def _value(message: memoryview) -> tuple[str, Any] | None:
    """Return a value with its tag; None for what is neither number nor text, such as a picture."""
    tag, found = "", None
    for field, value in _fields(message):
        if field == 1 and isinstance(value, memoryview):
            tag = _text(bytes(value))
        elif field == 2 and isinstance(value, memoryview) and len(value) == 4:  # noqa: PLR2004
            (found,) = _FLOAT.unpack(value)
        elif field == 8 and isinstance(value, memoryview):  # noqa: PLR2004
            found = _tensor(value)
    return None if found is None else (tag, found)


@functools.lru_cache(maxsize=1 << 12)
def _text(tag: bytes) -> str:
    return tag.decode("utf-8", "replace")


def _tensor(message: memoryview) -> Any:
    """Return the one number or text of a tensor; None for one that holds none, or several numbers."""
    dtype, found, content = 0, [], b""
    for field, value in _fields(message):
        if isinstance(value, int):
            if field == 1:
                dtype = value
            elif field in _WHOLE:
                found.append(_signed(value))
        elif field in _VALUES:
            found += _unpacked(_VALUES[field], value)
        elif field in _WHOLE:
            found += [_signed(item) for item in _varints(value)]
        elif field == 8:  # noqa: PLR2004
            return bytes(value)
        elif field == 4:  # noqa: PLR2004
            content = bytes(value)
    if not found and dtype in _CONTENT:
        found = _unpacked(_CONTENT[dtype], memoryview(content))
    return found[0] if len(found) == 1 else None


def _unpacked(form: str, value: memoryview) -> list[Any]:
    width = struct.calcsize(form)
    return [item for (item,) in struct.iter_unpack(form, value)] if len(value) % width == 0 else []


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield a message's fields: the number of each, and an int for a varint or its bytes."""
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at)
        wire = key & 7
        if wire == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if wire == _BYTES:
            width, at = _varint(message, at)
        elif wire in _WIDTH:
            width = _WIDTH[wire]
        else:
            raise _TornError
        if at + width > end:
            raise _TornError
        yield key >> 3, message[at : at + width]
        at += width


def _varints(message: memoryview) -> Iterator[int]:
    at = 0
    while at < len(message):
        value, at = _varint(message, at)
        yield value


def _varint(message: memoryview | bytes, at: int) -> tuple[int, int]:
    """Return a whole number in base 128 and where it ends."""
    value = shift = 0
    while at < len(message) and shift < 70:  # noqa: PLR2004  ten bytes hold 64 bits
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:  # noqa: PLR2004  the last byte has no mark
            return value, at
        shift += 7
    raise _TornError


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
