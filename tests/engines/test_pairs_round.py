"""A whole round of preferences on the model's own completions: sample, score, pairs, train, measure, sample again."""

import json
import math
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpo_runs
import offline_runs
import pytest

from llm_finetuning import artifact
from llm_finetuning.types import Sample

Finetune = Callable[..., tuple[int, str, str]]

PROGRAM = Path(__file__).with_name("pairs_step.py")

BRIEF = """\
name: digits
method: grpo
model: {model}
dataset: {{path: rows.jsonl, prompt: prompt, answer: answer, id: id, evaluation: held_out.jsonl}}
rewards:
  - {{file: my_rewards.py:digits, range: [0, 1]}}
gate: {{success: 0.4}}
sampling: {{num_generations: 12, prompts: 8, max_completion_length: 16}}
hardware: cpu
"""

REWARD = """\
def digits(completions, answer, **kwargs):
    texts = [text if isinstance(text, str) else text[-1]["content"] for text in completions]
    return [sum(word.isdigit() for word in text.split()) / max(1, len(text.split())) for text in texts]
"""


def write_run(folder: Path, model: Path, *, chat: bool) -> Path:
    folder.mkdir()
    (folder / "brief.yaml").write_text(BRIEF.format(model=model), "utf-8")
    (folder / "my_rewards.py").write_text(REWARD, "utf-8")
    for name, numbers in (("rows", range(8)), ("held_out", range(8, 10))):
        lines = []
        for number in numbers:
            text = f"What is {number} + 1 ? "  # this tokenizer of words decodes completions without the space before
            prompt = [{"role": "user", "content": text}] if chat else text
            lines.append(json.dumps({"id": f"q{number}", "prompt": prompt, "answer": str(number + 1)}) + "\n")
        (folder / f"{name}.jsonl").write_text("".join(lines), "utf-8")
    return folder


def called(finetune: Finetune, *arguments: object) -> str:
    code, out, err = finetune(*arguments)
    assert code == 0, (arguments, out, err)
    return out


@pytest.mark.parametrize("form", ["text", "chat"])
def test_a_round_of_the_loop(form: str, tmp_path: Path, finetune: Finetune, engine_python: str) -> None:
    """Each command leads to the next; TRL's trainers read the files as they stand, and a built run trains on them."""
    model = grpo_runs.save_tiny_model(engine_python, tmp_path / "tiny")
    run = write_run(tmp_path / "run", model, chat=form == "chat")
    called(finetune, "sample", run, "--python", engine_python)
    called(finetune, "score", run)
    files = {method: tmp_path / f"{method}.jsonl" for method in ("dpo", "kto")}
    said = {method: called(finetune, "pairs", run, "--method", method, "--out", files[method]) for method in files}

    rows = {method: [json.loads(line) for line in files[method].read_text("utf-8").splitlines()] for method in files}
    assert len(rows["dpo"]) >= 4
    assert {row["label"] for row in rows["kto"]} == {True, False}
    assert isinstance(rows["dpo"][0]["prompt"], str) is (form == "text")
    for method, read in zip(files, as_trl_reads(engine_python, model, tmp_path / "direct", files), strict=True):
        check_reading(rows[method], read, chat=form == "chat")

    built = {}
    for method in files:
        follow = re.search(r"^next: finetune (.*)$", said[method], re.MULTILINE)
        assert follow
        called(finetune, *follow[1].split())
        built[method] = train_ready(tmp_path / f"run-{method}")
        called(finetune, "audit", tmp_path / f"run-{method}")
        called(finetune, "build", tmp_path / f"run-{method}", "--no-check")
    assert offline_runs.run_all(engine_python, list(built.values())) == [0, 0], offline_runs.log_of(built["dpo"])
    logged = grpo_runs.logged(built["dpo"])
    assert logged[-1]["rewards/margins"] > logged[0]["rewards/margins"]
    assert logged[-1]["rewards/accuracies"] > 0.5

    if form == "chat":  # what follows is the same in both forms
        measure_and_go_on(run, model, built["dpo"] / "model", finetune, engine_python)


def measure_and_go_on(run: Path, model: Path, trained: Path, finetune: Finetune, python: str) -> None:
    """Compare the trained model with the one before on the held-out rows of the first run, then sample it as that."""
    measure = ["evaluate", run, "--suite", "goldens", "--python", python]
    called(finetune, *measure)
    called(finetune, *measure, "--model", trained, "--name", "round-1")
    assert finetune("compare", run, "base", "round-1")[0] in (0, 1, 3)

    second = run.with_name("second")
    called(finetune, "new", second, "--from", run)
    brief = second / "brief.yaml"
    brief.write_text(brief.read_text("utf-8").replace(str(model), str(trained)), "utf-8")
    called(finetune, "sample", second, "--python", python)
    called(finetune, "score", second)
    texts = [
        {one.sample_id: one.completion for one in artifact.read_lines(folder / "samples.jsonl", Sample).records}
        for folder in (run, second)
    ]
    assert texts[0].keys() == texts[1].keys()
    assert texts[0] != texts[1]


def as_trl_reads(python: str, model: Path, folder: Path, files: dict[str, Path]) -> list[dict[str, Any]]:
    pairs = [f"{method}={file}" for method, file in files.items()]
    command = [python, PROGRAM, model, folder, *pairs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    read: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return read


def check_reading(rows: list[dict[str, Any]], read: dict[str, Any], *, chat: bool) -> None:
    """TRL kept every row, its tokens are the texts of the first one with an end after each side, and it trains."""
    assert read["rows"] == len(rows)
    assert len(read["losses"]) == 2
    assert all(math.isfinite(loss) for loss in read["losses"])
    for side, text in read["texts"].items():
        cell = rows[0][side]
        words = cell[-1]["content"] if chat else cell
        assert " ".join(words.split()) in " ".join(text.split())
        if side != "prompt":
            assert text.strip().endswith("<end>")
    assert read["label"] == rows[0].get("label")


def train_ready(folder: Path) -> Path:
    """Make the new brief one that trains a few quick steps here, and return where it will be built."""
    brief = folder / "brief.yaml"
    training = json.dumps({**offline_runs.QUICK, "max_steps": 6, "save_steps": 6})
    text = brief.read_text("utf-8").replace("training: {}", f"training: {training}")
    brief.write_text(text.replace("hardware: auto", "hardware: cpu"), "utf-8")
    return folder / "train"
