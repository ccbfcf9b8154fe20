"""A run that goes on draws the same prompts, in the same order, as one that was never broken."""

from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from guards import ending, outcome

ROUNDING = 1e-6  # of an epoch


class SameOrder(TrainerCallback):  # type: ignore[misc]  # transformers is not beside the type checker
    """Puts the trainer's own counters, which a checkpoint does not hold, where an unbroken run would have them.

    TRL 1.16.0 shuffles each epoch from one generator, which a new process begins anew, and counts from zero the
    micro-steps that decide when completions are drawn.
    """

    def __init__(self, trainer: Any) -> None:
        """Take the trainer whose counters these are."""
        self._trainer = trainer

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        train_dataloader: Any = None,
        **kwargs: Any,
    ) -> None:
        """Move on; nothing happens at step 0."""
        if not state.global_step:
            return
        self._trainer._step = state.global_step * args.gradient_accumulation_steps  # noqa: SLF001  no public name
        sampler = _sampler_of(train_dataloader)
        if sampler is None:
            raise ending.Ended(
                "this TRL draws its prompts in another way, so a run that goes on would see others than an unbroken "
                "one; install the run's requirements.txt",
                outcome.EXIT_BAD_INPUT,
            )
        if sampler.shuffle:
            for _ in range(int((state.epoch or 0.0) + ROUNDING)):
                torch.randperm(sampler.num_samples, generator=sampler.generator)


def _sampler_of(loader: Any) -> Any:
    """Return the sampler that repeats prompts, below what accelerate wraps around it."""
    waiting, seen = [loader], 0
    while waiting and seen < 32:  # noqa: PLR2004  wrappers of wrappers end long before
        one, seen = waiting.pop(0), seen + 1
        if hasattr(one, "mini_repeat_count"):
            return one
        parts = (getattr(one, name, None) for name in ("batch_sampler", "sampler", "base_dataloader"))
        waiting.extend(part for part in parts if part is not None)
    return None
