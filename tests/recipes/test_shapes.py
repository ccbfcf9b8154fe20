"""From `hardware` to the processes and devices of a run."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.errors import MachineryFailure, Refusal
from llm_finetuning.recipes import shapes
from llm_finetuning.recipes.config import Machine, Shape


def machine(name: str, gpus: int, machines: int = 1) -> Machine:
    return Machine(name=name, gpus=gpus, machines=machines)


HARDWARE = {
    "cpu": machine("cpu", 0),
    "h100": machine("h100", 1),
    " RTX4090 ": machine("rtx4090", 1),
    "8xh100": machine("h100", 8),
    "2x8xh100": machine("h100", 8, 2),
    "16x4xa100-80gb": machine("a100-80gb", 4, 16),
    "4xgpu": machine("gpu", 4),
    "dgx-spark": machine("dgx-spark", 1),
    "gb10": machine("dgx-spark", 1),
    "2x1xdgx-spark": machine("dgx-spark", 1, 2),
}


@pytest.mark.parametrize("text", HARDWARE, ids=str.strip)
def test_hardware_names_a_machine(text: str) -> None:
    """A card, GPUs x card, machines x GPUs x card, in either case; a Spark under both of its names."""
    assert shapes.machine_of(text) == HARDWARE[text]


@pytest.mark.parametrize(
    "text",
    ["", "auot", "0xh100", "8h100", "x8xh100", "2x2x2xh100", "8xcpu", "8xauto", "h 100", "2xdgx-spark", "hundred"],
)
def test_a_misspelt_machine_is_refused_with_the_forms(text: str) -> None:
    """A card's name holds a digit, so that a misspelt `auto` is not taken for a card; a Spark has one GPU."""
    with pytest.raises(Refusal, match=r"hardware.*(2x8xh100|2x1xdgx-spark)"):
        shapes.machine_of(text)


def smi(folder: Path, script: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("NVIDIA H100 80GB HBM3, 81559", Machine(name="h100", gpus=1, memory_gb=79.6)),
        ("NVIDIA A100-SXM4-80GB, 81920\nNVIDIA A100-SXM4-40GB, 40960", Machine(name="a100", gpus=2, memory_gb=40.0)),
        ("NVIDIA GB10, [N/A]", Machine(name="dgx-spark", gpus=1)),
        ("NVIDIA GeForce RTX 4090 Laptop GPU, 16376", Machine(name="rtx4090", gpus=1, memory_gb=16.0)),
        ("NVIDIA RTX PRO 6000 Blackwell, 97887", Machine(name="rtxpro6000", gpus=1, memory_gb=95.6)),
        ("Tesla T4, 15360", Machine(name="t4", gpus=1, memory_gb=15.0)),
        ("Orin (nvgpu), [N/A]", Machine(name="gpu", gpus=1)),
        ("NVIDIA L40S, 46068\nNVIDIA L40S, [Insufficient Permissions]", Machine(name="l40s", gpus=2)),
        ("", Machine(name="cpu", gpus=0)),
    ],
    ids=lambda value: value.split(",")[0] if isinstance(value, str) else "",
)
def test_auto_is_what_the_driver_lists(
    table: str, expected: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The smallest GPU counts; a memory that the driver does not say is not known, and never 0."""
    asked = '[ "$*" = "--query-gpu=name,memory.total --format=csv,noheader,nounits" ] || exit 9'
    smi(tmp_path, f"{asked}\nprintf '%s' '{table}'")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert shapes.machine_of("auto") == expected


def test_auto_without_a_driver_or_a_gpu_is_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No nvidia-smi at all, and one that finds no device."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shapes.machine_of("auto") == machine("cpu", 0)
    smi(tmp_path, "echo No devices were found; exit 6")
    assert shapes.machine_of("auto") == machine("cpu", 0)


@pytest.mark.parametrize("script", ["echo NVIDIA-SMI has failed; exit 9", "exec sleep 5"], ids=["broken", "hanging"])
def test_a_driver_that_does_not_answer_is_no_cpu(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU machine with a broken driver would else train on its CPU for weeks."""
    smi(tmp_path, script)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(shapes, "_SMI_TIMEOUT_S", 0.5)
    with pytest.raises(MachineryFailure, match=r"nvidia-smi.*mend the driver"):
        shapes.machine_of("auto")


def shape(hardware: str, method: str = "grpo", heads: int | None = None, **training: Any) -> Shape:
    return shapes.shape_for(shapes.machine_of(hardware), method, training, attention_heads=heads)


def one(engine: Any, kind: Any = "one_gpu", devices: tuple[int, ...] = (0,)) -> Shape:
    return Shape(kind=kind, engine=engine, processes=1, trainer_devices=devices)


def served(serving: int, gpus: int, sharding: Any = "zero3") -> Shape:
    return Shape(
        kind="server",
        engine="server",
        processes=gpus - serving,
        trainer_devices=tuple(range(serving, gpus)),
        engine_devices=tuple(range(serving)),
        sharding=sharding,
    )


def together(gpus: int, engine: Any, sharding: Any) -> Shape:
    devices = tuple(range(gpus))
    return Shape(kind="several_gpus", engine=engine, processes=gpus, trainer_devices=devices, sharding=sharding)


def cluster(machines: int, processes: int, serving: int, engine: Any = "server", sharding: Any = "zero3") -> Shape:
    return Shape(
        kind="cluster",
        engine=engine,
        processes=processes,
        machines=machines,
        trainer_devices=tuple(range(8)),
        engine_devices=tuple(range(serving)),
        sharding=sharding,
    )


SHAPES: dict[str, tuple[Shape, Shape]] = {
    "cpu": (shape("cpu"), one("transformers", "cpu", ())),
    "cpu with vLLM": (shape("cpu", use_vllm=True), one("colocate", "cpu", ())),
    "one GPU": (shape("h100"), one("colocate")),
    "one GPU without vLLM": (shape("h100", use_vllm=False), one("transformers")),
    "Spark": (shape("dgx-spark"), one("colocate")),
    "two GPUs": (shape("2xh100"), served(1, 2, "none")),
    "three GPUs": (shape("3xh100"), served(1, 3)),
    "eight GPUs": (shape("8xh100"), served(4, 8)),
    "14 attention heads": (shape("8xh100", heads=14), served(2, 8)),
    "six serve": (shape("8xh100", vllm_tensor_parallel_size=6), served(6, 8)),
    "LoRA": (shape("8xh100", adapter="lora"), served(4, 8, "none")),
    "LoRA, sharded on request": (shape("8xh100", adapter="lora", fsdp=True), served(4, 8, "fsdp2")),
    "colocate": (shape("4xh100", vllm_mode="colocate"), together(4, "colocate", "zero3")),
    "several without vLLM": (shape("4xh100", use_vllm=False, fsdp=True), together(4, "transformers", "fsdp2")),
    "SFT needs no engine": (shape("4xh100", "sft"), together(4, "transformers", "zero3")),
    "DPO with LoRA": (shape("4xh100", "dpo", adapter="lora"), together(4, "transformers", "none")),
    "DPO on one": (shape("h100", "dpo"), one("transformers")),
    "cluster": (shape("3x8xh100"), cluster(3, 16, 8)),
    "cluster, FSDP2": (shape("2x8xh100", fsdp=True), cluster(2, 8, 8, sharding="fsdp2")),
    "cluster, ZeRO-3 of an adapter": (shape("2x8xh100", adapter="lora", deepspeed="z3"), cluster(2, 8, 8)),
    "cluster, colocate": (shape("2x8xh100", vllm_mode="colocate"), cluster(2, 16, 0, "colocate")),
    "cluster, SFT": (shape("2x8xh100", "sft"), cluster(2, 16, 0, "transformers")),
}


@pytest.mark.parametrize("case", SHAPES)
def test_a_machine_and_a_brief_give_a_shape(case: str) -> None:
    """Which processes run where, and how the model is spread over them."""
    found, expected = SHAPES[case]
    assert found == expected


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "server on one GPU": ("h100", {"vllm_mode": "server"}, "one is visible: both on it wait for each other for ever"),
    "server on the CPU": ("cpu", {"vllm_mode": "server"}, "needs GPUs"),
    "server without vLLM": ("2xh100", {"vllm_mode": "server", "use_vllm": False}, "contradicts"),
    "unknown mode": ("2xh100", {"vllm_mode": "sever"}, "not one of colocate, server"),
    "a server elsewhere": ("2xh100", {"vllm_server_base_url": "http://a"}, "launch.sh starts the server"),
    "none left to train": ("4xh100", {"vllm_tensor_parallel_size": 4}, "at most 3"),
    "more than a machine serves": ("2x8xh100", {"vllm_tensor_parallel_size": 9}, "at most 8"),
    "no number": ("4xh100", {"vllm_tensor_parallel_size": True}, "not a whole number"),
    "zero": ("4xh100", {"vllm_tensor_parallel_size": 0}, "not a whole number"),
    "two ways to shard": ("8xh100", {"fsdp": True, "deepspeed": "z3"}, "keep one of them"),
    "one process to shard over": ("h100", {"fsdp": True}, "nothing to shard over"),
    "4-bit weights": ("8xh100", {"fsdp": True, "adapter": "qlora"}, "4-bit weights"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_plan_that_would_hang_or_fail_is_refused(case: str) -> None:
    """Before anything is built, in words that name the option."""
    hardware, training, words = REFUSED[case]
    with pytest.raises(Refusal, match=words) as refusal:
        shape(hardware, **training)
    assert all(line.startswith("training.") for line in refusal.value.lines)


def test_all_faults_are_listed_at_once() -> None:
    """A person mends the brief once."""
    with pytest.raises(Refusal) as refusal:
        shape("h100", vllm_mode="server", fsdp=True, deepspeed="z3")
    assert len(refusal.value.lines) == 3


def test_server_mode_on_one_gpu_is_no_fault_of_a_method_without_an_engine() -> None:
    """SFT does not read `vllm_mode`; TRL's own option check says so, not the device plan."""
    assert shape("h100", "sft", vllm_mode="server") == one("transformers")


@given(
    gpus=st.integers(0, 72),
    machines=st.integers(1, 9),
    method=st.sampled_from(["grpo", "sft", "dpo"]),
    training=st.fixed_dictionaries(
        {},
        optional={
            "vllm_mode": st.sampled_from(["colocate", "server"]),
            "use_vllm": st.booleans(),
            "vllm_tensor_parallel_size": st.integers(1, 8),
            "adapter": st.sampled_from(["none", "lora"]),
            "fsdp": st.booleans(),
        },
    ),
    heads=st.none() | st.integers(1, 128),
)
def test_no_device_is_given_twice_and_all_are_within_the_machine(
    gpus: int, machines: int, method: str, training: dict[str, Any], heads: int | None
) -> None:
    """Whatever is asked for: a refusal, or a plan that can run."""
    where = machine("h100" if gpus else "cpu", gpus, machines if gpus else 1)
    try:
        plan = shapes.shape_for(where, method, training, attention_heads=heads)
    except Refusal:
        return
    assert shapes.device_faults(plan) == []
    used = [*plan.trainer_devices, *plan.engine_devices]
    assert set(used) <= set(range(gpus))
    assert where.machines > 1 or sorted(used) == list(range(gpus)) or heads or "vllm_tensor_parallel_size" in training
    assert plan.processes >= 1
    training_machines = plan.machines - (plan.kind == "cluster" and plan.engine == "server")
    assert plan.processes == max(1, len(plan.trainer_devices)) * training_machines
    assert (plan.sharding == "none") or plan.processes > 1
    if plan.engine == "server" and heads and "vllm_tensor_parallel_size" not in training:
        assert heads % len(plan.engine_devices) == 0
    assert all(shapes.device_plan(plan))


@pytest.mark.parametrize(
    ("trainer", "engine_devices", "engine", "words"),
    [
        ((0, 1), (1,), "server", r"devices \[1\] are given to the vLLM server and to the trainer"),
        ((0,), (), "server", "needs devices of its own"),
        ((0,), (1,), "colocate", "leave it empty"),
        ((0, 0), (), "colocate", "different devices"),
        ((-1,), (0,), "server", "different devices"),
    ],
    ids=["overlap", "no device", "needless device", "twice", "negative"],
)
def test_a_device_plan_is_checked_for_overlap(
    trainer: tuple[int, ...], engine_devices: tuple[int, ...], engine: Any, words: str
) -> None:
    """Also one that was not made here."""
    plan = Shape(
        kind="server",
        engine=engine,
        processes=len(trainer),
        trainer_devices=trainer,
        engine_devices=engine_devices,
    )
    (fault,) = shapes.device_faults(plan)
    assert re.search(words, fault)


def test_the_plan_says_who_is_where_and_why() -> None:
    """The split rule is told with what changes it."""
    text = "\n".join(shapes.device_plan(shape("8xh100")))
    assert "trainer: 4 process(es), GPU 4, 5, 6, 7" in text
    assert "GPU 0, 1, 2, 3" in text
    assert "vllm_tensor_parallel_size" in text


def test_sleep_mode_is_for_discrete_cards() -> None:
    """On GB10 it crashed at wake-up."""
    assert [shapes.allows_sleep(shapes.machine_of(name)) for name in ("h100", "dgx-spark", "gb10")] == [
        True,
        False,
        False,
    ]
