"""How much the demo trains and measures; a test walks the same road with tiny numbers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Rows, steps, rates and samples of the demo's second half."""

    prompts: int = 32  # of the training rows, sampled for a gate
    long: int = 48  # tokens that the base model may take, which rambles
    short: int = 24  # tokens for a model that knows the form; a step's time goes with them
    sft_rows: int = 96
    sft_batch: int = 8  # rows a step, one pass
    sft_rate: float = 2e-5  # learning rate; the recipe's own
    rows: int = 200  # that GRPO may draw prompts from
    steps: int = 30  # of GRPO
    rate: float = 5e-6  # learning rate of GRPO; above the recipe's, which is for hundreds of steps
    completions: int = 64  # a step, in groups of `group`; with half as many a model this small settles on wrong carries
    group: int = 8  # completions of one prompt that GRPO compares
    micro_batch: int = 32  # of a step's completions, in memory at once
    every: int = 10  # steps from one checkpoint to the next
    kept: int = 1  # checkpoints of 1.6 GB each
    held_out: int = 200  # rows that no training sees
    samples: int = 4  # completions a held-out row

    @property
    def sft_steps(self) -> int:
        """Optimiser steps of the one pass over the demonstrations."""
        return -(-self.sft_rows // self.sft_batch)

    @property
    def accumulation(self) -> int:
        """Micro-batches that make up one step of GRPO."""
        assert self.completions % self.micro_batch == 0, "a step is made of whole micro-batches"
        return self.completions // self.micro_batch
