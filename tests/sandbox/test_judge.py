"""The judge: calls and exchanges are decided by values and output alone; every end has its status."""

import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unconfined
from unconfined import run

from llm_finetuning.sandbox import wire
from llm_finetuning.sandbox.box.exchanges import wall_left
from llm_finetuning.sandbox.box.judge import judge
from llm_finetuning.sandbox.box.session import Verdict
from llm_finetuning.sandbox.jobs import Call, Calls, Exchange, Exchanges, Limits, Program, Suite

EVEN = "def solve(xs):\n    return sum(x * x for x in xs if x % 2 == 0)\n"
SOLVE = Calls(
    [
        Call("assert solve([1, 2, 3, 4]) == 20", "solve", [[1, 2, 3, 4]], {}, 20),
        Call("assert solve([]) == 0", "solve", [[]], {}, 0),
        Call("assert solve([-2, 5, 1000000]) == 1000000000004", "solve", [[-2, 5, 1000000]], {}, 1000000000004),
    ]
)


def one(code: str, *args: Any, expected: Any = None, relation: Any = "equal", **more: Any) -> str:
    """Return the status of a program that is asked for `f(*args)` once."""
    return run(code, Calls([Call("f", "f", args, {}, expected, relation, **more)])).status


def test_right_answers_pass() -> None:
    """All tests held, and what it printed and used is told."""
    outcome = run("print('loaded')\n" + EVEN, SOLVE)
    assert (outcome.status, outcome.passed, outcome.total) == ("passed", 3, 3)
    assert outcome.output == "loaded\n"
    assert 0 < outcome.cpu_s < 1
    assert outcome.memory_mb > 5
    assert outcome.wall_s > 0


def test_a_wrong_answer_does_not_stop_the_others() -> None:
    """Partial credit counts what held; the first that did not is named with what came instead."""
    outcome = run("def solve(xs):\n    return 20\n", SOLVE)
    assert (outcome.status, outcome.passed, outcome.total) == ("failed", 1, 3)
    assert outcome.detail == "assert solve([]) == 0: returned 20"


def test_arguments_are_new_for_each_call() -> None:
    """What one call does to its arguments no other sees; one list in two places is one list."""
    shared = [1]
    calls = [Call("f", "f", [shared, shared], {}, [1, 1]), Call("f", "f", [shared, shared], {}, [1, 1])]
    assert run("def f(a, b):\n    a.append(1)\n    return b\n", Calls(calls)).status == "passed"
    assert shared == [1]


def test_keywords_cross() -> None:
    """As keywords."""
    call = Call("f", "f", [1], {"b": [2]}, (1, [2], 3))
    assert run("def f(a, *, b, c=3):\n    return a, b, c\n", Calls([call])).status == "passed"


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        ("import os; os._exit(0)", "error", "exited with status 0"),
        ("import sys; sys.exit(0)", "failed", "raised SystemExit"),
        ("import os; os.kill(os.getpid(), 9)", "error", "SIGKILL"),
        ("import os; os.kill(os.getpid(), 31)", "refused", "does not allow"),
        ("import ctypes; ctypes.string_at(0)", "error", "SIGSEGV"),
        ("while True: pass", "timeout", "CPU"),
        ("import time; time.sleep(60)", "timeout", "wall time"),
        ("import signal\n    signal.pause()", "timeout", "wall time"),
        ("return len(bytearray(1 << 33))", "memory", "MemoryError"),
        ("import os\n    while True: os.write(1, b'x' * 65536)", "output_limit", "8 MiB"),
        ("import os\n    os.closerange(0, 100)\n    return 0", "error", ""),
        ("raise ValueError('why')", "failed", "raised ValueError: why"),
        ("return undefined", "failed", "NameError"),
        ("raise StopIteration(20)", "failed", "StopIteration"),
        ("def r(): r()\n    r()", "failed", "RecursionError"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else None,
)
def test_every_end_has_its_status(body: str, status: str, detail: str) -> None:
    """And none is a pass."""
    wall_s = 1.0 if detail == "wall time" else 20.0
    outcome = run(f"def solve(xs):\n    {body}\n", SOLVE, cpu_s=0.5, wall_s=wall_s)
    assert (outcome.status, outcome.passed, outcome.total) == (status, 0, 3)
    assert detail in outcome.detail
    assert outcome.wall_s < 15


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        ("def solve(:\n", "SyntaxError: invalid syntax (line 1)"),
        ("x = 1\nraise KeyError(3)\n", "KeyError: 3 (line 2)"),
        ("import sys\nsys.exit(0)\n", "SystemExit: 0 (line 2)"),
        ("import os\nos._exit(0)\n", "exited with status 0"),
        ("def other(xs): return 20\n", "the program defines no `solve`"),
    ],
)
def test_a_program_that_does_not_load_is_an_error(code: str, detail: str) -> None:
    """The line or the missing name is told."""
    outcome = run(code, SOLVE)
    assert (outcome.status, outcome.passed) == ("error", 0)
    assert detail in outcome.detail


def test_output_is_kept_to_its_limit() -> None:
    """What is printed is cut for the report and never blocks the program."""
    outcome = run("import os\nos.write(1, b'x' * 2_000_000)\n" + EVEN, SOLVE, output_kb=3)
    assert outcome.status == "passed"
    assert outcome.output == "x" * 3072


FORGERS = {
    "an answer before it was asked": "import os\nos.write(CHANNEL, frame([0, 'x', 'v', None, None]))\n",
    "an answer with a guessed token": "import os\ndef solve(xs):\n"
    "    os.write(CHANNEL, frame([1, '0' * 16, 'v', 20, None, None]))\n",
    "answers ahead of the requests": (
        "import os\ndef solve(xs):\n"
        "    for number in range(1, 5): os.write(CHANNEL, frame([number, '', 'v', 20, None, None]))\n"
        "    return 20\n"
    ),
    "no frame": "import os\ndef solve(xs):\n    os.write(CHANNEL, b'\\xff' * 9)\n    return 20\n",
    "a thread that writes": (
        "import os, threading\n"
        "def loop():\n    while True: os.write(CHANNEL, frame([1, '', 'v', 20, None, None]))\n"
        "threading.Thread(target=loop, daemon=True).start()\ndef solve(xs):\n    return 20\n"
    ),
    "an answer with a value that is none": (
        "import sys, os\ndef solve(xs):\n    names = sys._getframe(3).f_locals\n"
        "    n, t = names['message'][:2]\n    os.write(CHANNEL, frame([n, t, 'v', ['?'], None, None]))\n"
        "    import time; time.sleep(9)\n"
    ),
    "a set that takes long to read": (
        "import sys, os\ndef solve(xs):\n    f = sys._getframe()\n"
        "    while 'message' not in f.f_locals: f = f.f_back\n    n, t = f.f_locals['message'][:2]\n"
        "    M = (1 << 61) - 1\n"
        "    data = frame([n, t, 'v', ['s', [i * M for i in range(1, 200000)]], None, None])\n"
        "    while data: data = data[os.write(CHANNEL, data):]\n    import time; time.sleep(9)\n"
    ),
}
FORGER = """\
import json, os, socket, stat
def frame(value):
    data = json.dumps(value).encode()
    return len(data).to_bytes(4, "little") + data
def is_socket(fd):
    return os.path.exists(f"/proc/self/fd/{fd}") and stat.S_ISSOCK(os.fstat(fd).st_mode)
CHANNEL = next(filter(is_socket, range(3, 256)))
"""


@pytest.mark.parametrize("attack", FORGERS)
def test_tampering_with_the_stream_is_forgery(attack: str) -> None:
    """A frame that answers nothing, or holds nothing, ends the job with its own status."""
    outcome = run(FORGER + FORGERS[attack], SOLVE, wall_s=12.0)
    assert outcome.status == "forgery"
    assert outcome.passed == 0 or attack == "answers ahead of the requests"


def test_answering_a_request_itself_is_no_way_round() -> None:
    """A program that writes the answer in place of the server has only called its own function."""
    code = FORGER + (
        "import sys\n"
        "def solve(xs):\n    f = sys._getframe()\n    while 'message' not in f.f_locals: f = f.f_back\n"
        "    n, t = f.f_locals['message'][:2]\n    os.write(CHANNEL, frame([n, t, 'v', 7, None, None]))\n    return 7\n"
    )
    outcome = run(code, SOLVE)
    assert (outcome.status, outcome.passed) == ("forgery", 0)


EQUAL_TO_ALL = """\
class E{base}:
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __bool__ = lambda s, *o: True
    __ne__ = lambda s, o: False
    __hash__ = lambda s: hash(20)
    __class__ = property(lambda s: int)
    __int__ = __index__ = lambda s: 20
    __float__ = lambda s: 20.0
    __iter__ = lambda s: iter([20])
    __len__ = lambda s: 1
    __repr__ = __str__ = lambda s: "20"
    __sub__ = __rsub__ = lambda s, o: 0
    __array__ = lambda s, *a, **k: __import__("numpy").array(20)
def f(x):
    return {value}
"""


LIES = [
    *(Call(f"== {expected}", "f", [1], {}, expected) for expected in (20, [20], {20: 1}, {20}, [[20]], np.array([20]))),
    *(Call(f"is {expected}", "f", [1], {}, expected, "identical") for expected in (None, True)),
    *(
        Call(f"near {expected}", "f", [1], {}, expected, "close", absolute_tolerance=1e-6)
        for expected in (20.0, [20.0], np.array(20.0))
    ),
]


@pytest.mark.parametrize("value", ["E()", "[E()]", "E", "(E(),)", "{E(): 1}", "{E()}", "{(E(),)}", "[[E()]]"])
@pytest.mark.parametrize("base", ["", "(list)", "(dict)", "(str)", "(Exception)"])
def test_objects_that_lie_are_equal_to_nothing(value: str, base: str) -> None:
    """Whatever they say of themselves, alone or inside a container; nor are they taken for a forgery."""
    outcome = run(EQUAL_TO_ALL.format(base=base, value=value), Calls(LIES))
    assert (outcome.status, outcome.passed) == ("failed", 0)


@pytest.mark.parametrize(
    ("value", "relation", "status"),
    [
        ("object()", "true", "passed"),
        ("__import__('collections').UserList()", "false", "passed"),
        ("object()", "equal", "failed"),
        ("(x for x in [1])", "true", "passed"),
        ("object()", "not_identical", "passed"),
    ],
)
def test_an_object_is_true_if_it_says_so(value: str, relation: str, status: str) -> None:
    """It could as well have returned True."""
    assert one(f"def f():\n    return {value}\n", relation=relation) == status


def test_subclasses_count_as_their_base() -> None:
    """A named tuple is a tuple, a counter a dict, as in Python."""
    code = (
        "import collections, enum\nP = collections.namedtuple('P', 'x y')\nclass N(enum.IntEnum):\n    A = 3\n"
        "def f(k):\n    return [P(1, 2), collections.Counter('aab'), N.A, collections.OrderedDict(a=1)][k]\n"
    )
    for place, expected in enumerate([(1, 2), {"a": 2, "b": 1}, 3, {"a": 1}]):
        assert one(code, place, expected=expected) == "passed"


@pytest.mark.parametrize(
    ("code", "stdin", "stdout", "status"),
    [
        ("print(int(input()) * 2)", "2\n", "4", "passed"),
        ("print('4  \\n\\n')", "", "4", "passed"),
        ("print('4')", "", "4 \n\n", "passed"),
        ("print('a\\r')", "", "a\n", "passed"),
        ("print(' 4')", "", "4", "failed"),
        ("print('4\\n\\n5')", "", "4\n5", "failed"),
        ("print(5)", "", "4", "failed"),
        ("print(4)\nraise ValueError('late')", "", "4", "failed"),
        ("print(4)\nimport sys\nsys.exit(1)", "", "4", "failed"),
        ("print(4)\nimport sys\nsys.exit()", "", "4", "passed"),
        ("print(4, flush=True)\nimport os\nos._exit(0)", "", "4", "passed"),
        ("import sys\nsys.stderr.write('debug')\nprint(4)", "", "4", "passed"),
        ("print(4", "", "4", "error"),
        ("import os\nprint(4, flush=True)\nos.kill(os.getpid(), 11)", "", "4", "error"),
        ("while True: pass", "", "4", "timeout"),
        ("x = bytearray(1 << 33)", "", "4", "memory"),
        ("while True: print('x' * 1000)", "", "4", "output_limit"),
        ("if __name__ == '__main__': print(4)", "", "4", "passed"),
        ("import threading\nthreading.Thread(target=lambda: print(4)).start()", "", "4", "passed"),
        ("import atexit\natexit.register(print, 4)", "", "4", "passed"),
        ("print(len(open(0).read()))", "x" * 200_000, "200000", "passed"),
        ("pass", "x" * 200_000, "", "passed"),
        ("print(4)\nexit()", "", "4", "passed"),
        ("print(4)\nquit(1)", "", "4", "failed"),
        ("import io, sys\nsys.stdout = io.StringIO()\nsys.__stdout__.write(sys.__stdin__.read())", "4", "4", "passed"),
    ],
    ids=range(25),
)
def test_a_program_is_judged_by_what_it_prints(code: str, stdin: str, stdout: str, status: str) -> None:
    """White space at line ends and at the end does not count; a nonzero status after right output does."""
    assert run(code + "\n", Exchanges([Exchange(stdin, stdout)]), cpu_s=1.0, wall_s=4.0).status == status


def test_a_flood_on_the_channel_is_forgery() -> None:
    """It is neither kept nor waited for."""
    flood = FORGER + "while True: os.write(CHANNEL, b'x' * 65536)\n"
    for tests in (Exchanges([Exchange("", "")]), SOLVE):
        assert run(flood, tests).status == "forgery"


def test_a_program_that_runs_whole_has_no_word_on_its_end() -> None:
    """What it writes to the judge in place of the server is told apart, even after right output."""
    code = FORGER + "print(4, flush=True)\nos.write(CHANNEL, frame([0, '0', 'e', '', '']))\nos._exit(0)\n"
    assert run(code, Exchanges([Exchange("", "4")])).status == "forgery"


def test_exchanges_are_apart() -> None:
    """Each has a process of its own; after one that hangs the others are not run."""
    count = "import os\nprint(len(os.environ.setdefault('N', '') or 'x'))\nos.environ['N'] = 'yyy'\n"
    outcome = run(count, Exchanges([Exchange("", "1"), Exchange("", "1"), Exchange("", "2")]))
    assert (outcome.status, outcome.passed, outcome.total) == ("failed", 2, 3)
    assert outcome.detail == "exchange 3: line 1 is '1', not '2'"
    hangs = "if input() == '2':\n    while True: pass\nprint(1)\n"
    exchanges = [Exchange("1", "1"), Exchange("2", "1"), Exchange("1", "1")]
    outcome = run(hangs, Exchanges(exchanges), cpu_s=0.5)
    assert (outcome.status, outcome.passed, outcome.total) == ("timeout", 1, 3)


def test_sleeping_through_many_exchanges_is_stopped() -> None:
    """The wall limit is of all of them together, beside the CPU time that they use."""
    exchanges = Exchanges([Exchange("", "4")] * 20)
    outcome = run("import time\ntime.sleep(0.4)\nprint(4)\n", exchanges, cpu_s=1.0, wall_s=1.0)
    assert outcome.status == "timeout"
    assert 1 <= outcome.passed < 5
    assert outcome.wall_s < 2.5
    left = [wall_left(20.0, cpu_s, 25.0) for cpu_s in (0.0, 6.0, 20.0, 60.0)]
    assert left == [-5.0, 1.0, 15.0, 15.0]


class _Broken:
    """Hands of a machine that cannot start a process."""

    def candidate(self, _: dict[str, float]) -> Any:
        raise OSError(11, "no room")

    def tester(self, _: dict[str, float], __: socket.socket) -> Any:
        raise OSError(11, "no room")


class _HalfBroken(unconfined.Unconfined):
    """Hands that cannot start the tests."""

    def tester(self, _: dict[str, float], __: socket.socket) -> Any:
        raise OSError(11, "no room")


@pytest.mark.parametrize("hands", [_Broken(), _HalfBroken()], ids=["candidate", "tester"])
def test_a_machine_that_fails_is_no_fault_of_the_program(hands: Any) -> None:
    """The outcome is infrastructure, with the reason."""
    told = judge(wire.program_to_json(Program(EVEN, Suite("assert solve([]) == 0"))), hands)
    assert (told["status"], told["passed"], told["total"]) == ("infrastructure", 0, 1)
    assert "no room" in told["detail"]


def test_no_descriptor_is_left() -> None:
    """However a job ends, the judge holds nothing of it."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    for code in (EVEN, "import os\nos._exit(0)\n", "while True: pass\n", FORGER + FORGERS["no frame"]):
        run(code, SOLVE, cpu_s=0.2)
        run(code, Suite("assert solve([]) == 0"), cpu_s=0.2)
        run(code, Exchanges([Exchange("", "")]), cpu_s=0.2)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_test_that_was_not_told_of_did_not_hold() -> None:
    """Even where nothing says that it failed: all that were declared must have held, and some must be declared."""
    for total, held, status in ((2, {0, 1}, "passed"), (2, {0}, "failed"), (0, set(), "failed")):
        verdict = Verdict(total)
        verdict.held |= held
        assert verdict.told()["status"] == status


def test_programs_cross_the_wire() -> None:
    """A job is JSON; arguments that are no plain data and unknown languages are told."""
    program = Program(EVEN, SOLVE, Limits(cpu_s=3))
    assert json.loads(json.dumps(wire.program_to_json(program))) == wire.program_to_json(program)
    assert wire.total_of(program) == 3
    with pytest.raises(ValueError, match="the call: a value of type object"):
        wire.program_to_json(Program("", Calls([Call("the call", "f", [object()])])))
    told = judge(wire.program_to_json(Program("", SOLVE, language="cobol")), _Broken())
    assert told["status"] == "infrastructure"
