"""A run that has taken its last step takes no further one when it is started again; its model is saved, no more."""

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from guards import ending


class AllTaken(Exception):  # noqa: N818  an answer, not an error
    """The checkpoint that was loaded is that of the last step."""


class LastStep(TrainerCallback):  # type: ignore[misc]  # transformers is not beside the type checker
    """Raises `AllTaken` as training begins, once a checkpoint at or beyond the last step is loaded.

    transformers 5.17.0 looks whether it has to stop after a step alone, so that a run which goes on from its last step
    within an epoch would take one more. The flags of `control` are read too late for that; only an exception is not.
    """

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Compare the checkpoint's step with the number of steps of this run, which may follow from its epochs."""
        if state.global_step and state.global_step >= state.max_steps:
            ending.say(f"all {state.max_steps} steps were taken before this start: the model is saved, nothing trained")
            raise AllTaken


def finish(trainer: Any) -> None:
    """Do what the trainer's own end of training does to the weights: the best checkpoint's, where that is asked for."""
    if trainer.args.load_best_model_at_end and trainer.state.best_model_checkpoint is not None:
        trainer._load_best_model()  # noqa: SLF001  no public name
