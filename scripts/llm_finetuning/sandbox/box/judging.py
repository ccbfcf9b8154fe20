"""The box's first process: it makes the zygote, tests that the box holds, and judges jobs until the host goes."""

import contextlib
import fcntl
import os
import signal
import socket
import sys
import time
import traceback
from dataclasses import replace
from typing import Any, NoReturn

from llm_finetuning.sandbox.box import candidate, frames, judge, limits, rooms, seccomp, syscalls, zygote
from llm_finetuning.sandbox.box.processes import READY, Excess, Processes
from llm_finetuning.sandbox.box.setup import Setup

_PROBE_S = 60.0
_PROBE_LIMITS = {
    "cpu_s": 5.0, "wall_s": 20.0, "memory_mb": 256.0, "output_kb": 64.0, "files_mb": 16.0, "threads": 8.0,
}  # fmt: skip
_HIGH = 16  # descriptors from here up are the zygote's own; what is handed to programs comes in below


def be(host: socket.socket, setup: Setup, keeper: int, proc: int, *, count_threads: bool) -> NoReturn:
    """Judge jobs from the host's socket; `proc` is a descriptor of the host's `/proc`.

    `count_threads` says whether the kernel counts the box's processes apart from all others.
    """
    try:
        _die_with(keeper, setup)
        plain, loaded = _prepare(host, setup, proc, count_threads=count_threads)
        fault = _probe(plain, setup)
        frames.send(host, {"fault": fault} if fault else {"ready": True})
        words = [*setup.packages, *candidate.SLOW_MODULES]
        while not fault:
            job = frames.receive(host)
            hands = loaded if _mentions(job, words) else plain
            outcome = _judged(job, hands)
            hands.end_all()
            if outcome["status"] == "infrastructure":
                hands.check_alive()
            frames.send(host, outcome)
    except frames.Broken:  # the host is gone
        pass
    except BaseException as error:  # noqa: BLE001  the host is told, and ends the box
        text = str(error) if isinstance(error, OSError) else "".join(traceback.format_exception(error))
        with contextlib.suppress(frames.Broken):
            frames.send(host, {"fault": text})
    finally:
        os._exit(0)


def _mentions(job: dict[str, Any], words: list[str]) -> bool:
    """Say whether a job seems to use what is slow to load; one that hides it only loads it itself."""
    calls = [call["text"] for call in job.get("calls", ())]
    return any(name in text for text in (job["code"], job.get("source", ""), *calls) for name in words)


def _judged(job: dict[str, Any], hands: Processes) -> dict[str, Any]:
    try:
        hands.await_ready()
        return judge.judge(job, hands)
    except OSError as error:
        return {"status": "infrastructure", "passed": 0, "total": 0, "detail": f"the box: {error}"}


def _die_with(parent: int, setup: Setup) -> None:
    """Have the kernel end this process when its parent ends."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != (0 if setup.has_namespaces and os.getpid() == 1 else parent):
        os._exit(1)


def _prepare(host: socket.socket, setup: Setup, proc: int, *, count_threads: bool) -> tuple[Processes, Processes]:
    """Start the zygotes and confine this process; raises OSError.

    Forking takes the longer the more is loaded, and few programs use a package or a large module: those have a zygote
    of their own, which loads them when the first such program comes. Its rooms are its own too.
    """
    sys.path[:], sys.argv[:] = setup.path, [""]
    sys.dont_write_bytecode = True
    plain = _start_zygote([host], replace(setup, packages=[]), proc, count_threads=count_threads, asleep=False)
    loaded = plain
    if setup.packages:
        more = [*candidate.PRELOAD_IF_MENTIONED, *setup.packages]
        apart = replace(setup, packages=more, folder=_folder_within(setup.folder))
        loaded = _start_zygote([host, plain.control], apart, proc, count_threads=count_threads, asleep=True)
    os.close(proc)
    rules = setup.judge_rules()
    syscalls.drop_capabilities()
    _die_with(os.getppid(), setup)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    plain.await_ready()
    if rules is not None:
        syscalls.call("landlock_restrict_self", rules, 0)
    _install_outer(setup)
    return plain, loaded


def _folder_within(folder: str) -> str:
    if folder:
        folder += "/loaded"
        os.mkdir(folder, 0o700)  # noqa: PTH102  pathlib is not loaded in the box
    return folder


def _start_zygote(
    not_its: list[socket.socket], setup: Setup, proc: int, *, count_threads: bool, asleep: bool
) -> Processes:
    """Fork a zygote, which closes what is not its own, and return what orders processes from it.

    One that is `asleep` loads nothing before it is needed.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own = os.getpid()
    if not os.fork():
        for other in (*not_its, ours):
            other.close()
        if asleep:
            syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
            if not theirs.recv(1):
                os._exit(0)
        _be_zygote(theirs, setup, own, proc, count_threads=count_threads)
    theirs.close()
    return Processes(ours, None if setup.has_namespaces else _excess(setup), asleep=asleep)


def _be_zygote(control: socket.socket, setup: Setup, judge_id: int, proc: int, *, count_threads: bool) -> NoReturn:
    try:
        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != judge_id:
            os._exit(1)
        control, confinement = _warm_up(control, setup, proc, count_threads=count_threads)
        control.send(READY)
        zygote.serve(control, confinement)
    except BaseException as error:  # noqa: BLE001  the judge is told, and ends the box
        text = str(error) if isinstance(error, OSError) else "".join(traceback.format_exception(error))
        control.send(text.encode()[-60_000:])
    finally:
        os._exit(1)


def _warm_up(
    control: socket.socket, setup: Setup, proc: int, *, count_threads: bool
) -> tuple[socket.socket, zygote.Confinement]:
    """Load what programs use and prepare their confinement; raises OSError."""
    if setup.has_namespaces:
        syscalls.unshare(syscalls.CLONE_NEWNS)  # two zygotes have different rooms in the same places
    zygote.warm([*candidate.PRELOAD, *setup.packages])
    limits.prepare()
    address_space = limits.mapped_bytes(proc)
    os.close(proc)
    plain = None if setup.has_namespaces else rooms.FolderRooms(setup.folder)  # made before a rule can name them
    rules = setup.landlock_rules()
    folders: rooms.Rooms = plain or rooms.MountedRooms(apart=not rules)
    for room in rooms.ROOMS:
        folders.prepare(room, int(_PROBE_LIMITS["files_mb"]))
    control, rules = _move_up(control, rules)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    inner = seccomp.Filter(seccomp.inner()) if _install_outer(setup) else None
    return control, zygote.Confinement(
        rooms=folders,
        rules=rules,
        filter=inner,
        own_namespace=setup.has_namespaces,
        count_threads=count_threads,
        address_space=address_space,
    )


def _move_up(control: socket.socket, rules: dict[str, int]) -> tuple[socket.socket, dict[str, int]]:
    """Move this process's own descriptors out of the way of those that are handed to programs."""
    moved = socket.socket(fileno=fcntl.fcntl(control.detach(), fcntl.F_DUPFD_CLOEXEC, _HIGH))
    high = {room: fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGH) for room, descriptor in rules.items()}
    syscalls.call("close_range", 3, _HIGH - 1, 0)
    nothing = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2, zygote.CHANNEL, zygote.RPC):
        if descriptor != nothing:
            os.dup2(nothing, descriptor)
    if nothing > zygote.RPC:
        os.close(nothing)
    return moved, high


def _install_outer(setup: Setup) -> bool:
    """Put this process under the outer filter; false where a declared boundary has to do without seccomp."""
    try:
        seccomp.Filter(seccomp.outer()).install()
    except OSError as error:
        if setup.level == "declared":
            return False
        raise OSError(f"seccomp is not available: {error}") from error
    return True


def _probe(hands: Processes, setup: Setup) -> str:
    """Return what is wrong with the confinement of this box, after trying it; empty if it holds."""
    process = hands.probe(_PROBE_LIMITS)
    deadline = time.monotonic() + _PROBE_S
    try:
        frames.send(process.channel, setup.probe, deadline)
        found = frames.receive(process.channel, deadline)
    except (frames.Broken, frames.Late) as error:
        printed = os.read(process.output, 4096).decode("utf-8", "replace").strip()
        return f"the confined test program did not answer ({error}): {printed.splitlines()[-1:] or 'it said nothing'}"
    finally:
        hands.end_all()
        os.close(process.output)
    if found["broken"]:
        return f"an honest program fails inside: {'; '.join(found['broken'])}"
    if found["open"] and setup.level != "declared":
        return f"not refused inside: {', '.join(found['open'])}"
    return ""


def _excess(setup: Setup) -> Excess:
    """Return what watches the limits that the kernel does not keep without namespaces."""

    def exceeds(pid: int, room: str, bounds: dict[str, float]) -> str | None:
        if rooms.used_megabytes(f"{setup.folder}/{room}") > bounds["files_mb"]:
            return f"wrote more than {bounds['files_mb']:g} MiB or {rooms.FILES} files"
        if _threads(pid) > bounds["threads"] + 1:
            return f"started more than {bounds['threads']:g} threads"
        return None

    return exceeds


def _threads(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  pathlib is not loaded in the box
            return int(file.read().rpartition(b")")[2].split()[17])
    except (OSError, ValueError, IndexError):  # it has just ended
        return 0
