"""Keeps an eye on the processes of a job while the judge waits: output, CPU time, wall time, and whether they live."""

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Mapping
from typing import Any

from llm_finetuning.sandbox.box import frames
from llm_finetuning.sandbox.box.hands import Child, Ending

MAX_OUTPUT = 8 * 1024 * 1024
_LOOK_S = 0.05  # between two looks at the clocks
_GRACE_S = 1.0  # for the kernel to tell how a process ended that is gone
_CHUNK = 65_536
_MEMORY_SHARE = 0.9  # of the limit: a process that died beyond it died of it


class Stopped(Exception):  # noqa: N818  it is what happened
    """The job ends here, with a status of `jobs.Status`."""

    def __init__(self, status: str, detail: str) -> None:
        """Take the status and what happened, in one line."""
        super().__init__(detail)
        self.status = status
        self.detail = detail


class Watched:
    """One process: what it writes, what it prints, and how it ended."""

    def __init__(self, child: Child, *, subject: str) -> None:
        """Take the process and what it is called in a detail."""
        self.child = child
        self.subject = subject
        self.incoming = frames.Incoming(child.channel)
        self.ending: Ending | None = None
        self.output_ended = False
        self._pieces: list[bytes] = []
        self._size = 0

    def drain(self) -> None:
        """Take what it printed; raises Stopped beyond eight MiB."""
        piece = b""
        with contextlib.suppress(OSError):
            piece = os.read(self.child.output, _CHUNK)
        self.output_ended = not piece
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > MAX_OUTPUT:
            raise Stopped("output_limit", f"{self.subject} printed more than {MAX_OUTPUT >> 20} MiB")

    def printed(self) -> bytes:
        """Return all that it printed so far."""
        return b"".join(self._pieces)

    def wait(self, seconds: float) -> Ending | None:
        """Return how it ended, if it did within that time."""
        if self.ending is None:
            self.ending = self.child.wait(seconds)
        return self.ending


class Supervision:
    """Waits for one process of a job and watches them all; every wait ends at a limit with `Stopped`."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        """Take the limits of the job; the wall clock starts."""
        self._limits = limits
        self._began = time.monotonic()
        self._looked = self._began
        self._all: list[Watched] = []
        self._poller = select.poll()
        self._outputs: dict[int, Watched] = {}
        self._channels: dict[int, Watched] = {}

    def watch(self, child: Child, *, subject: str) -> Watched:
        """Begin to watch a process."""
        watched = Watched(child, subject=subject)
        self._all.append(watched)
        self._outputs[child.output] = watched
        self._channels[child.channel.fileno()] = watched
        self._poller.register(child.output, select.POLLIN)
        self._poller.register(child.channel.fileno(), select.POLLIN)
        return watched

    def unwatch_channel(self, watched: Watched) -> None:
        """Leave the channel of a process to another."""
        descriptor = watched.child.channel.fileno()
        self._poller.unregister(descriptor)
        del self._channels[descriptor]

    def send(self, watched: Watched, value: Any) -> None:
        """Send a frame, however slowly it is read; what is printed meanwhile is taken."""
        data = memoryview(frames.pack(value))
        channel = watched.child.channel
        while data:
            try:
                data = data[channel.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                self._poller.modify(channel.fileno(), select.POLLIN | select.POLLOUT)
                self.step()
                self._poller.modify(channel.fileno(), select.POLLIN)
            except OSError:
                raise self.gone(watched) from None

    def receive(self, watched: Watched) -> Any:
        """Return the next frame; raises frames.Broken for what is none, Stopped if the process is gone."""
        while True:
            payload = watched.incoming.take()
            if payload is not None:
                return frames.unpack(payload)
            if watched.incoming.ended:
                raise self.gone(watched)
            self.step()

    def until_gone(self, watched: Watched) -> None:
        """Wait until a process ended and all that it printed is here."""
        while not (watched.output_ended and watched.incoming.ended):
            if self.step(quick=watched.output_ended or watched.incoming.ended) and watched.wait(0.0) is not None:
                break
        while watched.wait(_LOOK_S) is None:
            self._look()
        self._rest(watched)

    def step(self, *, quick: bool = False) -> bool:
        """Wait a little and take what came; return whether nothing did. Raises Stopped at a limit."""
        ready = self._poller.poll(2 if quick else _LOOK_S * 1000)
        for descriptor, _ in ready:
            if descriptor in self._outputs:
                self._take_output(descriptor)
            elif descriptor in self._channels:
                watched = self._channels[descriptor]
                watched.incoming.read()
                if watched.incoming.overfull():
                    raise Stopped("forgery", f"{watched.subject} wrote more than was asked")
                if watched.incoming.ended:
                    self._poller.unregister(descriptor)
                    del self._channels[descriptor]
        self._look()
        return not ready

    def gone(self, watched: Watched) -> Stopped:
        """Return why a process that left its channel is gone."""
        ending = watched.wait(_GRACE_S)
        with contextlib.suppress(Stopped):
            self._rest(watched)
        return why(ending, self._limits, watched.subject)

    def close(self) -> None:
        """End all processes that still run and let go of them."""
        for watched in self._all:
            if watched.ending is None:
                with contextlib.suppress(Stopped):
                    self._rest(watched)
                watched.child.kill()
                watched.wait(_GRACE_S * 5)
            watched.child.channel.close()
            with contextlib.suppress(OSError):
                os.close(watched.child.output)

    def _take_output(self, descriptor: int) -> None:
        watched = self._outputs[descriptor]
        watched.drain()
        if watched.output_ended:
            self._poller.unregister(descriptor)
            del self._outputs[descriptor]

    def _rest(self, watched: Watched) -> None:
        """Take what a process printed and nobody read yet."""
        descriptor = watched.child.output
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        while descriptor in self._outputs and poller.poll(0):
            self._take_output(descriptor)

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return
        self._looked = now
        for watched in self._all:
            if watched.ending is None and watched.child.cpu_s() > self._limits["cpu_s"]:
                raise Stopped("timeout", f"{watched.subject} used more than {self._limits['cpu_s']:g} s of CPU time")
        if now - self._began > self._limits["wall_s"]:
            raise Stopped("timeout", f"wall time: not done after {self._limits['wall_s']:g} s")


def why(ending: Ending | None, limits: Mapping[str, float], subject: str) -> Stopped:  # noqa: PLR0911  one for each kind
    """Return the status that an ending means."""
    if ending is None:
        return Stopped("error", f"{subject} closed its channel")
    if ending.reason:
        return Stopped("refused", f"{subject} {ending.reason}")
    if ending.signal is None:
        return Stopped("error", f"{subject} exited with status {ending.code} before the tests were through")
    name = signal.Signals(ending.signal).name if ending.signal in set(signal.Signals) else str(ending.signal)
    if ending.signal == signal.SIGSYS:
        return Stopped("refused", f"{subject} did what the sandbox does not allow")
    if ending.signal == signal.SIGXCPU or (ending.signal == signal.SIGKILL and ending.cpu_s >= limits["cpu_s"]):
        return Stopped("timeout", f"{subject} used more than {limits['cpu_s']:g} s of CPU time")
    if ending.memory_mb >= limits["memory_mb"] * _MEMORY_SHARE:
        return Stopped("memory", f"{subject} was ended by {name} with {ending.memory_mb:.0f} MiB in use")
    return Stopped("error", f"{subject} died of {name}")
