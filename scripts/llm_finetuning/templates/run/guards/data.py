"""The run's rows: what the trainer gets of them, what a reward gets, and where training goes on."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guards import ending

if TYPE_CHECKING:
    from datasets import Dataset

    from guards.options import Settings

ROW = "finetune_row"
"""The column that says which row a prompt is; held-out rows are counted on after the training rows."""

NOT_HANDED_ON = ("prompt", "completion", "completion_ids")
"""Columns that TRL does not pass to a reward."""

STATE = "trainer_state.json"
WEIGHTS = ("*.safetensors", "*.bin", "pytorch_model_fsdp*", "global_step*", "distcp*", "*.distcp")


class Rows:
    """Training rows and held-out rows as the JSONL holds them; `datasets` never sees a nested column."""

    def __init__(self, settings: "Settings") -> None:
        """Read both files; ends the run for a line that is no row."""
        self.train = _read(settings.here / str(settings.data["train"]))
        held_out = settings.data.get("held_out")
        self.held_out = _read(settings.here / held_out) if held_out else []
        self._all = [*self.train, *self.held_out]
        names = dict.fromkeys(name for row in self._all for name in row)
        self.columns = [name for name in names if name not in NOT_HANDED_ON]

    def is_training(self, row: int) -> bool:
        """Tell whether the row is trained on."""
        return row < len(self.train)

    def column(self, name: str, rows: list[int]) -> list[Any]:
        """Return a fresh copy of one column's values for some rows, so that a reward cannot alter the data."""
        return [_copy(self._all[row].get(name)) for row in rows]

    def training_set(self) -> "Dataset":
        """Return what the trainer draws from: prompts and row numbers, nothing else."""
        return _prompts(self.train, first=0)

    def held_out_set(self) -> "Dataset | None":
        """Return what is evaluated every stated number of steps, or None."""
        return _prompts(self.held_out, first=len(self.train)) if self.held_out else None


def _prompts(rows: list[dict[str, Any]], *, first: int) -> "Dataset":
    from datasets import Dataset

    return Dataset.from_dict({"prompt": [row["prompt"] for row in rows], ROW: list(range(first, first + len(rows)))})


def _read(path: Path) -> list[dict[str, Any]]:
    rows = []
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ending.refuse(f"{path}: cannot be read ({error.strerror}); build the run again") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ending.refuse(f"{path}:{number}: no JSON ({error}); build the run again") from None
        if not isinstance(row, dict) or not isinstance(row.get("prompt"), str | list):
            raise ending.refuse(f"{path}:{number}: no row with a prompt; build the run again")
        rows.append(row)
    if not rows:
        raise ending.refuse(f"{path}: no rows; build the run again")
    return rows


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(part) for name, part in value.items()}
    return [_copy(part) for part in value] if isinstance(value, list) else value


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest checkpoint that is whole, or None; says which ones are passed over and why."""
    numbered = [path for path in folder.glob("checkpoint-*") if path.name.rpartition("-")[2].isdecimal()]
    for path in sorted(numbered, key=lambda path: int(path.name.rpartition("-")[2]), reverse=True):
        fault = _fault_of(path)
        if fault is None:
            ending.say(f"going on from {path.name}")
            return path
        ending.say(f"{path.name} is passed over: {fault}")
    return None


def _fault_of(checkpoint: Path) -> str | None:
    """Return what a checkpoint lacks. The trainer writes its state last, so with that file all the others are there."""
    try:
        state = json.loads((checkpoint / STATE).read_text("utf-8"))
    except FileNotFoundError:
        return f"it was being written when the run was killed (no {STATE})"
    except (OSError, ValueError):
        return f"it was being written when the run was killed ({STATE} is cut)"
    if state.get("global_step") != int(checkpoint.name.rpartition("-")[2]):
        return f"{STATE} speaks of step {state.get('global_step')}"
    if not any(True for pattern in WEIGHTS for _ in checkpoint.glob(pattern)):
        return "its weights are gone"
    if not any(checkpoint.glob("rng_state*.pth")):
        return "the state of the random numbers is gone"
    empty = [path.name for path in checkpoint.iterdir() if path.is_file() and path.stat().st_size == 0]
    return f"{empty[0]} is empty" if empty else None
