"""Logs in folders: our runs, while they train and after a restart, and the output folders of other trainers."""

import json
import shutil
from pathlib import Path
from typing import Any

import event_files
import pytest

import built_runs
from llm_finetuning.diagnosis import reading
from llm_finetuning.errors import Refusal


def state(folder: Path, last: int, *, reward: float = 0.5, torn: bool = False) -> None:
    rows = [{"step": step, "loss": 0.1, "reward": reward, "epoch": 0.1} for step in range(1, last + 1)]
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"global_step": last, "logging_steps": 1, "log_history": rows})
    (folder / "trainer_state.json").write_text(text[:20] if torn else text)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as `finetune build` leaves it."""
    folder = built_runs.write_opened(tmp_path_factory.mktemp("built"))
    built_runs.build_unchecked(folder)
    return folder


@pytest.fixture
def run(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "run", symlinks=True))


def write_progress(run: Path, *lines: tuple[int, dict[str, Any]]) -> Path:
    """Lines as guards/progress.py writes them; transformers, which it imports, is not here."""
    path = run / "train" / "logs" / "progress.jsonl"
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as stream:
        for at, (step, metrics) in enumerate(lines):
            line = {"step": step, "max_steps": 20, "at": 1e9 + at, "metrics": metrics}
            stream.write(json.dumps(line) + "\n")
    return path


def logged(step: int, reward: float) -> tuple[int, dict[str, Any]]:
    return step, {"loss": 0.1, "reward": reward, "rewards/mine/mean": reward, "epoch": step / 20}


def test_our_run_is_read_while_it_trains(run: Path) -> None:
    """The run's own log is the source, its options are those of config.yaml, and a line at work is left out."""
    path = write_progress(
        run, (0, {}), *(logged(step, 0.25) for step in (1, 2, 3)), (3, {"eval_reward": 0.5, "epoch": 0.15})
    )
    with path.open("a") as stream:
        stream.write('{"step": 4, "max_st')
    state(run / "train" / "checkpoints" / "checkpoint-2", 2)
    for place in (run, run / "train", path):
        log = reading.read(place, options={"beta": 9.0, "mine": 1})
        assert (log.form, log.era, log.source) == ("run", "1.16", str(path))
        assert log.steps.tolist() == [1, 2, 3]
        assert log.held_out["reward"].values.tolist() == [0.5]
        assert log.components == ("mine",)
        assert log.notes == (
            "the last line is being written and was left out",
            "option beta: 9.0 was given, but 0.01 stands beside the log and counts",
        )
        assert log.options["num_generations"] == 4
        assert log.options["per_device_train_batch_size"] == 4
        assert log.options["reward_weights"] == [1.0]
        assert (log.options["beta"], log.options["mine"]) == (0.01, 1)


def test_our_run_goes_on_from_the_step_that_it_says(run: Path) -> None:
    """A start's first line ends the life before it, even before anything new is logged."""
    write_progress(run, (0, {}), *(logged(step, 0.25) for step in range(1, 6)), (3, {}))
    assert reading.read(run).steps.tolist() == [1, 2, 3]
    write_progress(run, logged(4, 0.5), (4, {"train_runtime": 3.0, "train_loss": 0.1, "reward": 0.5, "epoch": 0.2}))
    log = reading.read(run)
    assert log.series["reward"].values.tolist() == [0.25, 0.25, 0.25, 0.5]
    assert log.notes == ("training went on from step 3: 2 rows of its life before were left out",)
    write_progress(run, (0, {}), logged(1, 0.75))
    assert reading.read(run).series["reward"].values.tolist() == [0.75]


def test_our_run_without_its_log_is_read_from_its_checkpoint(run: Path) -> None:
    """Nothing logged, nothing kept is a refusal; a checkpoint alone has the log up to it."""
    for text in (None, "", '{"step": 0, "max_steps": 20, "at": 1.0, "metrics": {}}\n'):
        if text is not None:
            write_progress(run).write_text(text)
        with pytest.raises(Refusal, match=r"progress.jsonl: nothing is logged yet; `finetune status`"):
            reading.read(run)
    state(run / "train" / "checkpoints" / "checkpoint-2", 2)
    log = reading.read(run)
    assert (log.form, log.steps.tolist()) == ("trainer_state", [1, 2])
    assert (log.options["num_generations"], log.options["logging_steps"], log.notes) == (4, 1, ())


def test_a_config_that_cannot_be_read_is_said(run: Path) -> None:
    """The log is read all the same."""
    write_progress(run, logged(1, 0.5))
    (run / "train" / "config.yaml").write_text("trainer: [\n")
    log = reading.read(run, options={"beta": 0.5})
    assert log.options == {"beta": 0.5}
    assert "no option of the run is known" in log.notes[0]


def test_the_newest_state_of_an_output_folder_is_read(tmp_path: Path) -> None:
    """By number and not by name; a folder's own state where it is newer; an older one where the newest is torn."""
    state(tmp_path / "checkpoint-9", 9)
    state(tmp_path / "checkpoint-10", 10)
    (tmp_path / "checkpoint-11").mkdir()
    (tmp_path / "checkpoint-99").write_text("a file")
    assert reading.read(tmp_path).source == str(tmp_path / "checkpoint-10" / "trainer_state.json")
    state(tmp_path, 3)
    assert len(reading.read(tmp_path).steps) == 10
    state(tmp_path, 12)
    assert len(reading.read(tmp_path).steps) == 12
    (tmp_path / "trainer_state.json").unlink()
    state(tmp_path / "checkpoint-20", 20, torn=True)
    log = reading.read(tmp_path)
    assert len(log.steps) == 10
    assert str(tmp_path / "checkpoint-20" / "trainer_state.json") in log.notes[0]
    (tmp_path / "args.json").write_text('{"epsilon_high": 0.28}')
    for place in (tmp_path, tmp_path / "checkpoint-10", tmp_path / "checkpoint-10" / "trainer_state.json"):
        assert reading.read(place).options == {"logging_steps": 1, "epsilon_high": 0.28}


def test_other_logs_of_an_output_folder(tmp_path: Path) -> None:
    """ms-swift's lines; TensorBoard's files, one a start, joined in the order of their times."""
    runs = tmp_path / "runs" / "Nov29"
    runs.mkdir(parents=True)
    for at, first, reward in ((1_700_000_900, 3, 0.75), (1_700_000_100, 1, 0.25)):
        body = event_files.VERSION
        for step in range(first, first + 4):
            values = [event_files.simple("train/loss", 0.5), event_files.simple("train/reward", reward)]
            body += event_files.event(step, values)
        (runs / f"events.out.tfevents.{at}.host.7.0").write_bytes(body)
    begun = runs / "events.out.tfevents.1700009999.host.7.0"
    begun.touch()
    log = reading.read(tmp_path)
    assert (log.form, log.source) == ("tensorboard", str(tmp_path))
    assert log.notes[0] == f"{begun}: is empty; give the log once the trainer has written to it"
    assert log.series["reward"].values.tolist() == [0.25, 0.25, 0.75, 0.75, 0.75, 0.75]
    (tmp_path / "logging.jsonl").write_text('{"loss": 0.5, "global_step/max_steps": "1/9"}\n' * 2)
    assert reading.read(tmp_path).form == "jsonl"


def test_what_holds_no_log_is_refused(tmp_path: Path) -> None:
    """A folder of something else, a name that is not there, a file that may not be read."""
    with pytest.raises(Refusal, match="neither a run of `finetune build` nor an output folder"):
        reading.read(tmp_path)
    (tmp_path / "brief.yaml").touch()
    with pytest.raises(Refusal, match="nothing was built here yet; `finetune status`"):
        reading.read(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    for name in ("loop", "brief.yaml/x"):
        with pytest.raises(Refusal, match="cannot be read"):
            reading.read(tmp_path / name)
    with pytest.raises(Refusal, match=r"x\.json: cannot be read \(No such file"):
        reading.read(tmp_path / "x.json")
    state(tmp_path / "checkpoint-1", 1, torn=True)
    with pytest.raises(Refusal, match=r"checkpoint-1/trainer_state\.json"):
        reading.read(tmp_path)


def test_a_file_too_large_for_the_memory_is_refused(tmp_path: Path) -> None:
    """What a trainer logs in a year is smaller; the line says how much is read."""
    with (tmp_path / "x.log").open("wb") as stream:
        stream.truncate(3 << 30)
    with pytest.raises(Refusal, match="has 3072 MiB, of which 1024 are read; cut out what was logged"):
        reading.read(tmp_path / "x.log")
