"""What ends a GRPO run before its last step: each rule says why, in logs/outcome.json; the trainer stops cleanly."""

import math
from typing import Any

import torch
from accelerate.utils import gather_object
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from guards import ending, outcome
from guards.abstentions import Abstentions
from guards.options import Settings
from guards.rewards import Watch

ALL = 1.0 - 1e-9

REWARD = "reward"  # TRL's metric; a log without it comes from a step that reuses completions
CUT_OFF = "completions/clipped_ratio"


class Stops(TrainerCallback):  # type: ignore[misc]  # transformers is not beside the type checker
    """Stops on rewards that are no number, dead groups, abstentions, and completions that never end."""

    def __init__(self, settings: Settings, trainer: Any, watch: Watch) -> None:
        """Read the limits from config.yaml's `guards`."""
        self._here, self._trainer, self._watch = settings.here, trainer, watch
        guards = settings.guards
        self._dead_steps = int(guards["dead_group_steps"])
        self._end_token_steps = int(guards["end_token_steps"])
        self._abstentions = Abstentions(watch.names, float(guards["abstention_share"]), int(guards["abstention_steps"]))
        self._dead = 0  # logs in a row
        self._cut_off: int | None = 0  # logs from the first one on; None once a completion ended

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Look at the first completions of the run, not at those after a restart."""
        self._cut_off = 0 if state.global_step == 0 else None

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> TrainerControl:
        """Look at one log of training; what every process sees is the same, or is gathered here."""
        logs = logs or {}
        if "loss" not in logs:  # an evaluation, or the summary at the end
            return control
        tallies = gather_object([self._watch.take()])
        reason = _unpaid(logs) or self._abstentions.look(tallies) or self._no_signal(logs) or self._no_end(logs)
        if reason:
            control.should_save = False  # the last checkpoint is from before the fault
            control.should_evaluate = False
            control.should_training_stop = True
            words = f"step {state.global_step}: {reason}"
            outcome.write(self._here, outcome.STOPPED, words, global_step=state.global_step, exit_code=outcome.EXIT_NO)
            ending.say(f"stopped at {words}")
        return control

    def _no_signal(self, logs: dict[str, Any]) -> str | None:
        """Count the logs in a row in which every group was paid alike; the trainer's pooled spread does not show it."""
        if REWARD not in logs:
            return None
        self._dead = self._dead + 1 if _dead_share(self._trainer) >= ALL else 0
        if self._dead < self._dead_steps:
            return None
        return (
            f"for {self._dead} logs in a row every group was paid alike, so there is nothing to learn from: the task "
            "is too hard or too easy for this model, or the reward does not tell completions apart; look at "
            "completions/, then gate again with other prompts"
        )

    def _no_end(self, logs: dict[str, Any]) -> str | None:
        """Count the first logs as long as not one completion ended by itself."""
        if self._cut_off is None or CUT_OFF not in logs:
            return None
        self._cut_off = self._cut_off + 1 if _number(logs[CUT_OFF]) >= ALL else None
        if self._cut_off is None or self._cut_off < self._end_token_steps:
            return None
        return (
            f"not one completion of the first {self._cut_off} logs ended by itself: max_completion_length is too "
            "short for the task, or the model ends with a token that the trainer does not know; "
            "logs/effective.yaml lists those that it knows"
        )


def _number(value: Any) -> float:
    """Return a logged value as a number; None and what is no number are NaN."""
    try:
        return math.nan if value is None else float(value)
    except (TypeError, ValueError):
        return math.nan


def _unpaid(logs: dict[str, Any]) -> str | None:
    """TRL 1.16.0 logs a reward of None, beside a finite loss, where every reward abstained or paid NaN."""
    if REWARD not in logs or math.isfinite(_number(logs[REWARD])):
        return None
    return (
        f"reward is {logs[REWARD]}: every reward abstained, or one paid a number that is none; see completions/ and "
        "what the rewards said in the log"
    )


def _dead_share(trainer: Any) -> float:
    """Return the share of groups whose weighted rewards are all equal, from the last batch's own rewards.

    `_logs` holds them in TRL's order, groups together; a reward that abstained adds nothing, as in TRL's sum.
    """
    columns = [list(trainer._logs["rewards"][name]) for name in trainer.reward_func_names]  # noqa: SLF001
    size = trainer.num_generations
    if not columns or not columns[0] or len(columns[0]) % size:
        return 0.0
    paid = torch.tensor([[_number(value) for value in column] for column in columns], dtype=torch.float64)
    sums = (paid * trainer.reward_weights.to(paid).unsqueeze(1)).nansum(dim=0).view(-1, size)
    spread = sums.max(dim=1).values - sums.min(dim=1).values
    return float((spread == 0).float().mean())
