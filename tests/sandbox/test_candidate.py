"""The candidate's process: it loads code, answers what it is asked, and keeps its objects to itself."""

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import unconfined

from llm_finetuning.sandbox.box import candidate, frames
from llm_finetuning.sandbox.box.peer import WISH_PRINTED, WISH_RESTORE
from llm_finetuning.sandbox.box.values import plain


class _Spoken:
    """A candidate that a test speaks to, frame by frame."""

    def __init__(self, code: str, stdin: str | None = None) -> None:
        limits = {"memory_mb": 1024.0}
        self.child = unconfined.Forked(candidate.serve, limits, [])
        self.channel: socket.socket = self.child.channel
        frames.send(self.channel, {"code": code, "token": "first", "stdin": stdin})
        self.loaded = frames.receive(self.channel)

    def ask(self, op: str, *args: Any, wishes: int = 0) -> list[Any]:
        frames.send(self.channel, [7, "token", op, plain(args), wishes])
        answer = frames.receive(self.channel)
        assert answer[:2] == [7, "token"]
        return list(answer[2:])

    def run(self, name: str, *args: Any, wishes: int = 0) -> list[Any]:
        return self.ask("run", name, list(args), {}, wishes=wishes)


@pytest.fixture
def speak() -> Iterator[Any]:
    started: list[_Spoken] = []

    def start(*args: Any) -> _Spoken:
        started.append(_Spoken(*args))
        return started[-1]

    yield start
    for spoken in started:
        spoken.child.kill()
        spoken.child.wait(5)
        spoken.channel.close()


@pytest.mark.parametrize(
    ("code", "name", "text"),
    [
        ("def f(:\n", "SyntaxError", "(line 1)"),
        ("x = 1\n\nraise KeyError('no')\n", "KeyError", "KeyError: 'no' (line 3)"),
        ("import sys\nsys.exit('bye')\n", "SystemExit", "SystemExit: bye (line 2)"),
        ("raise KeyboardInterrupt\n", "KeyboardInterrupt", "(line 1)"),
        ("class E(Exception):\n    def __str__(self):\n        raise E\nraise E\n", "E", "cannot be read"),
        ("x = '\0'\n", "ValueError", "null bytes"),
        ("(" * 100_000, "SyntaxError", "too many nested"),
        ("raise ValueError('x' * 10**6)\n", "ValueError", "xxx"),
    ],
    ids=["syntax", "error", "exit", "interrupt", "lying error", "null", "nesting", "long"],
)
def test_what_loading_raises_is_told_in_a_line(speak: Any, code: str, name: str, text: str) -> None:
    """With the line of the program, whatever it is."""
    kind, told_name, told = speak(code).loaded[2:]
    assert kind == "x"
    assert told_name == name or (name == "ValueError" and told_name == "SyntaxError")  # 3.12 says it of null bytes
    assert text in told
    assert "\n" not in told
    assert len(told) < 1000


def test_the_code_is_a_module_of_its_own(speak: Any) -> None:
    """It is `solution`, not the main program; it can import itself, and inspect its own source."""
    code = (
        "import inspect, sys\n"
        "def f():\n"
        "    import solution\n"
        "    return __name__, solution.f is f, 'return' in inspect.getsource(f), sys.modules[__name__].f is f\n"
    )
    assert speak(code).run("f")[:2] == ["v", ["t", ["solution", True, True, True]]]


def test_a_dotted_name_is_a_method_of_a_new_instance(speak: Any) -> None:
    """`Solution.add` is called on `Solution()`; a static or class method is called as it is."""
    spoken = speak(
        "class Solution:\n"
        "    def __init__(self): self.n = 0\n"
        "    def add(self, x): self.n += x; return self.n\n"
        "    @staticmethod\n"
        "    def double(x): return 2 * x\n"
        "    @classmethod\n"
        "    def name(cls): return cls.__name__\n"
    )
    assert spoken.run("Solution.add", 3)[:2] == ["v", 3]
    assert spoken.run("Solution.add", 3)[:2] == ["v", 3]
    assert spoken.run("Solution.double", 3)[:2] == ["v", 6]
    assert spoken.run("Solution.name")[:2] == ["v", "Solution"]
    assert spoken.run("Solution.gone")[:2] == ["m", "Solution.gone"]
    assert spoken.run("print")[:2] == ["m", "print"]


def test_changed_arguments_come_back_only_when_asked_for(speak: Any) -> None:
    """And only if they changed; a result that is an argument says so."""
    spoken = speak("def f(xs):\n    xs.sort()\n    return xs\n")
    changes = [["l", [["a", 1]]], ["l", [1, 2]], ["d", [], []]]  # of the list of arguments, the argument, the keywords
    assert spoken.run("f", [2, 1], wishes=WISH_RESTORE)[:3] == ["v", ["a", 1], changes]
    assert spoken.run("f", [1, 2], wishes=WISH_RESTORE)[:3] == ["v", ["a", 1], None]
    assert spoken.run("f", [2, 1])[:3] == ["v", ["l", [1, 2]], None]


def test_what_is_printed_comes_back_only_when_asked_for(speak: Any) -> None:
    """Otherwise it goes to the output, at once."""
    spoken = speak("def f():\n    print('said')\n")
    assert spoken.run("f", wishes=WISH_PRINTED) == ["v", None, None, "said\n"]
    assert spoken.run("f") == ["v", None, None, None]
    assert os.read(spoken.child.output, 100) == b"said\n"


@pytest.mark.parametrize(
    "body",
    [
        "a = []\n    a.append(a)\n    return a",
        "a = []\n    for _ in range(10**5): a = [a]\n    return a",
        "return 'x' * 9_000_000",
        "return [0] * 5_000_000",
    ],
    ids=["cycle", "deep", "large text", "large list"],
)
def test_a_result_that_cannot_cross_is_said_to_be_so(speak: Any, body: str) -> None:
    """And the next call works."""
    spoken = speak(f"def f():\n    {body}\ndef g():\n    return 1\n")
    assert spoken.run("f")[0] == "r"
    assert spoken.run("g")[:2] == ["v", 1]


@pytest.mark.parametrize(
    "error", ["SystemExit(0)", "KeyboardInterrupt()", "GeneratorExit()", "StopIteration(3)", "E(4)"]
)
def test_whatever_is_raised_is_an_answer(speak: Any, error: str) -> None:
    """Nothing that a call raises ends the process."""
    spoken = speak(f"class E(BaseException): pass\ndef f():\n    raise {error}\ndef g():\n    return 1\n")
    assert spoken.run("f")[0] == "x"
    assert spoken.run("g")[:2] == ["v", 1]


def test_patching_the_library_breaks_no_answer(speak: Any) -> None:
    """What serves calls holds its own references to what programs like to replace."""
    spoken = speak(
        "import builtins, json, sys, socket, struct, os\n"
        "json.dumps = json.loads = lambda *a, **k: 'lie'\n"
        "struct.pack = struct.unpack = None\n"
        "builtins.print = builtins.sorted = builtins.input = None\n"
        "sys.modules['json'] = sys.modules['llm_finetuning.sandbox.box.candidate'] = None\n"
        "sys.stdout = None\n"
        "def f(x):\n    return x\n"
    )
    assert spoken.run("f", [1])[:2] == ["v", ["l", [1]]]


def test_a_program_reads_its_input_however_it_likes(speak: Any) -> None:
    """Line by line, as a file, by its descriptor, and more than a pipe holds."""
    code = (
        "import os, sys\n"
        "first = input()\n"
        "rest = sys.stdin.read()\n"
        "print(__name__, first, len(rest), sys.argv)\n"
        "sys.exit(3)\n"
    )
    spoken = speak(code, "one\n" + "x" * 300_000)
    assert spoken.loaded[2:] == ["e", "SystemExit", "exit status 3"]
    ending = spoken.child.wait(5)
    assert ending is not None
    assert ending.code == 3
    assert os.read(spoken.child.output, 1000) == b"__main__ one 300000 ['solution.py']\n"
    raw = speak("import os\nos.write(1, os.read(0, 5) + open(0, 'rb').read())\n", "héllo\n")
    raw.child.wait(5)
    assert os.read(raw.child.output, 100) == "héllo\n".encode()
