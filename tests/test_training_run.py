"""A run folder that trains: one start at a time, a log without credentials, an outcome however it ends."""

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llm_finetuning.errors import MachineryFailure, Refusal
from llm_finetuning.training_run import TrainingRun

GUARDS = Path(__file__).resolve().parents[1] / "scripts" / "llm_finetuning" / "templates" / "run" / "guards"

FINISHES = f"""
exec {sys.executable} -c "
import sys; sys.path.insert(0, '.')
from pathlib import Path
from guards import outcome
outcome.write(Path('.'), 'finished', 'all steps done', global_step=3, exit_code=0)
"
"""

STOPS_WHEN_ASKED = """
trap 'echo "step ended"; kill $!; exit 3' TERM
echo begun
sleep 60 &
wait
"""


def until(true: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[str], TrainingRun]]:
    """A run folder with the launch file that a test gives; nothing of it is left behind."""
    training = TrainingRun(tmp_path / "train")

    def make(launch: str) -> TrainingRun:
        training.folder.mkdir()
        shutil.copytree(GUARDS, training.folder / "guards")
        (training.folder / "launch.sh").write_text(launch, "utf-8")
        return training

    yield make
    with contextlib.suppress(OSError, ValueError):
        os.kill(json.loads((training.folder / "logs" / "run.lock").read_text())["pid"], signal.SIGKILL)


def start(training: TrainingRun, **environ: str) -> int:
    """Start the run and return its exit code once it has ended."""
    return training.start(sys.executable, environ).wait(20)


def test_a_run_that_finishes(made: Callable[[str], TrainingRun]) -> None:
    """The outcome is the trainer's own, and the exit code is the outcome's."""
    training = made(FINISHES)

    assert start(training) == 0
    assert not training.is_running()
    ended = training.outcome()
    assert ended is not None
    assert (ended["state"], ended["global_step"]) == ("finished", 3)


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        ("kill -9 $$", "killed from outside, probably out of memory"),
        ("kill -SEGV $$", "ended by SIGSEGV"),
        ("echo one; echo 'no such model'; exit 5", "ended with exit code 5; its last line: no such model"),
        ("exit 7", "ended with exit code 7; its last line: nothing"),
    ],
    ids=["killed", "crashed", "said why", "silent"],
)
def test_a_trainer_that_dies_without_a_word(made: Callable[[str], TrainingRun], launch: str, words: str) -> None:
    """The supervisor says how it ended, as machinery that failed."""
    training = made(launch)

    assert start(training) == 4
    ended = training.outcome()
    assert ended is not None
    assert ended["state"] == "failed"
    assert words in ended["reason"]


def test_one_start_at_a_time(made: Callable[[str], TrainingRun]) -> None:
    """A second start of a running folder is refused, and one after its end is not."""
    training = made("sleep 60")
    process = training.start(sys.executable, {})
    assert until(training.is_running)
    assert training.outcome() is None

    with pytest.raises(Refusal, match="it trains already"):
        training.start(sys.executable, {})
    assert training.stop(20)
    assert process.wait(20) == 0
    ended = training.outcome()
    assert ended is not None
    assert ended["state"] == "stopped"
    (training.folder / "launch.sh").write_text(FINISHES, "utf-8")
    assert start(training) == 0


def test_stop_reaches_the_trainer(made: Callable[[str], TrainingRun]) -> None:
    """A stop is a SIGTERM that the trainer may answer by finishing its step."""
    training = made(STOPS_WHEN_ASKED)
    process = training.start(sys.executable, {})
    assert until(lambda: training.log.exists() and b"begun" in training.log.read_bytes())

    assert training.stop(20)
    process.wait(20)
    assert b"step ended" in training.log.read_bytes()


def test_a_second_stop_kills(made: Callable[[str], TrainingRun]) -> None:
    """A trainer that does not answer the first stop is ended by the second, with all that it started."""
    training = made("trap '' TERM; echo begun; (trap '' TERM; sleep 60) & while true; do sleep 0.1; done")
    process = training.start(sys.executable, {})
    assert until(lambda: training.log.exists() and b"begun" in training.log.read_bytes())

    assert not training.stop(0.3)
    assert training.stop(20)
    assert process.wait(20) == 0
    ended = training.outcome()
    assert ended is not None
    assert "before the step at hand was saved" in ended["reason"]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def leads_a_group(pid: int) -> bool:
    """Whether the one child is there and has become the head of its own group."""
    return [os.getpgid(child) for child in children(pid)] == children(pid) != []


def test_a_start_that_could_say_nothing(made: Callable[[str], TrainingRun]) -> None:
    """Killed with its supervisor, a run is not one that was never started."""
    training = made("sleep 60")
    assert training.outcome() is None
    process = training.start(sys.executable, {})
    assert until(lambda: leads_a_group(process.pid))
    (child,) = children(process.pid)
    process.kill()
    os.killpg(child, signal.SIGKILL)
    process.wait(20)
    assert until(lambda: not training.is_running())
    ended = training.outcome()
    assert ended is not None
    assert (ended["state"], ended["exit_code"]) == ("failed", 4)
    assert "without a word" in ended["reason"]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """One line, whoever asks."""
    (tmp_path / "train").write_text("a file where a folder belongs")
    with pytest.raises(MachineryFailure, match="cannot be written"):
        TrainingRun(tmp_path / "train").start(sys.executable, {})


def test_the_log_holds_no_credentials(made: Callable[[str], TrainingRun]) -> None:
    """Values of variables that are named like credentials, and passwords in addresses, are hidden."""
    training = made(
        'echo "token $HF_TOKEN, key=$WANDB_API_KEY."; echo "at http://user:hunter22@proxy:3128/"; echo "$SHORT_TOKEN"'
    )

    start(training, HF_TOKEN="hf_0123456789abcdef", WANDB_API_KEY="wandb-key-1", SHORT_TOKEN="a")
    log = training.log.read_text()
    assert log == "token [hidden], key=[hidden].\nat http://[hidden]@proxy:3128/\na\n"


def test_progress_is_read_while_it_is_written(made: Callable[[str], TrainingRun]) -> None:
    """The last whole line counts; the time left follows the pace since this start, not since an earlier one."""
    training = made("true")
    assert training.progress() is None
    (training.folder / "logs").mkdir()
    lines = [
        {"step": 0, "max_steps": 100, "at": 0.0, "metrics": {}},
        {"step": 10, "max_steps": 100, "at": 1000.0, "metrics": {"loss": 1.0}},
        {"step": 10, "max_steps": 100, "at": 5000.0, "metrics": {}},
        {"step": 20, "max_steps": 100, "at": 5020.0, "metrics": {"loss": 0.5}},
    ]
    (training.folder / "logs" / "run.lock").write_text('{"pid": 1, "at": 4990.0}')
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (training.folder / "logs" / "progress.jsonl").write_text(text + '{"step": 2', "utf-8")

    progress = training.progress()
    assert progress is not None
    assert (progress.step, progress.metrics, progress.seconds_left) == (20, {"loss": 0.5}, 160.0)
    (training.folder / "logs" / "run.lock").write_text('{"pid": 1, "at": 6000.0}')
    assert training.progress() is None  # a later start that has not begun to train
