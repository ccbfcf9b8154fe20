"""All that a run's forecast needs beside its brief: the model's shape, the machine, the longest prompt or row."""

from llm_finetuning.brief import LoadedBrief
from llm_finetuning.planning import architecture
from llm_finetuning.planning.shapes import UnknownShape
from llm_finetuning.recipes.config import Machine
from llm_finetuning.sizing import devices, model_config, row_lengths
from llm_finetuning.sizing.forecast import Situation
from llm_finetuning.sizing.model_config import ModelConfig
from llm_finetuning.sizing.unknown import Unknown

COUNTED = ("mxfp4", "bitsandbytes")
"""Formats of a checkpoint that trains: TRL loads the first in 16 bits, the second is QLoRA's own."""


def config_of(loaded: LoadedBrief) -> ModelConfig:
    """Return the model's config.json; Unknown where it is not on this machine."""
    kwargs = loaded.brief.training.get("model_init_kwargs") or {}
    return model_config.read(loaded.model_source(), kwargs.get("revision"))


def situation_of(
    loaded: LoadedBrief,
    machine: Machine,
    *,
    longest_prompt: int | None = None,
    available_gib: float | None = None,
    host_gib: float = 0.0,
) -> Situation:
    """Return the situation of a run.

    Args:
        loaded: The brief.
        machine: What its `hardware` names.
        longest_prompt: In tokens, where the audit counted them.
        available_gib: Memory that is free before the run, where a person says it.
        host_gib: What else the host takes meanwhile, where host and GPU share one memory.

    Raises:
        Unknown: The model's config.json is not here, its family or the card is not known.
    """
    is_here = machine.gpus == 0 or loaded.brief.hardware.strip().lower() == "auto"
    meminfo = devices.this_meminfo() if is_here else None
    device = devices.device_of(machine, available_gib=available_gib, host_gib=host_gib, meminfo=meminfo)
    if device is None:
        raise Unknown(devices.unknown_words(machine))
    found = config_of(loaded)
    _check_unquantized(found)
    try:
        model = architecture.read(found.values)
    except UnknownShape as unknown:
        raise Unknown(f"model: {found.path.parent}: {unknown}") from None
    return Situation(
        model=model,
        checkpoint_dtype=found.dtype,
        machine=machine,
        device=device,
        longest_prompt=longest_prompt,
        longest_row=row_lengths.bound(loaded),
    )


def _check_unquantized(found: ModelConfig) -> None:
    """Refuse to plan weights whose format is not counted: they are neither 16 bits nor what QLoRA makes of them."""
    said = found.values.get("quantization_config")
    kind = said.get("quant_method") if isinstance(said, dict) else None
    if kind is not None and kind not in COUNTED:
        raise Unknown(
            f"model: {found.path} says that its weights are quantised already ({kind}), which is not counted here; "
            "name the model that they were made from"
        )
