"""How an engine program talks to the command that started it.

The first line of standard input is the job as JSON; the parent then holds standard input open, and its end means that
the parent is gone. Records go as JSON lines to the pipe whose number is in FINETUNE_RESULTS_FD, because the heavy
libraries print to standard output; that is sent to standard error, of which the parent keeps the last lines.

A program is `protocol.serve(work)`, where `work(job, send)` sends its records and raises `Failure` for what a person
can act on.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, BinaryIO, NoReturn

RESULTS_FD = "FINETUNE_RESULTS_FD"

EXIT_BAD_INPUT = 2
EXIT_MACHINERY = 4
EXIT_DEFECT = 1  # an exception nobody expected; its traceback is on standard error

MAX_LINES = 20  # faults listed one by one before the rest is only counted

Job = dict[str, Any]
Send = Callable[[dict[str, Any]], None]


class Failure(Exception):  # noqa: N818 - named like the record it becomes
    """A fault a person can act on; every line says what, where and how to mend it."""

    def __init__(self, *lines: str, bad_input: bool) -> None:
        """Take one line a fault; `bad_input` is False where the input may be right but the machinery failed."""
        super().__init__("\n".join(lines))
        self.bad_input = bad_input
        more = len(lines) - MAX_LINES
        self.lines = [*lines[:MAX_LINES], *([f"... and {more} more of this kind"] if more > 0 else [])]


def bad_input(*lines: str) -> Failure:
    """Return the failure for input that a person has to mend."""
    return Failure(*lines, bad_input=True)


def machinery(*lines: str) -> Failure:
    """Return the failure for machinery that did not do its part."""
    return Failure(*lines, bad_input=False)


def words_of(fault: BaseException) -> str:
    """Return the first line that an exception of a library says, its kind where it says nothing."""
    return next((line.strip() for line in str(fault).splitlines() if line.strip()), type(fault).__name__)


def serve(work: Callable[[Job, Send], None]) -> NoReturn:
    """Run one engine program from its job to its end; never returns."""
    results = _claim_results()
    job = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def send(record: dict[str, Any]) -> None:
        results.write(json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
        results.flush()

    _leave(_outcome(work, job, send))


def _outcome(work: Callable[[Job, Send], None], job: Job, send: Send) -> int:
    """Return the exit code of the work, after sending the failure that ended it, if one did."""
    try:
        work(job, send)
    except Failure as failure:
        send({"kind": "failure", "bad_input": failure.bad_input, "lines": failure.lines})
        return EXIT_BAD_INPUT if failure.bad_input else EXIT_MACHINERY
    except ModuleNotFoundError as missing:
        line = (
            f"{sys.executable}: has no module {missing.name!r}; install it into that environment "
            "or name another interpreter with --python"
        )
        send({"kind": "failure", "bad_input": True, "lines": [line]})
        return EXIT_BAD_INPUT
    except MemoryError:
        send({"kind": "failure", "bad_input": False, "lines": ["out of memory on the host"]})
        return EXIT_MACHINERY
    except BrokenPipeError:  # the parent stopped reading; there is nobody left to tell
        return EXIT_MACHINERY
    except Exception:  # noqa: BLE001 - a defect of ours or of a library: the parent shows the last line of this
        sys.excepthook(*sys.exc_info())
        return EXIT_DEFECT
    return 0


def _claim_results() -> BinaryIO:
    """Return the pipe to the parent, kept from every process this one starts."""
    number = int(os.environ.pop(RESULTS_FD))
    os.set_inheritable(number, False)  # noqa: FBT003 - takes no keyword
    os.dup2(2, 1)
    return os.fdopen(number, "wb")


def _end_with_parent() -> None:
    """Block until the parent closes standard input, then end this process and all that it started."""
    while os.read(0, 4096):
        pass
    _end_group(EXIT_MACHINERY)


def _leave(code: int) -> NoReturn:
    """End at once: interpreter shutdown under torch and vLLM is slow, noisy, and at times hangs."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _end_group(code: int) -> NoReturn:
    if os.getpgrp() == os.getpid():  # the parent made this process the head of its own group
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(code)
