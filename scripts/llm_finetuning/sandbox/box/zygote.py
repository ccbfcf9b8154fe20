"""The worker that programs are forked from: warm, confined, and without any data of any job, ever.

It takes orders from the judge over a socket that keeps messages apart, each with the descriptors that the new process
gets, and hands them on without reading from them.
"""

import gc
import importlib
import mmap
import os
import random
import select
import signal
import socket
import struct
import time
import traceback
from dataclasses import dataclass, field
from typing import NoReturn

from llm_finetuning.sandbox.box import candidate, frames, limits, probe, rehearsal, seccomp, syscalls, tester
from llm_finetuning.sandbox.box.rooms import ROOMS, Rooms

CANDIDATE, TESTER, PROBE, END, WAIT = 1, 2, 3, 4, 5
ORDER = struct.Struct("=Bi6d")  # what, the process it is about, and six numbers
LIMITS = ("cpu_s", "wall_s", "memory_mb", "output_kb", "files_mb", "threads")
STARTED = struct.Struct("=ii")  # process id, error number
ENDED = struct.Struct("=BBiidd")  # state, killed, exit code or -1, signal or -1, CPU seconds, MiB
RUNNING, OVER, NEVER_CONFINED = 0, 1, 2

CHANNEL, RPC = 3, 4  # the descriptors of a program, beside the standard three
_FIRST_FREE = 5
_ROOM = {CANDIDATE: "candidate", PROBE: "candidate", TESTER: "tester"}
_MARK = {room: place for place, room in enumerate(ROOMS)}
_FAILED = 70  # exit status of a process that could not be confined; the mark in shared memory is what counts


@dataclass(slots=True)
class Confinement:
    """What every program of this box is put under, prepared ahead."""

    rooms: Rooms
    rules: dict[str, int]  # descriptor of the Landlock rule set by room; empty where there is none
    filter: seccomp.Filter | None  # the inner one; None where the machine has no seccomp
    own_namespace: bool  # a pid namespace a program, so that it is process 1
    count_threads: bool
    address_space: int
    room_of: dict[int, str] = field(default_factory=dict)  # by process id


def warm(modules: list[str]) -> None:
    """Make ready what every program uses: its standard streams, and those of the modules that are there."""
    candidate.make_streams()
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError:  # a package need not be installed, and a module may be missing from a small interpreter
            continue


def serve(control: socket.socket, confinement: Confinement) -> NoReturn:
    """Carry out orders until the judge goes."""
    marks = mmap.mmap(-1, mmap.PAGESIZE)
    own = syscalls.process_descriptor(os.getpid()) if confinement.own_namespace else -1
    if confinement.filter is not None:
        confinement.filter.name(1)  # of a program in a namespace of its own; without one each has another
    rehearsed = False
    _settle()
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, ORDER.size, 3)
        if not message:
            os._exit(0)
        what, pid, *numbers = ORDER.unpack(message)
        if what == END:
            control.send(_end(confinement, marks, pid))
            room = confinement.room_of.pop(pid, "")
            confinement.rooms.tidy(room)
            if not rehearsed and room == _ROOM[TESTER]:  # a box that only compares calls has no use for it
                rehearsal.rehearse()
                rehearsed = True
                _settle()
        elif what == WAIT:
            answer = _wait(confinement, marks, pid, numbers[0])
            control.send(answer)
            if answer[0] != RUNNING:
                confinement.rooms.tidy(confinement.room_of.pop(pid, ""))
        else:
            control.send(_start(confinement, marks, own, what, dict(zip(LIMITS, numbers, strict=True)), descriptors))


def _settle() -> None:
    """Have the collector leave alone what is there: looking at it would copy the memory that it is in."""
    gc.collect()
    gc.freeze()
    gc.disable()


def _start(
    confinement: Confinement,
    marks: mmap.mmap,
    own: int,
    what: int,
    bounds: dict[str, float],
    descriptors: list[int],
) -> bytes:
    room = _ROOM[what]
    try:
        if room in confinement.room_of.values():
            return STARTED.pack(0, 16)  # EBUSY: the one before was never waited for
        confinement.rooms.prepare(room, int(bounds["files_mb"]))
        marks[_MARK[room]] = 0
        planned = limits.plan(bounds, address_space=confinement.address_space, count_threads=confinement.count_threads)
        parent = os.getpid()
        if own >= 0:
            syscalls.unshare(syscalls.CLONE_NEWPID)
        try:
            pid = syscalls.fork()
            if not pid:
                _become(confinement, marks, parent, what, planned, descriptors)
        finally:
            if own >= 0:
                syscalls.set_namespace(own, syscalls.CLONE_NEWPID)
    except OSError as error:
        return STARTED.pack(0, error.errno or 5)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    confinement.room_of[pid] = room
    return STARTED.pack(pid, 0)


def _become(
    confinement: Confinement,
    marks: mmap.mmap,
    parent: int,
    what: int,
    planned: list[tuple[int, tuple[int, int]]],
    descriptors: list[int],
) -> NoReturn:
    """Turn this fork into a program: descriptors, limits, room, Landlock, capabilities, seccomp; then serve."""
    status = _FAILED
    try:
        room = _ROOM[what]
        channel, output, *rest = descriptors  # none below the first free one: the zygote keeps those taken
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(channel, CHANNEL)
        if rest:
            os.dup2(rest[0], RPC)
        confinement.rooms.enter(room)
        if room in confinement.rules:
            syscalls.call("landlock_restrict_self", confinement.rules[room], 0)
        syscalls.close_from(RPC + 1 if rest else RPC)
        limits.apply(planned)
        syscalls.drop_capabilities()
        if not confinement.own_namespace:
            syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(_FAILED)
        if confinement.filter is not None:
            if not confinement.own_namespace:
                confinement.filter.name(os.getpid())
            confinement.filter.install()
        marks[_MARK[room]] = 1
        marks.close()  # unmapped before a line of the program runs, so that it cannot take the mark back
        random.seed()
        gc.enable()
        _serve(what)
        status = 0
    except BaseException:  # noqa: BLE001  nothing may unwind into the zygote's own loop
        traceback.print_exc()
    finally:
        os._exit(status)


def _serve(what: int) -> None:
    channel = socket.socket(fileno=CHANNEL)
    if what == CANDIDATE:
        candidate.serve(channel)
    elif what == TESTER:
        tester.serve(channel, socket.socket(fileno=RPC))
    else:
        frames.send(channel, probe.attempt(frames.receive(channel)))


def _end(confinement: Confinement, marks: mmap.mmap, pid: int) -> bytes:
    """Kill a program, all of it, and tell how it ended; one that had ended by itself is told as such."""
    if pid not in confinement.room_of:
        return ENDED.pack(NEVER_CONFINED, 0, -1, -1, 0.0, 0.0)
    reaped, status, usage = os.wait4(pid, os.WNOHANG)
    killed = not reaped
    if killed:
        os.kill(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL  # or it ended by itself just now
    confined = killed or bool(marks[_MARK[confinement.room_of[pid]]])
    return _ending(OVER if confined else NEVER_CONFINED, status, usage, killed=killed)


def _wait(confinement: Confinement, marks: mmap.mmap, pid: int, seconds: float) -> bytes:
    if pid not in confinement.room_of:
        return ENDED.pack(NEVER_CONFINED, 0, -1, -1, 0.0, 0.0)
    reaped, status, usage = os.wait4(pid, os.WNOHANG)
    if not reaped and seconds > 0:
        _sleep_until_over(pid, seconds)
        reaped, status, usage = os.wait4(pid, os.WNOHANG)
    if not reaped:
        return ENDED.pack(RUNNING, 0, -1, -1, 0.0, 0.0)
    return _ending(OVER if marks[_MARK[confinement.room_of[pid]]] else NEVER_CONFINED, status, usage, killed=False)


def _sleep_until_over(pid: int, seconds: float) -> None:
    try:
        descriptor = syscalls.process_descriptor(pid)
    except OSError:  # before Linux 5.3
        until = time.monotonic() + seconds
        while time.monotonic() < until and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            time.sleep(0.001)
        return
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        poller.poll(seconds * 1000)
    finally:
        os.close(descriptor)


def _ending(state: int, status: int, usage: object, *, killed: bool) -> bytes:
    code = os.waitstatus_to_exitcode(status)
    cpu_s = usage.ru_utime + usage.ru_stime  # type: ignore[attr-defined]
    return ENDED.pack(
        state,
        killed,
        code if code >= 0 else -1,
        -code if code < 0 else -1,
        cpu_s,
        usage.ru_maxrss / 1024,  # type: ignore[attr-defined]
    )
