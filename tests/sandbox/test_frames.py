"""Frames: what is sent arrives, and nothing that is no frame costs more than its bytes."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.sandbox.box import frames

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@given(JSON)
def test_a_payload_says_what_was_packed(value: object) -> None:
    """Any JSON value comes back as it was."""
    assert value == frames.unpack(frames.pack(value)[4:])


def test_a_large_frame_arrives_through_a_small_buffer(pair: tuple[socket.socket, socket.socket]) -> None:
    """Sender and receiver wait for each other, in both ways of reading."""
    value = ["x" * 1_000_000, list(range(100_000))]
    for deadline in (None, time.monotonic() + 20):
        sender = threading.Thread(target=frames.send, args=(pair[0], value, deadline))
        sender.start()
        assert value == frames.receive(pair[1], deadline)
        sender.join()


def test_pieces_become_frames(pair: tuple[socket.socket, socket.socket]) -> None:
    """One that waits for other things too gets whole frames only, and learns of the end."""
    incoming = frames.Incoming(pair[1])
    data = frames.pack([1]) + frames.pack("two")
    taken = []
    for byte in data:
        pair[0].send(bytes([byte]))
        incoming.read()
        payload = incoming.take()
        if payload is not None:
            taken.append(frames.unpack(payload))
    assert taken == [[1], "two"]
    assert not incoming.pending()
    assert not incoming.ended
    pair[0].send(b"\x05")
    pair[0].close()
    incoming.read()
    incoming.read()
    assert incoming.pending()
    assert incoming.ended


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"[" * 200_000, id="deep"),
        pytest.param(b"[" + b"[]," * 2_100_000 + b"1]", id="many containers"),
        pytest.param(b"9" * 100_000, id="a long integer"),
        pytest.param(b"\xc3\xa9", id="not ascii"),
        pytest.param(b"", id="empty"),
        pytest.param(b"[1] 2", id="more after the value"),
        pytest.param(b"{" + b",".join(b'"%d":0' % key for key in range(70_000)) + b"}", id="many keys"),
    ],
)
def test_garbage_is_broken_and_cheap(payload: bytes) -> None:
    """What is no frame is said to be none, within a second."""
    began = time.monotonic()
    with pytest.raises(frames.Broken):
        frames.unpack(payload)
    assert time.monotonic() - began < 1


def test_a_length_beyond_the_bound_is_broken(pair: tuple[socket.socket, socket.socket]) -> None:
    """No room is made for what a header only announces; nor can such a frame be sent."""
    pair[0].send((frames.MAX_BYTES + 1).to_bytes(4, "little"))
    with pytest.raises(frames.Broken, match="8388609"):
        frames.receive(pair[1])
    with pytest.raises(ValueError, match="a frame of"):
        frames.pack("x" * frames.MAX_BYTES)


def test_the_end_and_the_deadline_are_told_apart(pair: tuple[socket.socket, socket.socket]) -> None:
    """A peer that is gone is Broken, one that is slow is Late, to the reader and to the writer."""
    with pytest.raises(frames.Late):
        frames.receive(pair[1], time.monotonic() + 0.05)
    with pytest.raises(frames.Late):
        frames.send(pair[0], "x" * 4_000_000, time.monotonic() + 0.05)
    pair[0].close()
    while pair[1].recv(1 << 20):  # the piece of the frame that was late
        pass
    with pytest.raises(frames.Broken):
        frames.receive(pair[1])
    with pytest.raises(frames.Broken):
        frames.send(pair[1], 1)
