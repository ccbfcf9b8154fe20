"""Processes for the judge without any confinement: for tests of the protocol and the verdict alone."""

import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llm_finetuning.sandbox import wire
from llm_finetuning.sandbox.box import candidate, tester
from llm_finetuning.sandbox.box.hands import Ending
from llm_finetuning.sandbox.box.judge import judge
from llm_finetuning.sandbox.jobs import Limits, Outcome, Program, Tests

LIMITS = Limits(cpu_s=2.0, wall_s=8.0)


class Forked:
    """A forked process with limits on memory and CPU time, and nothing else."""

    def __init__(self, run: Callable[[socket.socket], None], limits: dict[str, float], kept: list[int]) -> None:
        """Fork; `kept` are further descriptors for the child."""
        self.channel, theirs = socket.socketpair()
        self.output, writing = os.pipe()
        self._ending: Ending | None = None
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _become_child(run, theirs, writing, limits, kept)
            finally:
                os._exit(70)
        theirs.close()
        os.close(writing)

    def cpu_s(self) -> float:
        """Return the CPU seconds it used."""
        try:
            return time.clock_gettime((~self._pid << 3) | 2)  # the process's CPU clock, as `clock_getcpuclockid` has it
        except OSError:
            return 0.0

    def kill(self) -> None:
        """End it."""
        if self._ending is None:
            os.kill(self._pid, signal.SIGKILL)

    def wait(self, seconds: float) -> Ending | None:
        """Return how it ended, if it did."""
        until = time.monotonic() + seconds
        while self._ending is None:
            pid, status, usage = os.wait4(self._pid, os.WNOHANG)
            if pid:
                signalled = os.WIFSIGNALED(status)
                self._ending = Ending(
                    code=None if signalled else os.waitstatus_to_exitcode(status),
                    signal=os.WTERMSIG(status) if signalled else None,
                    cpu_s=usage.ru_utime + usage.ru_stime,
                    memory_mb=usage.ru_maxrss / 1024,
                )
            elif time.monotonic() >= until:
                return None
            else:
                time.sleep(0.001)
        return self._ending


class Unconfined:
    """Hands that fork from the test process itself."""

    def candidate(self, limits: dict[str, float]) -> Forked:
        """Fork a candidate."""
        return Forked(candidate.serve, limits, [])

    def tester(self, limits: dict[str, float], rpc: socket.socket) -> Forked:
        """Fork a tester."""
        return Forked(lambda channel: tester.serve(channel, rpc), limits, [rpc.fileno()])


def run(code: str, tests: Tests, **limits: Any) -> Outcome:
    """Return the outcome of a program, judged here."""
    program = Program(code, tests, Limits(**{"cpu_s": LIMITS.cpu_s, "wall_s": LIMITS.wall_s, **limits}))
    return wire.outcome_from_json(judge(wire.program_to_json(program), Unconfined()))


def _become_child(
    run: Callable[[socket.socket], None],
    channel: socket.socket,
    writing: int,
    limits: dict[str, float],
    kept: list[int],
) -> None:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    for descriptor in range(3, 256):
        if descriptor not in {channel.fileno(), *kept}:
            try:
                os.close(descriptor)
            except OSError:
                continue
    # On top of what the test process has reserved, which a fork inherits: late in a long session that is gigabytes.
    reserved = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    memory = reserved + int(limits["memory_mb"] * 1024 * 1024)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    run(channel)
