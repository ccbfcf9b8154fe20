"""`train --stop` as a person waits for it: what it waits for, for how long, and that it has ended."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning.commands import train
from llm_finetuning.errors import MachineryFailure
from llm_finetuning.training_run import TrainingRun

Finetune = Callable[..., tuple[int, str, str]]
GUARDS = Path(__file__).resolve().parents[2] / "scripts" / "llm_finetuning" / "templates" / "run" / "guards"
ANSWERS = "trap 'sleep {seconds}; kill $!; exit 3' TERM\necho begun\nsleep 60 &\nwait\n"
DEAF = "trap '' TERM\necho begun\nwhile true; do sleep 0.1; done\n"

Trains = Callable[..., Path]


@pytest.fixture
def trains(run_dir: Path) -> Iterator[Trains]:
    """A run with a launch file in the trainer's place, which has begun and logged these steps; nothing of it stays."""
    training = TrainingRun(run_dir / "train")
    begun: list[subprocess.Popen[bytes]] = []

    def start(launch: str, steps: Mapping[int, dict[str, Any]]) -> Path:
        training.folder.mkdir()
        shutil.copytree(GUARDS, training.folder / "guards")
        (training.folder / "launch.sh").write_text(launch, "utf-8")
        begun.append(training.start(sys.executable, {}))
        deadline = time.monotonic() + 10
        while not (training.log.exists() and b"begun" in training.log.read_bytes()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        if steps:
            at = time.time()
            rows = [
                {"step": step, "max_steps": 100, "at": at + 180 * step, "metrics": seen} for step, seen in steps.items()
            ]
            log = training.folder / "logs" / "progress.jsonl"
            log.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        return run_dir

    yield start
    assert training.stop(0.5) or training.stop(20)  # the second time kills
    for process in begun:
        process.wait(20)


def test_stop_says_what_it_waits_for_and_that_it_ended(
    trains: Trains, finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step, its pace, the longest wait at once; now and then where it stands; then its end."""
    monkeypatch.setattr(train, "TELL_EVERY_S", 0.5)
    run = trains(ANSWERS.format(seconds=1.5), {0: {}, 4: {"loss": 0.5}})
    code, out, err = finetune("train", run, "--stop")
    first, second, *going, last = err.splitlines()

    assert code == 0
    assert first.startswith(
        "stopping the run at step 4 of 100, about 3 min a step: it finishes the step at hand, saves "
    )
    assert second.startswith("waiting for its end, 10 min at most; Ctrl-C ends the waiting alone")
    assert 1 <= len(going) <= 4
    assert all(line.startswith("still waiting after ") and "step 4 of 100, loss 0.5" in line for line in going)
    assert last.startswith("the run ended after ")
    assert out.startswith("train: stopped: ")


def test_the_first_words_come_before_the_wait(
    trains: Trains, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that does not end in time was announced, and does not count as ended."""
    monkeypatch.setattr(train, "STOP_WAIT_S", 0.5)
    run = trains(DEAF, {0: {}, 4: {"loss": 0.5}})
    with pytest.raises(MachineryFailure, match="still running"):
        train.end(run)
    err = capsys.readouterr().err

    assert "stopping the run at step 4 of 100" in err
    assert "ended after" not in err


def test_a_run_that_only_starts_has_nothing_to_save(trains: Trains, finetune: Finetune) -> None:
    """No step and no pace are made up; the object of `--json` stays alone on standard output."""
    run = trains(ANSWERS.format(seconds=0), {})
    _, out, err = finetune("train", run, "--stop", "--json")

    assert err.startswith("stopping the run: it has not begun to train, so that there is nothing new to save\n")
    assert "step" not in err
    assert set(json.loads(out)) == {"run_dir", "log", "state", "reason", "global_step", "exit_code", "next"}
