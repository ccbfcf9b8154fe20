"""Runs with a training log, written as a run folder's own guards write it, for tests that train nothing."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import runs

ROWS = 100
OPTIONS = {
    "max_completion_length": 256,
    "gradient_accumulation_steps": 8,
    "steps_per_generation": 8,
    "num_iterations": 1,
    "learning_rate": 1e-6,
}


def columns(rows: int = ROWS, **changed: Any) -> dict[str, Any]:
    """Return a log in which nothing is wrong and the reward stands still, with what is changed of it."""
    rng = np.random.default_rng(0)

    def noise(size: float) -> Any:
        return size * rng.standard_normal(rows)

    flat = {
        "reward": 0.4 + noise(0.03),
        "reward_std": 0.4 + noise(0.03),
        "frac_reward_zero_std": np.clip(0.1 + noise(0.05), 0, 1),
        "completions/mean_length": 200 + noise(10.0),
        "completions/clipped_ratio": np.clip(0.03 + noise(0.02), 0, 1),
        "entropy": 0.6 + noise(0.03),
        "kl": 0.05 + np.abs(noise(0.01)),
        "grad_norm": np.exp(noise(0.3)),
        "step_time": 2 + np.abs(noise(0.1)),
    }
    return {**flat, **changed}


def rising(rows: int = ROWS) -> Any:
    """Return a reward that is learned."""
    return np.linspace(0.2, 0.8, rows) + 0.03 * np.random.default_rng(1).standard_normal(rows)


def spent(rows: int = ROWS) -> Any:
    """Return an entropy that collapses."""
    return np.clip(0.9 * np.exp(-np.arange(rows) / 20), 0.03, None)


def lines(found: Mapping[str, Any], *, max_steps: int | None = None, at: float = 1.8e9) -> list[str]:
    """Return the lines of progress.jsonl, the one that says that training begins first."""
    rows = len(next(iter(found.values())))
    last = max_steps or rows
    begin = {"step": 0, "max_steps": last, "at": at, "metrics": {}}
    listed = [begin] + [
        {
            "step": row + 1,
            "max_steps": last,
            "at": at + 3.0 * (row + 1),
            "metrics": {name: _plain(values[row]) for name, values in found.items()},
        }
        for row in range(rows)
    ]
    return [json.dumps(line) + "\n" for line in listed]


def _plain(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def write(folder: Path, found: Mapping[str, Any], *, brief: str = runs.BRIEF, **options: Any) -> Path:
    """Write a run directory whose training left this log; `options` are those of the trainer."""
    runs.write_run(folder, text=brief)
    (folder / "train" / "guards").mkdir(parents=True)
    (folder / "train" / "logs").mkdir()
    config = {"trainer": {**OPTIONS, **options}, "versions": {"trl": "1.16.0"}}
    (folder / "train" / "config.yaml").write_text(json.dumps(config), "utf-8")
    (folder / "train" / "logs" / "progress.jsonl").write_text("".join(lines(found)), "utf-8")
    return folder
