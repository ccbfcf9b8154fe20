"""What programs find in the worker that they are forked from: modules, streams and chance as in a fresh interpreter."""

import builtins
import linecache
import sys
import warnings
from collections.abc import Iterator

import levels_here
import pytest

from llm_finetuning.sandbox.box import rehearsal
from llm_finetuning.sandbox.jobs import Call, Calls, Outcome, Program, Suite
from llm_finetuning.sandbox.levels import LEVELS
from llm_finetuning.sandbox.worker import Worker

ANY = Calls([Call("attempt()", "attempt", relation="not_identical", expected=None)])


@pytest.fixture(scope="module", params=levels_here.offered())
def box(request: pytest.FixtureRequest) -> Iterator[Worker]:
    """A box with the package that is there by default."""
    with Worker(LEVELS[request.param]) as worker:
        yield worker


def attempt(box: Worker, body: str) -> Outcome:
    return box.run(Program("import sys, os\ndef attempt():\n" + body, ANY))


def test_nothing_of_a_rehearsal_is_left() -> None:
    """A rehearsal leaves modules, builtins, streams, warnings and remembered sources as they were, and no process."""

    def state() -> list[object]:
        streams = [sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__]
        return [dict(sys.modules), dict(vars(builtins)), streams, list(warnings.filters), set(linecache.cache)]

    before = state()
    rehearsal.rehearse()
    assert state() == before


def test_programs_draw_their_own_random_numbers(box: Worker) -> None:
    """Two programs of one worker do not begin with the same random numbers."""
    drawn = {attempt(box, f"  import random\n  print(random.random())\n  return {turn}").output for turn in range(3)}
    assert len(drawn) == 3


def test_what_was_printed_arrives_by_every_stream(box: Worker) -> None:
    """Text, errors and bytes written to the standard streams and to their descriptors are the program's output."""
    body = (
        "  print('text é')\n  sys.stderr.write('error\\n')\n  sys.stdout.flush()\n  sys.__stdout__.write('kept\\n')\n"
        "  sys.stdout.flush()\n  sys.stdout.buffer.write(b'bytes\\n')\n  sys.stdout.flush()\n  os.write(1, b'raw\\n')\n"
        "  return None if sys.stdin.read() or sys.stdout.seekable() else 1"
    )
    outcome = attempt(box, body)
    assert outcome.status == "passed", outcome
    assert sorted(outcome.output.split("\n")) == sorted(["text é", "error", "kept", "bytes", "raw", ""])


def test_suites_hold_before_and_after_the_rehearsal(box: Worker) -> None:
    """The first suite, before which nothing was rehearsed, and the next ones end alike."""
    source = "import math\nassert f(2) == math.sqrt(16)\nassert f(3) == 6\n"
    wrong = source.replace("== 6", "== 7")
    found = [
        [box.run(Program(f"def f(x):\n  return 2 * x + {extra}", Suite(text))).status for text in (source, wrong)]
        for extra in (0, 0, 1)
    ]
    assert found == [["passed", "failed"], ["passed", "failed"], ["failed", "failed"]]


@pytest.mark.parametrize(("module", "ahead"), [("hashlib", True), ("asyncio", True), ("wave", False)])
def test_a_slow_module_is_there_ahead_for_who_mentions_it(box: Worker, module: str, ahead: bool) -> None:
    """A program that names a slow module is forked from a worker that has it; any other module it loads itself."""
    pytest.importorskip("numpy")  # without any package there is but one worker to fork from
    outcome = attempt(box, f"  there = '{module}' in sys.modules\n  import {module}\n  print(there)\n  return 1")
    assert (outcome.status, outcome.output) == ("passed", f"{ahead}\n")


def test_a_slow_module_that_is_hidden_is_loaded_all_the_same(box: Worker) -> None:
    """A program that does not spell a slow module's name gets it too, from a worker that lacks it."""
    outcome = attempt(box, "  name = 'asyn' + 'cio'\n  print(name in sys.modules)\n  return repr(__import__(name))")
    assert (outcome.status, outcome.output) == ("passed", "False\n")
