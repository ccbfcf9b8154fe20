r"""What the grammar does not evaluate, asked of Math-Verify: a gold that is itself an integral, a limit or a sum.

Only the gold opens this way: an answer that restates the problem as an integral is not paid for a gold that is a
number. Texts with a command whose meaning Math-Verify guesses (it multiplies the letters of a name that it does not
know) are not asked about. Math-Verify 0.9 (https://github.com/huggingface/Math-Verify) runs in one process of its own
that the kernel ends after a fixed CPU time; the trainer's process holds neither it nor sympy.
"""

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

_START_S = 60.0  # sympy is imported
_WALL_S = 30.0  # a backstop; the worker's CPU limit is what ends a pair
_LOADER = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from llm_finetuning.rewards.maths.symbolic_worker import main; main()"
)
_PACKAGE_ROOT = str(Path(__file__).resolve().parents[3])

_COMMAND = re.compile(r"\\([A-Za-z]+)")
_EVALUATED = frozenset({"int", "lim", "sum", "prod"})
_READ_ALIKE = _EVALUATED | frozenset(
    {"frac", "dfrac", "tfrac", "binom", "sqrt", "cdot", "times", "left", "right", "limits", "to", "rightarrow", "infty"}
    | {
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "arcsin",
        "arccos",
        "arctan",
        "sinh",
        "cosh",
        "tanh",
        "ln",
        "log",
        "exp",
    }
    | {"pi", "theta", "alpha", "beta", "gamma", "delta", "lambda", "mu", "sigma", "omega", "phi", "mathrm", "quad"}
)
_MAX_LENGTH = 400


class SymbolicError(Exception):
    """The comparing process could not be started; never the fault of an answer."""


class Comparer:
    """One worker process, started when it is first needed and again after each kill; safe to call from any thread."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0

    def __reduce__(self) -> tuple[type["Comparer"], tuple[()]]:
        """Return how a copy is made in another process: with a worker of its own."""
        return Comparer, ()

    def same(self, gold: str, answer: str) -> bool | None:
        """Return whether the two are equal; None where they cannot be compared or the time for it ran out.

        Raises SymbolicError where no worker can be started.
        """
        if not (comparable(gold) and readable(answer)):
            return None
        with self._lock:
            process = self._running()
            try:
                _write(process, {"gold": gold, "answer": answer})
                reply = _read(process, _WALL_S)
            except OSError:
                reply = None
            if reply is None:
                self._end()
                return None
            same = reply.get("same")
            return same if isinstance(same, bool) else None

    def close(self) -> None:
        """End the worker."""
        with self._lock:
            self._end()

    def _running(self) -> "subprocess.Popen[str]":
        if self._owner != os.getpid():  # a forked rank must not talk over its parent's pipe
            self._process, self._owner = None, os.getpid()
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = _start()
            weakref.finalize(self, _kill, self._process, self._owner)
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            _kill(self._process, self._owner)
        self._process = None


def _kill(process: "subprocess.Popen[str]", owner: int) -> None:
    """End a worker for good, unless this is a fork of the process that started it."""
    if owner == os.getpid():
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # what was not flushed goes nowhere
                assert pipe
                pipe.close()


def comparable(gold: str) -> bool:
    """Return whether a gold is one that the worker may be asked about."""
    return readable(gold) and bool(_EVALUATED & set(_COMMAND.findall(gold)))


def readable(text: str) -> bool:
    """Return whether Math-Verify reads every command of a short text by its meaning."""
    balanced = text.count("{") == text.count("}")
    return len(text) <= _MAX_LENGTH and balanced and set(_COMMAND.findall(text)) <= _READ_ALIKE


def _start() -> "subprocess.Popen[str]":
    path = [_PACKAGE_ROOT, *(entry for entry in sys.path if entry)]
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _LOADER, json.dumps(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    except OSError as error:
        raise SymbolicError(f"Math-Verify's process does not start: {error}") from None
    reply = _read(process, _START_S)
    if reply is None:
        _kill(process, os.getpid())
        raise SymbolicError("Math-Verify's process ended before it was ready; is `math-verify` installed?")
    return process


def _write(process: "subprocess.Popen[str]", message: dict[str, Any]) -> None:
    assert process.stdin
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()


def _read(process: "subprocess.Popen[str]", seconds: float) -> dict[str, Any] | None:
    """Return the worker's next message; None if it ended or took longer."""
    assert process.stdout
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    line = process.stdout.readline() if ready else ""
    with contextlib.suppress(ValueError):
        message = json.loads(line)
        if isinstance(message, dict):
            return message
    return None
