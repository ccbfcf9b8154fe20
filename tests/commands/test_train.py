"""`finetune train` as a person sees it: a finished run left alone, a slow start explained, a stop waited for."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import finished_runs
from guards import outcome
from llm_finetuning import environment
from llm_finetuning.commands import train
from llm_finetuning.errors import MachineryFailure, Refusal
from llm_finetuning.training_run import TrainingRun

Finetune = Callable[..., tuple[int, str, str]]
GUARDS = Path(__file__).resolve().parents[2] / "scripts" / "llm_finetuning" / "templates" / "run" / "guards"
ANSWERS = "trap 'sleep {seconds}; kill $!; exit 3' TERM\necho begun\nsleep 60 &\nwait\n"
DEAF = "trap '' TERM\necho begun\nwhile true; do sleep 0.1; done\n"

Trains = Callable[..., Path]
Tree = dict[str, tuple[int, int, bytes]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained to its end, copied by each test."""
    folder = finished_runs.write_drawn(tmp_path_factory.mktemp("finished"))
    finished_runs.examine(folder)
    finished_runs.read(folder)
    finished_runs.build(folder)
    finished_runs.train(folder)
    return folder


@pytest.fixture
def finished(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same in a folder of its own, named as a person does who stands beside it."""
    shutil.copytree(trained, tmp_path / "my-run")
    monkeypatch.chdir(tmp_path)
    return Path("my-run")


def tree(folder: Path) -> Tree:
    """Return every file below a folder, with its time and content, and every folder's time."""
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_size, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


ASKED = "an interpreter was asked for"


@pytest.fixture
def unstartable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell a start by its first act: the choice of an interpreter."""

    def asked(*_: object) -> str:
        raise Refusal(ASKED)

    monkeypatch.setattr(environment, "training_python", asked)


# --- a run that has finished -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unstartable")
@pytest.mark.parametrize("options", [[], ["--foreground"]], ids=["background", "foreground"])
def test_a_finished_run_is_left_alone(finished: Path, finetune: Finetune, options: list[str]) -> None:
    """Nothing is started and nothing written; the answer has the step and the reason of its end, and what is next."""
    before = tree(finished)
    code, out, err = finetune("train", finished, *options)

    assert (code, err) == (0, "")
    first, log, following = out.splitlines()
    assert first == (
        f"train: finished before: step {finished_runs.STEPS}: all steps done; there is nothing left to do, and nothing "
        "was started"
    )
    assert log == "log: my-run/train/logs/train.log"
    assert following == "next: finetune diagnose my-run"
    assert tree(finished) == before
    facts = json.loads(finetune("train", finished, *options, "--json")[1])
    assert (facts["state"], facts["started"], facts["exit_code"]) == ("finished", False, 0)
    assert (facts["global_step"], facts["reason"]) == (finished_runs.STEPS, "all steps done")
    assert tree(finished) == before


@pytest.mark.usefixtures("unstartable")
@pytest.mark.parametrize("what", ["stopped", "failed", "no outcome", "no model", "set back"])
def test_any_other_run_is_started(finished: Path, finetune: Finetune, what: str) -> None:
    """One that was stopped or failed, one whose model is gone, one that was never started."""
    folder = finished / "train"
    if what == "no model":
        shutil.rmtree(folder / "model")
    else:
        outcome.clear(folder)
    if what in ("stopped", "failed"):
        outcome.write(folder, what, "a reason", global_step=3, exit_code=0)
    if what == "set back":
        shutil.rmtree(folder / "logs")
    assert finetune("train", finished)[2] == f"finetune: {ASKED}\n"


@pytest.mark.usefixtures("unstartable")
def test_a_finished_run_of_another_build_is_refused_as_before(finished: Path, finetune: Finetune) -> None:
    """What finished is not what the brief asks for now; and what is named is named as it was given."""
    path = finished / "brief.yaml"
    path.write_text(path.read_text("utf-8").replace("gradient_accumulation_steps: 2", "gradient_accumulation_steps: 4"))
    code, out, err = finetune("train", finished)

    assert (code, out) == (2, "")
    assert "changed since it was made; run `finetune " in err
    assert " my-run`" in err
    assert str(Path.cwd()) not in err


def test_building_a_finished_run_again_does_not_send_to_train(finished: Path, finetune: Finetune) -> None:
    """The folder stays as it is, and so what comes next is what came next."""
    code, out, _ = finetune("build", finished, "--no-check")

    assert code == 0
    assert "what the run left in train/ stays" in out
    assert out.endswith("wrote: my-run/train\nnext: finetune diagnose my-run\n")
    assert str(Path.cwd()) not in out


# --- where a run stands, and its end ---------------------------------------------------------------------------------


@pytest.fixture
def trains(run_dir: Path) -> Iterator[Trains]:
    """A run with a launch file in the trainer's place, which has begun and logged these steps; nothing of it stays."""
    training = TrainingRun(run_dir / "train")
    begun: list[subprocess.Popen[bytes]] = []

    def start(launch: str, steps: Mapping[int, dict[str, Any]], **options: Any) -> Path:
        training.folder.mkdir()
        body = {"trainer": options, "versions": {"trl": "1.16.0"}}
        (training.folder / "config.yaml").write_text(json.dumps(body), "utf-8")
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


EVALUATES = {"eval_strategy": "steps", "eval_steps": 5, "eval_on_start": True}
BASE = {"eval_reward": 0.875, "eval_runtime": 48.0}


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ({0: {}}, "step 0 of 100: it measures the held-out rows to their end, takes one step more, saves "),
        (
            {0: BASE, 4: {"loss": 0.5}},
            "step 4 of 100, about 3 min a step: it finishes the step at hand, measures the held-out rows, saves ",
        ),
        ({0: BASE, 3: {"loss": 0.5}}, "step 3 of 100, about 3 min a step: it finishes the step at hand, saves "),
        (
            {0: {}, 4: BASE, 5: {"loss": 0.5}},
            "step 5 of 100, about 3 min a step: it measures the held-out rows to their end, about 48 s, takes one step",
        ),
    ],
    ids=["before the first step", "an evaluation follows", "none follows", "an evaluation is under way"],
)
def test_stop_says_what_is_measured_first(
    trains: Trains, finetune: Finetune, steps: Mapping[int, dict[str, Any]], words: str
) -> None:
    """A stop is answered at the end of a step, and an evaluation that is due is part of it; neither is the other."""
    run = trains(ANSWERS.format(seconds=0), steps, **EVALUATES)
    err = finetune("train", run, "--stop")[2]
    assert err.startswith(f"stopping the run at {words}"), err


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        ({0: {}}, "step 0 of 100, measuring the held-out rows before the first step"),
        ({0: BASE}, "step 0 of 100, held-out reward 0.875, taking the first step"),
        ({0: {}, 1: {"reward": 0.5, "loss": 0.25}}, "step 1 of 100, reward 0.5, loss 0.25, about 5.0 h left"),
    ],
    ids=["measuring", "measured", "stepping"],
)
def test_a_slow_start_is_explained(
    trains: Trains, finetune: Finetune, steps: Mapping[int, dict[str, Any]], line: str
) -> None:
    """`status` says what a run does before its first step, and calls a mean reward no success."""
    run = trains(DEAF, steps, **EVALUATES)
    assert line in finetune("status", run)[1]


def test_the_foreground_says_what_comes_before_the_first_step(
    trains: Trains, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once, and then each step once."""
    run = trains(DEAF, {0: {}}, **EVALUATES)
    log = run / "train" / "logs" / "progress.jsonl"
    tell = train._teller()  # what --foreground calls again and again
    at = time.time()
    for step, seen in [(0, None), (0, BASE), (1, {"loss": 0.5}), (2, {"loss": 0.25})]:
        if seen is not None:
            with log.open("a") as stream:
                stream.write(json.dumps({"step": step, "max_steps": 100, "at": at, "metrics": seen}) + "\n")
        for _ in range(3):
            tell(TrainingRun(run / "train"))
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == [
        "step 0 of 100, measuring the held-out rows before the first step",
        "step 0 of 100, held-out reward 0.875, taking the first step",
    ]
    assert [line.partition(",")[0] for line in said[2:]] == ["step 1 of 100", "step 2 of 100"]
