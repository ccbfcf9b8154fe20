"""Built GRPO runs for tests: a brief and rows, a gate that is open for them, and `build` as it is."""

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from llm_finetuning import artifact, brief, dataset, lineage
from llm_finetuning.commands import build, score
from llm_finetuning.types import GateReport, Sample

HERE = Path(__file__).parent

BRIEF = """\
name: tiny
method: grpo
model: {model}
dataset: {{path: rows.jsonl, prompt: prompt, answer: answer, id: id{held_out}}}
rewards:
{rewards}
sampling: {{num_generations: 4, max_completion_length: 8}}
training: {training}
hardware: {hardware}
"""

REWARDS = """\
  - {file: my_rewards.py:digits}
  - {file: my_rewards.py:length, weight: 0.1}
  - {use: exact_answer, weight: 0, options: {extract: last_number}}
"""

OWN = '''\
"""Rewards that tell the completions of a random model apart."""


def text_of(completion):
    return completion if isinstance(completion, str) else completion[-1]["content"]


def digits(completions, answer, nested, **kwargs):
    """Pay for digits; the columns are those of the file."""
    assert all(value["of"][0] == {"answer": gold} for value, gold in zip(nested, answer, strict=True)), nested
    assert "finetune_row" not in kwargs
    return [sum(word.isdigit() for word in text_of(completion).split()) / 8 for completion in completions]


async def length(completions, completion_ids, trainer_state, **kwargs):
    """Pay for length, awaited; it abstains on what is empty."""
    return [min(len(ids), 8) / 8 if text_of(c) else None for c, ids in zip(completions, completion_ids, strict=True)]
'''

QUICK: dict[str, Any] = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "learning_rate": 0.001,
    "max_steps": 2,
    "save_steps": 1,
}


def save_tiny_model(python: str, folder: Path, kind: str = "model") -> Path:
    """Save the tiny model with the training interpreter; tiny_model.py says which kinds there are."""
    done = subprocess.run([python, HERE / "tiny_model.py", folder, kind], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def built(
    folder: Path,
    model: str | Path,
    training: Mapping[str, Any],
    *,
    rewards: str = REWARDS,
    own: str = OWN,
    chat: bool = False,
    rows: int = 8,
    held_out: int = 0,
    extra: str = "",
    hardware: str = "cpu",
    change: Callable[[dict[str, Any]], None] | None = None,
) -> Path:
    """Build a run in `folder` and return its train/; `change` alters config.yaml behind the build's back."""
    folder.mkdir(parents=True)
    name = ", evaluation: held_out.jsonl" if held_out else ""
    options = json.dumps(dict(training))
    text = BRIEF.format(model=model, training=options, rewards=rewards.rstrip(), held_out=name, hardware=hardware)
    (folder / "brief.yaml").write_text(text + extra, "utf-8")
    (folder / "my_rewards.py").write_text(own, "utf-8")
    _write_rows(folder / "rows.jsonl", range(rows), chat=chat)
    if held_out:
        _write_rows(folder / "held_out.jsonl", range(50, 50 + held_out), chat=chat)
    _open_gate(folder)
    build.run(folder, check=False)
    train = folder / "train"
    if change is not None:
        alter(train, change)
    return train


def _write_rows(path: Path, numbers: range, *, chat: bool) -> None:
    lines = []
    for number in numbers:
        text, gold = f"What is {number % 10} + 1 ?", str(number % 10 + 1)
        prompt = [{"role": "user", "content": text}] if chat else text
        nested = {"of": [{"answer": gold}, None], str(number): number}  # datasets would fill in every row's keys
        lines.append(json.dumps({"id": f"q{number}", "prompt": prompt, "answer": gold, "nested": nested}) + "\n")
    path.write_text("".join(lines), "utf-8")


def _open_gate(folder: Path) -> None:
    """Sample (by writing), score, and write a gate that is open for that."""
    loaded = brief.load(folder)
    samples = [
        Sample(
            sample_id=f"{row.prompt_id}-{index}",
            prompt_id=row.prompt_id,
            row=row.row,
            pass_name="policy",
            index=index,
            prompt=row.prompt,
            columns=row.columns,
            completion=text if isinstance(row.prompt, str) else [{"role": "assistant", "content": text}],
            completion_ids=[4, 5, 1],
            tokens=3,
            finish_reason="stop",
            temperature=1.0,
        )
        for row in dataset.read_rows(loaded)
        for index, text in enumerate(("1 2", "The sum", "3", "is"))
    ]
    path = folder / "samples.jsonl"
    settings = {"expected": len(samples), "engine": {}}
    artifact.write_lines(path, artifact.header_for(path, lineage.of_samples(loaded), settings), samples)
    score.run(folder)
    parents = lineage.of_gate(loaded)
    report = GateReport(
        verdict="open",
        next_action="train",
        findings=[],
        disagreements=[],
        agreement={},
        success_threshold=1.0,
        fingerprint=artifact.digest_value(parents),
        notes=[],
    )
    artifact.write_json(folder / "gate.json", artifact.header_for(folder / "gate.json", parents), report)


def alter(train: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change config.yaml and what build.json says of it, so that what is tested lies behind the gate's check."""
    yaml = YAML(typ="safe", pure=True)
    config = yaml.load((train / "config.yaml").read_text("utf-8"))
    change(config)
    text = re.sub(r"(?<![\d.])(\d+)e-", r"\1.0e-", json.dumps(config, indent=1))  # YAML 1.1 reads 5e-07 as text
    (train / "config.yaml").write_text(text + "\n", "utf-8")
    build_json = json.loads((train / "build.json").read_text("utf-8"))
    build_json["files"]["config.yaml"] = artifact.digest_file(train / "config.yaml")
    (train / "build.json").write_text(json.dumps(build_json), "utf-8")


def set_guards(**values: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change of the guards' limits."""

    def change(config: dict[str, Any]) -> None:
        config["guards"].update(values)

    return change


def outcome_of(train: Path) -> dict[str, Any]:
    """Return how the run says that it ended."""
    said: dict[str, Any] = json.loads((train / "logs" / "outcome.json").read_text("utf-8"))
    return said


def logged(train: Path) -> list[dict[str, Any]]:
    """Return the training logs in progress.jsonl, each with its step."""
    lines = [json.loads(line) for line in (train / "logs" / "progress.jsonl").read_text("utf-8").splitlines()]
    return [{"step": line["step"], **line["metrics"]} for line in lines if "loss" in line["metrics"]]
