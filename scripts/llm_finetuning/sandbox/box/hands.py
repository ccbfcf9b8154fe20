"""What the judge asks of the level that the box runs at: confined processes, and how they ended."""

import socket
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Ending:
    """How a confined process ended, as the kernel told it."""

    code: int | None  # exit status; None if a signal ended it
    signal: int | None
    cpu_s: float
    memory_mb: float  # the largest resident size
    killed: bool = False  # by the judge
    reason: str = ""  # the limit that it broke, where the level watches one that the kernel does not keep


class Child(Protocol):
    """A confined process that was started for one job and dies with it."""

    channel: socket.socket  # the judge's end of the stream socket that the process was given
    output: int  # the judge's end of the pipe that is its standard output and error

    def cpu_s(self) -> float:
        """Return the CPU seconds it used so far, threads included."""
        ...

    def kill(self) -> None:
        """End it and all it started, at once."""
        ...

    def wait(self, seconds: float) -> Ending | None:
        """Return how it ended, or None if it still runs after that time.

        Raises OSError if the process never got as far as being confined, which is the machine's fault.
        """
        ...


class Hands(Protocol):
    """How the judge gets its processes; each level of isolation has its own."""

    def candidate(self, limits: dict[str, float]) -> Child:
        """Start a process that will run model-written code: `candidate.serve(channel)` after all confinement.

        It is forked from a worker that never held data of a job. `limits` are the fields of `jobs.Limits`. Raises
        OSError if the machine cannot start one, which is never the candidate's fault.
        """
        ...

    def tester(self, limits: dict[str, float], rpc: socket.socket) -> Child:
        """Start a process that will run the dataset's test code: `tester.serve(channel, rpc)` after confinement.

        It shares nothing with the candidate but `rpc`, the judge's end of the candidate's channel, which it takes over.
        """
        ...
