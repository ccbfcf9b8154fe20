"""requirements.txt of a run: one file that pip installs on a machine that has nothing of ours.

The versions are those of this product's own locks; `requirements/README.md` says how they are made.
"""

import importlib.metadata
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from llm_finetuning.building import closure
from llm_finetuning.extras import REQUIREMENTS, TORCH
from llm_finetuning.recipes.config import RunConfig

DISTRIBUTIONS = {"ruamel": "ruamel-yaml"}
"""Names under which a package is installed, where they are not the module's own."""

OFF_THE_ROAD = ("gguf",)
"""What the extra `train` brings that a built run does without."""

# The newest on PyPI on 2026-11-29; TRL 1.16.0 asks for deepspeed 0.18.6 or newer. Neither was run with it here.
DEEPSPEED = "deepspeed==0.19.8"
BITSANDBYTES = "bitsandbytes==0.50.2"

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==")


def text_of(config: RunConfig, package_files: Iterable[Path]) -> str:
    """Return the file for a run with this config that holds these files of the package, named relative to it."""
    core = _core_needs(closure.outside(package_files))
    blocks = {
        _torch_words(config): [TORCH[0]],
        "The trainer.": _trainer_pins(),
        "What the frozen rewards import, and the reading of the brief.": [
            line for line in _pins("core.txt") if _name(line) in core
        ],
        **_of_shape(config),
    }
    said: set[str] = set()
    lines: list[str] = ["# Written by `finetune build`: `pip install -r requirements.txt` in an empty environment."]
    lines.append("# Python 3.11 or newer: TRL 1.16.0 asks for it.")
    for words, pins in blocks.items():
        lines += ["", *(f"# {line}" for line in words.splitlines())]
        lines += [pin for pin in pins if _name(pin) not in said]
        said.update(map(_name, pins))
    return "\n".join(lines) + "\n"


def _torch_words(config: RunConfig) -> str:
    if config.shape.kind == "cpu":
        return (
            "This run needs no GPU. Where pip would take torch's CUDA build (3 GB), install the CPU build of this\n"
            "version first, from the index that pytorch.org names; this file then leaves it as it is."
        )
    return "The build of torch is pip's own decision: on Linux it brings CUDA. It has to fit the machine's driver."


def _trainer_pins() -> list[str]:
    return [line for line in _pins("train-constraints.txt") if _name(line) not in OFF_THE_ROAD]


def _of_shape(config: RunConfig) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    if config.shape.engine != "transformers" and config.shape.kind != "cpu":
        found["The engine of the rollouts."] = _pins("vllm.txt")
    if config.shape.sharding == "zero3":
        found["The sharding of the weights."] = [DEEPSPEED]
    if config.quantization is not None:
        found["The 4-bit weights of QLoRA."] = [BITSANDBYTES]
    elif (optimizer := config.trainer.get("optim")) and "8bit" in str(optimizer.value):
        found["The 8-bit optimizer."] = [BITSANDBYTES]
    return found


def _pins(file: str) -> list[str]:
    """Return the pinned lines of one of our own files, without hashes: the trainer's packages have none."""
    lines = (REQUIREMENTS / file).read_text("utf-8").splitlines()
    return [line.removesuffix("\\").strip() for line in lines if _PIN.match(line)]


def _name(pin: str) -> str:
    return re.split(r"[=<>! ;\[]", pin, maxsplit=1)[0].lower().replace("_", "-")


def _core_needs(modules: Iterable[str]) -> set[str]:
    """Return the packages of the core lock that these modules need, and what those need in turn."""
    locked = {_name(pin) for pin in _pins("core.txt")}
    waiting = [DISTRIBUTIONS.get(name, name).lower().replace("_", "-") for name in modules]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in locked and name not in found:
            found.add(name)
            waiting += _asks_for(name)
    return found


def _asks_for(name: str) -> Iterator[str]:
    """Yield the names that a package asks for: the CLI runs with all of the core lock installed, for its own Python."""
    try:
        asked = importlib.metadata.requires(name) or ()
    except importlib.metadata.PackageNotFoundError:
        return  # locked for another Python
    for wanted in asked:
        if "extra ==" not in wanted:
            match = re.match(r"[A-Za-z0-9._-]+", wanted)
            assert match is not None
            yield _canonical(match.group())


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
