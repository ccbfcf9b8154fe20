"""A worker goes through the motions once, before the first program: on a program of its own, never on one of a job.

Python 3.11 writes into code, types and dictionaries as it learns to run them fast (PEP 659). What was learnt before the
fork is there for each program; what was not, each one learns again and pays for with copies of the pages it is in.
"""

import builtins
import contextlib
import linecache
import os
import socket
import sys
import warnings
from collections.abc import Callable, Iterator

from llm_finetuning.sandbox.box import candidate, frames, tester

_ROUNDS = 10  # the interpreter looks at a function again after eight calls

_CODE = """\
from typing import List
import math

class Counted:
    def __init__(self, values):
        self.values = list(values)

    def total(self):
        return sum(self.values)

def double(values: List[int]) -> List[int]:
    made = []
    for value in values:
        if value % 2 == 0:
            made.append(value * 2)
        else:
            made.append(value + value)
    return made

def describe(text, times=1):
    return {"text": text * times, "length": len(text), "root": math.sqrt(len(text)), "parts": tuple(text.split())}

def refuse(value):
    raise ValueError(f"not {value}")
"""
_STATEMENTS = """\
assert double([1, 2, 3, -4]) == [2, 4, 6, -8]
assert double([]) == []
assert describe("a b", times=2)["text"] == "a ba b"
assert describe("") == {"text": "", "length": 0, "root": 0.0, "parts": ()}
assert Counted([1, 2, 3]).total() == 6
assert not double([1]) == [1]
"""
_FUNCTIONS = """\
def check(candidate):
    assert candidate([1, 2]) == [2, 4]
    assert candidate([]) == [], "empty"

def test_double():
    check(double)

def test_refuse():
    try:
        refuse(3)
    except ValueError as error:
        assert "not 3" in str(error)
"""
_SUITES = (
    {"source": _STATEMENTS, "names": [], "entry_points": []},
    {"source": _FUNCTIONS, "names": ["test_double", "test_refuse"], "entry_points": ["double", "refuse"]},
)
_STREAMS = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")


def rehearse() -> None:
    """Run both kinds of program a few times; nothing of it is left but what the interpreter learnt."""
    with _left_as_found():
        _play(as_candidate=False)
        _play(as_candidate=True)


def _play(*, as_candidate: bool) -> None:
    """Take one part against a fork of this process, which takes the other."""
    streams = [socket.socketpair() for _ in range(_ROUNDS)]
    parts: tuple[Callable[[int, socket.socket], None], ...] = (_play_tester, _play_candidate)
    pid = os.fork()
    if not pid:
        try:
            for ours, _ in streams:
                ours.close()
            for number, (_, theirs) in enumerate(streams):
                parts[not as_candidate](number, theirs)
        finally:
            os._exit(0)
    for number, (ours, theirs) in enumerate(streams):
        theirs.close()
        parts[as_candidate](number, ours)
    os.waitpid(pid, 0)


def _play_candidate(_: int, stream: socket.socket) -> None:
    with stream:
        candidate.work(stream)


def _play_tester(number: int, stream: socket.socket) -> None:
    judge, ours = socket.socketpair()
    with judge, ours, stream:
        frames.send(stream, {"code": _CODE, "token": "", "stdin": None})
        frames.receive(stream)
        frames.send(judge, _SUITES[number % len(_SUITES)])
        tester.work(ours, stream)


@contextlib.contextmanager
def _left_as_found() -> Iterator[None]:
    modules, names = sys.modules.copy(), vars(builtins).copy()
    standard = {name: getattr(sys, name) for name in _STREAMS}
    with warnings.catch_warnings():
        yield
    for name in sys.modules.keys() - modules.keys():
        del sys.modules[name]
    sys.modules.update(modules)
    vars(sys).update(standard)
    for name in vars(builtins).keys() - names.keys():
        delattr(builtins, name)
    vars(builtins).update(names)
    for name in (candidate.FILE, "tests.py"):
        linecache.cache.pop(name, None)
