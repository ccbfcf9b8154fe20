"""requirements.txt: what a machine installs that has nothing of ours."""

import dataclasses
import re
from pathlib import Path

import pytest

from llm_finetuning.building import closure, freeze, requirements
from llm_finetuning.extras import REQUIREMENTS
from llm_finetuning.recipes.config import Option, RunConfig, Shape

CPU = Shape(kind="cpu", engine="transformers", processes=1)
CONFIG = RunConfig(
    method="grpo",
    model={},
    adapter=None,
    quantization=None,
    trainer={},
    rewards=(),
    data={},
    guards={},
    shape=CPU,
    versions={},
)


def pins(config: RunConfig, files: list[Path] | None = None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    package = closure.closure(freeze.programs("grpo")) if files is None else files
    for line in requirements.text_of(config, package).splitlines():
        if line and not line.startswith("#"):
            match = re.fullmatch(r"([a-z0-9.-]+)==([^ ]+)( ; .+)?", line)
            assert match, line
            found.setdefault(match[1], []).append(line)
    return found


def test_every_package_is_pinned_once_a_python() -> None:
    """One version each, or one for each side of a marker: pip takes no other."""
    for name, lines in pins(CONFIG).items():
        assert len(lines) == 1 or all(" ; " in line for line in lines), name


def test_the_pins_are_those_of_our_locks() -> None:
    """What a run installs is what it was tried with."""
    ours = "".join((REQUIREMENTS / name).read_text() for name in ("core.txt", "train-constraints.txt"))
    for name, lines in pins(CONFIG).items():
        assert name == "torch" or all(line in ours for line in lines), name


def test_it_brings_the_trainer_and_what_the_frozen_rewards_import() -> None:
    """With all that these ask for in turn; the command line's own packages stay at home."""
    found = set(pins(CONFIG))
    assert {"torch", "trl", "transformers", "accelerate", "datasets", "peft", "pyyaml"} <= found
    assert {"pydantic", "ruamel-yaml", "jsonschema-rs", "math-verify", "httpx", "numpy", "mpmath"} <= found
    assert {"pydantic-core", "latex2sympy2-extended", "antlr4-python3-runtime", "referencing"} <= found
    assert not found & {"starlette", "uvicorn", "gguf", "vllm", "deepspeed", "bitsandbytes"}


def test_a_run_without_rewards_brings_less() -> None:
    """Supervised runs import no Math-Verify."""
    found = set(pins(CONFIG, closure.closure(freeze.programs("grpo"), ())))
    assert "math-verify" not in found
    assert {"pydantic", "ruamel-yaml"} <= found


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"shape": Shape(kind="one_gpu", engine="colocate", processes=1, trainer_devices=(0,))}, {"vllm": "0.31.0"}),
        ({"shape": Shape(kind="cpu", engine="colocate", processes=1)}, {}),
        ({"shape": Shape(kind="one_gpu", engine="transformers", processes=1)}, {}),
        ({"shape": dataclasses.replace(CPU, kind="several_gpus", sharding="zero3")}, {"deepspeed": "0.19.8"}),
        ({"shape": dataclasses.replace(CPU, kind="several_gpus", sharding="fsdp2")}, {}),
        ({"quantization": {"load_in_4bit": True}}, {"bitsandbytes": "0.50.2"}),
    ],
    ids=["vllm", "vllm on the cpu", "gpu", "zero3", "fsdp2", "qlora"],
)
def test_the_shape_decides_the_rest(changes: dict[str, object], expected: dict[str, str]) -> None:
    """VLLM where rollouts come from it on GPUs, DeepSpeed for ZeRO-3, bitsandbytes for QLoRA."""
    found = pins(dataclasses.replace(CONFIG, **changes))  # type: ignore[arg-type]
    rest = {name: found[name][0].partition("==")[2] for name in ("vllm", "deepspeed", "bitsandbytes") if name in found}
    assert rest == expected


def test_which_torch_is_said() -> None:
    """A machine without a GPU need not load CUDA; one with a GPU has to have the driver."""
    text = requirements.text_of(CONFIG, [])
    assert "install the CPU build" in text
    gpu = dataclasses.replace(CONFIG, shape=dataclasses.replace(CPU, kind="one_gpu"))
    assert "the machine's driver" in requirements.text_of(gpu, [])


@pytest.mark.parametrize(("optimizer", "wanted"), [("adamw_bnb_8bit", True), ("adamw_torch_fused", False)])
def test_an_8bit_optimizer_brings_its_package(optimizer: str, wanted: bool) -> None:
    """Transformers fails in the first step without it."""
    config = dataclasses.replace(CONFIG, trainer={"optim": Option(optimizer, "brief", "")})
    assert ("bitsandbytes" in pins(config)) is wanted
