"""Single keys from a terminal, as the terminal form of `review` reads them."""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager

ESCAPE_S = 0.02  # the letters of one key follow within it
QUIET_S = 0.3  # without a key: who read fast has seen by then that the last sample is gone


def key() -> str:
    """Return one key press; `end` at the end of input.

    An arrow or function key comes as escape and a few letters: taken one by one, its last letter would be a verdict.
    """
    descriptor = sys.stdin.fileno()  # not sys.stdin.read, which reads ahead
    pressed = os.read(descriptor, 1)
    if pressed == b"\x1b":
        while select.select([descriptor], [], [], ESCAPE_S)[0]:
            os.read(descriptor, 64)
        return "escape"
    return pressed.decode("ascii", "replace").lower() if pressed else "end"


def drop() -> None:
    """Read keys and forget them until none comes for a moment."""
    descriptor = sys.stdin.fileno()
    while select.select([descriptor], [], [], QUIET_S)[0] and os.read(descriptor, 4096):
        pass


@contextmanager
def single_keys() -> Iterator[None]:
    """Hand over each key as it is pressed, for the whole sitting: a key pressed between two screens is not lost.

    What was typed ahead at the end of the sitting is dropped, so that the shell does not take it for a command.
    """
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        yield
    finally:
        termios.tcflush(descriptor, termios.TCIFLUSH)
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


@contextmanager
def _whole_lines() -> Iterator[None]:
    """Hand over lines again, with echo and editing, while a note is typed."""
    import termios

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    changed = termios.tcgetattr(descriptor)
    changed[3] |= termios.ICANON | termios.ECHO  # 3: the local modes
    try:
        termios.tcsetattr(descriptor, termios.TCSANOW, changed)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def line(asked: str) -> str:
    """Ask for a line at the terminal and return it; empty at the end of input."""
    with _whole_lines():
        sys.stderr.write(asked)
        sys.stderr.flush()
        return sys.stdin.readline().strip()
