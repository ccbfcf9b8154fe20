"""The filters, read as the kernel reads them: instruction by instruction, for each machine that is known."""

import errno
import platform
import struct
from collections.abc import Callable

import pytest

from llm_finetuning.sandbox.box import numbers, seccomp

ALLOW, REFUSE, KILL = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
I386, X32 = 0x4000_0003, 0x4000_0000
DENIED = REFUSE | errno.EPERM


def decide(code: bytes, architecture: int, number: int, *arguments: int) -> int:
    """Return what a filter says of a call."""
    data = struct.pack("=iIQ6Q", number if number < 1 << 31 else number - (1 << 32), architecture, 0,
                       *(value & (1 << 64) - 1 for value in (*arguments, 0, 0, 0, 0, 0, 0)[:6]))  # fmt: skip
    accumulator, place = 0, 0
    while True:
        operation, if_true, if_false, constant = struct.unpack_from("=HBBI", code, 8 * place)
        place += 1
        if operation == 0x20:
            accumulator = struct.unpack_from("=I", data, constant)[0]
        elif operation == 0x54:
            accumulator &= constant
        elif operation == 0x05:
            place += constant
        elif operation == 0x06:
            return int(constant)
        else:
            holds = {
                0x15: accumulator == constant,
                0x35: accumulator >= constant,
                0x45: bool(accumulator & constant),
            }
            place += if_true if holds[operation] else if_false


@pytest.fixture(params=numbers.MACHINES)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each machine in turn, as if this were one."""
    monkeypatch.setattr(platform, "machine", lambda: request.param)
    return str(request.param)


@pytest.fixture
def outer(machine: str) -> Callable[..., int]:
    """The verdict of the outer filter on a call by its name."""
    code, known = seccomp.outer(), numbers.numbers()
    return lambda name, *arguments: decide(code, ARCHITECTURES[machine], known[name], *arguments)


@pytest.fixture
def inner(machine: str) -> Callable[..., int]:
    """The verdict of the inner filter, with 4711 as the program's own id."""
    code = seccomp.inner().replace(struct.pack("=I", seccomp.OWN_PID), struct.pack("=I", 4711))
    known = numbers.numbers()
    return lambda name, *arguments: decide(code, ARCHITECTURES[machine], known[name], *arguments)


def test_only_listed_calls_pass(machine: str) -> None:
    """Of all numbers there could be, no call is allowed that is not in the table; what is not known is refused."""
    code, known = seccomp.outer(), set(numbers.numbers().values())
    allowed = {number for number in range(2000) if decide(code, ARCHITECTURES[machine], number) == ALLOW}
    assert allowed <= known
    assert {decide(code, ARCHITECTURES[machine], number) for number in set(range(2000)) - known} == {DENIED}
    assert decide(code, ARCHITECTURES[machine], 0xFFFF_FFFF) == DENIED


def test_another_architecture_kills(machine: str) -> None:
    """Calls by the numbers of another architecture end the process; those of x32 are refused."""
    other = next(value for name, value in ARCHITECTURES.items() if name != machine)
    for code in (seccomp.outer(), seccomp.inner()):
        assert decide(code, I386, 1) == KILL
        assert decide(code, other, 1) == KILL
    assert decide(seccomp.outer(), ARCHITECTURES[machine], X32 | 1) == DENIED


@pytest.mark.parametrize(
    ("name", "arguments", "verdict"),
    [
        ("read", (), ALLOW),
        ("openat", (0, 0, 0o102), ALLOW),  # to read and write, making it
        ("openat", (0, 0, 0o1001), ALLOW),  # to write, emptying it
        ("openat", (0, 0, 0o1000), DENIED),  # to read, emptying it
        ("openat", (0, 0, 0o2001000), DENIED),
        ("fcntl", (0, 2), ALLOW),
        ("fcntl", (0, 8), DENIED),  # F_SETOWN
        ("fcntl", (0, 1031), DENIED),  # F_SETPIPE_SZ
        ("ioctl", (0, 0x5401), ALLOW),
        ("ioctl", (0, 0x5412), DENIED),  # TIOCSTI
        ("sendto", (3, 1, 1, 0, 0, 0), ALLOW),
        ("sendto", (3, 1, 1, 0, 1, 2), DENIED),
        ("sendto", (3, 1, 1, 0, 1 << 32, 2), DENIED),  # an address whose lower half is zero
        ("socketpair", (1, 1), ALLOW),
        ("socketpair", (30, 1), DENIED),  # AF_TIPC
        ("clone", (17,), ALLOW),
        ("clone", (0x1000_0011,), DENIED),
        ("clone3", (), REFUSE | errno.ENOSYS),
        ("openat2", (), REFUSE | errno.ENOSYS),
        ("setxattr", (), REFUSE | errno.ENOTSUP),
    ],
)
def test_the_outer_filter_weighs_arguments(
    outer: Callable[..., int], name: str, arguments: tuple[int, ...], verdict: int
) -> None:
    """What decides about a call is in its arguments, both halves of them where the kernel reads both."""
    assert outer(name, *arguments) == verdict


@pytest.mark.parametrize(
    ("name", "arguments", "verdict"),
    [
        ("read", (), ALLOW),
        ("clone", (0x003D_0F00,), ALLOW),  # a thread, as the C library makes it
        ("clone", (17,), DENIED),
        ("clone", (0x1001_0000,), DENIED),
        ("kill", (4711, 15), ALLOW),
        ("kill", (4712, 15), DENIED),
        ("kill", (0, 15), DENIED),
        ("kill", (-1, 15), DENIED),
        ("tgkill", (4711, 1, 6), ALLOW),
        ("tgkill", (1, 1, 6), DENIED),
        ("rt_sigqueueinfo", (1, 6), DENIED),
        ("prctl", (15,), ALLOW),
        ("prctl", (1, 0), DENIED),
        ("prctl", (4, 1), DENIED),
        ("prlimit64", (0,), ALLOW),
        ("prlimit64", (1,), DENIED),
        ("chmod", (), REFUSE),
        ("fsync", (), REFUSE),
        *(
            (name, (), DENIED)
            for name in [
                "unshare",
                "setns",
                "mount",
                "umount2",
                "seccomp",
                "capset",
                "sendmsg",
                "recvmsg",
                "pidfd_open",
            ]
        ),
    ],
)
def test_the_inner_filter_takes_away_what_the_zygote_needs(
    inner: Callable[..., int], machine: str, name: str, arguments: tuple[int, ...], verdict: int
) -> None:
    """A program makes no process and no namespace, and signals nobody but itself; modes and flushing have no effect."""
    if name not in numbers.numbers():
        pytest.skip(f"{machine} has no {name}")
    assert inner(name, *arguments) == verdict


def test_the_process_id_is_put_in_everywhere() -> None:
    """The mark for a program's own id stands in the filter once for each call that signals."""
    assert seccomp.inner().count(struct.pack("=I", seccomp.OWN_PID)) == 3
