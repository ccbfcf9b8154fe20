"""A start of a run that took its last step before: its model is saved, and not one step is added to it."""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import grpo_runs
import offline_runs
import pytest
from test_two_processes import to_end

HERE = Path(__file__).parent

EPOCHS = {"num_train_epochs": 0.5, "max_steps": -1}
"""Two of an epoch's four steps, as `QUICK` names them by number."""

Build = Callable[[Path, Path], Path]


def by_grpo(**options: Any) -> Build:
    """Return what builds a GRPO run; an epoch of its eight rows has four steps."""
    training = {**grpo_runs.QUICK, **options.pop("training", {})}
    return lambda folder, model: grpo_runs.built(folder, model, training, **options)


def by_method(method: str, **training: Any) -> Build:
    """Return what builds a run without rollouts, whose epoch has four steps."""
    return lambda folder, model: offline_runs.built(folder, method, model, training, rows=16)


def best(config: dict[str, Any]) -> None:
    """Ask for the weights of the checkpoint with the best held-out figure: one that grows, so that the first is it."""
    wanted = {"metric_for_best_model": "eval_num_tokens", "greater_is_better": False}
    config["trainer"].update(load_best_model_at_end=True, eval_steps=1, **wanted)


RUNS: Mapping[str, Build] = {
    "grpo, number of steps": by_grpo(held_out=4),
    "grpo, epochs": by_grpo(training=EPOCHS),
    "grpo, a whole epoch": by_grpo(training={"max_steps": 4}),
    "grpo, lora": by_grpo(training={"adapter": "lora"}),
    "grpo, best": by_grpo(held_out=4, change=best),
    "sft, number of steps": by_method("sft"),
    "sft, epochs": by_method("sft", **EPOCHS),
    "dpo, lora": by_method("dpo", adapter="lora"),
    "kto, number of steps": by_method("kto"),
}

KILLED = ("grpo, number of steps", "grpo, lora", "grpo, best", "sft, epochs")
"""Those whose first start is taken to have been killed before it saved the model; the others are started by hand."""


def start(python: str, runs: Mapping[str, Path], base: Path) -> dict[str, dict[str, Any]]:
    """Run each train.py, all in one process, and return how each ended."""
    (base / "jobs.json").write_text(json.dumps([{"run": str(run)} for run in runs.values()]), "utf-8")
    command = [python, str(HERE / "trainings.py"), str(base / "jobs.json")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(runs, json.loads(done.stdout.splitlines()[-1]), strict=True))


def weights(folder: Path) -> dict[str, str]:
    """Return the digest of each file of weights at or below a folder."""
    files = sorted(folder.rglob("*.safetensors"))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def lines(train: Path) -> list[dict[str, Any]]:
    """Return all that progress.jsonl holds."""
    return [json.loads(line) for line in (train / "logs" / "progress.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def ended(engine_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Each run after its first start, and what the second one made of it."""
    base = tmp_path_factory.mktemp("last step")
    model = grpo_runs.save_tiny_model(engine_python, base / "model")
    runs = {name: build(base / f"run-{place}", model) for place, (name, build) in enumerate(RUNS.items())}
    first = start(engine_python, runs, base)
    assert {} == {name: answer["complained"][-500:] for name, answer in first.items() if answer["code"]}
    seen = {
        name: {
            "train": train,
            "outcome": grpo_runs.outcome_of(train),
            "model": weights(train / "model"),
            "checkpoints": weights(train / "checkpoints"),
            "lines": lines(train),
            "tables": len(first[name]["tables"]),
        }
        for name, train in runs.items()
    }
    for name in KILLED:
        shutil.rmtree(runs[name] / "model")
    second = start(engine_python, runs, base)
    return {name: {**seen[name], "again": second[name]} for name in runs}


@pytest.mark.parametrize("name", RUNS)
def test_no_step_follows_the_last_one(ended: dict[str, dict[str, Any]], name: str) -> None:
    """Nothing is sampled, measured, logged or checkpointed, and the model is, bit for bit, that of the first start."""
    seen = ended[name]
    train, again = seen["train"], seen["again"]
    steps = seen["outcome"]["global_step"]
    assert again["code"] == 0, again["complained"][-2000:]
    assert f"all {steps} steps were taken before this start" in again["said"]
    assert grpo_runs.outcome_of(train) | {"at": ""} == seen["outcome"] | {"at": ""}
    assert seen["outcome"]["reason"] == f"trained {steps} steps"
    assert weights(train / "model") == seen["model"] != {}
    assert weights(train / "checkpoints") == seen["checkpoints"]
    assert len(again["tables"]) == seen["tables"]
    added = lines(train)[len(seen["lines"]) :]
    assert [(line["step"], line["max_steps"], line["metrics"]) for line in added] == [(steps, steps, {})]


def test_two_processes_take_no_step_after_the_last_one(engine_python: str, tmp_path: Path) -> None:
    """Started by hand with launch.sh: both leave the loop, and the model that they save is the same.

    The optimiser's state is taken away: torch 2.13.0 cannot put it on `cpu:0`, where transformers wants it for several
    processes on the CPU, and no step will ask for it.
    """
    model = grpo_runs.save_tiny_model(engine_python, tmp_path / "model")
    train = offline_runs.built(tmp_path / "run", "sft", model, {}, rows=32)
    assert to_end(train, engine_python) == 0, offline_runs.log_of(train)[-3000:]
    before = weights(train / "model"), weights(train / "checkpoints"), lines(train)
    shutil.rmtree(train / "model")
    (train / "checkpoints" / "checkpoint-2" / "optimizer.pt").unlink()
    assert to_end(train, engine_python) == 0, offline_runs.log_of(train)[-3000:]
    assert (weights(train / "model"), weights(train / "checkpoints")) == before[:2]
    assert [(line["step"], line["metrics"]) for line in lines(train)[len(before[2]) :]] == [(2, {})]
    assert grpo_runs.outcome_of(train)["reason"] == "trained 2 steps"


def test_the_best_checkpoint_is_the_model_where_that_is_asked_for(ended: dict[str, dict[str, Any]]) -> None:
    """The trainer's own end would load it; saving the last weights instead would go unseen."""
    seen = ended["grpo, best"]
    state = json.loads((seen["train"] / "checkpoints" / "trainer_state.json").read_text("utf-8"))
    assert state["best_model_checkpoint"]
    assert Path(state["best_model_checkpoint"]).name == "checkpoint-1"
    assert seen["checkpoints"]["checkpoint-1/model.safetensors"] == seen["model"]["model.safetensors"]
    assert seen["checkpoints"]["checkpoint-2/model.safetensors"] != seen["model"]["model.safetensors"]
