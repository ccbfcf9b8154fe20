"""What a confined process tries when a box starts: everything must be refused but one honest program."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

_OUTSIDE = ("/etc/passwd", "/etc/hostname", "/proc/self/environ", "/proc/1/environ", "/proc/self/mem", "/sys/kernel")


def attempt(target: dict[str, Any]) -> dict[str, list[str]]:
    """Return what could be done that should not be (`open`), and what could not be done that should be (`broken`).

    `target` has `files`, real files of the host, `folders`, each with the name of a file that is really in it, and
    `pid`, a process outside.
    """
    attempts: dict[str, Callable[[], object]] = {
        "fork": _fork,
        "exec": _exec,
        "socket": lambda: socket.socket(socket.AF_INET).close(),
        "a unix socket": lambda: socket.socket(socket.AF_UNIX).close(),
        "a signal to the trainer": lambda: os.kill(target["pid"], 0),
        "a signal to its group": lambda: os.kill(0, 0),
        "a signal to the parent": lambda: os.kill(os.getppid() or 1_000_000, 0),
        "writing outside": lambda: _write("/tmp/probe"),  # noqa: S108
        "writing beside": lambda: _write("../probe"),
        "a link out": lambda: os.link(target["files"][0], "link"),
    }
    for path in (*_OUTSIDE, *target["files"]):
        attempts[f"reading {path}"] = lambda path=path: _read(path)  # type: ignore[misc]
    for path in target["files"]:
        attempts[f"writing {path}"] = lambda path=path: os.close(os.open(path, os.O_WRONLY))  # type: ignore[misc]
    for path, name in target["folders"]:
        attempts[f"listing {path}"] = lambda path=path, name=name: _list(path, name)  # type: ignore[misc]
    broken = []
    try:
        _honest()
    except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
        broken.append(f"{type(error).__name__}: {error}")
    return {"open": [name for name, act in attempts.items() if _succeeds(act)], "broken": broken}


def _succeeds(act: Callable[[], object]) -> bool:
    try:
        act()
    except OSError:
        return False
    return True


def _fork() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    with contextlib.suppress(OSError):
        os.kill(child, signal.SIGKILL)


def _exec() -> None:
    """Find out whether a program could be started, without starting one."""
    try:
        os.execv("/no/such/program", ["program"])  # noqa: S606  it must fail
    except FileNotFoundError:
        return


def _list(path: str, name: str) -> None:
    """Look for a file in a folder; the way to the interpreter may lie in one that is empty otherwise."""
    if name not in os.listdir(path):  # noqa: PTH208  pathlib is not loaded in the box
        raise FileNotFoundError(path)


def _read(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.read(file, 1)
    finally:
        os.close(file)


def _write(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))


def _honest() -> None:
    """Do what programs do: a private file, a thread, a folder."""
    with open("probe", "w+", encoding="utf-8") as file:  # noqa: PTH123  pathlib is not loaded in the box
        file.write("kept")
        file.seek(0)
        if file.read() != "kept":
            raise ValueError("a file did not keep what was written")
    os.rename("probe", "renamed")  # noqa: PTH104
    os.unlink("renamed")  # noqa: PTH108
    os.mkdir("folder")  # noqa: PTH102
    os.rmdir("folder")  # noqa: PTH106
    answers: list[int] = []
    thread = threading.Thread(target=answers.append, args=(6 * 7,))
    thread.start()
    thread.join()
    if answers != [42]:
        raise ValueError("a thread did not run")
