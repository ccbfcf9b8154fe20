"""SFT, DPO, KTO, ORPO and SimPO: built runs that train, save, go on and stop."""

import json
import shutil
from pathlib import Path
from typing import Any

import grpo_runs
import offline_runs
import pytest

from llm_finetuning import artifact

METHODS = ("sft", "dpo", "kto", "orpo", "simpo")
ADAPTERS = ("none", "lora")


@pytest.fixture(scope="module")
def tiny(engine_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tiny model."""
    return grpo_runs.save_tiny_model(engine_python, tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def runs(engine_python: str, tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, int]]:
    """Every method with all weights on text and with LoRA on chat, and some that end early: train/ and exit code."""
    root = tmp_path_factory.mktemp("runs")
    made = {
        f"{method}-{adapter}": offline_runs.built(
            root / f"{method}-{adapter}", method, tiny, {"adapter": adapter}, chat=adapter == "lora"
        )
        for method in METHODS
        for adapter in ADAPTERS
    }
    made["changed"] = offline_runs.built(root / "changed", "sft", tiny, {})
    with (made["changed"] / "data" / "train.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"prompt": "more", "completion": "rows"}\n')
    made["exploding"] = offline_runs.built(root / "exploding", "sft", tiny, {"max_steps": 9})
    grpo_runs.alter(made["exploding"], lambda config: config["trainer"].update(learning_rate=9e15))
    made["no such column"] = offline_runs.built(root / "columns", "dpo", tiny, {})
    drop_a_column(made["no such column"])
    made["unbroken"] = offline_runs.built(root / "unbroken", "sft", tiny, {"max_steps": 4})
    codes = offline_runs.run_all(engine_python, list(made.values()))
    return {name: (train, code) for (name, train), code in zip(made.items(), codes, strict=True)}


def drop_a_column(train: Path) -> None:
    """Take `rejected` out of one row, and let the build say that it was so."""
    path = train / "data" / "train.jsonl"
    first, *others = path.read_text("utf-8").splitlines(keepends=True)
    row = {name: value for name, value in json.loads(first).items() if name != "rejected"}
    path.write_text(json.dumps(row) + "\n" + "".join(others), "utf-8")
    build_json = json.loads((train / "build.json").read_text("utf-8"))
    build_json["files"]["data/train.jsonl"] = artifact.digest_file(path)
    (train / "build.json").write_text(json.dumps(build_json), "utf-8")


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("method", METHODS)
def test_a_built_run_trains_and_saves(runs: dict[str, tuple[Path, int]], method: str, adapter: str) -> None:
    """Two steps, each logged with a loss, a checkpoint each, the model at the end, and the outcome that says so."""
    train, code = runs[f"{method}-{adapter}"]
    said = offline_runs.log_of(train)
    assert code == 0, said[-2000:]
    outcome = grpo_runs.outcome_of(train)
    assert (outcome["state"], outcome["global_step"], outcome["exit_code"]) == ("finished", 2, 0)
    logged = grpo_runs.logged(train)
    assert [line["step"] for line in logged] == [1, 2]
    assert all(isinstance(line["loss"], float) and line["grad_norm"] > 0 for line in logged)
    name = "model.safetensors" if adapter == "none" else "adapter_model.safetensors"
    for folder in ("checkpoints/checkpoint-1", "checkpoints/checkpoint-2", "model"):
        assert (train / folder / name).is_file(), folder
    assert (train / "model" / "tokenizer.json").is_file()
    if adapter == "none":
        assert (train / "model" / name).read_bytes() != (train / "checkpoints" / "checkpoint-1" / name).read_bytes()


@pytest.mark.parametrize("method", METHODS)
def test_what_a_method_learns_from_is_what_moves(runs: dict[str, tuple[Path, int]], method: str) -> None:
    """The loss falls over the same few rows, and the preference methods log rewards of both completions."""
    logged = grpo_runs.logged(runs[f"{method}-none"][0])
    if method in ("dpo", "orpo", "simpo"):
        assert logged[1]["rewards/margins"] > logged[0]["rewards/margins"]
    else:
        assert logged[1]["loss"] < logged[0]["loss"]


def test_a_changed_file_is_refused_before_anything_is_loaded(runs: dict[str, tuple[Path, int]]) -> None:
    """These methods have no gate, and yet train on what was built alone."""
    train, code = runs["changed"]
    assert code == 1
    assert "data/train.jsonl" in grpo_runs.outcome_of(train)["reason"]
    assert not (train / "logs" / "effective.yaml").exists()


def test_a_loss_that_is_no_number_stops_the_run_without_saving_it(runs: dict[str, tuple[Path, int]]) -> None:
    """The last checkpoint is from before the fault; nothing is left as the model."""
    train, code = runs["exploding"]
    outcome = grpo_runs.outcome_of(train)
    assert (code, outcome["state"]) == (1, "stopped"), outcome
    assert "is nan" in outcome["reason"]
    assert "lower learning_rate" in outcome["reason"]
    assert outcome["global_step"] < 9
    assert not (train / "checkpoints" / f"checkpoint-{outcome['global_step']}").exists()
    assert not (train / "model").exists()


def test_a_row_without_a_column_is_named(runs: dict[str, tuple[Path, int]]) -> None:
    """TRL would answer with a KeyError of its own."""
    train, code = runs["no such column"]
    assert code == 2
    assert "row 1 has no rejected" in grpo_runs.outcome_of(train)["reason"]


def test_a_run_goes_on_from_its_last_checkpoint_to_the_same_model(
    engine_python: str, runs: dict[str, tuple[Path, int]], tmp_path: Path
) -> None:
    """Broken after step 2 of 4, started again: the weights at the end are those of the unbroken run, bit for bit."""
    train, code = runs["unbroken"]
    assert code == 0, offline_runs.log_of(train)[-2000:]
    broken = tmp_path / "train"
    shutil.copytree(train, broken)
    for gone in ("model", "checkpoints/checkpoint-3", "checkpoints/checkpoint-4", "logs"):
        shutil.rmtree(broken / gone, ignore_errors=True)
    assert (broken / "checkpoints" / "checkpoint-2").is_dir()
    assert offline_runs.run_all(engine_python, [broken]) == [0], offline_runs.log_of(broken)[-2000:]
    assert "going on from checkpoint-2" in offline_runs.log_of(broken)
    assert [line["step"] for line in grpo_runs.logged(broken)] == [3, 4]
    assert grpo_runs.outcome_of(broken)["global_step"] == 4
    weights = "model/model.safetensors"
    assert (broken / weights).read_bytes() == (train / weights).read_bytes()


@pytest.mark.model
def test_the_real_model_learns_its_rows(engine_python: str, model_folder: str, tmp_path: Path) -> None:
    """SmolLM2-135M with LoRA on chat rows: three steps over the same rows, each with less loss than the one before."""
    training: dict[str, Any] = {"adapter": "lora", "learning_rate": 0.002, "max_steps": 3, "save_steps": 3}
    train = offline_runs.built(tmp_path / "run", "sft", model_folder, training, chat=True, rows=4)
    assert offline_runs.run_all(engine_python, [train]) == [0], offline_runs.log_of(train)[-2000:]
    losses = [line["loss"] for line in grpo_runs.logged(train)]
    assert len(losses) == 3
    assert losses == sorted(losses, reverse=True)
    assert 0 < losses[0] < 10
