"""What a run asks of a machine, from its brief and its model's shape."""

from pathlib import Path
from typing import Any

import pytest

import planned_runs
from llm_finetuning import brief
from llm_finetuning.machine import needs
from llm_finetuning.machine.facts import Gpu

GIB = 1024**3
PARAMETERS = 494_032_768  # of Qwen2.5-0.5B, as its model card's 0.49B


def gpus(count: int, name: str = "NVIDIA H100 80GB HBM3", total: float | None = 79.6) -> list[Gpu]:
    return [Gpu(index=index, name=name, total_gib=total) for index in range(count)]


def of(folder: Path, found: list[Gpu], **of_brief: Any) -> needs.Needs:
    run = planned_runs.write(folder, **{"model": "Qwen2.5-0.5B", "hardware": "auto", **of_brief})
    return needs.of(brief.load(run), found)


def test_a_full_checkpoint_is_weights_and_two_moments(tmp_path: Path) -> None:
    """In float32: 4 bytes a parameter, and 8 for AdamW's moments; the saved model at the end is the weights alone."""
    found = of(tmp_path, gpus(1))
    assert found.checkpoint_gib == pytest.approx(12 * PARAMETERS / GIB, rel=1e-3)
    assert found.final_gib == pytest.approx(4 * PARAMETERS / GIB, rel=1e-3)
    assert found.kept == 3


def test_an_adapters_checkpoint_is_the_adapters(tmp_path: Path) -> None:
    """The frozen weights are not saved again."""
    found = of(tmp_path, gpus(1), training={"adapter": "lora", "lora_r": 8, "lora_target_modules": ["q_proj"]})
    parameters = 24 * 8 * (896 + 896)
    assert found.checkpoint_gib == pytest.approx(12 * parameters / GIB)


def test_sharded_states_are_saved_whole(tmp_path: Path) -> None:
    """ZeRO-3 over eight GPUs saves 16-bit weights, and a master and two moments in 32 bits, of all parameters."""
    found = of(tmp_path, gpus(8), training={"vllm_mode": "colocate"})
    assert (found.sharding, found.processes, found.load_gib) == ("zero3", 8, 0.0)
    assert found.checkpoint_gib == pytest.approx(14 * PARAMETERS / GIB, rel=1e-3)


def test_each_process_loads_a_copy(tmp_path: Path) -> None:
    """Without sharding every process holds the weights on the host while it loads them."""
    found = of(tmp_path, gpus(4), method="sft", training={"adapter": "lora"})
    assert found.processes == 4
    assert found.load_gib == pytest.approx(4 * 2 * PARAMETERS / GIB, rel=1e-3)


@pytest.mark.parametrize(
    ("count", "of_brief", "ports"),
    [
        (1, {}, ()),
        (2, {"method": "sft", "training": {"adapter": "lora"}}, (29500,)),
        (2, {"training": {"vllm_mode": "server"}}, (8000, 51216)),
        (4, {"training": {"vllm_mode": "server", "vllm_server_port": 9000}}, (9000, 51216, 29500)),
    ],
)
def test_ports(tmp_path: Path, count: int, of_brief: dict[str, Any], ports: tuple[int, ...]) -> None:
    """A server listens on two, several trainers meet on one."""
    assert of(tmp_path, gpus(count), **of_brief).ports == ports


@pytest.mark.parametrize(
    ("hardware", "found", "here"),
    [
        ("h100", gpus(1), True),
        ("2xh100", gpus(1), False),
        ("2x8xh100", gpus(8), True),
        ("cpu", gpus(1), True),
        ("h100", [], False),
        ("a100-40", gpus(1, "NVIDIA A100-SXM4-80GB", 80.0), False),
        ("a100-80", gpus(1, "NVIDIA A100-SXM4-80GB", 80.0), True),
        ("a100-40", gpus(1, "NVIDIA A100-PCIE-40GB", 40.0), True),
        ("a10g", gpus(1, "NVIDIA A10G", 22.5), True),
        ("gb10", gpus(1, "NVIDIA GB10", None), True),
        ("h200", gpus(1), False),
    ],
)
def test_the_machine_of_the_brief(tmp_path: Path, hardware: str, found: list[Gpu], here: bool) -> None:
    """A card by another of its names is the same card; one with half the memory, or half of them, is not."""
    assert (of(tmp_path, found, hardware=hardware).elsewhere is None) == here


def test_a_model_that_is_not_here(tmp_path: Path) -> None:
    """Sizes are not guessed: the reason is kept."""
    run = planned_runs.write(tmp_path, hardware="cpu")
    (tmp_path / "model" / "config.json").unlink()
    found = needs.of(brief.load(run), [])
    assert found.checkpoint_gib is None
    assert "config.json" in (found.size_fault or "")


def test_layers_that_want_kernels_of_their_own(tmp_path: Path) -> None:
    """A model with a gated delta rule names the packages without which it is slow; a plain one names none."""
    assert of(tmp_path, gpus(1)).kernels == ()
    hybrid = of(tmp_path / "hybrid", gpus(1), model="Qwen3.5-27B")
    assert hybrid.kernels == ("flash-linear-attention", "causal-conv1d")
