"""`unit_tests` pays programs that pass, abstains where they are not at fault, and says which test failed."""

import asyncio
import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning.errors import MachineryFailure
from llm_finetuning.rewards.code_text import extract_code, with_prefix
from llm_finetuning.rewards.unit_tests import UnitTests
from llm_finetuning.sandbox import levels, shared

RIGHT = "```python\ndef double(x):\n    return 2 * x\n```"
WRONG = "```python\ndef double(x):\n    return x + 2\n```"
TESTS = ["assert double(2) == 4", "assert double(5) == 10", "assert double('a') == 'aa'"]
Called = tuple[list[float | None], dict[str, list[Any]]]


@pytest.fixture(autouse=True, scope="module")
def no_pool_is_left() -> Iterator[None]:
    yield
    shared.close_all()


def call(reward: UnitTests, completions: list[Any], **columns: Any) -> Called:
    """Return the values and what was said through `log_extra`."""
    said: dict[str, list[Any]] = {}
    columns = {"tests": [TESTS] * len(completions), **columns}
    return reward(completions=completions, log_extra=said.__setitem__, **columns), said


OUTCOMES: dict[str, tuple[str, float | None, str, str]] = {
    "right": (RIGHT, 1.0, "passed", ""),
    "wrong": (WRONG, 0.0, "failed", "double(5) == 10"),
    "raises": ("```python\ndef double(x):\n    raise OSError('no')\n```", 0.0, "failed", "no"),
    "does not parse": ("```python\ndef double(x)\n```", 0.0, "error", "SyntaxError"),
    "not there": ("```python\nx = 1\n```", 0.0, "error", "double"),
    "raises at once": ("```python\n1 / 0\n```", 0.0, "error", "ZeroDivisionError"),
    "loops": ("```python\nwhile True:\n    pass\n```", 0.0, "timeout", ""),
    "memory": ("```python\nx = [bytearray(1 << 20) for _ in range(4000)]\n```", 0.0, "memory", ""),
    "floods": ("```python\nwhile True:\n    print('x' * 65536)\n```", 0.0, "output_limit", ""),
    "exits": ("```python\nimport os\nos._exit(0)\n```", 0.0, "error", ""),
    "no code": ("I cannot.", 0.0, "no_code", ""),
    "cut off": ("```python\ndef double(x):\n    return 2 *", 0.0, "unclosed", ""),
    "thinks on": ("<think>" + RIGHT, 0.0, "reasoning_unclosed", ""),
}


def test_every_outcome_has_its_value_and_reason() -> None:
    """One call, a batch of all kinds: values in order, reasons apart, the failed test named."""
    names = list(OUTCOMES)
    reward = UnitTests(cpu_s=1.0, wall_s=10.0, memory_mb=512)
    values, said = call(reward, [OUTCOMES[name][0] for name in names])

    found = dict(
        zip(names, zip(values, said["unit_tests_reason"], said["unit_tests_detail"], strict=True), strict=True)
    )
    for name, (_, value, reason, words) in OUTCOMES.items():
        assert found[name][:2] == (value, reason), (name, found[name])
        assert words in found[name][2], (name, found[name])


def test_chat_and_text_are_paid_alike() -> None:
    """TRL hands over either form."""
    chat = [[{"role": "assistant", "content": text}] for text in (RIGHT, WRONG)]
    assert call(UnitTests(), chat)[0] == call(UnitTests(), [RIGHT, WRONG])[0] == [1.0, 0.0]


def test_partial_pays_the_share_of_declared_tests() -> None:
    """Two of three tests hold: two thirds, also when the program ends at the third; tampering earns nothing."""
    ends = "```python\nimport os\ndef double(x):\n    return 2 * x if x != 'a' else os._exit(0)\n```"
    partly = "```python\ndef double(x):\n    return 2 * x if x != 'a' else None\n```"
    forges = "```python\nimport os\ndef double(x):\n    for fd in range(3, 64) if x == 'a' else ():\n        try:\n"
    forges += (
        "            os.write(fd, b'\\xff' * 64)\n        except OSError:\n            pass\n    return 2 * x\n```"
    )
    values, said = call(UnitTests(partial=True), [RIGHT, partly, ends, forges, "no code"])
    assert values == [1.0, pytest.approx(2 / 3), pytest.approx(2 / 3), 0.0, 0.0]
    assert said["unit_tests_reason"][3] == "forgery"
    assert "2 of 3" in said["unit_tests_detail"][3]
    assert call(UnitTests(), [partly])[0] == [0.0]


@pytest.mark.parametrize(
    ("cell", "words"),
    [(None, "no test"), ("assert double(", "line 1"), ("import pandas\nassert double(1)", "pandas"), ("x = 1", "uses")],
)
def test_unreadable_tests_are_nobodys_fault(cell: Any, words: str) -> None:
    """The row abstains with its reason, its neighbours are paid."""
    values, said = call(UnitTests(), [RIGHT, RIGHT], tests=[cell, TESTS])
    assert values == [None, 1.0]
    assert said["unit_tests_reason"][0] == "tests_unreadable"
    assert words in said["unit_tests_detail"][0]


def test_what_the_tests_themselves_die_of_is_nobodys_fault() -> None:
    """Tests that cannot do what they mean to, whatever the program is, abstain with their own reason."""
    cell = "def test_a():\n    from os import nothing_of_this_name\n    assert [double(2)] == [4]\n"
    values, said = call(UnitTests(), [RIGHT, WRONG], tests=[cell] * 2)
    assert values == [None, None]
    assert said["unit_tests_reason"] == ["infrastructure"] * 2
    assert "nothing_of_this_name" in said["unit_tests_detail"][0]


def test_test_forms_that_have_to_be_run() -> None:
    """Test functions, classes, pairs of input and output, and HumanEval's check, in one batch with their columns."""
    program = "```python\nprint(int(input()) * 2)\n```"
    human = "def check(candidate):\n    for x in range(3):\n        assert candidate(x) == 2 * x\n"
    functions = "def test_one():\n    xs = [double(x) for x in (1, 2)]\n    assert xs == [2, 4]\n"
    case = (
        "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertIn(double(1), [2])\n"
    )
    cells = [{"inputs": ["4\n"], "outputs": ["8"]}, human, functions, case]
    reward = UnitTests(entry_point_column="name")
    completions = [program, RIGHT, RIGHT, RIGHT]
    assert call(reward, completions, tests=cells, name=["double"] * 4)[0] == [1.0] * 4
    completions = [program.replace("2", "3"), WRONG, WRONG, WRONG]
    assert call(reward, completions, tests=cells, name=["double"] * 4)[0] == [0.0] * 4


def test_identical_programs_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of equal completions costs one execution, and each of them is paid."""
    reward = UnitTests()
    pool = shared.pool_for(reward._settings)
    sizes: list[int] = []
    run = pool.run
    monkeypatch.setattr(pool, "run", lambda programs: (sizes.append(len(programs)), run(programs))[1])
    assert call(reward, [RIGHT, WRONG, RIGHT, RIGHT])[0] == [1.0, 0.0, 1.0, 1.0]
    assert sizes == [2]


FENCES: dict[str, tuple[str, str, str | None, str]] = {
    "the last of several": ("last_fence", "```python\na\n```\nor\n```py\nb\n```", "b\n", "found"),
    "no language": ("last_fence", "```\na\n```", "a\n", "found"),
    "others do not count": ("last_fence", "```python\na\n```\n```bash\npip\n```\n~~~text\nx\n~~~", "a\n", "found"),
    "only another": ("last_fence", "```json\n{}\n```", None, "no_code"),
    "an earlier one never stands in": ("last_fence", "```python\na\n```\n```python\nb", None, "unclosed"),
    "a fence inside": ("last_fence", "```python\na\n```python\nb\n```", "a\n```python\nb\n", "found"),
    "longer fence": ("last_fence", "````python\na = '''\n```\n'''\n````", "a = '''\n```\n'''\n", "found"),
    "in a list": (
        "last_fence",
        "1. so\n   ```python\n   def f():\n       pass\n   ```",
        "def f():\n    pass\n",
        "found",
    ),
    "blank": ("last_fence", "```python\n\n```", None, "no_code"),
    "after the reasoning": ("last_fence", "<think>```python\na\n```</think> none", None, "no_code"),
    "whole": ("whole", "</think>\n    return 1\n", "\n    return 1\n", "found"),
    "nothing": ("whole", "  \n", None, "no_code"),
    "tag": ("answer_tag", "```python\na\n```<answer>b = 1</answer>", "b = 1", "found"),
    "fence in tag": ("answer_tag", "<answer>so:\n```python\nb\n```\n</answer>", "b\n", "found"),
    "open tag": ("answer_tag", "<answer>b", None, "unclosed"),
    "no tag": ("answer_tag", "```python\na\n```", None, "no_code"),
}


@pytest.mark.parametrize("name", FENCES)
def test_where_the_program_stands(name: str) -> None:
    """Each policy has one rule; what is cut off is never replaced by something earlier."""
    policy, text, code, reason = FENCES[name]
    found = extract_code(policy, text)
    assert (found.code, found.reason) == (code, reason)


def test_extraction_of_a_megabyte_is_quick() -> None:
    """No completion stalls the host: unclosed, nested and blank fences of a megabyte each."""
    begun = time.process_time()
    for text in ("```" + " " * 1_000_000 + "`", "`" * 1_000_000, " " * 1_000_000, "```\n" * 250_000):
        extract_code("last_fence", text)
    assert time.process_time() - begun < 3


def test_completions_of_a_prefix() -> None:
    """A body goes on from the prompt's code; a function written anew replaces it, imports and helpers stay."""
    prefix = "import math\n\ndef half(x):\n    return x / 2\n\ndef root(x):\n    '''Return the root.'''\n"
    assert with_prefix(prefix, "    return math.sqrt(x)\n", "root").endswith("'''\n    return math.sqrt(x)\n")
    anew = with_prefix(prefix, "def root(x):\n    return half(x)\n", None)
    assert anew == "import math\n\ndef half(x):\n    return x / 2\n\ndef root(x):\n    return half(x)\n"
    reward = UnitTests(prefix_column="prompt_code", extract="whole")
    columns = {"prompt_code": [prefix] * 2, "tests": [["assert root(9) == 3"]] * 2}
    assert reward(completions=["    return math.sqrt(x)\n", "    return half(x)\n"], **columns) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"extract": "guess"}, "extract"),
        ({"level": "strongest"}, "level"),
        ({"workers": 0}, "workers"),
        ({"cpu_s": 0}, "cpu_s"),
        ({"cpu_s": 5, "wall_s": 1}, "wall_s"),
        ({"memory_mb": 1}, "memory_mb"),
        ({"packages": "numpy"}, "packages"),
        ({"language": "perl"}, "language"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], words: str) -> None:
    """The brief's fault is told when the reward is made, and nothing is started."""
    with pytest.raises(ValueError, match=words):
        UnitTests(**options)


def test_without_a_sandbox_nothing_is_paid_and_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """No level: the trainer gets None for what would have run, a command ends with exit code 4."""
    reward = UnitTests(workers=1, memory_mb=100)

    def none(*_: Any, **__: Any) -> Any:
        raise levels.NoLevel("namespaces: forbidden; landlock: not in this kernel")

    monkeypatch.setattr("llm_finetuning.rewards.unit_tests.pool_for", none)
    values, said = call(reward, [RIGHT, "no code"])
    assert values == [None, 0.0]
    assert said["unit_tests_reason"] == ["no_sandbox", "no_code"]
    assert "not in this kernel" in said["unit_tests_detail"][0]
    with pytest.raises(MachineryFailure, match="not in this kernel") as caught:
        reward.ready()
    assert caught.value.exit_code == 4


def values_of(_: int = 0) -> list[float | None]:
    """Return what a batch is paid, in whatever process this is called."""
    return UnitTests(workers=2)(completions=[RIGHT, WRONG, RIGHT], tests=[TESTS] * 3)


def in_threads() -> list[list[float | None]]:
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        return list(threads.map(values_of, range(8)))


def in_async() -> list[list[float | None]]:
    async def one() -> list[float | None]:
        return values_of()

    async def both() -> list[list[float | None]]:
        return [await one(), await asyncio.to_thread(values_of)]

    return asyncio.run(both())


def in_processes(method: str) -> Callable[[], list[list[float | None]]]:
    def run() -> list[list[float | None]]:
        with multiprocessing.get_context(method).Pool(2) as ranks:
            return ranks.map(values_of, range(4))

    return run


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize(
    "way",
    [in_threads, in_async, in_processes("fork"), in_processes("spawn")],
    ids=["threads", "async", "fork", "spawn"],
)
def test_works_wherever_a_trainer_calls_it(way: Callable[[], list[list[float | None]]]) -> None:
    """Threads share the pool; a forked or spawned rank has its own, and the parent's goes on working."""
    before = values_of()
    assert all(values == [1.0, 0.0, 1.0] for values in way())
    assert before == values_of() == [1.0, 0.0, 1.0]


def children() -> set[int]:
    """Return the ids of all processes below this one."""
    parents: dict[int, int] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with contextlib.suppress(OSError):
                text = (path / "stat").read_text("utf-8", errors="replace")
                parents[int(path.name)] = int(text.rpartition(")")[2].split()[1])
    below: set[int] = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        if not more:
            return below - {os.getpid()}
        below |= more


def test_a_killed_worker_costs_no_score() -> None:
    """All workers are killed in the middle of a batch: its programs are run again or abstain, none is paid wrongly."""
    slow = "```python\nimport time\ntime.sleep(0.3)\ndef double(x):\n    return {} * x\nplace = {}\n```"
    completions = [slow.format(2 if i % 2 else 3, i) for i in range(12)]
    shared.close_all()
    others = children()
    reward = UnitTests(workers=2)
    assert call(reward, [RIGHT, WRONG])[0] == [1.0, 0.0]
    own = children() - others
    assert own

    def kill() -> None:
        for pid in own:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    timer = threading.Timer(0.5, kill)
    timer.start()
    values, said = call(reward, completions)
    timer.join()
    for place, value in enumerate(values):
        reason = said["unit_tests_reason"][place]
        assert value in (None, 1.0 if place % 2 else 0.0), (place, value, reason)
        assert (value is None) == (reason == "infrastructure")
    assert sum(value is not None for value in values) >= 8
    assert call(reward, [RIGHT, WRONG])[0] == [1.0, 0.0]
