"""The private folder of each program: empty when it starts, limited in size, gone when it ends.

A folder is made anew only when the program before left a trace in it; most leave none.
"""

import contextlib
import os
import stat
from typing import Protocol

from llm_finetuning.sandbox.box import syscalls

ROOMS = ("candidate", "tester")
FILES = 512  # that a program may have at a time

_MIB = 1024 * 1024


class Rooms(Protocol):
    """The folders of one box, one for each kind of program; at most one program of a kind runs at a time."""

    def prepare(self, room: str, megabytes: int) -> None:
        """Have an empty folder ready; raises OSError."""
        ...

    def enter(self, room: str) -> None:
        """Make it the current folder of this process, which is the program."""
        ...

    def tidy(self, room: str) -> None:
        """Remove what the program that just ended left; an unknown room is left alone."""
        ...


class MountedRooms:
    """Memory file systems of limited size at /ROOM/work, in a mount namespace of the box's own."""

    def __init__(self, *, apart: bool) -> None:
        """Take whether Landlock is missing, so that only a mount namespace hides the tester's folder."""
        self._apart = apart
        self._megabytes: dict[str, int] = {}
        _make_home(_place(ROOMS[0]))

    def prepare(self, room: str, megabytes: int) -> None:
        """Mount the folder, unless the one that is there was never touched and has the right size."""
        if self._megabytes.get(room) == megabytes:
            return
        if room in self._megabytes:
            self._unmount(room)
        self._mount(room, megabytes)
        self._megabytes[room] = megabytes

    def enter(self, room: str) -> None:
        """Go there."""
        if self._apart and room == ROOMS[1]:
            syscalls.unshare(syscalls.CLONE_NEWNS)
            self._mount(room, self._megabytes[room])
        _go_to(room, _place(room))

    def tidy(self, room: str) -> None:
        """Take the folder away if anything was ever made in it."""
        if room in self._megabytes and not _untouched(_place(room)):
            self._unmount(room)

    def _unmount(self, room: str) -> None:
        syscalls.unmount(_place(room).encode())
        del self._megabytes[room]

    @staticmethod
    def _mount(room: str, megabytes: int) -> None:
        flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC | syscalls.MS_NOATIME
        options = f"size={megabytes}m,nr_inodes={FILES},mode=700".encode()
        syscalls.mount(b"tmpfs", _place(room).encode(), b"tmpfs", flags, options)
        _mark_untouched(_place(room))


class FolderRooms:
    """Plain folders on the host's disk, for a box without namespaces; the judge watches their size."""

    def __init__(self, base: str) -> None:
        """Take the folder that holds them; it belongs to this box alone."""
        self._base = base
        for room in ROOMS:
            os.mkdir(f"{base}/{room}", 0o700)  # noqa: PTH102  pathlib is not loaded in the box
            _mark_untouched(f"{base}/{room}")
        _make_home(f"{base}/{ROOMS[0]}")

    def prepare(self, room: str, megabytes: int) -> None:
        """Do nothing: tidying leaves an empty folder, and the size is watched from outside."""

    def enter(self, room: str) -> None:
        """Go there."""
        _go_to(room, f"{self._base}/{room}")

    def tidy(self, room: str) -> None:
        """Remove all that is in the folder."""
        path = f"{self._base}/{room}"
        if room and not _untouched(path):
            empty(path)
            _mark_untouched(path)


def used_megabytes(path: str) -> float:
    """Return what a folder tree takes on disk; more files than are allowed count as infinitely much."""
    total, files, waiting = 0, 0, [path]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                files += 1
                if files > FILES:
                    return float("inf")
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
    return total / _MIB


def empty(path: str) -> None:
    """Remove all that is in a folder, whatever its modes and however deep; what is left after that raises OSError.

    Nobody else works in it: the program that made it to last is gone. A tree deeper than a path may be long is taken
    up level by level into the folder itself.
    """
    for _ in range(2 * FILES * FILES):
        names = os.listdir(path)  # noqa: PTH208  pathlib is not loaded in the box
        if not names:
            return
        for name in names:
            _remove_or_flatten(path, name)
    raise OSError(f"{path}: cannot be emptied")


def _remove_or_flatten(path: str, name: str) -> None:
    """Remove a file, or move what a folder holds beside it and remove that folder."""
    there = f"{path}/{name}"
    if not stat.S_ISDIR(os.lstat(there).st_mode):
        os.unlink(there)  # noqa: PTH108
        return
    os.chmod(there, 0o700)  # noqa: PTH101  it may have been made unreadable
    for inner in os.listdir(there):  # noqa: PTH208
        # A name that nothing has, and that is short whatever the program's names are.
        os.rename(f"{there}/{inner}", f"{path}/{os.urandom(16).hex()}")  # noqa: PTH104
    os.rmdir(there)  # noqa: PTH106


def _place(room: str) -> str:
    return f"/{room}/work"


def _go_to(room: str, path: str) -> None:
    os.chdir(path)
    if room != ROOMS[0]:
        _make_home(path)


def _make_home(path: str) -> None:
    """Name the folder in the environment; done ahead for the candidate, of whom there are most."""
    os.environ["HOME"] = os.environ["TMPDIR"] = path


def _mark_untouched(path: str) -> None:
    # Any entry that is made or removed sets the time, and no program can set it back.
    os.utime(path, ns=(0, 0))


def _untouched(path: str) -> bool:
    return os.stat(path).st_mtime_ns == 0  # noqa: PTH116  pathlib is not loaded in the box
