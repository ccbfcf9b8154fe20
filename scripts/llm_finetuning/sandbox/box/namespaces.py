"""Namespaces of the box's own, and a root that holds the interpreter and nothing else.

user_namespaces(7), mount_namespaces(7), pid_namespaces(7). Nothing is executed in them; every process of the box is a
fork of the one that made them, so capabilities inside are given up and never come back.
"""

import contextlib
import os
import stat
from collections.abc import Sequence

from llm_finetuning.sandbox.box import syscalls

_INNER_USER = 1000
_FIRST_SPARE, _LAST_SPARE = 1000, (1 << 31) - 2
_NOT_WRITABLE = syscalls.MS_NOSUID | syscalls.MS_NODEV
_NEW = (
    syscalls.CLONE_NEWUSER
    | syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWPID
    | syscalls.CLONE_NEWNET
    | syscalls.CLONE_NEWIPC
    | syscalls.CLONE_NEWUTS
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


def enter(
    proc: int, visible: Sequence[tuple[str, str]], hidden: Sequence[str], rooms: Sequence[str], user: int | None
) -> None:
    """Leave every namespace of the host, behind a root that holds only `visible`; the next fork is process 1.

    `proc` is a descriptor of the host's `/proc`. `visible` are pairs of what is there on the host and where it is to be
    in the box; `hidden` are folders within them to be covered by empty ones; each of `rooms` gets a place for a folder
    at /ROOM/work. Root hands over an ordinary `user` to become: the kernel counts no processes of
    user 0. It builds the root first, since that user may not even reach the interpreter. Raises OSError.
    """
    if user is None:
        outside = os.geteuid(), os.getegid()
        syscalls.unshare(_NEW)
        _map_user(proc, *outside)
        _build_root(visible, hidden, rooms)
    else:
        syscalls.unshare(syscalls.CLONE_NEWNS)
        _build_root(visible, hidden, rooms)
        become(user)
        syscalls.unshare(_NEW)
        _map_user(proc, user, user)


def spare_user() -> int:
    """Return a user id that belongs to nobody, another one for each process that asks; raises OSError without any.

    So the kernel counts the box's processes apart, and its signals reach no other box.
    """
    most = min(_last_id("/proc/self/uid_map"), _last_id("/proc/self/gid_map"))
    if most < _FIRST_SPARE:
        raise OSError("this container maps no user ids but its own, so root cannot become an ordinary user")
    return most - os.getpid() % (most // 2)


def _last_id(path: str) -> int:
    with open(path, encoding="ascii") as file:  # noqa: PTH123  pathlib is not loaded in the box
        ranges = [(int(first), int(count)) for first, _, count in map(str.split, file)]
    return min(max(first + count for first, count in ranges) - 2, _LAST_SPARE)


def become(user: int) -> None:
    """Give up root for an ordinary user id, its real one too."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)  # or its own entries in /proc stay root's


def _map_user(proc: int, user: int, group: int) -> None:
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{_INNER_USER} {user} 1"),
        ("gid_map", f"{_INNER_USER} {group} 1"),
    ):
        file = os.open(f"self/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)


def _build_root(visible: Sequence[tuple[str, str]], hidden: Sequence[str], rooms: Sequence[str]) -> None:
    """Make a small memory file system the root, with read-only views of what is visible."""
    syscalls.mount(b"none", b"/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    # Copies are taken before the new root covers a folder that they may lie in.
    copies = [(syscalls.detached_copy(there), here) for there, here in visible]
    devices = [(syscalls.detached_copy(path), path) for path in _DEVICES if os.path.exists(path)]  # noqa: PTH110
    syscalls.mount(b"tmpfs", b"/tmp", b"tmpfs", _NOT_WRITABLE, b"size=1m,nr_inodes=8192,mode=755")
    os.chdir("/tmp")  # noqa: S108  it is the new root from here on
    for copy, here in copies + devices:
        _place(copy, here)
    for path in hidden:
        with contextlib.suppress(FileNotFoundError):
            syscalls.mount(b"tmpfs", _inside(path).encode(), b"tmpfs", _NOT_WRITABLE | syscalls.MS_RDONLY, b"size=4k")
    for room in rooms:
        os.makedirs(f"{room}/work")  # noqa: PTH103
    syscalls.pivot_root()
    syscalls.mount(None, b"/", None, syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY | _NOT_WRITABLE)


def _place(copy: int, here: str) -> None:
    target = _inside(here)
    if stat.S_ISDIR(os.fstat(copy).st_mode):
        os.makedirs(target, exist_ok=True)  # noqa: PTH103
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o444))
    syscalls.place(copy, target)


def _inside(path: str) -> str:
    return path.lstrip("/")
