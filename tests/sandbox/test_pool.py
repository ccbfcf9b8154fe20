"""The pool and its workers: order, repetition, lost boxes, and every way in which a trainer may call it."""

import asyncio
import contextlib
import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import levels_here
import pytest

from llm_finetuning.sandbox import shared
from llm_finetuning.sandbox.jobs import Call, Calls, Exchange, Exchanges, Limits, Outcome, Program, Suite
from llm_finetuning.sandbox.pool import Pool

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
LEVEL = levels_here.offered()[0]
MIXED = int(os.environ.get("FINETUNE_MIXED_EXECUTIONS", "2000"))


def adds(mark: object = "", *, right: bool = True) -> Program:
    code = f"def f(a, b): return a + b + {0 if right else 1}  # {mark}"
    return Program(code, Calls([Call("f(2, 3) == 5", "f", (2, 3), expected=5)]))


def sleeps(seconds: float, mark: object = "") -> Program:
    code = f"import time\ndef f(): time.sleep({seconds}); return 1  # {mark}"
    return Program(code, Calls([Call("f() == 1", "f", expected=1)]), Limits(wall_s=60))


def statuses(outcomes: Sequence[Outcome]) -> list[str]:
    return [outcome.status for outcome in outcomes]


def until(true: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def keepers_below(parent: int) -> list[int]:
    """Return the boxes that a process has started and that are still there."""
    found = []
    for task in Path(f"/proc/{parent}/task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(pid) for pid in (task / "children").read_text().split()]
    return [pid for pid in found if b"box.main" in command_of(pid)]


def command_of(pid: int) -> bytes:
    """Return a process's command line; empty where it has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def children_of(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def alive(session: int) -> bool:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text("latin-1").rpartition(")")[2].split()[3]) == session:
                return True
    return False


@pytest.fixture(autouse=True)
def _alone() -> None:
    """Let every box below this process be one of the test's own: an earlier one may have left the shared pool."""
    shared.close_all()
    gc.collect()
    assert keepers_below(os.getpid()) == []


@pytest.fixture
def pool() -> Iterator[Pool]:
    with Pool(workers=2, level=LEVEL, packages=()) as made:
        yield made
    assert keepers_below(os.getpid()) == []
    assert [thread.name for thread in threading.enumerate() if "sandbox" in thread.name] == []


def test_outcomes_come_in_the_order_of_the_programs(pool: Pool) -> None:
    """Whatever ends first, the list is in the order that was given, and every outcome is told once as it comes."""
    programs = [sleeps(0.3), *(adds(n, right=n % 3 > 0) for n in range(30))]
    told: dict[int, str] = {}
    outcomes = pool.run(programs, on_outcome=lambda place, outcome: told.update({place: outcome.status}))
    assert statuses(outcomes) == ["passed", *("passed" if n % 3 else "failed" for n in range(30))]
    assert [told[place] for place in range(31)] == statuses(outcomes)
    assert next(iter(told)) != 0


def test_identical_programs_run_once(pool: Pool) -> None:
    """Copies within a group share one run; a program that differs in its code, its tests or its limits does not."""
    prints = "import os\ndef f(): print(os.urandom(8).hex())"
    one = Program(prints, Calls([Call("f()", "f")]))
    others = [
        Program(prints + "\n", one.tests),
        Program(prints, Calls([Call("f() is None", "f")])),
        Program(prints, one.tests, Limits(cpu_s=4)),
    ]
    outcomes = pool.run([one, *others, one, one])
    printed = [outcome.output for outcome in outcomes]
    assert printed[0] == printed[4] == printed[5]
    assert len(set(printed)) == 4
    assert "" not in printed


def test_one_slow_program_does_not_hold_the_rest(pool: Pool) -> None:
    """The stream yields what has ended while a slow one runs on; leaving it early begins no further program."""
    stream = pool.stream([sleeps(4), *(adds(n) for n in range(20))])
    begun = time.monotonic()
    first = [next(stream)[0] for _ in range(20)]
    assert 0 not in first
    assert time.monotonic() - begun < 4
    assert next(stream)[0] == 0

    left = pool.stream([sleeps(0.2, n) for n in range(1000)])
    next(left)
    left.close()  # type: ignore[attr-defined]
    assert statuses(pool.run([adds("after")])) == ["passed"]


def test_no_programs(pool: Pool) -> None:
    """An empty batch is an empty list, and starts nothing."""
    assert pool.run([]) == []
    assert keepers_below(os.getpid()) == []


def test_values_that_cannot_cross_are_no_fault_of_the_program(pool: Pool) -> None:
    """A test with an argument that is no plain data ends as infrastructure, and the others are judged."""
    bad = Program("def f(x): return x", Calls([Call("f(object())", "f", (object(),))]))
    outcomes = pool.run([bad, adds()])
    assert statuses(outcomes) == ["infrastructure", "passed"]
    assert "f(object())" in outcomes[0].detail


def test_a_killed_worker_is_replaced(pool: Pool) -> None:
    """Killing boxes in the middle of a batch loses nothing: what they ran is run again on new ones."""
    pool.run([adds()])
    stop = threading.Event()
    killed = []

    def kill() -> None:
        for _ in range(2):  # each on its own, so that no program can lose two
            stop.wait(0.5)
            keeper = keepers_below(os.getpid())[0]
            os.kill(keeper, signal.SIGKILL)
            killed.append(keeper)
            until(lambda: len(set(keepers_below(os.getpid())) - set(killed)) == 2)
            stop.wait(1.0)

    killer = threading.Thread(target=kill)
    killer.start()
    outcomes = pool.run([sleeps(0.05, n) for n in range(120)])
    stop.set()
    killer.join()
    assert len(killed) == 2
    assert set(statuses(outcomes)) == {"passed"}


def test_a_box_that_can_start_nothing_more_is_replaced(pool: Pool) -> None:
    """What its judge was given is run in a new one, where it stands for itself; no call raises."""
    pool.run([adds()])
    keepers = keepers_below(os.getpid())
    for keeper in keepers:
        (judge,) = children_of(keeper)
        for zygote in children_of(judge):
            os.kill(zygote, signal.SIGKILL)
    assert statuses(pool.run([sleeps(0.05, n) for n in range(8)])) == ["passed"] * 8
    assert not set(keepers) & set(keepers_below(os.getpid()))


def test_a_program_that_loses_two_workers_is_at_fault(pool: Pool) -> None:
    """The second box that ends over a program ends the program as an error that names it; the rest is judged."""
    judged = threading.Event()

    def kill() -> None:
        while not judged.is_set():  # a box that was not given the program yet does not count
            for keeper in keepers_below(os.getpid()):
                judged.wait(1.0)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(keeper, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    outcomes = pool.run([sleeps(5)])
    judged.set()
    killer.join()
    assert statuses(outcomes) == ["error"]
    assert "program 0 ended two workers" in outcomes[0].detail
    assert statuses(pool.run([adds()])) == ["passed"]


def test_without_workers_nothing_is_scored(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no box can be started, every program ends as infrastructure with the reason; once one can, work goes on."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    outcomes = pool.run([adds(n) for n in range(5)])
    assert set(statuses(outcomes)) == {"infrastructure"}
    assert all("/nowhere/python" in outcome.detail for outcome in outcomes)
    monkeypatch.undo()
    assert statuses(pool.run([adds()])) == ["passed"]


def test_closing_in_the_middle(pool: Pool) -> None:
    """Closing ends what runs, at once: it is told as infrastructure, and a closed pool takes no further batch."""
    pool.run([adds()])
    closer = threading.Timer(0.5, pool.close)
    closer.start()
    begun = time.monotonic()
    outcomes = pool.run([sleeps(30, n) for n in range(4)])
    closer.join()
    assert time.monotonic() - begun < 10
    assert set(statuses(outcomes)) == {"infrastructure"}
    with pytest.raises(ValueError, match="closed"):
        pool.run([adds()])


def test_a_pool_that_is_dropped_takes_its_boxes_along() -> None:
    """A pool that nobody holds any more ends its boxes without being closed."""
    dropped = Pool(workers=1, level=LEVEL, packages=())
    dropped.run([adds()])
    (keeper,) = keepers_below(os.getpid())
    del dropped
    gc.collect()
    assert not alive(keeper)


def test_workers_outlive_the_thread_that_started_them(pool: Pool) -> None:
    """Boxes that were started for one thread serve another after the first has ended."""
    seen: list[Outcome] = []
    threads = [threading.Thread(target=lambda: seen.extend(pool.run([adds(random.random())]))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    before = keepers_below(os.getpid())
    time.sleep(0.3)
    assert statuses(seen + pool.run([adds("later")])) == ["passed"] * 5
    assert keepers_below(os.getpid()) == before


def test_an_async_caller_goes_on_meanwhile(pool: Pool) -> None:
    """The event loop turns while programs run; cancelling the call begins no further program."""

    async def both() -> tuple[list[Outcome], int]:
        running = asyncio.ensure_future(pool.arun([sleeps(0.5), adds()]))
        turns = 0
        while not running.done():
            await asyncio.sleep(0.01)
            turns += 1
        return running.result(), turns

    outcomes, turns = asyncio.run(both())
    assert statuses(outcomes) == ["passed", "passed"]
    assert turns > 10

    async def cancelled() -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(pool.arun([sleeps(0.3, n) for n in range(1000)]), 0.5)

    begun = time.monotonic()
    asyncio.run(cancelled())
    assert time.monotonic() - begun < 8


def _rank(pool: Pool, answers: "multiprocessing.SimpleQueue[list[str]]") -> None:
    answers.put(statuses(pool.run([adds(n) for n in range(5)])))
    pool.close()


def _spawned_rank(answers: "multiprocessing.SimpleQueue[list[str]]") -> None:
    with Pool(workers=1, level=LEVEL, packages=()) as own:
        answers.put(statuses(own.run([adds(n) for n in range(5)])))


def test_a_forked_rank_has_boxes_of_its_own(pool: Pool) -> None:
    """A forked copy of a pool at work starts boxes of its own, and leaves those of its parent alone."""
    pool.run([adds()])
    before = keepers_below(os.getpid())
    forked = multiprocessing.get_context("fork")
    answers: multiprocessing.SimpleQueue[list[str]] = forked.SimpleQueue()
    busy = threading.Thread(target=lambda: pool.run([sleeps(0.05, n) for n in range(40)]))
    busy.start()
    ranks = [forked.Process(target=_rank, args=(pool, answers)) for _ in range(2)]
    for rank in ranks:
        rank.start()
    assert [answers.get() for _ in ranks] == [["passed"] * 5] * 2
    for rank in ranks:
        rank.join()
    busy.join()
    assert statuses(pool.run([adds("after")])) == ["passed"]
    assert set(before) <= set(keepers_below(os.getpid()))


def test_a_spawned_rank() -> None:
    """A spawned process makes a pool of its own."""
    spawned = multiprocessing.get_context("spawn")
    answers: multiprocessing.SimpleQueue[list[str]] = spawned.SimpleQueue()
    rank = spawned.Process(target=_spawned_rank, args=(answers,))
    rank.start()
    assert answers.get() == ["passed"] * 5
    rank.join()


@pytest.mark.parametrize("level", levels_here.offered())
def test_boxes_die_with_a_killed_trainer(level: str) -> None:
    """A trainer that is killed in the middle of a batch takes every process of its boxes along."""
    script = (
        f"import sys; sys.path[:0] = [{str(SCRIPTS)!r}, {str(Path(__file__).parent)!r}]\n"
        "from llm_finetuning.sandbox.pool import Pool\nfrom llm_finetuning.sandbox.jobs import *\n"
        "code = 'import time\\ndef f(): time.sleep(60)'\n"
        "programs = [Program(code + ' ' * n, Calls([Call('f()', 'f')]), Limits(wall_s=60)) for n in range(4)]\n"
        f"Pool(workers=2, level={level!r}, packages=()).run(programs)"
    )
    with subprocess.Popen([sys.executable, "-c", script]) as trainer:
        assert until(lambda: len(keepers_below(trainer.pid)) == 2)
        time.sleep(0.5)
        keepers = keepers_below(trainer.pid)
        trainer.kill()
    assert until(lambda: not any(alive(keeper) for keeper in keepers))


HOSTILE = [
    "import os\nos._exit(0)",
    "import sys\nsys.exit(0)",
    "def f(a, b): raise SystemExit(0)",
    "import os, signal\ndef f(a, b): os.kill(os.getppid(), signal.SIGKILL)",
    "import ctypes\ndef f(a, b): ctypes.string_at(0)",
    "import os\ndef f(a, b):\n  while True: os.fork()",
    "import os\ndef f(a, b):\n  for n in range(3, 64): os.close(n)",
    "import os\ndef f(a, b):\n  for n in range(64): os.write(n, b'x' * 65)",
    "import threading\ndef f(a, b): [threading.Thread(target=threading.Event().wait).start() for _ in range(99)]",
    "class A(int):\n  def __eq__(s, o): return True\ndef f(a, b): return A(9)",
    "def f(a, b): return [[]] * 10 ** 9",
    "def f(a, b): return 'x' * (64 << 20)",
    "open('left', 'w').write('x' * 9999)\ndef f(a, b): return 4",
    "this is no program",
]


def test_many_mixed_executions(pool: Pool) -> None:
    """Of thousands of programs, a third of them hostile, each ends as it must; nothing is lost and nothing grows."""
    choice = random.Random(4)
    kinds: list[str] = []
    programs: list[Program] = []
    for place in range(MIXED):
        kind = choice.choice(["right", "wrong", "hostile"])
        kinds.append(kind)
        if kind == "hostile":
            programs.append(Program(f"{choice.choice(HOSTILE)}  # {place}", adds().tests, Limits(memory_mb=256)))
        elif place % 10 == 0:
            right = Suite(f"assert f(2, 3) == {5 if kind == 'right' else 6}")
            programs.append(Program(f"def f(a, b): return a + b  # {place}", right))
        elif place % 10 == 1:
            said = Exchanges([Exchange("2 3", "5" if kind == "right" else "6")])
            programs.append(Program(f"print(sum(map(int, input().split())))  # {place}", said))
        else:
            programs.append(adds(place, right=kind == "right"))
    outcomes = pool.run(programs[:50])
    before = len(list(Path("/proc/self/fd").iterdir())), keepers_below(os.getpid())
    outcomes += pool.run(programs[50:])
    ended = [(kind, outcome.status == "passed") for kind, outcome in zip(kinds, outcomes, strict=True)]
    assert set(ended) == {("right", True), ("wrong", False), ("hostile", False)}
    assert "infrastructure" not in statuses(outcomes)
    assert (len(list(Path("/proc/self/fd").iterdir())), keepers_below(os.getpid())) == before
