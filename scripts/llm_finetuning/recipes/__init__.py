"""From a brief and a machine to every option of the run, one file a method; pure, without torch."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_finetuning.brief import LoadedBrief
    from llm_finetuning.recipes.config import Machine, Measured, RunConfig


def config_for(
    loaded: "LoadedBrief", machine: "Machine", rows: int, *, measured: "Measured | None" = None
) -> "RunConfig":
    """Return the complete config of a run; refuses with all faults at once, each at its line of the brief.

    Args:
        loaded: The brief.
        machine: What its `hardware` names; `shapes.machine_of` reads it.
        rows: How many training rows there are, from 0 on.
        measured: What audit and samples have shown; it says more in a GRPO run's notes and sizes vLLM's window.
    """
    from llm_finetuning import brief
    from llm_finetuning.errors import Refusal
    from llm_finetuning.recipes import grpo, preference, sft

    try:
        if loaded.brief.method == "grpo":
            return grpo.recipe(loaded, machine, rows, measured=measured)
        if loaded.brief.method == "sft":
            return sft.recipe(loaded, machine, rows)
        return preference.recipe(loaded, machine, rows)
    except Refusal as refusal:
        raise Refusal(*(brief.placed(loaded, line) for line in refusal.lines)) from None
