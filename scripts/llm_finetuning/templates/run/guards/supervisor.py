"""Run the launch file below a process that outlives the shell: keeps its log without credentials, and how it ended.

`finetune train` starts it with an open, locked file, so that the lock is held as long as anything of the run lives.
Standard library only. SIGTERM asks the trainer to finish its step, save and stop; a second one ends it at once.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from io import BufferedReader
from pathlib import Path
from types import FrameType
from typing import IO

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))

from guards import credentials, outcome  # noqa: E402  the run folder is no package

BASH = shutil.which("bash") or "/bin/bash"
LOCK_FD = "FINETUNE_LOCK_FD"


def main() -> int:
    """Run launch.sh to its end and return its exit code."""
    secrets = credentials.secret_values(os.environ)
    lock = os.environ.get(LOCK_FD)  # left there: train.py then knows that the folder is its own
    log = HERE / "logs" / "train.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    asked = _Asked()
    if lock:  # not before a signal is answered: whoever finds the number may send one
        os.pwrite(int(lock), json.dumps({"pid": os.getpid(), "at": round(time.time(), 3)}).encode(), 0)
    trainer = subprocess.Popen(
        [BASH, "launch.sh"],
        cwd=HERE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=[int(lock)] if lock else [],
    )
    asked.hand_to(trainer.pid)
    assert isinstance(trainer.stdout, BufferedReader)
    with log.open("ab", buffering=0) as stream:
        copying = threading.Thread(target=copy, args=(trainer.stdout, stream, secrets), daemon=True)
        copying.start()
        code = trainer.wait()
        copying.join(5.0)  # a stray child may hold the stream
    _end_group(trainer.pid)
    if code and outcome.read(HERE) is None:
        _write_outcome(code, log, asked=asked.times > 0)
    ended = outcome.read(HERE)
    return int(ended["exit_code"]) if ended else code


def copy(source: BufferedReader, target: IO[bytes], secrets: list[bytes]) -> None:
    """Copy line by line, hiding credentials; of a progress bar each state counts as a line."""
    begun = b""
    while chunk := source.read1(1 << 16):
        *whole, begun = re.split(rb"(?<=[\n\r])", begun + chunk)
        target.write(credentials.hide(b"".join(whole), secrets))
    target.write(credentials.hide(begun, secrets))


class _Asked:
    """How often the run was asked to end; the trainer's group gets SIGTERM the first time, then SIGKILL."""

    def __init__(self) -> None:
        self.times = 0
        self._group: int | None = None
        signal.signal(signal.SIGTERM, self._hear)
        signal.signal(signal.SIGINT, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.times += 1
        self._forward()

    def hand_to(self, group: int) -> None:
        """Name the group, now that it is there; what was asked before reaches it at once."""
        self._group = group
        if self.times:
            self._forward()

    def _forward(self) -> None:
        if self._group is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._group, signal.SIGTERM if self.times == 1 else signal.SIGKILL)


def _end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _write_outcome(code: int, log: Path, *, asked: bool) -> None:
    """Say how a trainer ended that could not say it itself; a full disk leaves it unsaid."""
    if asked:
        words = "ended on request before the step at hand was saved; the next start goes on from the last checkpoint"
        state, means = outcome.STOPPED, outcome.EXIT_DONE
    else:
        words, state, means = _words(code, log), outcome.FAILED, outcome.EXIT_MACHINERY
    with contextlib.suppress(OSError):
        outcome.write(HERE, state, words, global_step=-1, exit_code=means)


def _words(code: int, log: Path) -> str:
    """Return why a trainer ended that nobody asked to."""
    number = -code if code < 0 else code - 128 if code > 128 else 0  # noqa: PLR2004  a shell's 128 + signal
    if number == signal.SIGKILL:
        return "killed from outside, probably out of memory; it goes on from the last checkpoint"
    if number:
        return f"ended by {signal.Signals(number).name}"
    return f"ended with exit code {code}; its last line: {_last_line(log)}"


def _last_line(log: Path) -> str:
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - 4096))
        lines = [line.rpartition(b"\r")[2].strip() for line in stream.read().split(b"\n")]
    said = [line for line in lines if line]
    return said[-1].decode("utf-8", "replace") if said else "nothing"


if __name__ == "__main__":
    sys.exit(main())
