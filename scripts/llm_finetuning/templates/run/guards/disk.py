"""Room on the disk before a checkpoint is begun: a half-written one is worth less than none."""

import shutil
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from guards import outcome

SPARE = 1.2  # room asked for, as a multiple of the checkpoint
ADAM_STATES = 2  # numbers the optimizer keeps for each trained one


class Room(TrainerCallback):  # type: ignore[misc]  # transformers is not beside the type checker
    """Stops the run, with what was saved before kept, where the next checkpoint would not fit."""

    def __init__(self, here: Path) -> None:
        """Watch the disk of the run folder `here`."""
        self._here = here

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        **kwargs: Any,
    ) -> TrainerControl:
        """Look before every save that the trainer has decided on."""
        if not control.should_save:
            return control
        folder = Path(args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        needed = SPARE * (_last_size(folder) or _estimate(model))
        free = shutil.disk_usage(folder).free
        if free < needed:
            outcome.write(
                self._here,
                outcome.FAILED,
                f"{folder}: the next checkpoint needs about {needed / 1e9:.2g} GB and the disk has {free / 1e9:.2g} GB "
                "free; free some space and start again, it goes on from the last checkpoint",
                global_step=state.global_step,
                exit_code=outcome.EXIT_MACHINERY,
            )
            control.should_save = False
            control.should_training_stop = True
        return control


def _last_size(folder: Path) -> int:
    """Return the bytes of the newest checkpoint; 0 where there is none."""
    steps = [path for path in folder.glob("checkpoint-*") if path.name.rpartition("-")[2].isdecimal()]
    if not steps:
        return 0
    newest = max(steps, key=lambda path: int(path.name.rpartition("-")[2]))
    return sum(file.stat().st_size for file in newest.rglob("*") if file.is_file())


def _estimate(model: Any) -> int:
    """Return the bytes of a first checkpoint: what is trained, and the optimizer's two numbers for each, in float32."""
    if model is None:
        return 0
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    weights: int = sum(parameter.numel() * parameter.element_size() for parameter in trained)
    states: int = sum(parameter.numel() * 4 * ADAM_STATES for parameter in trained)
    return weights + states
