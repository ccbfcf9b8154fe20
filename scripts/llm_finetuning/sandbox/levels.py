"""How far model-written code is kept from this machine: levels of isolation, strongest first, and which one there is.

A level is taken only after a box of it was started and a confined program inside failed to break out; below the last
one nothing runs at all.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Level:
    """One way to confine a program, and what it promises."""

    name: str
    guarantees: str
    boundary: str = ""  # the outside boundary that was named; only for `declared`


class NoLevel(Exception):  # noqa: N818  it is what the machine has
    """This machine offers no level; the text says for each why, and what would mend it."""


_ALWAYS = (
    "A program cannot start processes or programs, open network connections or sockets, signal or read another "
    "process, or gain rights (seccomp). CPU time, memory, file size, open files and output are limited."
)

LEVELS: Mapping[str, Level] = {
    level.name: level
    for level in (
        Level(
            "namespaces",
            "A program sees the Python standard library, the allowed packages and an empty folder of its own in "
            "memory; the host's files, processes, network, users and environment do not exist for it. Threads, and "
            "the size and number of its files, are limited by the kernel. All that it started dies with it. " + _ALWAYS,
        ),
        Level(
            "landlock",
            "A program can open the Python standard library, the allowed packages and an empty folder of its own; the "
            "host's other files cannot be opened, but that they exist, their size and times can be seen. The size and "
            "number of its files, and its threads, are watched and not limited by the kernel: what it keeps open after "
            "deleting it is found only when it ends. " + _ALWAYS,
        ),
        Level(
            "declared",
            "The boundary is the one that the caller named; within it a program can read what the calling user can, "
            "and two programs of one machine can reach each other's files. CPU time, memory, file size and output are "
            "limited, and the calls that seccomp can refuse are refused.",
        ),
    )
}

_MEND = {
    "namespaces": "allow this user to make user namespaces (sysctl user.max_user_namespaces, "
    "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns), or give a container SYS_ADMIN; "
    "needs Linux 5.12",
    "landlock": "boot a kernel with Landlock (Linux 5.13, `landlock` in the `lsm=` list) and let the container's "
    "seccomp profile pass its calls (Docker does since 23.0)",
    "declared": "name an outside boundary that was made for running such code, for example "
    "boundary='docker: a container without network and secrets'",
}

_tried: dict[str, str] = {}  # level to the reason why it is not available here; empty for one that is


def choose(wanted: str | None = None, boundary: str | None = None) -> Level:
    """Return the strongest level that holds on this machine, or the wanted one if it does.

    `boundary` names an outside boundary, in words that a reader of the report understands; only with it may the level
    be `declared`. What was found out is kept for the life of the process. Raises NoLevel, and ValueError for a name
    that is no level.
    """
    if wanted is not None and wanted not in LEVELS:
        raise ValueError(f"no isolation level {wanted!r}; there are {', '.join(LEVELS)}")
    reasons = {}
    for name in [wanted] if wanted is not None else list(LEVELS):
        reason = _why_not(name, boundary)
        if not reason:
            return replace(LEVELS[name], boundary=boundary or "") if name == "declared" else LEVELS[name]
        reasons[name] = reason
    raise NoLevel(
        "model-written code cannot be isolated on this machine. "
        + " ".join(f"{name}: {reason} (to mend: {_MEND[name]})." for name, reason in reasons.items())
    )


def _why_not(name: str, boundary: str | None) -> str:
    if sys.platform != "linux":
        return f"needs Linux, and this is {sys.platform}; run in a Linux virtual machine or container"
    if name == "declared" and not (boundary or "").strip():
        return "no outside boundary is named"
    if name not in _tried:
        from llm_finetuning.sandbox.worker import Worker, WorkerFailure

        try:
            Worker(LEVELS[name], packages=()).close()
            _tried[name] = ""
        except WorkerFailure as failure:
            _tried[name] = str(failure)
    return _tried[name]
