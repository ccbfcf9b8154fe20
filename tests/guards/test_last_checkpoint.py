"""Where a run goes on: the newest checkpoint that is whole."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from guards import data


def checkpoint(folder: Path, step: int) -> Path:
    """Write what a whole checkpoint holds."""
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    for name in ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"):
        (path / name).write_bytes(b"bytes")
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step}), "utf-8")
    return path


BREAKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no state": (lambda path: (path / "trainer_state.json").unlink(), "no trainer_state.json"),
    "half a state": (lambda path: (path / "trainer_state.json").write_text('{"global'), "trainer_state.json is cut"),
    "another state": (
        lambda path: (path / "trainer_state.json").write_text('{"global_step": 3}'),
        "speaks of step 3",
    ),
    "no weights": (lambda path: (path / "model.safetensors").unlink(), "its weights are gone"),
    "no random numbers": (lambda path: (path / "rng_state.pth").unlink(), "random numbers is gone"),
    "an empty file": (lambda path: (path / "optimizer.pt").write_bytes(b""), "optimizer.pt is empty"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_checkpoint_is_passed_over_and_said(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one before it is taken."""
    break_it, words = BREAKS[name]
    whole = checkpoint(tmp_path, 9)
    break_it(checkpoint(tmp_path, 10))

    assert whole == data.last_checkpoint(tmp_path)
    said = capsys.readouterr().out
    assert "checkpoint-10 is passed over: " in said
    assert words in said
    assert "going on from checkpoint-9" in said


def test_the_newest_is_the_one_of_the_highest_step(tmp_path: Path) -> None:
    """Not the last by name."""
    for step in (2, 10, 9):
        checkpoint(tmp_path, step)
    assert "checkpoint-10" == str(getattr(data.last_checkpoint(tmp_path), "name", None))


def test_without_one_a_run_begins(tmp_path: Path) -> None:
    """A folder that is no checkpoint is none."""
    (tmp_path / "checkpoint-best").mkdir()
    assert data.last_checkpoint(tmp_path) is None
    assert data.last_checkpoint(tmp_path / "absent") is None


@pytest.mark.parametrize("weights", ["adapter_model.safetensors", "pytorch_model_fsdp_0", "global_step5"])
def test_weights_of_every_kind_count(tmp_path: Path, weights: str) -> None:
    """An adapter's, FSDP's and DeepSpeed's."""
    path = checkpoint(tmp_path, 5)
    (path / "model.safetensors").rename(path / weights)
    assert path == data.last_checkpoint(tmp_path)
