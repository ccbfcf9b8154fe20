"""Frames over a stream socket: four bytes of length, then JSON in ASCII. What comes in may be hostile.

A frame is at most eight MiB, and what it costs to decode is bounded: the number of containers, their depth, the keys
of one object, the digits of one integer. Nothing but None, booleans, numbers, strings, lists and dicts comes out.
"""

import json
import select
import socket
import sys
import time
from typing import Any

MAX_BYTES = 8 * 1024 * 1024
_MAX_CONTAINERS = 2_000_000  # an empty list takes three bytes to write and some seventy to hold
_MAX_KEYS = 65_536
_MAX_DIGITS = 4300  # the interpreter's own default since 3.10.7
_HEADER = 4
_CHUNK = 65_536  # below what the C library takes from the kernel anew each time


class Broken(Exception):  # noqa: N818  it is what happened
    """The stream ended, or what came is no frame."""


class Late(Exception):  # noqa: N818  it is what happened
    """The deadline passed before the frame was through."""


def pack(value: Any) -> bytes:
    """Return the bytes of a frame; raises ValueError for one that is too large, TypeError for what JSON lacks."""
    payload = _ENCODER.encode(value).encode("ascii")
    if len(payload) > MAX_BYTES:
        raise ValueError(f"a frame of {len(payload)} bytes, more than {MAX_BYTES}")
    return len(payload).to_bytes(_HEADER, "little") + payload


def unpack(payload: bytes) -> Any:
    """Return what a payload says; raises Broken."""
    if payload.count(b"[") + payload.count(b"{") > _MAX_CONTAINERS:
        raise Broken("too many containers in one frame")
    try:
        return _DECODER.decode(payload.decode("ascii"))
    except (ValueError, RecursionError) as error:  # a UnicodeDecodeError is a ValueError
        raise Broken(f"no frame: {type(error).__name__}") from None


def send(sock: socket.socket, value: Any, deadline: float | None = None) -> None:
    """Send a value; `deadline` is one of `time.monotonic()`. Raises Broken, Late, and what `pack` raises."""
    data = memoryview(pack(value))
    while data:
        try:
            sent = sock.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            _wait(sock, select.POLLOUT, deadline)
        except OSError as error:
            raise Broken(f"the stream ended: {error.strerror}") from None
        else:
            data = data[sent:]


def receive(sock: socket.socket, deadline: float | None = None) -> Any:
    """Return the next value; `deadline` is one of `time.monotonic()`. Raises Broken or Late."""
    length = length_of(_exactly(sock, _HEADER, deadline))
    return unpack(_exactly(sock, length, deadline))


def length_of(header: bytes) -> int:
    """Return the length that a header announces; raises Broken for one that is too large."""
    length = int.from_bytes(header, "little")
    if length > MAX_BYTES:
        raise Broken(f"a frame of {length} bytes, more than {MAX_BYTES}")
    return length


class Incoming:
    """Frames that arrive in pieces, for one who waits for other things too."""

    def __init__(self, sock: socket.socket) -> None:
        """Take the socket; it is read without waiting, whatever its own mode."""
        self._sock = sock
        self._held = bytearray()
        self.ended = False

    def read(self) -> None:
        """Take what is there, at most about a frame at a time; at the end of the stream, `ended` becomes true."""
        try:
            while not self.overfull():
                piece = self._sock.recv(_CHUNK, socket.MSG_DONTWAIT)
                self._held += piece
                self.ended = not piece
                if len(piece) < _CHUNK:
                    return
        except BlockingIOError:
            return
        except OSError:
            self.ended = True

    def take(self) -> bytes | None:
        """Return the payload of the next frame, or None if it is not all there; raises Broken."""
        if len(self._held) < _HEADER:
            return None
        end = _HEADER + length_of(bytes(self._held[:_HEADER]))
        if len(self._held) < end:
            return None
        payload = bytes(self._held[_HEADER:end])
        del self._held[:end]
        return payload

    def overfull(self) -> bool:
        """Say whether more is held than one frame can be."""
        return len(self._held) > MAX_BYTES + _HEADER

    def pending(self) -> bool:
        """Say whether bytes are held that were not taken."""
        return bool(self._held)


def _exactly(sock: socket.socket, size: int, deadline: float | None) -> bytes:
    pieces, missing = [], size
    while missing:
        try:
            if deadline is None:
                piece = sock.recv(min(missing, _CHUNK))
            else:
                piece = sock.recv(min(missing, _CHUNK), socket.MSG_DONTWAIT)
        except BlockingIOError:
            _wait(sock, select.POLLIN, deadline)
            continue
        except OSError as error:
            raise Broken(f"the stream ended: {error.strerror}") from None
        if not piece:
            raise Broken("the stream ended")
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


def _wait(sock: socket.socket, event: int, deadline: float | None) -> None:
    left = None if deadline is None else deadline - time.monotonic()
    if left is not None and left <= 0:
        raise Late("the deadline passed")
    poller = select.poll()
    poller.register(sock, event)
    poller.poll(None if left is None else min(left * 1000 + 1, 1e9))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > _MAX_KEYS:
        raise ValueError("too many keys in one object")
    return dict(pairs)


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError("too many digits in one integer")
    return int(digits)


_ENCODER = json.JSONEncoder(separators=(",", ":"))
# Where the interpreter bounds the digits itself, its own fast path serves; reading them takes quadratic time.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=None if hasattr(sys, "get_int_max_str_digits") else _integer
)
