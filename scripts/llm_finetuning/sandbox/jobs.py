"""What crosses the sandbox's edge: programs with their tests in, outcomes out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal[
    "passed", "failed", "error", "timeout", "memory", "output_limit", "refused", "forgery", "infrastructure"
]
"""How a program ended. All but `passed` and `infrastructure` are its own fault; `infrastructure` is never scored.

`failed`: ran, and a test did not hold; `error`: did not compile, raised while it was loaded, or died; `refused`: did
something that the sandbox does not allow and died of it; `forgery`: was seen to tamper with the verdict.
"""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the candidate whose result the judge compares itself, as plain values: the strongest mode."""

    text: str  # the test as it was written, for the report
    function: str  # a name at the top level of the candidate
    arguments: Sequence[Any] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    expected: Any = None
    relation: Literal["equal", "not_equal", "identical", "not_identical", "true", "false", "close"] = "equal"
    relative_tolerance: float = 0.0  # of `close`
    absolute_tolerance: float = 0.0  # of `close`


@dataclass(frozen=True, slots=True)
class Exchange:
    """One run of the candidate as a program: what it reads from standard input and what it must print."""

    stdin: str
    stdout: str


@dataclass(frozen=True, slots=True)
class Calls:
    """Tests that are calls with literal arguments and literal results; the candidate never meets an expected value."""

    calls: Sequence[Call]


@dataclass(frozen=True, slots=True)
class Exchanges:
    """Tests that are pairs of input and output; white space at line ends and at the end does not count."""

    exchanges: Sequence[Exchange]


@dataclass(frozen=True, slots=True)
class Suite:
    """Any test code, run in a process of its own, where the candidate's names are stand-ins that call over to it.

    `names` are the test functions and `unittest` methods (`Class.method`) that must each run, in order; empty for a
    text of statements, which counts as one test for each top-level statement that asserts.
    """

    source: str
    names: Sequence[str] = ()
    entry_points: Sequence[str] = ()  # the names that the tests take from the candidate; empty: all undefined ones


Tests = Calls | Exchanges | Suite


@dataclass(frozen=True, slots=True)
class Limits:
    """What one program may use; wall time is a backstop for one that sleeps, CPU time is what decides."""

    cpu_s: float = 5.0
    wall_s: float = 20.0
    memory_mb: int = 1024
    output_kb: int = 64  # kept; eight MiB end the program
    files_mb: int = 16
    threads: int = 48


@dataclass(frozen=True, slots=True)
class Program:
    """Model-written code, the tests it must pass, and what it may use."""

    code: str
    tests: Tests
    limits: Limits = Limits()
    language: str = "python"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one program ended. The number of tests is what was declared, never what was reached."""

    status: Status
    passed: int
    total: int
    detail: str = ""  # the first test that failed, or the error, in one line
    output: str = ""  # what the program printed, cut to the limit
    cpu_s: float = 0.0
    wall_s: float = 0.0
    memory_mb: float = 0.0
