"""TensorBoard's event files, written byte by byte after the layout of TFRecord and of the Event message."""

import struct
from collections.abc import Sequence


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, payload: bytes) -> bytes:
    """A field of bytes: a text, a message, or packed numbers."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def fixed(number: int, value: float, form: str = "<f") -> bytes:
    return varint(number << 3 | (5 if form == "<f" else 1)) + struct.pack(form, value)


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def simple(tag: str, value: float) -> bytes:
    """A Value as torch's SummaryWriter writes a scalar."""
    return field(1, tag.encode()) + fixed(2, value)


def tensor(tag: str, body: bytes) -> bytes:
    """A Value with a tensor, as newer writers do."""
    return field(1, tag.encode()) + field(9, field(1, field(1, b"scalars"))) + field(8, body)


def event(step: int, values: Sequence[bytes], *, at: float = 1.7e9) -> bytes:
    """One record: an Event with its summary."""
    return record(fixed(1, at, "<d") + whole(2, step) + field(5, b"".join(field(1, value) for value in values)))


def record(message: bytes) -> bytes:
    """A TFRecord; its checksums are zero, which no reader of ours looks at."""
    return struct.pack("<Q", len(message)) + b"\0" * 4 + message + b"\0" * 4


VERSION = record(fixed(1, 1.7e9, "<d") + field(3, b"brain.Event:2"))
