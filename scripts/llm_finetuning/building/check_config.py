"""Ask the training interpreter whether its TRL takes a run's config as it is meant."""

from collections.abc import Sequence
from typing import Any

from llm_finetuning import trl_options
from llm_finetuning.errors import Refusal
from llm_finetuning.program import run_program
from llm_finetuning.recipes.config import RunConfig


def check(config: RunConfig, python: str) -> list[str]:
    """Return what a person should know of the config under TRL as installed beside `python`.

    Refuses with all faults: an option that TRL does not take, a value that it refuses or changes, an adapter or a
    quantisation of which the same holds, versions of TRL or vLLM that do not fit.
    """
    (record,) = records_of([config], python)
    if record["faults"]:
        raise Refusal(*(f"config: {fault}" for fault in record["faults"]))
    return [str(note) for note in record["notes"]]


def records_of(configs: Sequence[RunConfig], python: str) -> list[dict[str, Any]]:
    """Return the checker's record of each config: faults, notes, and the effective value of each wanted option."""
    job = {"configs": [_as_job(config) for config in configs], "removed": dict(trl_options.REMOVED)}
    return list(run_program("config_checker", job, python=python))


def _as_job(config: RunConfig) -> dict[str, Any]:
    return {
        "method": config.method,
        "trainer": {name: option.value for name, option in config.trainer.items()},
        "adapter": None if config.adapter is None else dict(config.adapter),
        "quantization": None if config.quantization is None else dict(config.quantization),
        "processes": config.shape.processes,
        "engine": config.shape.engine,
        "versions": dict(config.versions),
    }
