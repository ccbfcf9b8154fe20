"""Built runs of the methods without rollouts, for tests: a brief, a few rows, and `build` as it is."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_finetuning import brief
from llm_finetuning.commands import build

FORKED = Path(__file__).with_name("forked_runs.py")

COLUMNS = brief.COLUMNS_BY_METHOD

QUICK: dict[str, Any] = {
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 1,
    "learning_rate": 0.01,
    "max_steps": 2,
    "save_steps": 1,
    "lr_scheduler_type": "constant",
    "warmup_steps": 0,
}


def built(
    folder: Path, method: str, model: str | Path, training: Mapping[str, Any], *, chat: bool = False, rows: int = 8
) -> Path:
    """Build a run in `folder` and return its train/."""
    folder.mkdir(parents=True)
    columns = ", ".join(f"{name}: {name}" for name in COLUMNS[method])
    lines = [f"name: tiny\nmethod: {method}\nmodel: {model}", f"dataset: {{path: rows.jsonl, {columns}}}"]
    lines += [f"training: {json.dumps({**QUICK, **training})}", "hardware: cpu", ""]
    (folder / "brief.yaml").write_text("\n".join(lines), "utf-8")
    (folder / "rows.jsonl").write_text(
        "".join(json.dumps(row(method, n, chat=chat)) + "\n" for n in range(rows)), "utf-8"
    )
    build.run(folder, check=False)
    return folder / "train"


def row(method: str, number: int, *, chat: bool) -> dict[str, Any]:
    """Return one row with the columns of a method."""
    right, wrong = f" {number % 9 + 1} .", f" The sum is {(number + 4) % 9 + 1} ."
    cells: dict[str, Any] = {
        "prompt": f"What is {number % 9} + 1 ?",
        "completion": right if number % 2 or method == "sft" else wrong,
        "chosen": right,
        "rejected": wrong,
        "label": bool(number % 2),
    }
    if chat:
        roles = {"prompt": "user", "completion": "assistant", "chosen": "assistant", "rejected": "assistant"}
        cells |= {name: [{"role": role, "content": cells[name]}] for name, role in roles.items()}
    return {name: cells[name] for name in COLUMNS[method]}


def run_all(python: str, folders: Sequence[Path]) -> list[int]:
    """Run each train/ to its end and return the exit codes."""
    done = subprocess.run([python, FORKED, *folders], capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    codes: list[int] = json.loads(done.stdout.splitlines()[-1])
    return codes


def log_of(train: Path) -> str:
    """Return what a run printed."""
    return (train / "logs" / "train.log").read_text("utf-8", "replace")
