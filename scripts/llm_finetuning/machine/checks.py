"""The table of what is looked at on a machine before training, in the order of the report."""

from collections.abc import Mapping

from llm_finetuning.machine import file_checks, gpu_checks, memory_checks, package_checks
from llm_finetuning.machine.facts import Facts
from llm_finetuning.machine.needs import Needs
from llm_finetuning.machine.outcome import Look
from llm_finetuning.types import Check

CHECKS: Mapping[str, Look] = {
    "config": file_checks.config,
    "gpu": gpu_checks.gpu,
    "driver": gpu_checks.driver,
    "interpreter": package_checks.interpreter,
    "wheels": package_checks.wheels,
    "torch": package_checks.torch,
    "torch-devices": gpu_checks.torch_devices,
    "capability": gpu_checks.capability,
    "precision": gpu_checks.precision,
    "packages": package_checks.packages,
    "assembler": package_checks.assembler,
    "attention": package_checks.attention,
    "mig": gpu_checks.mig,
    "busy": gpu_checks.busy,
    "device-memory": memory_checks.device_memory,
    "host-memory": memory_checks.host_memory,
    "container": memory_checks.container,
    "shared-memory": memory_checks.shared_memory,
    "swap": memory_checks.swap,
    "early-oom": memory_checks.early_oom,
    "sleep-mode": memory_checks.sleep_mode,
    "disk": file_checks.disk,
    "folders": file_checks.folders,
    "ports": file_checks.ports,
    "model": file_checks.model,
    "tokenizer": file_checks.tokenizer,
    "data": file_checks.data,
}
"""What each of them asserts is its docstring's first sentence."""


def run(facts: Facts, needs: Needs) -> list[Check]:
    """Return every check's verdict; one that fails keeps no other from being tried."""
    found = []
    for name, look in CHECKS.items():
        outcome = look(facts, needs)
        found.append(Check(name=name, state=outcome.state, text=outcome.text, next_action=outcome.fix))
    return found
