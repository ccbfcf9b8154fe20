"""Two trainings are told apart by a part of their bytes, copies are not, and what cannot be told stays silent."""

import os
import shutil
from pathlib import Path

import pytest

from llm_finetuning import artifact
from llm_finetuning.checkpoints import Candidate
from llm_finetuning.evaluating import spots

SIZE = 4 * spots.SPOTS * spots.SPOT + 12345  # so large that a part is read


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder of a trained model in its run."""
    folder = tmp_path / "run" / "train" / "model"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(SIZE))
    return folder


def header_of(run: Path, candidate: Candidate) -> artifact.Header:
    path = run / "eval" / "final.json"
    return artifact.header_for(path, {}, {spots.KEY: spots.of(run, candidate)})


def write_at(path: Path, place: int, data: bytes) -> None:
    with path.open("r+b") as stream:
        stream.seek(place)
        stream.write(data)


def run_of(model: Path) -> Path:
    return model.parents[1]


@pytest.mark.parametrize("place", [0, SIZE - 1, SIZE // 2 // spots.SPOT * spots.SPOT], ids=["begin", "end", "middle"])
def test_a_training_changes_what_is_read(model: Path, place: int) -> None:
    """One that changes all weights is seen at both ends and between; the folder and the file are named."""
    header = header_of(run_of(model), Candidate(name="final", model=str(model)))
    assert spots.changed(run_of(model), header) is None
    write_at(model / "model.safetensors", max(0, place - spots.SPOT), b"\x01" * 8 * spots.SPOT)
    if place == SIZE - 1:
        with (model / "model.safetensors").open("r+b") as stream:
            stream.truncate(SIZE)
    assert spots.changed(run_of(model), header) == ("train/model", ["model.safetensors"])


def test_a_file_of_another_length_or_name_and_other_settings_are_others(model: Path) -> None:
    """A byte more, one more part of the weights, or another template: each is named."""
    header = header_of(run_of(model), Candidate(name="final", model=str(model)))
    with (model / "model.safetensors").open("ab") as stream:
        stream.write(b"\0")
    (model / "second.safetensors").write_bytes(b"more")
    (model / "chat_template.jinja").write_text("{{ messages }}")
    found = spots.changed(run_of(model), header)
    assert found == ("train/model", ["chat_template.jinja", "model.safetensors", "second.safetensors"])


def test_a_copy_at_another_time_and_place_is_the_same_model(model: Path, tmp_path: Path) -> None:
    """A run is moved and copied, by tools that keep no times."""
    header = header_of(run_of(model), Candidate(name="final", model=str(model)))
    shutil.copytree(run_of(model), tmp_path / "copy")
    for path in (tmp_path / "copy").rglob("*"):
        os.utime(path, (0, 0))
    assert spots.changed(tmp_path / "copy", header) is None


def test_a_folder_that_is_gone_or_empty_says_nothing(model: Path) -> None:
    """Checkpoints are deleted, and a training that begins clears its folder."""
    header = header_of(run_of(model), Candidate(name="final", model=str(model)))
    (model / "model.safetensors").unlink()
    assert spots.changed(run_of(model), header) is None
    shutil.rmtree(model)
    assert spots.changed(run_of(model), header) is None
    bare = artifact.header_for(Path("run/eval/final.json"), {}, {"samples": 4})  # of a version that kept no spots
    assert spots.changed(run_of(model), bare) is None
    assert spots.of(run_of(model), Candidate(name="base", model="some/model")) == {}


def test_both_an_adapter_and_its_base_are_looked_at(model: Path, tmp_path: Path) -> None:
    """An adapter on another base is another model; one of the hub is its name alone."""
    adapter = run_of(model) / "train" / "adapter"
    adapter.mkdir()
    (adapter / "adapter_model.safetensors").write_bytes(b"adapter")
    header = header_of(run_of(model), Candidate(name="a", model=str(model), adapter=str(adapter)))
    write_at(model / "model.safetensors", 0, b"other")
    assert spots.changed(run_of(model), header) == ("train/model", ["model.safetensors"])
    (adapter / "adapter_model.safetensors").write_bytes(b"ADAPTER")
    assert spots.changed(run_of(model), header) == ("train/adapter", ["adapter_model.safetensors"])
    outside = tmp_path / "elsewhere"
    shutil.copytree(model, outside)
    assert list(spots.of(run_of(model), Candidate(name="b", model=str(outside)))) == [str(outside)]


def test_of_a_large_file_a_mebibyte_is_read(model: Path) -> None:
    """Which is what `status` can afford: a terabyte takes no longer."""
    huge = model / "model.safetensors"
    with huge.open("r+b") as stream:
        stream.truncate(1 << 40)  # no byte of it takes room on the disk
    header = header_of(run_of(model), Candidate(name="final", model=str(model)))
    assert spots.changed(run_of(model), header) is None
