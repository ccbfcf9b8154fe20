"""Which system calls the box's processes may make: BPF programs for seccomp, built as binary trees of ranges.

Two filters lie on top of each other. The outer one is an allowlist that the zygote installs once and every program
inherits for nothing. The inner one is installed in each program, and takes away what the zygote needs and a program
does not: making processes and namespaces, signals to others, changes to itself. The kernel runs a filter for every
call number when it is installed, to learn which ones it always allows; a tree keeps that short.
"""

import ctypes
import errno
import platform
import struct
from collections.abc import Iterable

from llm_finetuning.sandbox.box import syscalls
from llm_finetuning.sandbox.box.numbers import MACHINES, numbers

# Calls that act on the process itself or on files that it could open anyway.
_ALLOWED = """
access alarm arch_prctl brk capget chdir clock_getres clock_gettime clock_nanosleep close close_range copy_file_range
creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 exit
exit_group faccessat faccessat2 fadvise64 fallocate fchdir flock fstat fstatfs ftruncate futex futex_waitv getcpu getcwd
getdents getdents64 getegid geteuid getgid getgroups getitimer getpeername getpgid getpgrp getpid getppid getpriority
getrandom getresgid getresuid getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid link linkat
lseek lstat madvise membarrier mkdir mkdirat mmap mprotect mremap msync munmap nanosleep newfstatat pause pipe pipe2
poll ppoll pread64 preadv preadv2 pselect6 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv recvfrom
rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn
rt_sigsuspend rt_sigtimedwait sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getparam
sched_getscheduler sched_yield select sendfile set_robust_list set_tid_address setitimer setrlimit shutdown
sigaltstack signalfd4 stat statfs statx symlink symlinkat sysinfo time timer_create timer_delete timer_getoverrun
timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times umask uname unlink unlinkat wait4
waitid write writev
"""

# What the zygote and the judge need beside them; the inner filter takes these away or narrows them.
_ZYGOTE = """
capset fork kill landlock_restrict_self mount pidfd_open prctl prlimit64 recvmsg rt_sigqueueinfo seccomp sendmsg setns
tgkill umount2 unshare
"""
_DENIED_INSIDE = "capset fork landlock_restrict_self mount pidfd_open recvmsg seccomp sendmsg setns umount2 unshare"

# The C library tries these first and falls back when told that they do not exist.
_ABSENT = "clone3 openat2"

# Extended attributes are outside Landlock; copying files goes on without them.
_UNSUPPORTED = """
fgetxattr flistxattr fremovexattr fsetxattr getxattr lgetxattr listxattr llistxattr lremovexattr lsetxattr removexattr
setxattr
"""

# Modes and times are outside Landlock too, and flushing stalls the machine: told as done, and left undone.
_WITHOUT_EFFECT = "chmod fchmod fchmodat fchmodat2 fdatasync fsync futimesat utime utimensat utimes"

_AF_UNIX = 1
_O_ACCMODE, _O_TRUNC = 3, 0o1000
_FCNTL_COMMANDS = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032)  # no owner, signal, lease, notification
_IOCTL_REQUESTS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS TIOCGWINSZ FIONREAD FIONBIO FIO(N)CLEX
_PRCTL_OPTIONS = (3, 15, 16)  # PR_GET_DUMPABLE PR_SET_NAME PR_GET_NAME
_CLONE_THREAD = 0x0001_0000
_CLONE_NEW = 0x7E02_0000

_ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
_LOAD, _AND, _JUMP, _IF_EQUAL, _IF_ANY_BIT, _IF_AT_LEAST, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x45, 0x35, 0x06
_FAR = 255  # the longest conditional jump

OWN_PID = 0x7FFF_FFF7  # stands for the process's own id until the filter is installed

Code = list[tuple[int, int, int, int]]  # operation, jump if true, jump if false, constant


def _end(action: int) -> Code:
    return [(_RETURN, 0, 0, action)]


def _refuse(error: int = errno.EPERM) -> Code:
    return _end(_ERRNO | error)


def _load(argument: int, *, high: bool = False) -> Code:
    return [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument + (4 if high else 0))]


def _one_of(argument: int, values: Iterable[int]) -> Code:
    """Allow the call if the lower half of an argument is one of the values."""
    values = list(values)
    tests = [(_IF_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [*_load(argument), *tests, *_refuse(), *_end(_ALLOW)]


def _open(argument: int) -> Code:
    """Refuse to empty a file that is opened for reading: Landlock does not govern that before its third version."""
    return [
        *_load(argument),
        (_AND, 0, 0, _O_ACCMODE | _O_TRUNC),
        (_IF_EQUAL, 0, 1, _O_TRUNC),
        *_refuse(),
        *_end(_ALLOW),
    ]


def _unaddressed() -> Code:
    """Allow sending over a connected socket alone: an address would reach another's socket."""
    return [
        *_load(4),
        (_IF_EQUAL, 0, 3, 0),
        *_load(4, high=True),
        (_IF_EQUAL, 0, 1, 0),
        *_end(_ALLOW),
        *_refuse(),
    ]


def _without_bits(argument: int, bits: int) -> Code:
    return [*_load(argument), (_IF_ANY_BIT, 0, 1, bits), *_refuse(), *_end(_ALLOW)]


def _with_times() -> Code:
    """Tell setting times that are given as done; setting them to now is how files are made sure of, and is refused."""
    done = _end(_ERRNO)
    return [
        *_load(2),
        (_IF_EQUAL, 0, 3, 0),
        *_load(2, high=True),
        (_IF_EQUAL, 0, 1, 0),
        *_refuse(),
        *done,
    ]


def _thread() -> Code:
    return [
        *_load(0),
        (_IF_ANY_BIT, 2, 0, _CLONE_NEW),
        (_IF_ANY_BIT, 0, 1, _CLONE_THREAD),
        *_end(_ALLOW),
        *_refuse(),
    ]


def outer() -> bytes:
    """Return the allowlist that the whole box lives under."""
    rules: dict[str, Code] = dict.fromkeys((_ALLOWED + _ZYGOTE).split(), _end(_ALLOW))
    rules |= dict.fromkeys(_ABSENT.split(), _refuse(errno.ENOSYS))
    rules |= dict.fromkeys(_UNSUPPORTED.split(), _refuse(errno.ENOTSUP))
    rules |= dict.fromkeys(_WITHOUT_EFFECT.split(), _end(_ALLOW))
    rules |= {
        "open": _open(1),
        "openat": _open(2),
        "fcntl": _one_of(1, _FCNTL_COMMANDS),
        "ioctl": _one_of(1, _IOCTL_REQUESTS),
        "sendto": _unaddressed(),
        "socketpair": _one_of(0, [_AF_UNIX]),
        "clone": _without_bits(0, _CLONE_NEW),
    }
    return _program(rules, _refuse())


def inner() -> bytes:
    """Return the filter of one program; `OWN_PID` in it is to be replaced."""
    rules: dict[str, Code] = dict.fromkeys(_DENIED_INSIDE.split(), _refuse())
    rules |= dict.fromkeys(_WITHOUT_EFFECT.split(), _end(_ERRNO))
    rules |= dict.fromkeys(("kill", "tgkill", "rt_sigqueueinfo"), _one_of(0, [OWN_PID]))
    rules |= {
        "utimensat": _with_times(),  # `Path.touch` makes the file where this fails
        "clone": _thread(),
        "prctl": _one_of(0, _PRCTL_OPTIONS),
        "prlimit64": _one_of(0, [0]),
    }
    return _program(rules, _end(_ALLOW))


class Filter:
    """A filter that is ready to be installed, many times."""

    def __init__(self, code: bytes) -> None:
        """Take the instructions as they are handed to the kernel."""
        self._code = ctypes.create_string_buffer(code, len(code))
        pointer = ctypes.addressof(self._code)
        self._program = ctypes.create_string_buffer(struct.pack("@HxxxxxxQ", len(code) // 8, pointer), 16)
        mark = struct.pack("=I", OWN_PID)
        self._pids = [place for place in range(4, len(code), 8) if code[place : place + 4] == mark]

    def name(self, own_pid: int) -> None:
        """Fill in the id of the process that is going to install it."""
        for place in self._pids:
            struct.pack_into("=I", self._code, place, own_pid)

    def install(self) -> None:
        """Put this thread, and all that it starts, under the filter for good; raises OSError."""
        syscalls.prctl(syscalls.PR_SET_SECCOMP, 2, self._program)


def _program(rules: dict[str, Code], otherwise: Code) -> bytes:
    machine = platform.machine()
    if machine not in MACHINES:
        raise OSError(f"no seccomp filter for {machine}")
    known = numbers()
    by_number = {known[name]: code for name, code in rules.items() if name in known}
    ranges: list[tuple[int, Code]] = [(0, otherwise)]
    for number in sorted(by_number):
        if ranges[-1][0] == number:
            ranges.pop()
        if not ranges or ranges[-1][1] != by_number[number]:
            ranges.append((number, by_number[number]))
        if number + 1 not in by_number and ranges[-1][1] != otherwise:
            ranges.append((number + 1, otherwise))
    start: Code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        *_end(_KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in start + _tree(ranges))


def _tree(ranges: list[tuple[int, Code]]) -> Code:
    """Return the code that finds the range which the loaded number falls into."""
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    below, above = _tree(ranges[:middle]), _tree(ranges[middle:])
    if len(below) <= _FAR:
        return [(_IF_AT_LEAST, len(below), 0, ranges[middle][0]), *below, *above]
    return [(_IF_AT_LEAST, 0, 1, ranges[middle][0]), (_JUMP, 0, 0, len(below)), *below, *above]
