"""What ends a run that samples nothing before its last step: a request, or a number that is none."""

import math
import signal
from pathlib import Path
from types import FrameType
from typing import Any

from accelerate.utils import gather_object
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from guards import ending, outcome


class Interruption(TrainerCallback):  # type: ignore[misc]  # transformers is not beside the type checker
    """After SIGTERM finishes the step, saves and stops; stops unsaved on a loss or gradient that is no number."""

    def __init__(self, here: Path) -> None:
        """Write the reason below the run folder `here`."""
        self._here = here
        self._asked = False
        self._before: Any = signal.SIG_DFL

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Answer SIGTERM from now on; before there is a trainer it ends the process as usual."""
        self._before = signal.signal(signal.SIGTERM, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
        ending.say("asked to stop: the step is finished and saved first")

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        """Save and stop where any process was asked to; one that went on alone would wait for the others for ever."""
        if any(gather_object([self._asked])):
            control.should_save = control.should_training_stop = True
        return control

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> TrainerControl:
        """Look at one log of training, whose numbers are the same in every process."""
        wrong = [name for name in ("loss", "grad_norm") if name in (logs or {}) and not _is_number(logs or {}, name)]
        if wrong:
            control.should_save = False  # the last checkpoint is from before the fault
            control.should_evaluate = False
            control.should_training_stop = True
            said = ", ".join(f"{name} is {(logs or {})[name]}" for name in wrong)
            words = (
                "the weights may hold numbers that are none; go on from the last checkpoint with a lower learning_rate"
            )
            self._record(state, f"{said}: {words}", outcome.EXIT_NO)
        return control

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Give the signal back, and say that the run was asked to end, now that its step is saved."""
        signal.signal(signal.SIGTERM, self._before)
        if state.global_step < state.max_steps and any(gather_object([self._asked])):
            self._record(state, "asked to stop; the next start goes on from here", outcome.EXIT_DONE)

    def _record(self, state: TrainerState, reason: str, code: int) -> None:
        words = f"step {state.global_step}: {reason}"
        outcome.write(self._here, outcome.STOPPED, words, global_step=state.global_step, exit_code=code)
        ending.say(f"stopped at {words}")


def _is_number(logs: dict[str, Any], name: str) -> bool:
    try:
        return math.isfinite(float(logs[name]))
    except (TypeError, ValueError):
        return False
