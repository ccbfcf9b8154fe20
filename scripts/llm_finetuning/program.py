"""Start a program of `engines/` under an interpreter that has its libraries, and read the records it sends.

The program's standard input stays open as long as the reader lives; its end tells the program to end too, even when
this process was killed and could say nothing. `engines/protocol.py` is the other side.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO, Any

from llm_finetuning.errors import MachineryFailure, Refusal
from llm_finetuning.interpreter import training_environ

SCRIPTS = Path(__file__).resolve().parents[1]
RESULTS_FD = "FINETUNE_RESULTS_FD"

KEPT_LINES = 50  # of the program's standard error
POLL_S = 0.5
GRACE_S = 5.0  # for a program that has closed its results to end by itself


def run_program(name: str, job: dict[str, Any], *, python: str) -> Generator[dict[str, Any], None, None]:
    """Yield the records of `engines/NAME.py` doing `job` under the interpreter `python`; closing it ends the program.

    Raises Refusal or MachineryFailure with the program's own lines, and MachineryFailure when it dies without any.
    """
    results, program = _start(name, python)
    said: deque[str] = deque(maxlen=KEPT_LINES)
    assert program.stdin is not None
    assert program.stderr is not None
    listener = threading.Thread(target=_keep_lines, args=(program.stderr, said), daemon=True)
    listener.start()
    try:
        with contextlib.suppress(BrokenPipeError):  # it died at once; why is told below
            program.stdin.write(json.dumps(job).encode("utf-8", "surrogatepass") + b"\n")
            program.stdin.flush()
        for line in _lines(results, program):
            record = json.loads(line)
            if record["kind"] == "failure":
                raise (Refusal if record["bad_input"] else MachineryFailure)(*record["lines"])
            yield record
        code = _wait(program)
        listener.join(POLL_S)
        if code:
            raise _unexplained(name, python, code, said)
    finally:
        _end(program)
        os.close(results)
        listener.join(POLL_S)  # longer only when a stray child holds the stream, and then nobody waits for it


def _start(name: str, python: str) -> tuple[int, subprocess.Popen[bytes]]:
    """Return the read end of the results pipe and the running program; refuses an interpreter that does not start."""
    results, theirs = os.pipe()
    try:
        program = subprocess.Popen(
            [python, "-m", f"llm_finetuning.engines.{name}"],
            cwd=SCRIPTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[theirs],
            env={**training_environ(), RESULTS_FD: str(theirs)},
            start_new_session=True,  # Ctrl-C reaches this process alone, which then ends the program's whole group
        )
    except OSError as fault:
        os.close(results)
        raise Refusal(
            f"{python}: cannot be started as a Python interpreter ({fault.strerror}); name one with --python"
        ) from fault
    finally:
        os.close(theirs)
    return results, program


def _lines(results: int, program: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Yield whole lines until the pipe closes, or the program is gone and only a stray child still holds it."""
    begun = b""
    while True:
        readable, _, _ = select.select([results], [], [], POLL_S)
        if not readable:
            if program.poll() is not None:
                return
            continue
        chunk = os.read(results, 1 << 16)
        if not chunk:
            return
        *whole, begun = (begun + chunk).split(b"\n")
        yield from whole


def _wait(program: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a program that has closed its results; one that lingers is ended and counts as done."""
    try:
        return program.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        return 0


def _end(program: subprocess.Popen[bytes]) -> None:
    """Leave nothing of the program and of what it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(program.pid, signal.SIGKILL)
    program.wait()
    if program.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            program.stdin.close()


def _keep_lines(stream: IO[bytes], said: deque[str]) -> None:
    """Keep the last lines of the program's standard error; of a progress bar the last state."""
    with stream:
        for line in stream:
            last = line.decode("utf-8", "replace").rstrip().rpartition("\r")[2]
            if last.strip():
                said.append(last)


def _unexplained(name: str, python: str, code: int, said: deque[str]) -> Refusal | MachineryFailure:
    """Return the failure for a program that ended without saying why."""
    last = said[-1].strip() if said else "it printed nothing"
    if code == -signal.SIGKILL:
        return MachineryFailure(f"{name}: killed, probably out of memory; its last line: {last}")
    if code < 0:
        return MachineryFailure(f"{name}: ended by {signal.Signals(-code).name}; its last line: {last}")
    if "No module named" in last:
        return Refusal(f"{python}: cannot run {name} ({last}); name another interpreter with --python")
    return MachineryFailure(f"{name}: ended with exit code {code}; its last line: {last}")
