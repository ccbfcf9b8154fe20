"""Landlock rule sets by system call (Linux 5.13): which files a process may open, whatever its user may.

Rights, network and scopes by version of the interface: docs.kernel.org/userspace-api/landlock.html. What a rule set
handles and no rule allows is refused. Made once, and put in force for each program by one call.
"""

import contextlib
import os
import struct
from collections.abc import Mapping

from llm_finetuning.sandbox.box import syscalls

WRITE_FILE, READ_FILE, READ_DIR = 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG, _MAKE_SYM = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 12
_REFER, _TRUNCATE = 1 << 13, 1 << 14

READ = READ_FILE | READ_DIR
EVERYTHING_BUT_RUN = (
    WRITE_FILE | READ | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SYM | _REFER | _TRUNCATE
)  # and but making devices, sockets and pipes
_OF_FILES = WRITE_FILE | READ_FILE | _TRUNCATE

_HANDLED = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}  # by the version that brought it
_NETWORK_FROM, _BIND_AND_CONNECT = 4, 3
_SCOPES_FROM, _SOCKETS_AND_SIGNALS = 6, 3

_VERSION_FLAG = 1
_PATH_BENEATH = 1


def version() -> int:
    """Return the version of the interface that this kernel has; 0 where it has none or keeps it off."""
    try:
        return syscalls.call("landlock_create_ruleset", None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def rule_set(allowed: Mapping[str, int], at_most: int | None = None) -> int:
    """Return a descriptor of a rule set that allows rights beneath paths; what does not exist is left out.

    `at_most` treats the kernel as an older one. Raises OSError.
    """
    known = version() if at_most is None else min(version(), at_most)
    if not known:
        raise OSError("the kernel has no Landlock, or keeps it off")
    handled = max(rights for since, rights in _HANDLED.items() if since <= known)
    attributes = struct.pack(
        "=QQQ",
        handled,
        _BIND_AND_CONNECT if known >= _NETWORK_FROM else 0,
        _SOCKETS_AND_SIGNALS if known >= _SCOPES_FROM else 0,
    )
    size = 24 if known >= _SCOPES_FROM else 16 if known >= _NETWORK_FROM else 8
    rules = syscalls.call("landlock_create_ruleset", attributes[:size], size, 0)
    os.set_inheritable(rules, False)  # noqa: FBT003  its only parameter
    for path, rights in allowed.items():
        with contextlib.suppress(FileNotFoundError):
            _allow(rules, path, rights & handled)
    return rules


def restrict(rules: int) -> None:
    """Put this thread, and all that it starts, under a rule set for good; raises OSError."""
    syscalls.call("landlock_restrict_self", rules, 0)


def _allow(rules: int, path: str, rights: int) -> None:
    there = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not os.path.isdir(path):  # noqa: PTH112  pathlib is not loaded in the box
            rights &= _OF_FILES
        syscalls.call("landlock_add_rule", rules, _PATH_BENEATH, struct.pack("=Qi", rights, there), 0)
    finally:
        os.close(there)
