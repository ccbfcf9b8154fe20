"""The limits of one program, as the kernel keeps them."""

import math
import os
import resource

_MIB = 1024 * 1024
_OPEN_FILES = 64
_STACK = 64 * _MIB  # what deep recursion needs; the same on every machine
_OTHERS = 4  # processes of the box that count with the program's threads


def plan(limits: dict[str, float], *, address_space: int, count_threads: bool) -> list[tuple[int, tuple[int, int]]]:
    """Return what `apply` is to set, worked out before the fork.

    `limits` are the fields of `jobs.Limits`; `address_space` is what the bare worker maps already, in bytes, for a
    program's memory counts from there. CPU time is only a backstop here: the judge, which polls it, comes first.
    `count_threads` is false where the kernel would count the processes of the user's whole machine.
    """
    most = {
        resource.RLIMIT_CPU: math.ceil(limits["cpu_s"]) + 1,
        resource.RLIMIT_AS: address_space + int(limits["memory_mb"] * _MIB),
        resource.RLIMIT_FSIZE: int(limits["files_mb"] * _MIB),
    }
    if count_threads:
        most[resource.RLIMIT_NPROC] = int(limits["threads"]) + _OTHERS
    return [(what, (value, value)) for what, value in most.items()]


def apply(planned: list[tuple[int, tuple[int, int]]]) -> None:
    """Put this process under the limits for good."""
    for what, both in planned:
        resource.setrlimit(what, both)


def prepare() -> None:
    """Set what is the same for every program, once in the worker that they are forked from."""
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    stack = _STACK if most == resource.RLIM_INFINITY else min(_STACK, most)
    resource.setrlimit(resource.RLIMIT_STACK, (stack, stack))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def mapped_bytes(proc: int) -> int:
    """Return how much this process maps; `proc` is a descriptor of `/proc`, which the box itself does not show."""
    file = os.open("self/statm", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    try:
        return int(os.read(file, 256).split()[0]) * resource.getpagesize()
    finally:
        os.close(file)
