"""Runs at each stop of the road, made with the product's own verbs and no model: drawn, read, built, trained."""

import json
from pathlib import Path
from typing import Any

import built_runs
import evaluations
import logged_runs
import runs
import stub_interpreter
import weights
from guards import outcome
from llm_finetuning.cli import main
from llm_finetuning.types import Sample
from public_configs import CONFIGS

BRIEF = """\
name: sums
method: grpo
model: MODEL
dataset: {path: data.jsonl, prompt: prompt, answer: answer, id: id, evaluation: held.jsonl}
rewards:
  - use: exact_answer
    options: {extract: last_number}
sampling: {num_generations: 4, prompts: 15, max_completion_length: 16}
training: {per_device_train_batch_size: 4, gradient_accumulation_steps: 2}
hardware: cpu
environment: PYTHON
"""
TINY = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 64, "dtype": "float32"}
STEPS = 60


def write_drawn(root: Path, *, text_of: Any = runs.completion) -> Path:
    """Write a run with its samples drawn and the base model measured, nothing scored and nothing read."""
    model = built_runs.write_model(root / "model")
    config = {**CONFIGS["SmolLM2-135M"], **TINY}
    (model / "config.json").write_text(json.dumps(config), "utf-8")
    weights.write(model)
    python = stub_interpreter.write(root / "stub")
    folder = evaluations.write_run(root / "run", BRIEF.replace("MODEL", str(model)).replace("PYTHON", str(python)))
    runs.write_samples(folder, text_of=text_of)
    evaluations.write_transcripts(folder, "base", lambda _, index: index == 0)
    call("evaluate", folder)
    return folder


def examine(folder: Path) -> None:
    """Audit, score and attack the reward."""
    for verb in ("audit", "score", "probe"):
        call(verb, folder)


def read(folder: Path) -> None:
    """Take in what a person said of every sample: right is right."""

    def is_right(sample: Sample) -> bool:
        return str(sample.completion).rstrip(".").endswith(f" {sample.columns['answer']}")

    table = runs.write_labels_csv(folder, runs.write_samples(folder), is_right)
    call("review", folder, "--import", table, "--reader", "ada")


def build(folder: Path) -> None:
    """Open the gate and write the folder that trains."""
    call("gate", folder)
    call("build", folder, "--no-check")


def train(folder: Path) -> None:
    """Leave what a training leaves that went well: a log, its outcome, a model that is better."""
    train_folder = folder / "train"
    found = logged_runs.columns(STEPS, reward=logged_runs.rising(STEPS))
    (train_folder / "logs").mkdir(exist_ok=True)
    (train_folder / "logs" / "progress.jsonl").write_text("".join(logged_runs.lines(found)), "utf-8")
    outcome.write(train_folder, outcome.FINISHED, "all steps done", global_step=STEPS, exit_code=0)
    for place in (train_folder / "model", train_folder / "checkpoints" / f"checkpoint-{STEPS}"):
        place.mkdir(parents=True)
        (place / "config.json").write_text("{}", "utf-8")
        (place / "model.safetensors").write_bytes(place.name.encode())
        (place / "trainer_state.json").write_text("{}", "utf-8")
        name = "final" if place.name == "model" else place.name
        evaluations.write_transcripts(folder, name, lambda _, index: index < 3, model=str(place))


def call(*arguments: object) -> None:
    """Run a verb that has to do what it is asked."""
    code = main([str(argument) for argument in arguments])
    assert code == 0, arguments
