"""The few system calls that Python 3.10 does not offer, by `ctypes`; each raises OSError with the kernel's reason."""

import ctypes
import os
import struct
from typing import Any

from llm_finetuning.sandbox.box.numbers import numbers

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_NOATIME, MS_BIND, MS_REC, MS_PRIVATE = (
    1, 2, 4, 8, 32, 1024, 4096, 16384, 1 << 18,
)  # fmt: skip
MNT_DETACH = 2

MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID = 1, 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38

_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
_LINUX_CAPABILITY_VERSION_3 = 0x2008_0522

_LIBC = ctypes.CDLL(None, use_errno=True)
_SYSCALL = _LIBC.syscall
_FORK = ctypes.PyDLL(None, use_errno=True).fork  # which keeps the interpreter's lock
_SYSCALL.restype = ctypes.c_long
_NUMBERS = numbers()
# Kept ready, for dropping them is done once a program.
_CAP_HEADER = ctypes.create_string_buffer(struct.pack("=Ii", _LINUX_CAPABILITY_VERSION_3, 0), 8)
_NO_CAPABILITIES = ctypes.create_string_buffer(24)


def call(name: str, *arguments: Any) -> int:
    """Make a system call; integers go in as 64 bits, bytes as pointers. Raises OSError, also where it does not exist.

    A number that this machine lacks is told as ENOSYS.
    """
    ready = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    result = int(_SYSCALL(ctypes.c_long(_NUMBERS.get(name, -1)), *ready))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
    return result


def fork() -> int:
    """Fork a process of one thread without the interpreter's own hooks, and return as `os.fork` does.

    Those make locks anew that other threads might hold, and write to two hundred pages of memory, each of which is then
    copied. With one thread nobody holds a lock; the seed of `random` is the caller's to renew.
    """
    pid = int(_FORK())
    if pid < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"fork: {os.strerror(error)}")
    return pid


def unshare(flags: int) -> None:
    """Change the namespaces that `flags` name for new ones."""
    call("unshare", flags)


def set_namespace(descriptor: int, kind: int) -> None:
    """Enter the namespace that a descriptor stands for."""
    call("setns", descriptor, kind)


def mount(source: bytes | None, target: bytes, kind: bytes | None, flags: int, options: bytes | None = None) -> None:
    """Make or change a mount; the manual of the call says what the flags mean."""
    call("mount", source, target, kind, flags, options)


def unmount(target: bytes) -> None:
    """Take a mount away at once; what is still open in it lives until it is closed."""
    call("umount2", target, MNT_DETACH)


def pivot_root() -> None:
    """Make the current folder, a mount, the root, and take the old root away."""
    call("pivot_root", b".", b".")
    unmount(b".")
    os.chdir("/")


def detached_copy(path: str) -> int:
    """Return a descriptor of a read-only copy of a file or a folder tree, to be placed with `place`."""
    tree = call("open_tree", _AT_FDCWD, os.fsencode(path), _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC)
    try:
        attributes = struct.pack("=QQQQ", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, 0, 0, 0)
        call("mount_setattr", tree, b"", _AT_EMPTY_PATH | _AT_RECURSIVE, attributes, len(attributes))
    except OSError:
        os.close(tree)
        raise
    return tree


def place(tree: int, target: str) -> None:
    """Mount a detached copy on a path and close it."""
    try:
        call("move_mount", tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
    finally:
        os.close(tree)


def prctl(option: int, *arguments: Any) -> None:
    """Set a property of this process; the constants above are the options."""
    call("prctl", option, *arguments, *[0] * (4 - len(arguments)))


def drop_capabilities() -> None:
    """Give up every capability for good; nothing is executed later that could bring one back."""
    call("capset", _CAP_HEADER, _NO_CAPABILITIES)


def close_from(first: int) -> None:
    """Close every descriptor from `first` up."""
    try:
        call("close_range", first, 0xFFFF_FFFF, 0)
    except OSError:  # before Linux 5.9
        os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def process_descriptor(pid: int) -> int:
    """Return a descriptor that becomes readable when the process ends."""
    return call("pidfd_open", pid, 0)
