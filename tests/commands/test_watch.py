"""`finetune watch`: a run as it is now, while it is written, on a terminal and without one, and as a page."""

import contextlib
import fcntl
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from rich.console import Console
from test_review_terminal import Terminal

import logged_runs
from llm_finetuning import live_view, run_watcher
from llm_finetuning.commands import watch
from llm_finetuning.diagnosis import diagnose, reading
from llm_finetuning.diagnosis.log import Completion
from llm_finetuning.errors import Refusal
from llm_finetuning.run_watcher import RunWatcher

Finetune = Callable[..., tuple[int, str, str]]

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
ROWS = logged_runs.ROWS
HACKED = {
    "rewards/correct/mean": np.linspace(0.6, 0.1, ROWS),
    "rewards/polite/mean": np.linspace(0.1, 1.0, ROWS),
    "reward": np.linspace(0.7, 1.1, ROWS),
}
WANDB = "profiling/Time taken: GRPOTrainer."


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look takes next to nothing here, so that there is no need to wait between two."""
    monkeypatch.setattr(run_watcher, "EVERY_S", 0.01)
    monkeypatch.setattr(run_watcher, "PART", 0)
    monkeypatch.setattr(watch, "POLL_S", 0.01)


def write_jsonl(path: Path, found: dict[str, Any], *, until: int = ROWS) -> Path:
    """Write a log of another trainer, without the row that ends it."""
    path.write_text("".join(rows(found)[:until]), "utf-8")
    return path


def rows(found: dict[str, Any]) -> list[str]:
    count = len(next(iter(found.values())))
    listed = [{"step": at + 1, **{name: float(values[at]) for name, values in found.items()}} for at in range(count)]
    return [json.dumps(row) + "\n" for row in listed]


SUMMARY = json.dumps({"step": ROWS, "train_runtime": 200.0, "train_loss": 0.1}) + "\n"


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(folder.rglob("*"))}


@contextlib.contextmanager
def training(folder: Path, at: float = 0.0) -> Iterator[None]:
    """Hold the lock of a run as its supervisor does; outcome.json says afterwards how it ended."""
    logs = folder / "train" / "logs"
    with (logs / "run.lock").open("w+") as lock:
        lock.write(json.dumps({"pid": os.getpid(), "at": at}))
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        ended = {"state": "finished", "reason": "trained 100 steps", "global_step": ROWS, "exit_code": 0}
        (logs / "outcome.json").write_text(json.dumps(ended), "utf-8")


# --- the state as it is now -----------------------------------------------------------------------------------------


def test_a_finished_run_is_shown_once(tmp_path: Path, finetune: Finetune) -> None:
    """Its final state, with the verdict and the advice that `diagnose` has, in ASCII; nothing in the run changes."""
    folder = logged_runs.write(tmp_path / "run", logged_runs.columns(**HACKED))
    before = tree(folder)
    code, out, _ = finetune("watch", folder)

    found = diagnose(reading.read(folder))
    assert code == 0
    assert tree(folder) == before
    assert out.isascii()
    assert "step 100 of 100, ended: no process trains there" in out
    assert f"alarm: proxy only from step {found.findings[0].since:g}: {found.text}" in out
    assert f"advice: {found.advice.change}" in out
    for name in ("reward ", "correct ", "polite ", "groups with signal", "length", "cut at the cap", "entropy", "KL"):
        assert re.search(rf"^{name} *[\d.e-]+ ", out, re.MULTILINE), name
    assert "not in the log: tokens clipped" in out
    assert out.count("from the first step to now: 0 lowest, 9 highest") == 1


def test_numbers_are_those_of_the_log(tmp_path: Path, finetune: Finetune) -> None:
    """The last row, the means of the last and first ten, and the course over the run."""
    reward = np.linspace(0.0, 0.99, ROWS)
    folder = logged_runs.write(tmp_path / "run", logged_runs.columns(reward=reward))
    facts = json.loads(finetune("watch", folder, "--json")[1])
    shown = {metric["name"]: metric for metric in facts["metrics"]}

    assert shown["reward"]["now"] == pytest.approx(0.99)
    assert shown["reward"]["recent"] == pytest.approx(np.mean(reward[-10:]))
    assert shown["reward"]["first"] == pytest.approx(np.mean(reward[:10]))
    assert shown["reward"]["course"] == sorted(shown["reward"]["course"])
    assert shown["groups with signal"]["now"] == pytest.approx(1 - logged_runs.columns()["frac_reward_zero_std"][-1])
    assert facts["diagnosis"]["verdict"] == "healthy"
    assert facts["reached"]["state"] == "ended"
    assert finetune("watch", folder)[1].splitlines()[4].split()[-1].startswith("00")


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ('{"step": 101, "reward": 0.', "healthy"),
        ('{"step": 101, "reward": NaN, "entropy": NaN, "grad_norm": Infinity}\n', "healthy"),
        ("", "healthy"),
    ],
    ids=["torn line", "NaN and infinity", "whole"],
)
def test_a_log_in_the_middle_of_a_line_is_read(text: str, verdict: str, tmp_path: Path, finetune: Finetune) -> None:
    """What is not whole or no number is left out, and --once answers at once."""
    path = write_jsonl(tmp_path / "log.jsonl", logged_runs.columns(reward=logged_runs.rising()))
    with path.open("a") as stream:
        stream.write(text)
    code, out, _ = finetune("watch", path, "--once")
    assert code == 0
    assert f"no alarm: {verdict}" in out
    assert "nan" not in out
    assert json.loads(finetune("watch", path, "--json")[1])["reached"]["state"] == "open"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere: no such file or folder"),
        (["EMPTY"], "neither a run of `finetune build` nor an output folder"),
        (["RUN"], "nothing is logged yet"),
        (["LOG", "--serve", "--once"], "--serve: shows a page until Ctrl-C"),
    ],
    ids=["not there", "no log", "not begun", "once and a page"],
)
def test_what_cannot_be_watched_is_one_line(
    arguments: list[str], words: str, tmp_path: Path, finetune: Finetune
) -> None:
    """And exit code 2."""
    (tmp_path / "empty").mkdir()
    run = logged_runs.write(tmp_path / "run", logged_runs.columns())
    (run / "train" / "logs" / "progress.jsonl").unlink()
    log = write_jsonl(tmp_path / "log.jsonl", logged_runs.columns())
    places = {"EMPTY": tmp_path / "empty", "RUN": run, "LOG": log}
    code, _, err = finetune("watch", *[places.get(word, word) for word in arguments])
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (SUMMARY, "the trainer wrote its summary"),
        ("", "nothing was written for 60 min"),
    ],
    ids=["summary", "silence"],
)
def test_the_log_of_another_trainer_ends(more: str, reason: str, tmp_path: Path, finetune: Finetune) -> None:
    """With its summary, with its last step, or with a long silence; then the final state is all that is printed."""
    path = write_jsonl(tmp_path / "log.jsonl", logged_runs.columns())
    with path.open("a") as stream:
        stream.write(more)
    then = time.time() - (0 if more else 3600)
    os.utime(path, (then, then))
    code, out, _ = finetune("watch", path)
    assert code == 0
    assert f"ended: {reason}" in out.splitlines()[0]
    assert out.count("0 lowest, 9 highest") == 1


def test_a_state_says_how_many_steps_there_will_be(tmp_path: Path, finetune: Finetune) -> None:
    """Then the time left is what the steps at hand take; at the last step the run has ended."""
    history = [json.loads(row) for row in rows(logged_runs.columns())]
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"max_steps": 400, "global_step": 100, "log_history": history}), "utf-8")
    facts = json.loads(finetune("watch", tmp_path, "--json")[1])
    assert facts["reached"]["last_step"] == 400
    assert facts["reached"]["seconds_left"] == pytest.approx(300 * facts["time"]["whole"])
    path.write_text(json.dumps({"max_steps": 100, "global_step": 100, "log_history": history}), "utf-8")
    code, out, _ = finetune("watch", tmp_path)
    assert code == 0
    assert "ended: step 100 was the last" in out


def test_the_time_of_a_step_is_split_where_the_log_has_it(tmp_path: Path, finetune: Finetune) -> None:
    """TRL's profiling keys stand in rows of their own in an export of wandb; one generation serves four steps here."""
    path = write_jsonl(tmp_path / "log.jsonl", logged_runs.columns(step_time=np.full(ROWS, 4.0)))
    profile = {"vLLM.generate": 6.0, "sync_weights": 2.0, "_calculate_rewards": 4.0, "compute_loss": 0.5}
    with path.open("a") as stream:
        for name, seconds in profile.items():
            stream.write(json.dumps({"_step": 100, f"{WANDB}{name}": seconds}) + "\n")
    (tmp_path / "args.json").write_text(
        json.dumps({"gradient_accumulation_steps": 2, "steps_per_generation": 4, "num_iterations": 2}), "utf-8"
    )
    facts = json.loads(finetune("watch", path, "--json")[1])["time"]
    assert (facts["whole"], facts["rollout"], facts["reward"], facts["training"]) == (4.0, 2.0, 1.0, 1.0)
    assert facts["missing"] == []
    assert (
        "time: step 4 s: rollout 2 s (50%), reward 1 s (25%), training 1 s (25%)\n"
        in finetune("watch", path, "--once")[1]
    )


def test_what_is_missing_for_the_split_is_named(tmp_path: Path, finetune: Finetune) -> None:
    """TRL gives the parts of a step to three tools alone."""
    folder = logged_runs.write(tmp_path / "run", logged_runs.columns())
    out = finetune("watch", folder, "--once")[1]
    assert "GRPOTrainer._calculate_rewards (TRL hands them to wandb, MLflow and Trackio alone)" in out
    assert "step_time" not in out


# --- before the first step --------------------------------------------------------------------------------------------

EVALUATED = {
    "eval_loss": 0.5,
    "eval_reward": 0.875,
    "eval_rewards/correct/mean": 0.75,
    "eval_rewards/polite/mean": 0.125,
    "eval_runtime": 48.0,
}


def begun(
    folder: Path, *metrics: dict[str, Any], draws: int | None = 1, held_out: int = 30, batch: int | None = 10
) -> Path:
    """Write a run that measures its held-out rows first, of whose log nothing but these lines is there yet."""
    run = logged_runs.write(
        folder,
        logged_runs.columns(),
        eval_strategy="steps",
        eval_steps=50,
        eval_on_start=True,
        num_generations=8,
        num_generations_eval=draws,
        per_device_eval_batch_size=batch,
    )
    config = json.loads((run / "train" / "config.yaml").read_text("utf-8"))
    held = {"held_out": "data/held_out.jsonl"} if held_out else {"held_out": None}
    (run / "train" / "config.yaml").write_text(json.dumps({**config, "data": held}), "utf-8")
    if held_out:
        (run / "train" / "data").mkdir()
        (run / "train" / "data" / "held_out.jsonl").write_text('{"prompt": "p"}\n' * held_out, "utf-8")
    lines = [{"step": 0, "max_steps": ROWS, "at": time.time() + at, "metrics": seen} for at, seen in enumerate(metrics)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (run / "train" / "logs" / "progress.jsonl").write_text(text, "utf-8")
    return run


@pytest.mark.parametrize("given", ["run directory", "built folder"])
@pytest.mark.parametrize(
    ("metrics", "head", "shown"),
    [
        ([{}], "measuring the held-out rows before the first step", []),
        ([{}, EVALUATED], "taking the first step", [("reward of 30 draws", 0.875), ("correct", 0.75)]),
    ],
    ids=["measuring", "measured"],
)
def test_what_is_there_before_the_first_step_is_shown(
    tmp_path: Path, finetune: Finetune, metrics: list[dict[str, Any]], head: str, shown: list[Any], given: str
) -> None:
    """For minutes the held-out rows are measured: that is said, with what came of it, and no step is made up."""
    run = begun(tmp_path / "run", *metrics)
    place = run if given == "run directory" else run / "train"
    with training(run):
        code, out, err = finetune("watch", place, "--once")
        facts = json.loads(finetune("watch", place, "--json")[1])
    assert (code, err) == (0, "")
    assert out.startswith(f"step 0 of {ROWS}, no step has been taken yet, {head}   ")
    assert {f"held-out mean {name}": value for name, value in shown}.items() <= {
        metric["name"]: metric["now"] for metric in facts["metrics"]
    }.items()
    assert all(re.search(rf"^held-out mean {name} +{value:.3g} ", out, re.MULTILINE) for name, value in shown)
    assert ("0 lowest, 9 highest" in out) == bool(shown)
    assert "loss" not in out
    assert "time:" not in out
    assert (facts["has_steps"], facts["diagnosis"], facts["reached"]["step"]) == (False, None, 0.0)


def test_evaluations_alone_are_no_log_for_a_diagnosis(tmp_path: Path, finetune: Finetune) -> None:
    """What `watch` shows of them decides nothing: `diagnose` still asks to wait."""
    run = begun(tmp_path / "run", {}, EVALUATED)
    code, _, err = finetune("diagnose", run)
    assert code == 2
    assert "wait for the first step" in err


def test_evaluations_of_another_trainer_are_shown_too(tmp_path: Path, finetune: Finetune) -> None:
    """Of a log in any form, with as much as it says."""
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"step": 0, **EVALUATED}) + "\n", "utf-8")
    code, out, _ = finetune("watch", path, "--once")
    assert code == 0
    assert out.startswith("step 0, no step has been taken yet   ")
    assert re.search(r"^held-out mean reward +0.875 ", out, re.MULTILINE)


@pytest.mark.usefixtures("quick")
def test_a_run_is_followed_from_before_its_first_step(tmp_path: Path, finetune: Finetune) -> None:
    """Each thing it does is a line, once; then come its steps."""
    run = begun(tmp_path / "run", {})
    finetune("watch", run, "--once")  # what it imports is there by now
    path = run / "train" / "logs" / "progress.jsonl"
    rest = logged_runs.lines(logged_runs.columns(), at=time.time())[1:]
    evaluated = json.dumps({"step": 0, "max_steps": ROWS, "at": time.time(), "metrics": EVALUATED}) + "\n"

    def write() -> None:
        with training(run):
            ready.set()
            for lines in (evaluated[:20], evaluated[20:], rest[:1], rest[1:]):
                time.sleep(0.4)
                with path.open("a") as stream:
                    stream.write("".join(lines))
            time.sleep(0.4)

    ready = threading.Event()
    writer = threading.Thread(target=write)
    writer.start()
    ready.wait(10)
    code, out, _ = finetune("watch", run)
    writer.join()

    assert code == 0
    assert out.startswith(f"step 0 of {ROWS}, no step has been taken yet, measuring the held-out rows")
    assert out.count("measuring the held-out rows before the first step") == 1
    assert out.count("taking the first step") == 1
    assert [int(step) for step in re.findall(r"^step (\d+);", out, re.MULTILINE)] == list(range(1, ROWS + 1))
    assert f"step {ROWS} of {ROWS}, ended: finished" in out


@pytest.mark.parametrize(
    ("draws", "rows", "label", "words"),
    [
        (1, 30, "held-out mean reward of 30 draws", "30 draws were paid, one of each row: no success rate"),
        (4, 30, "held-out mean reward of 120 draws", "120 draws were paid, 4 of each row: no success rate"),
        (None, 5, "held-out mean reward of 40 draws", "40 draws were paid, 8 of each row: no success rate"),
        (1, 0, "held-out mean reward", "a few draws were paid, as the trainer takes it: no success rate"),
    ],
    ids=["one a row", "several", "as in training", "unknown"],
)
def test_the_reward_of_an_evaluation_is_not_taken_for_the_success_rate(
    tmp_path: Path, finetune: Finetune, draws: int | None, rows: int, label: str, words: str
) -> None:
    """Its label says that it is a mean, and of how many draws where that is known; a note says who measures success."""
    run = begun(tmp_path / "run", {}, EVALUATED, draws=draws, held_out=rows)
    path = run / "train" / "logs" / "progress.jsonl"
    path.write_text(path.read_text("utf-8") + "".join(logged_runs.lines(logged_runs.columns())[1:]), "utf-8")
    out = finetune("watch", run, "--once")[1]
    assert re.search(rf"^{label} +0.875 ", out, re.MULTILINE)
    assert f"note: held-out mean reward: the mean of what {words}, which `finetune evaluate` measures" in out


@pytest.mark.parametrize(
    ("rows", "batch", "is_even", "words"),
    [
        (26, 8, False, "so that this is not the mean of the rows"),
        (24, 8, True, ""),
        (6, 8, True, ""),
        (26, None, False, "so that this need not be the mean of the rows"),
    ],
    ids=["short last batch", "full batches", "one batch", "size unknown"],
)
def test_a_mean_over_batches_is_not_called_that_of_the_draws(
    tmp_path: Path, finetune: Finetune, rows: int, batch: int | None, *, is_even: bool, words: str
) -> None:
    """TRL logs the mean of the batches' means: it is that of the rows only where no batch is short."""
    run = begun(tmp_path / "run", {}, EVALUATED, held_out=rows, batch=batch)
    out = finetune("watch", run, "--once")[1]
    by_batch = "held-out reward, mean over batches"
    assert (re.search(rf"^{by_batch} +0.875 ", out, re.MULTILINE) is None) == is_even
    assert (f"held-out mean reward of {rows} draws" in out) == is_even
    assert (re.search(r"^held-out correct, mean over batches +0.75 ", out, re.MULTILINE) is None) == is_even
    if not is_even:
        assert f"note: {by_batch}: {rows} draws were paid, one of each row, and the trainer logs the mean of" in out
        assert f"a short last batch weighs as much as a full one, {words}; it is no success rate" in out


# --- while it is written --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_a_log_that_is_being_written_is_followed(tmp_path: Path, finetune: Finetune) -> None:
    """One block, a line for each step that comes, the verdict anew when it changes, and the final state at the end."""
    path = tmp_path / "log.jsonl"
    listed = rows(logged_runs.columns(reward=logged_runs.rising()))
    path.write_text("".join(listed[:5]), "utf-8")

    def write() -> None:
        with path.open("a") as stream:
            for row in [*listed[5:], SUMMARY]:
                for half in (row[:20], row[20:]):
                    stream.write(half)
                    stream.flush()
                    time.sleep(0.004)

    writer = threading.Thread(target=write)
    writer.start()
    code, out, err = finetune("watch", path)
    writer.join()

    assert (code, err) == (0, "")
    assert out.isascii()
    assert out.count("from the first step to now: 0 lowest, 9 highest") == 2
    steps = [int(step) for step in re.findall(r"^step (\d+);", out, re.MULTILINE)]
    begun = int(re.findall(r"^step (\d+),", out)[0])
    assert steps == list(range(begun + 1, ROWS + 1))
    assert out.index("undecided: too short") < out.index("no alarm: healthy")
    assert "ended: the trainer wrote its summary" in out


@pytest.mark.usefixtures("quick")
def test_a_run_of_ours_is_followed_to_its_end(tmp_path: Path, finetune: Finetune) -> None:
    """It is waited for until it logs; the time left is the run's own, and so is the reason of its end."""
    folder = logged_runs.write(tmp_path / "run", logged_runs.columns())
    path = folder / "train" / "logs" / "progress.jsonl"
    listed = logged_runs.lines(logged_runs.columns())
    path.unlink()

    def write() -> None:
        with training(folder):
            ready.set()
            time.sleep(0.2)
            path.write_text("".join(listed[:41]))
            time.sleep(0.5)
            with path.open("a") as stream:
                stream.write("".join(listed[41:]))
            time.sleep(0.2)

    ready = threading.Event()
    writer = threading.Thread(target=write)
    writer.start()
    ready.wait(10)
    code, out, _ = finetune("watch", folder)
    writer.join()

    assert code == 0
    assert out.startswith("step 40 of 100, about 3 min left")
    assert [f"step {step};" in out for step in (41, 70, 100)] == [True] * 3
    assert "step 100 of 100, ended: finished, trained 100 steps" in out


@pytest.mark.usefixtures("quick")
def test_steps_after_a_restart_are_new_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that was killed at step 30 goes on from the checkpoint of step 20."""
    listed = logged_runs.lines(logged_runs.columns())
    folder = logged_runs.write(tmp_path / "run", logged_runs.columns())
    path = folder / "train" / "logs" / "progress.jsonl"
    path.write_text("".join(listed[:31]))
    with training(folder), watch._lines() as show:
        watcher = RunWatcher(folder)
        assert watcher.look() is not None
        show(watcher)
        assert capsys.readouterr().out.startswith("step 30 of 100")
        with path.open("a") as stream:
            stream.write(listed[0].replace('"step": 0', '"step": 20') + listed[21])
        time.sleep(0.02)
        assert watcher.look() is not None
        show(watcher)
        said = capsys.readouterr().out
    assert re.findall(r"^step (\d+);", said, re.MULTILINE) == ["21"]


@pytest.mark.usefixtures("quick")
def test_nothing_is_read_where_nothing_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at a log that did not grow costs a glance at the file."""
    path = write_jsonl(tmp_path / "log.jsonl", logged_runs.columns())
    watcher = RunWatcher(path)
    assert watcher.look() is not None
    monkeypatch.setattr(reading, "read", lambda *_, **__: pytest.fail("read again"))
    time.sleep(0.02)
    assert watcher.look(patient=True) is None


def test_looks_keep_their_distance(tmp_path: Path) -> None:
    """A long log takes a while to read: at most a part of the time goes into it."""
    path = write_jsonl(tmp_path / "log.jsonl", logged_runs.columns())
    watcher = RunWatcher(path)
    assert watcher.look() is not None
    with path.open("a") as stream:
        stream.write(rows(logged_runs.columns())[-1])
    assert watcher.look() is None


@pytest.mark.usefixtures("quick")
def test_a_log_that_cannot_be_read_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """A trainer writes its state anew; the last view stays until it is whole again."""
    history = [json.loads(row) for row in rows(logged_runs.columns())]
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"max_steps": 400, "log_history": history[:50]}), "utf-8")
    watcher = RunWatcher(tmp_path)
    first = watcher.look(patient=True)
    assert first is not None
    path.write_text('{"max_steps": 400, "log_hist', "utf-8")
    time.sleep(0.02)
    assert watcher.look(patient=True) is None
    assert watcher.view is first
    with pytest.raises(Refusal):
        RunWatcher(tmp_path).look()
    path.write_text(json.dumps({"max_steps": 400, "log_history": history}), "utf-8")
    time.sleep(0.02)
    second = watcher.look(patient=True)
    assert second is not None
    assert second.reached.step == ROWS


# --- on a terminal --------------------------------------------------------------------------------------------------


def test_a_terminal_is_drawn_on_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    """The screen shows the alarm and what is new; Ctrl-C leaves the run alone, gives the screen back and says 130."""
    listed = logged_runs.lines(logged_runs.columns(**HACKED))
    folder = logged_runs.write(tmp_path / "run", logged_runs.columns(**HACKED))
    path = folder / "train" / "logs" / "progress.jsonl"
    path.write_text("".join(listed[:-1]), "utf-8")
    with training(folder):
        before = tree(folder)
        terminal = Terminal("watch", folder)
        terminal.until("\x1b[?1049h")
        terminal.until("step 99 of 100")
        terminal.until("alarm: proxy only")
        terminal.until("groups with signal")
        with path.open("a") as stream:
            stream.write(listed[-1])
        terminal.until("step 100 of 100")
        after = tree(folder)
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("interrupted")
        assert terminal.end() == 130
    assert "\x1b[?1049l" in terminal.shown
    assert set(after) == set(before)
    assert [name for name in after if after[name] != before[name]] == [str(path)]


def test_the_address_of_the_page_stands_on_the_screen(tmp_path: Path) -> None:
    """A line before it would be gone with the screen that it was printed on."""
    folder = logged_runs.write(tmp_path / "run", logged_runs.columns())
    with training(folder):
        terminal = Terminal("watch", folder, "--serve")
        terminal.until("\x1b[?1049h")
        address = re.search(r"http://127\.0\.0\.1:\d+/[\w-]+/", terminal.until("Ctrl-C ends this"))
        terminal.until("groups with signal")
        assert address is not None
        assert "Diagnosis" in httpx.get(address.group()).text
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130


def test_a_finished_run_leaves_its_state_on_the_terminal(tmp_path: Path) -> None:
    """After the screen that was there before has come back."""
    folder = logged_runs.write(tmp_path / "run", logged_runs.columns(**HACKED))
    terminal = Terminal("watch", folder)
    terminal.until("\x1b[?1049l")
    terminal.until("0 lowest, 9 highest")
    assert terminal.end() == 0


def test_a_dumb_terminal_gets_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No escape sequence, no letter beyond ASCII."""
    folder = logged_runs.write(tmp_path / "run", logged_runs.columns(**HACKED))
    real = subprocess.Popen

    def dumb(*arguments: Any, **options: Any) -> Any:
        return real(*arguments, **{**options, "env": {**options["env"], "TERM": "dumb"}})

    monkeypatch.setattr(subprocess, "Popen", dumb)
    with training(folder):
        terminal = Terminal("watch", folder)
        terminal.until("step 100 of 100")
        terminal.until("alarm: proxy only")
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("interrupted")
        assert terminal.end() == 130
    assert "\x1b" not in terminal.shown
    assert terminal.shown.isascii()


def shown_on(folder: Path, width: int, *, encoding: str) -> str:
    """Return the screen of a run whose completions and names are hostile, as a terminal of that width gets it."""
    hostile = "[bold]no markup[/bold] \x1b[2J \u202e \u4f60\u597d\nsecond line " + "long " * 200
    rows_kept = [
        Completion(step=step, prompt="p", completion=f"{hostile}{step}", rewards={"mine": 0.5}, advantage=None)
        for step in (10, 20)
    ]
    log = reading.read(folder)
    reached = live_view.Reached(state="running", step=100, last_step=400, seconds_left=600)
    found = live_view.view(log, diagnose(log), reached, completions=rows_kept)
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    terminal = Console(file=stream, width=width, force_terminal=True, color_system=None, legacy_windows=False)
    terminal.print(live_view.screen(found, plain=terminal.options.ascii_only))
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(("width", "encoding"), [(120, "utf-8"), (60, "utf-8"), (100, "ascii")])
def test_what_a_model_wrote_is_shown_and_not_obeyed(width: int, encoding: str, tmp_path: Path) -> None:
    """Of the newest step alone; on a terminal without Unicode as escapes."""
    folder = logged_runs.write(tmp_path / "run", logged_runs.columns(**HACKED))
    out = shown_on(folder, width, encoding=encoding)
    assert "[bold]no markup[/bold]" in out
    assert "\x1b[2J" not in out
    assert "\u202e" not in out
    assert "completion of step 20, mine 0.5" in out
    assert "completion of step 10" not in out
    assert max(len(line.rstrip()) for line in out.splitlines()) <= width
    assert ("\u2581" in out) == (encoding == "utf-8")
    assert "about 10 min left" in out


def test_kept_completions_are_shown(tmp_path: Path, finetune: Finetune, engine_python: str) -> None:
    """Those of the newest table, read under the interpreter that has pyarrow; without one a note says so."""
    folder = logged_runs.write(tmp_path / "run", logged_runs.columns())
    place = folder / "train" / "completions"
    place.mkdir()
    program = (
        "import sys, pyarrow, pyarrow.parquet as parquet\n"
        "for step in (10, 20):\n"
        "    table = {'step': [step] * 2, 'prompt': ['p'] * 2, 'completion': [f'said {step} {i}' for i in (0, 1)],\n"
        "             'mine': [0.5, 1.0], 'advantage': [-1.0, 1.0]}\n"
        "    parquet.write_table(pyarrow.table(table), f'{sys.argv[1]}/completions_{step:05d}.parquet')\n"
    )
    subprocess.run([engine_python, "-c", program, str(place)], check=True)
    before = tree(folder)
    out = finetune("watch", folder, "--once", "--python", engine_python)[1]
    assert "completion of step 20, mine 0.5:\n  said 20 0\n" in out
    assert "said 20 1" in out
    assert "said 10" not in out
    assert tree(folder) == before


# --- as a page ------------------------------------------------------------------------------------------------------


class Served:
    """A running `finetune watch --serve` and the address that it printed."""

    def __init__(self, path: Path) -> None:
        """Start it and wait for its address."""
        program = "import sys; from llm_finetuning.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", program, "watch", str(path), "--serve"]
        self.process = subprocess.Popen(command, cwd=SCRIPTS, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/[\w-]+/", self.process.stderr.readline())
        assert found
        self.address = found.group()

    def until(self, words: str) -> httpx.Response:
        """Ask for the page until it says something."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            answer = httpx.get(self.address)
            if words in answer.text:
                return answer
            time.sleep(0.1)
        pytest.fail(f"never said: {words}")

    def end(self) -> int:
        """Interrupt it and return the exit code."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=20)
        return self.process.returncode


def test_the_page_is_renewed_and_needs_its_key(tmp_path: Path) -> None:
    """It says what `diagnose` says, asks again by itself while the run goes on, and is read alone."""
    folder = logged_runs.write(tmp_path / "run", logged_runs.columns(reward=logged_runs.rising()))
    path = folder / "train" / "logs" / "progress.jsonl"
    listed = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(listed[:6]), "utf-8")
    with training(folder):
        served = Served(folder)
        first = served.until("Too short")
        assert first.headers["refresh"] == "5"
        assert first.headers["content-security-policy"].endswith("; style-src 'unsafe-inline'")
        assert first.headers["cache-control"] == "no-store"
        path.write_text("".join(listed), "utf-8")
        assert "refresh" in served.until("Healthy").headers
        bare = served.address.rpartition("/")[0].rpartition("/")[0]
        asked = [
            httpx.get(f"{bare}/"),
            httpx.get(f"{bare}/{'x' * 32}/"),
            httpx.get(served.address, headers={"Host": "evil.example:80"}),
        ]
        assert [answer.status_code for answer in asked] == [403, 403, 403]
        assert not any("Healthy" in answer.text for answer in asked)
        assert httpx.post(served.address).status_code == 405
        assert httpx.get(f"{served.address}other").status_code == 404
    deadline = time.monotonic() + 30
    while "refresh" in httpx.get(served.address).headers and time.monotonic() < deadline:
        time.sleep(0.1)
    last = httpx.get(served.address)  # the run has ended: the page stays, and is final
    assert "refresh" not in last.headers
    assert "Healthy" in last.text
    assert served.end() == 130
