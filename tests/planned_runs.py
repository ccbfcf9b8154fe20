"""Runs of public models on named machines, for tests of what they need."""

import json
from pathlib import Path
from typing import Any

from llm_finetuning import brief
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.recipes import shapes
from llm_finetuning.sizing.forecast import Forecast, Situation, forecast
from llm_finetuning.sizing.situation import situation_of
from public_configs import CONFIGS

COLUMNS = {
    "grpo": "prompt: prompt",
    "sft": "prompt: prompt, completion: answer",
    "kto": "prompt: prompt, completion: answer, label: label",
    "dpo": "prompt: prompt, chosen: chosen, rejected: rejected",
    "orpo": "prompt: prompt, chosen: chosen, rejected: rejected",
    "simpo": "prompt: prompt, chosen: chosen, rejected: rejected",
}


def write(
    folder: Path,
    *,
    model: str = "Qwen2.5-7B",
    method: str = "grpo",
    hardware: str = "h100",
    cap: int = 512,
    training: dict[str, Any] | None = None,
    **config: Any,
) -> Path:
    """Write a run directory beside a model folder that holds a config.json alone; `config` is added to it."""
    weights = folder / "model"
    weights.mkdir(parents=True, exist_ok=True)
    (weights / "config.json").write_text(json.dumps({"dtype": "bfloat16", **CONFIGS[model], **config}))
    run = folder / "run"
    run.mkdir(exist_ok=True)
    lines = [
        "name: sized",
        f"method: {method}",
        f"model: {weights}",
        f"dataset: {{path: data.jsonl, {COLUMNS[method]}}}",
        f"sampling: {{max_completion_length: {cap}}}",
        f"training: {json.dumps(training or {})}",
        f"hardware: {hardware}",
        *(["rewards: [{use: exact_answer}]"] if method == "grpo" else []),
    ]
    (run / "brief.yaml").write_text("\n".join(lines) + "\n")
    long = "so many words " * 200  # longer than any `max_length` here, as rows of a real data set may be
    row = {"prompt": "1+1?", "answer": long, "chosen": long, "rejected": f"{long}no", "label": True}
    (run / "data.jsonl").write_text(json.dumps(row) + "\n")
    return run


def situated(run: Path, **asked: Any) -> tuple[LoadedBrief, Situation]:
    """Return brief and situation of a run; `asked` goes to `situation_of`."""
    loaded = brief.load(run)
    return loaded, situation_of(loaded, shapes.machine_of(loaded.brief.hardware), **asked)


def planned(run: Path, **asked: Any) -> Forecast:
    """Return the forecast of a run."""
    return forecast(*situated(run, **asked))
