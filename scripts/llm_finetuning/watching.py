"""Tell when a reward ends or holds the process that calls it: another process watches, since a dead one says nothing.

A reward of the user's own runs in the verb's process, as it runs in the trainer's. What it raises is caught; a crash in
C, a kill for memory and a call without end are not. The watcher is this file as a program with the standard library
alone: it reads how many samples are done, and writes a line to standard error when that ends early or stands still.
"""

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator

QUIET_S = 60.0  # without a call that returned, from which it is said; then after twice as long, and so on

_END = b"end\n"


@contextlib.contextmanager
def watched(place: str, total: int, quiet_s: float = QUIET_S) -> Iterator[Callable[[int], None]]:
    """Yield what is to be told how many samples more are scored; inside, `os._exit` raises SystemExit.

    `place` begins the watcher's lines, `total` is how many samples there are.
    """
    command = [sys.executable, "-I", "-S", __file__, place, str(total), str(quiet_s)]
    # A session of its own: Ctrl-C ends the verb, which says so itself.
    with subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0, start_new_session=True) as process:
        assert process.stdin is not None
        told = process.stdin

        def tell(words: bytes) -> None:
            with contextlib.suppress(BrokenPipeError):  # somebody ended the watcher: no reason to stop scoring
                told.write(words)

        try:
            with _exit_raises():
                yield lambda count: tell(b"%d\n" % count)
        finally:
            tell(_END)


@contextlib.contextmanager
def _exit_raises() -> Iterator[None]:
    """Turn `os._exit` of this process, which may say 0 for done, into an exception that names the reward."""
    own, real = os.getpid(), os._exit

    def refuse(code: int) -> None:
        if os.getpid() != own:  # a process that the reward forked ends as it likes
            real(code)
        raise SystemExit(f"os._exit({code})")

    os._exit = refuse  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = real


def _watch(place: str, total: int, quiet_s: float) -> None:
    """Read counts from standard input until its end; write a line for a silence and for an end that was not told."""
    done, heard, wait = 0, b"", quiet_s
    while True:
        if not select.select([0], [], [], wait)[0]:
            _say(f"{place}: no reward returned for {wait:g} s, after {done} of {total} samples; Ctrl-C ends it")
            wait *= 2
            continue
        block = os.read(0, 4096)
        heard += block
        if heard.endswith(_END):
            return
        if not block:
            break
        *lines, heard = heard.split(b"\n")
        done, wait = done + sum(int(line) for line in lines), quiet_s
    _say(
        f"finetune: {place}: the process ended while rewards were called, after {done} of {total} samples, by a crash "
        "in a reward, for want of memory or by a signal; training would end there, so mend the reward and score again"
    )


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    _watch(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
