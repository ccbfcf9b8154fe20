"""One line a log, for `finetune status` and for whoever watches the run."""

import json
import math
import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class Progress(TrainerCallback):  # type: ignore[misc]  # transformers is not beside the type checker
    """Appends to logs/progress.jsonl: a line when training begins, and one for everything the trainer logs."""

    def __init__(self, here: Path) -> None:
        """Write below the run folder `here`."""
        self._path = here / "logs" / "progress.jsonl"

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Say from which step training begins, and how many there will be."""
        self._append(state, {})

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Keep what the trainer logged; a number that is none is null, as in TRL's own state."""
        self._append(state, {name: _plain(value) for name, value in (logs or {}).items()})

    def _append(self, state: TrainerState, metrics: dict[str, Any]) -> None:
        if not state.is_world_process_zero:
            return
        line = {"step": state.global_step, "max_steps": state.max_steps, "at": round(time.time(), 3)}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({**line, "metrics": metrics}) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, str):  # transformers 5 hands numbers on as text
        try:
            value = float(value)
        except ValueError:
            return value
    if isinstance(value, bool | int) or value is None:
        return value
    return value if isinstance(value, float) and math.isfinite(value) else None
