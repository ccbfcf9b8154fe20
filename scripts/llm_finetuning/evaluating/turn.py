"""One evaluation of a name at a time."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from llm_finetuning.errors import Refusal


@contextlib.contextmanager
def turn(path: Path, *, needed: bool) -> Iterator[None]:
    """Hold the only turn at an evaluation from its first completion to its file; refuses while another process has it.

    Where it is not `needed`, since nothing will be written, nothing is held.

    Scoring takes long too, and two that end together would write one file twice. The lock is a process's own, so that
    what a reward started and left behind does not hold it, and a kill lets it go.
    """
    if not needed:
        yield
        return
    lock = _lock_of(path)
    stream = _held(lock, path)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)  # while it is held: who waits for a removed file finds out and makes another
        os.close(stream)


def is_taken(path: Path) -> bool:
    """Tell whether another process has the turn at an evaluation now, and leave its lock alone."""
    try:
        with _lock_of(path).open("rb") as stream:
            fcntl.lockf(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _lock_of(path: Path) -> Path:
    return path.with_name(f".{path.stem}.lock")


def _held(lock: Path, path: Path) -> int:
    while True:
        try:
            lock.parent.mkdir(exist_ok=True)
            stream = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            words = (error.strerror or str(error)).lower()
            raise Refusal(f"{lock.parent}: {words}; check the folder and its permissions") from None
        try:
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(stream)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                words = "another `evaluate` is making it; wait for it, or give this one another --name"
                raise Refusal(f"{path}: {words}") from None
            words = (error.strerror or str(error)).lower()
            raise Refusal(f"{lock}: cannot be locked ({words}); put the run on a file system that has locks") from None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(stream), lock.stat()):
                return stream
        os.close(stream)  # it was removed between the two steps by whoever held it
