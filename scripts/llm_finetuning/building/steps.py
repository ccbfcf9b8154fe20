"""How many optimizer steps a config takes over its rows, and what one of them sees."""

import math
from dataclasses import dataclass

from llm_finetuning.recipes import layout
from llm_finetuning.recipes.config import RunConfig


@dataclass(frozen=True, slots=True)
class Steps:
    """The length of a run."""

    total: int  # optimizer steps
    rows_a_step: float  # rows of the data set that one step sees; a fraction where it sees part of a group


def steps_of(config: RunConfig, rows: int) -> Steps:
    """Return the length of the run, as transformers 5 counts it; packing of sft rows makes it shorter."""
    values = {name: option.value for name, option in config.trainer.items()}
    epochs, most = float(values.get("num_train_epochs") or 1), int(values.get("max_steps") or -1)
    device = int(values["per_device_train_batch_size"])
    accumulation = int(values["gradient_accumulation_steps"])
    if config.method == "grpo":
        at_once = values.get("generation_batch_size")
        drawn = int(at_once) // (device * config.shape.processes) if at_once else values.get("steps_per_generation")
        batch = layout.Layout(
            per_device=device,
            processes=config.shape.processes,
            accumulation=accumulation,
            steps_per_generation=int(drawn or accumulation),
            group=int(values["num_generations"]),
        )
        iterations = int(values.get("num_iterations") or 1)
        total = layout.steps_of(batch, rows, epochs=epochs, max_steps=most, iterations=iterations)
        return Steps(total, batch.prompts_per_step)
    batches = math.ceil(math.ceil(rows / device) / config.shape.processes)
    total = most if most > 0 else math.ceil(epochs * math.ceil(batches / accumulation))
    return Steps(total, device * config.shape.processes * accumulation)
