"""The judge's hands: it orders processes from the zygote, and holds its end of their channels."""

import contextlib
import os
import select
import socket
import time
from collections.abc import Callable

from llm_finetuning.sandbox.box import zygote
from llm_finetuning.sandbox.box.hands import Ending

_PROCESS_CLOCK = 2  # CPUCLOCK_SCHED of the whole process, in the kernel's encoding of a clock id

Excess = Callable[[int, str, dict[str, float]], str | None]
"""What a process exceeds, given its id, its room and its limits; None if nothing."""


WAKE = b"w"
READY = b"ready"  # what a zygote says once


class NeverConfined(OSError):  # noqa: N818  it is what happened
    """A process ended before it was confined; the machine's fault, never the program's."""


class Processes:
    """Starts programs through the zygote's control socket; it is of one thread, as the judge is."""

    def __init__(self, control: socket.socket, excess: Excess | None = None, *, asleep: bool = False) -> None:
        """Take the socket, and what to watch for where the kernel does not keep all limits itself.

        A zygote that is `asleep` has to be woken before it gets ready.
        """
        self.control = control
        self._ready = False
        self._asleep = asleep
        self._excess = excess
        self._started: list[Process] = []

    def await_ready(self) -> None:
        """Wait until the zygote is warm and confined; raises OSError if it does not get there."""
        if not self._ready:
            if self._asleep:
                self.control.send(WAKE)
            said = self.control.recv(65536)
            if said != READY:
                raise OSError(f"the zygote did not start: {said.decode() or 'it ended'}")
            self._ready = True

    def candidate(self, limits: dict[str, float]) -> "Process":
        """Start a process for model-written code; raises OSError."""
        return self._start(zygote.CANDIDATE, "candidate", limits, None)

    def tester(self, limits: dict[str, float], rpc: socket.socket) -> "Process":
        """Start a process for test code, which takes the candidate's channel over; raises OSError."""
        return self._start(zygote.TESTER, "tester", limits, rpc)

    def probe(self, limits: dict[str, float]) -> "Process":
        """Start a process that tries to break out, confined as a candidate is; raises OSError."""
        return self._start(zygote.PROBE, "candidate", limits, None)

    def end_all(self) -> None:
        """Make sure that nothing of a job is left: what still runs is killed; raises OSError if the zygote is gone."""
        started, self._started = self._started, []
        for process in started:
            with contextlib.suppress(NeverConfined):  # the judge was told
                process.kill()
            process.channel.close()

    def check_alive(self) -> None:
        """Raise OSError if the zygote is gone, so that no job is given to this box any more."""
        poller = select.poll()
        poller.register(self.control, 0)  # that the other end is closed is told in any case
        if poller.poll(0):
            raise OSError("the zygote is gone")

    def order(self, what: int, pid: int, *numbers: float) -> bytes:
        """Give the zygote an order about a process and return its answer; raises OSError if the zygote is gone."""
        self.control.send(zygote.ORDER.pack(what, pid, *numbers, *[0.0] * (6 - len(numbers))))
        return self._answer()

    def exceeds(self, pid: int, room: str, limits: dict[str, float]) -> str | None:
        """Return the limit that a process exceeds and that the kernel does not keep here."""
        return self._excess(pid, room, limits) if self._excess is not None else None

    def _start(self, what: int, room: str, limits: dict[str, float], rpc: socket.socket | None) -> "Process":
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        order = zygote.ORDER.pack(what, 0, *(float(limits[name]) for name in zygote.LIMITS))
        handed = [theirs.fileno(), writing] + ([rpc.fileno()] if rpc is not None else [])
        try:
            socket.send_fds(self.control, [order], handed)
            pid = self._started_process(room)
        except BaseException:
            ours.close()
            os.close(reading)
            raise
        finally:
            theirs.close()
            os.close(writing)
        if rpc is not None:
            rpc.close()
        process = Process(self, pid, room, dict(limits), ours, reading)
        self._started.append(process)
        return process

    def _started_process(self, room: str) -> int:
        pid, error = zygote.STARTED.unpack(self._answer())
        if error:
            raise OSError(error, f"the zygote cannot start a {room}: {os.strerror(error)}")
        return int(pid)

    def _answer(self) -> bytes:
        answer = self.control.recv(64)
        if not answer:
            raise OSError("the zygote is gone")
        return answer


class Process:
    """One program, from the judge's side."""

    def __init__(
        self,
        processes: Processes,
        pid: int,
        room: str,
        limits: dict[str, float],
        channel: socket.socket,
        output: int,
    ) -> None:
        """Take what the start gave."""
        self.channel = channel
        self.output = output
        self._processes = processes
        self._pid = pid
        self._room = room
        self._limits = limits
        self._ending: Ending | None = None
        self._cpu_s = 0.0
        self._reason = ""

    def cpu_s(self) -> float:
        """Return the CPU seconds it used so far; kills it if it exceeds a limit that the kernel does not keep here."""
        if self._ending is not None:
            return self._ending.cpu_s
        with contextlib.suppress(OSError):  # between its end and the zygote's word of it
            self._cpu_s = time.clock_gettime((~self._pid << 3) | _PROCESS_CLOCK)
        reason = self._processes.exceeds(self._pid, self._room, self._limits)
        if reason:
            self._reason = reason
            self.kill()
        return self._cpu_s

    def kill(self) -> None:
        """End it and all it started, at once."""
        if self._ending is None:
            self._settle(self._processes.order(zygote.END, self._pid))

    def wait(self, seconds: float) -> Ending | None:
        """Return how it ended, or None if it still runs after that time; raises OSError if it never was confined."""
        if self._ending is None:
            self._settle(self._processes.order(zygote.WAIT, self._pid, seconds))
        return self._ending

    def _settle(self, answer: bytes) -> None:
        state, killed, code, ended_by, cpu_s, memory_mb = zygote.ENDED.unpack(answer)
        if state == zygote.NEVER_CONFINED:
            self._ending = Ending(code=None, signal=None, cpu_s=cpu_s, memory_mb=memory_mb, killed=bool(killed))
            raise NeverConfined(f"a {self._room} could not be confined")
        if state == zygote.OVER:
            self._ending = Ending(
                code=code if code >= 0 else None,
                signal=ended_by if ended_by >= 0 else None,
                cpu_s=cpu_s,
                memory_mb=memory_mb,
                killed=bool(killed),
                reason=self._reason,
            )
