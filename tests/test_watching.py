"""A reward that ends the process, or holds it, is said all the same."""

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import runs
from llm_finetuning import watching

Process = Callable[..., CompletedProcess[str]]

MINE = """\
import ctypes, os, signal, subprocess, sys, time

calls = 0


def mine(completions, answer, **kwargs):
    global calls
    calls += 1
    if calls == 4:
        {does}
    return [0.0] * len(completions)
"""


def run_with(folder: Path, does: str) -> Path:
    """Write a sampled run whose own reward does this in the call of the second batch."""
    text = runs.BRIEF.replace("use: exact_answer\n    options: {extract: last_number}", "file: mine.py:mine")
    runs.write_run(folder, text=text)
    (folder / "mine.py").write_text(MINE.format(does=does), "utf-8")
    runs.write_samples(folder)
    return folder


@pytest.mark.parametrize(
    ("does", "code"),
    [
        ("ctypes.string_at(0)", -signal.SIGSEGV),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("ctypes.CDLL(None)._exit(0)", 0),
    ],
    ids=["crash in C", "killed", "exit behind Python"],
)
def test_a_reward_that_ends_the_process_is_said(
    tmp_path: Path, finetune_process: Process, does: str, code: int
) -> None:
    """One line: where, after how many samples, and what to do; nothing is written and nothing lost."""
    folder = run_with(tmp_path / "run", does)
    (folder / "labels.jsonl").write_text("what a reader wrote\n", "utf-8")
    done = finetune_process("score", folder)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("finetune: ")]

    assert done.returncode == code
    assert f"{folder}: the process ended while rewards were called, after 32 of 75 samples" in line
    assert "mend the reward and score again" in line
    assert not (folder / "scores.jsonl").exists()
    assert (folder / "labels.jsonl").read_text("utf-8") == "what a reader wrote\n"


def test_a_reward_that_exits_is_refused_with_its_line(tmp_path: Path, finetune_process: Process) -> None:
    """`os._exit(0)` would look like a verb that is done."""
    folder = run_with(tmp_path / "run", "os._exit(0)")
    done = finetune_process("score", folder)

    assert done.returncode == 2
    assert f"{folder / 'mine.py'}:10: reward `mine`: SystemExit: os._exit(0)" in done.stderr
    assert "process ended" not in done.stderr


@pytest.mark.parametrize(
    "does", ["if os.fork() == 0: os._exit(0)", "subprocess.run([sys.executable, '-c', 'import os; os._exit(0)'])"]
)
def test_processes_that_a_reward_starts_end_as_they_like(tmp_path: Path, finetune_process: Process, does: str) -> None:
    """A reward may fork, as multiprocessing does."""
    done = finetune_process("score", run_with(tmp_path / "run", does))

    assert done.returncode == 0, done.stderr
    assert "finetune: " not in done.stderr


def test_a_reward_that_stands_still_is_said_while_it_does(capfd: pytest.CaptureFixture[str]) -> None:
    """Once after a silence, then after twice as long; a call that returned begins anew; the end says nothing."""
    with watching.watched("RUN", 75, quiet_s=0.3) as tell:
        tell(32)
        time.sleep(1.3)
        tell(8)
        time.sleep(0.15)
    lines = capfd.readouterr().err.splitlines()

    assert lines == [
        f"RUN: no reward returned for {wait} s, after 32 of 75 samples; Ctrl-C ends it" for wait in ("0.3", "0.6")
    ]


def test_scoring_goes_on_without_the_watcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody ended it, or it could not start: that is no reason to lose scores."""
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with watching.watched("RUN", 75) as told:
        for _ in range(100_000):
            told(1)  # far more than a pipe holds
