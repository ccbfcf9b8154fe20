"""Machines that are not here, from files: what the driver, the kernel and the training interpreter say on each.

Every file names where its values come from. The product's own parsers read them.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from llm_finetuning.machine import driver, host, reading
from llm_finetuning.machine.facts import DataFile, Driver, Facts, Folder, ModelFiles

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())


def recorded(name: str, **changes: Any) -> Facts:
    """Return a machine; `changes` go to its facts, and those of `host`, `interpreter` and `torch` to these parts."""
    folder = FIXTURES / name
    said = json.loads((folder / "machine.json").read_text("utf-8"))
    version, gpus = driver.parse_gpus((folder / "gpus.csv").read_text("utf-8"))
    assert version == (said["driver"] if gpus else None)
    processes = driver.parse_processes((folder / "processes.csv").read_text("utf-8"))
    interpreter = reading.from_record("python", json.loads((folder / "interpreter.json").read_text("utf-8")))
    if "torch" in changes and interpreter.torch is not None:
        interpreter = replace(interpreter, torch=replace(interpreter.torch, **changes.pop("torch")))
    memory = replace(host.read(folder), shm_gib=said["shm_gib"], early_oom=said["early_oom"])
    facts = Facts(
        system="Linux",
        release="6.8.0",
        architecture=said["architecture"],
        glibc=said["glibc"],
        interpreter=replace(interpreter, **changes.pop("interpreter", {})),
        driver=Driver(
            version=said["driver"],
            fault=said.get("fault"),
            hardware=said.get("hardware", bool(gpus)),
            toolkits=tuple((path, release) for path, release in said["toolkits"]),
        ),
        gpus=driver.together(gpus, processes),
        host=replace(memory, **changes.pop("host", {})),
        folders=(Folder(role="checkpoints", path="run", free_gib=500.0, writable=True),),
        model=ModelFiles(source="/model", folder="/model", weights_gib=14.2, largest_gib=4.6),
        data=(DataFile(name="data.jsonl"),),
    )
    return replace(facts, **changes)
