"""Each recorded machine gets the right verdict, for the right reason, with one thing to do."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from machines import NAMES, recorded

import planned_runs
from llm_finetuning import brief
from llm_finetuning.machine import checks, needs
from llm_finetuning.machine.facts import DataFile, Facts, Folder, ModelFiles
from llm_finetuning.machine.needs import Needs, Planned
from llm_finetuning.stages import preflight
from llm_finetuning.types import Check, EnvReport

CALM = "ready"
WARNED = "ready-with-warnings"
BLOCKED = "blocked"
LORA = {"adapter": "lora"}


def asked(facts: Facts, folder: Path, *, gib: float | None = 10.0, **of_brief: Any) -> Needs:
    """Return what a run asks of a machine; a plan says `gib`, give or take a tenth."""
    run = planned_runs.write(folder, **{"model": "Qwen2.5-1.5B", "hardware": "auto", "training": LORA, **of_brief})
    found = needs.of(brief.load(run), facts.gpus, broken_driver=facts.driver.fault is not None)
    plan = Planned(gib=gib, low=0.9 * gib, high=1.1 * gib, remedy="`adapter: qlora`") if gib is not None else None
    return replace(found, plan=plan)


def judged(facts: Facts, wanted: Needs) -> tuple[EnvReport, dict[str, Check]]:
    report = preflight.judge(checks.run(facts, wanted), {}, ready_action="go on")
    return report, {check.name: check for check in report.checks}


CASES: list[Any] = [
    # name of the case, machine, changes of it, brief and plan, verdict, the checks that are not passed or skipped
    ("one shared memory at rest", "gb10", {}, {}, CALM, {}),
    (
        "files in the cache are no lack of memory",
        "gb10",
        {},
        {"gib": 70.0},
        WARNED,
        {"device-memory": "drop the cache"},
    ),
    ("the floor for the host is kept", "gb10", {}, {"gib": 104.0}, BLOCKED, {"device-memory": "end the processes"}),
    ("more than the machine has", "gb10", {}, {"gib": 130.0}, BLOCKED, {"device-memory": "adapter: qlora"}),
    (
        "a normal plan on one shared memory",
        "gb10-cached",
        {},
        {"gib": 90.0},
        BLOCKED,
        {
            "device-memory": "free 5.2 GiB",
            "shared-memory": "--host 64",
            "swap": "swapoff",
            "early-oom": "earlyoom",
            "busy": "114687",
        },
    ),
    (
        "zram takes from the same memory",
        "gb10",
        {"host": {"swap_gib": 8.0, "zram": True}},
        {},
        WARNED,
        {"swap": "swapoff"},
    ),
    (
        "sleep mode on GB10",
        "gb10",
        {},
        {"training": {**LORA, "vllm_enable_sleep_mode": True}},
        WARNED,
        {"sleep-mode": "leave"},
    ),
    ("sleep mode elsewhere", "h100", {}, {"training": {**LORA, "vllm_enable_sleep_mode": True}}, CALM, {}),
    (
        "old assembler, foreign wheel, no flash attention",
        "gb10-gaps",
        {},
        {"training": {**LORA, "model_init_kwargs": {"attn_implementation": "flash_attention_2"}}},
        BLOCKED,
        {
            "assembler": "export TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas",
            "wheels": "force-reinstall bitsandbytes",
            "attention": "attn_implementation: sdpa",
        },
    ),
    (
        "the toolkit's assembler is chosen",
        "gb10",
        {"interpreter": {"ptxas": ()}, "environment": {"TRITON_PTXAS_PATH": "/usr/local/cuda/bin/ptxas"}},
        {},
        CALM,
        {},
    ),
    (
        "an assembler that is too old is chosen",
        "gb10",
        {"environment": {"TRITON_PTXAS_BLACKWELL_PATH": "/usr/bin/ptxas"}, "toolkits": {"/usr/bin/ptxas": "12.8"}},
        {},
        BLOCKED,
        {"assembler": "install the CUDA 13 toolkit, and export TRITON_PTXAS_BLACKWELL_PATH=/usr/local/cuda/bin/ptxas"},
    ),
    (
        "the variable of another assembler",
        "gb10",
        {"environment": {"TRITON_PTXAS_PATH": "/usr/bin/ptxas"}, "toolkits": {"/usr/bin/ptxas": "12.8"}},
        {},
        CALM,
        {},
    ),
    (
        "a variable that names nothing",
        "gb10",
        {"environment": {"TRITON_PTXAS_BLACKWELL_PATH": "/not/there"}},
        {},
        CALM,
        {},
    ),
    ("a driver that hangs GB10", "gb10", {"version": "590.44"}, {}, WARNED, {"driver": "series 580"}),
    ("named and here", "gb10", {}, {"hardware": "dgx-spark"}, CALM, {}),
    ("one large card", "h100", {}, {}, CALM, {}),
    ("too much for one large card", "h100", {}, {"gib": 90.0}, BLOCKED, {"device-memory": "adapter: qlora"}),
    ("the upper end does not fit", "h100", {}, {"gib": 74.0}, WARNED, {"device-memory": "first two steps"}),
    ("planned for another card", "h100", {}, {"hardware": "a100"}, WARNED, {"gpu": "on that machine"}),
    ("planned for more cards", "h100", {}, {"hardware": "8xh100"}, WARNED, {"gpu": "on that machine"}),
    ("planned for a GPU, looked at without one", "cpu", {}, {"hardware": "h100"}, WARNED, {"gpu": "on that machine"}),
    (
        "colocated 7B on 24 GB",
        "two-rtx4090",
        {},
        {"hardware": "rtx4090", "gib": 41.0},
        BLOCKED,
        {"device-memory": "qlora"},
    ),
    ("Docker's shared memory", "two-rtx4090", {}, {}, BLOCKED, {"shared-memory": "--shm-size 8g"}),
    (
        "server and trainer on one device",
        "two-rtx4090",
        {},
        {"hardware": "rtx4090", "training": {**LORA, "vllm_mode": "server"}},
        BLOCKED,
        {"config": "vllm_mode: colocate"},
    ),
    (
        "the server's port is taken",
        "two-rtx4090",
        {"host": {"shm_gib": 16.0}, "taken_ports": (51216,)},
        {},
        BLOCKED,
        {"ports": "vllm_group_port: N"},
    ),
    (
        "the processes' port is taken",
        "two-rtx4090",
        {"host": {"shm_gib": 16.0}, "taken_ports": (29500,)},
        {"method": "sft"},
        BLOCKED,
        {"ports": "end what listens on 29500"},
    ),
    (
        "two cards, one of them hidden",
        "two-rtx4090",
        {"host": {"shm_gib": 16.0}, "environment": {"CUDA_VISIBLE_DEVICES": "1"}},
        {},
        BLOCKED,
        {"gpu": "set CUDA_VISIBLE_DEVICES"},
    ),
    ("float16 on a T4", "t4", {}, {}, CALM, {}),
    ("bf16 on a T4", "t4", {}, {"training": {**LORA, "bf16": True}}, BLOCKED, {"precision": "bf16: false, fp16: true"}),
    ("torch without code for a V100", "v100", {}, {}, BLOCKED, {"capability": "CUDA 12.6 build"}),
    ("a slice of an A100", "mig", {}, {"gib": 8.0}, WARNED, {"mig": "--available 9.4"}),
    ("more than a slice", "mig", {}, {"gib": 12.0}, BLOCKED, {"mig": "", "device-memory": "qlora"}),
    (
        "no instance to be seen",
        "mig",
        {"torch": {"devices": ()}},
        {"gib": None},
        BLOCKED,
        {"mig": "nvidia-smi -L", "torch-devices": ""},
    ),
    ("no GPU, none wanted", "cpu", {}, {}, CALM, {}),
    ("no GPU, too little memory", "cpu", {}, {"gib": 29.0}, BLOCKED, {"device-memory": "end the processes"}),
    (
        "a driver that is too old",
        "old-driver",
        {},
        {},
        BLOCKED,
        {"driver": "update the NVIDIA driver to 580", "torch-devices": ""},
    ),
    ("an old driver for an older CUDA", "old-driver", {"torch": {"cuda": "12.8"}}, {}, BLOCKED, {"torch-devices": ""}),
    (
        "the CPU build of torch beside a GPU",
        "cpu-torch",
        {},
        {},
        BLOCKED,
        {"torch": "pip install", "packages": "vllm==0.31.0"},
    ),
    (
        "a driver that does not answer",
        "broken-driver",
        {},
        {},
        BLOCKED,
        {"gpu": "reinstall", "driver": "reinstall", "torch-devices": ""},
    ),
]


@pytest.mark.parametrize(
    ("machine", "changes", "of_brief", "verdict", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_machine_gets_its_verdict(
    tmp_path: Path,
    machine: str,
    changes: dict[str, Any],
    of_brief: dict[str, Any],
    verdict: str,
    expected: dict[str, str],
) -> None:
    """The verdict, the checks that say so and no others, and for each of them the one thing to do."""
    changes = dict(changes)
    of_driver = {name: changes.pop(name) for name in ("version", "toolkits") if name in changes}
    facts = recorded(machine, **changes)
    if "toolkits" in of_driver:
        of_driver["toolkits"] = tuple(of_driver["toolkits"].items())
    facts = replace(facts, driver=replace(facts.driver, **of_driver))
    report, found = judged(facts, asked(facts, tmp_path, **of_brief))

    said = {name: check for name, check in found.items() if check.state in ("warning", "failed")}
    assert set(said) == set(expected), {name: check.text for name, check in said.items()}
    assert report.verdict == verdict
    for name, words in expected.items():
        assert words in (said[name].next_action or ""), said[name]


@pytest.mark.parametrize("machine", NAMES)
def test_every_verdict_has_its_reason(tmp_path: Path, machine: str) -> None:
    """On every machine each check says one line, and what is to be done where, and only where, something is."""
    facts = recorded(machine)
    for check in checks.run(facts, asked(facts, tmp_path)):
        assert check.text
        assert "\n" not in check.text
        assert (check.next_action is not None) == (check.state in ("warning", "failed")), check


def test_memory_that_is_not_told_is_no_missing_gpu(tmp_path: Path) -> None:
    """GB10's driver answers N/A: the GPU is there, and the kernel's available memory counts, not CUDA's."""
    facts = recorded("gb10")
    assert facts.gpus[0].total_gib is None
    assert facts.gpus[0].free_gib is None
    wanted = asked(facts, tmp_path, gib=70.0)
    assert wanted.machine.name == "dgx-spark"
    _, found = judged(facts, wanted)
    assert found["gpu"].text == "NVIDIA GB10"
    assert "free 103.5 (available memory of this machine less 12.2 for the host)" in found["device-memory"].text


def test_a_partner_box_is_known_by_its_capability(tmp_path: Path) -> None:
    """What the driver calls the GPU does not decide: capability 12.1 has one memory with its host."""
    facts = recorded("gb10")
    facts = replace(facts, gpus=(replace(facts.gpus[0], name="NVIDIA Graphics Device"),))
    _, found = judged(facts, asked(facts, tmp_path, hardware="1xgpu"))
    assert found["early-oom"].state == "passed"
    assert "available memory" in found["device-memory"].text


def test_a_discrete_card_is_not_planned_on_host_memory(tmp_path: Path) -> None:
    """A terabyte of host memory makes no card larger."""
    facts = recorded("h100")
    _, found = judged(facts, asked(facts, tmp_path, gib=90.0))
    assert "free 78.6 (as torch sees NVIDIA H100 80GB HBM3)" in found["device-memory"].text


def test_the_plan_of_a_real_run_is_what_memory_is_held_against(tmp_path: Path) -> None:
    """The 7B LoRA run with vLLM beside it that does not fit 24 GB is blocked here as the planner says."""
    facts = recorded("two-rtx4090")
    training = {**LORA, "vllm_gpu_memory_utilization": 0.6, "per_device_train_batch_size": 8}
    run = planned_runs.write(tmp_path / "plan", model="Qwen2.5-7B", hardware="rtx4090", cap=2048, training=training)
    memory = planned_runs.planned(run).memory.device
    wanted = needs.of(brief.load(run), facts.gpus)
    wanted = replace(wanted, plan=Planned(gib=memory.gib, low=memory.low, high=memory.high))
    report, found = judged(facts, wanted)
    assert found["device-memory"].state == "failed"
    assert report.verdict == BLOCKED


PACKAGES: list[Any] = [
    ("trl", "1.15.0", "failed", "trl 1.15.0 is not ==1.16.0", "trl==1.16.0"),
    ("vllm", "0.33.0", "failed", "vllm 0.33.0 is not >=0.22.0,<=0.31.0", "vllm==0.31.0"),
    ("vllm", "0.21.0", "failed", "vllm 0.21.0 is not >=0.22.0,<=0.31.0", "vllm==0.31.0"),
    ("transformers", "5.24.0", "failed", "vllm 0.31.0 needs transformers<5.18.0,>=5.10.4", "transformers==5.17.0"),
    ("transformers", "5.16.0", "warning", "tried was transformers 5.17.0", "transformers==5.17.0"),
    ("peft", "0.12.0", "warning", "tried was peft 0.21.2", "peft==0.21.2"),
    ("datasets", None, "failed", "not installed: datasets", "datasets==5.2.0"),
    ("vllm", None, "failed", "not installed: vllm", "vllm==0.31.0"),
]


@pytest.mark.parametrize(("name", "version", "state", "words", "fix"), PACKAGES)
def test_packages_that_do_not_go_together(
    tmp_path: Path, name: str, version: str | None, state: str, words: str, fix: str
) -> None:
    """What TRL refuses or vLLM was not built with is named with the version to install."""
    facts = recorded("h100")
    packages = dict(facts.interpreter.packages)
    old = packages.pop(name)
    if version is not None:
        packages[name] = replace(old, version=version)
    facts = replace(facts, interpreter=replace(facts.interpreter, packages=packages))
    _, found = judged(facts, asked(facts, tmp_path))
    assert found["packages"].state == state
    assert words in found["packages"].text
    assert fix in (found["packages"].next_action or "")


def test_packages_of_some_runs_alone(tmp_path: Path) -> None:
    """4-bit weights need bitsandbytes, a vLLM that is not asked for may be any."""
    facts = recorded("h100")
    _, found = judged(facts, asked(facts, tmp_path, training={"adapter": "qlora"}))
    assert (found["packages"].state, found["packages"].text) == ("failed", "not installed: bitsandbytes")
    packages = {**facts.interpreter.packages, "vllm": replace(facts.interpreter.packages["vllm"], version="0.9.0")}
    facts = replace(facts, interpreter=replace(facts.interpreter, packages=packages))
    _, found = judged(facts, asked(facts, tmp_path, training={**LORA, "use_vllm": False}))
    assert found["packages"].state == "passed"


def test_the_launchers_own_environment_gets_what_it_lacks(tmp_path: Path) -> None:
    """There a missing package is a warning, because the first verb that needs it installs it."""
    facts = recorded("h100", interpreter={"packages": {}, "torch": None, "managed": True})
    report, found = judged(facts, asked(facts, tmp_path))
    assert report.verdict == WARNED
    assert found["torch"].state == found["packages"].state == "warning"
    assert "`finetune train` installs it" in found["torch"].text


OTHERS: list[Any] = [
    ("interpreter", {"interpreter": {"fault": "python9: no such program"}}, {}, "failed", "--python PATH"),
    ("interpreter", {"interpreter": {"version": (3, 10)}}, {}, "failed", "Python 3.11 to 3.14"),
    ("interpreter", {"interpreter": {"version": (3, 15)}}, {}, "failed", "Python 3.11 to 3.14"),
    ("interpreter", {"glibc": "2.17"}, {}, "failed", "Ubuntu 22.04"),
    ("interpreter", {"interpreter": {"encoding": "ANSI_X3.4-1968"}}, {}, "warning", "export PYTHONUTF8=1"),
    ("wheels", {"interpreter": {"machine": "ppc64le"}}, {}, "failed", "x86_64 or aarch64"),
    ("torch", {"torch": {"version": "2.11.0+cu130"}}, {}, "warning", "torch==2.13.0"),
    (
        "torch-devices",
        {"torch": {"fault": "ImportError: libcudart.so.12: cannot open"}},
        {},
        "failed",
        "reinstall torch",
    ),
    ("torch-devices", {"torch": {"fault": "RuntimeError: CUDA error: busy"}}, {}, "failed", "import torch"),
    ("host-memory", {"host": {"available_gib": 3.0}}, {}, "failed", "close what holds memory"),
    ("container", {"host": {"limit_gib": 8.0, "used_gib": 5.0}}, {}, "failed", "10 GiB or more"),
    ("container", {"host": {"limit_gib": 8.0, "used_gib": 2.0}}, {}, "passed", ""),
    (
        "disk",
        {"folders": (Folder(role="checkpoints", path="run", free_gib=0.05, writable=True),)},
        {},
        "failed",
        "GiB at run",
    ),
    (
        "disk",
        {"folders": (Folder(role="checkpoints", path="run", free_gib=0.3, writable=True),)},
        {},
        "warning",
        "GiB at run",
    ),
    ("disk", {}, {"training": {**LORA, "save_total_limit": None}}, "warning", "save_total_limit: 3"),
    (
        "folders",
        {"folders": (Folder(role="temporary files", path="t", free_gib=9.0, writable=False),)},
        {},
        "failed",
        "TMPDIR",
    ),
    (
        "folders",
        {"folders": (Folder(role="the hub's cache", path="c", free_gib=9.0, writable=False),)},
        {},
        "passed",
        "",
    ),
    (
        "model",
        {"model": ModelFiles(source="a/b", folder=None), "environment": {"HF_HUB_OFFLINE": "1"}},
        {},
        "failed",
        "unset HF_HUB_OFFLINE",
    ),
    ("model", {"model": ModelFiles(source="a/b", folder=None)}, {}, "warning", "finetune sample"),
    ("tokenizer", {"model": ModelFiles(source="/m", folder="/m", tokenizer=False)}, {}, "failed", "tokenizer.json"),
    ("data", {"data": (DataFile(name="x", fault="x: is empty"),)}, {}, "failed", "x: is empty"),
    (
        "data",
        {"data": (DataFile(name="a/b", hub=True, cached=False),), "environment": {"TRANSFORMERS_OFFLINE": "1"}},
        {},
        "failed",
        "HF_HUB_OFFLINE",
    ),
    ("data", {"data": (DataFile(name="a/b", hub=True, cached=False),)}, {}, "passed", ""),
    ("attention", {}, {"model": "Qwen3.5-27B"}, "warning", "causal-conv1d"),
]


@pytest.mark.parametrize(("name", "changes", "of_brief", "state", "fix"), OTHERS)
def test_one_thing_amiss_on_a_sound_machine(
    tmp_path: Path, name: str, changes: dict[str, Any], of_brief: dict[str, Any], state: str, fix: str
) -> None:
    """Each fault is found by its own check, which says how to mend it."""
    facts = recorded("h100", **dict(changes))
    _, found = judged(facts, asked(facts, tmp_path, **of_brief))
    assert found[name].state == state, found[name]
    assert fix in (found[name].next_action or "")


def test_a_gpu_that_nobody_may_use(tmp_path: Path) -> None:
    """A compute mode in which CUDA opens no context, whatever is free."""
    facts = recorded("h100")
    facts = replace(facts, gpus=(replace(facts.gpus[0], prohibited=True),))
    _, found = judged(facts, asked(facts, tmp_path))
    assert found["busy"].state == "failed"
    assert "nvidia-smi -i 0 -c DEFAULT" in (found["busy"].next_action or "")


@pytest.mark.parametrize("torch_sees", [True, False])
def test_the_fullest_of_several_cards_decides(tmp_path: Path, torch_sees: bool) -> None:
    """Each process needs its plan's memory on its own card; without torch the driver's figures count."""
    facts = recorded("two-rtx4090", host={"shm_gib": 16.0})
    torch = facts.interpreter.torch
    assert torch is not None
    devices = (torch.devices[0], replace(torch.devices[1], free_gib=4.0)) if torch_sees else ()
    interpreter = replace(facts.interpreter, torch=replace(torch, devices=devices, imported=torch_sees))
    gpus = (facts.gpus[0], replace(facts.gpus[1], free_gib=5.0))
    facts = replace(facts, interpreter=interpreter, gpus=gpus)
    _, found = judged(facts, asked(facts, tmp_path, gib=10.0))
    assert found["device-memory"].state == "failed"
    assert f"free {4.0 if torch_sees else 5.0}" in found["device-memory"].text


def test_an_nvidia_device_without_a_driver(tmp_path: Path) -> None:
    """With `auto` the run would quietly train on the CPU; said, not blocked, since that may be meant."""
    facts = recorded("cpu")
    facts = replace(facts, driver=replace(facts.driver, hardware=True))
    report, found = judged(facts, asked(facts, tmp_path))
    assert (report.verdict, found["gpu"].state) == (WARNED, "warning")
    report, _ = judged(facts, asked(facts, tmp_path, hardware="cpu"))
    assert report.verdict == CALM
