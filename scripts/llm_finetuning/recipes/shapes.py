"""From the brief's `hardware` to a machine, and from a machine to the processes of a run and their devices."""

import math
import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any, Literal

from llm_finetuning.errors import MachineryFailure, Refusal
from llm_finetuning.recipes.config import Engine, Machine, Shape

HARDWARE = re.compile(
    r"auto|cpu|(?:(?:(?P<machines>[1-9]\d{0,3})x)?(?P<gpus>[1-9]\d{0,2})x)?(?P<card>gpu|dgx-spark|(?!x\d)[a-z][a-z-]*\d[a-z\d-]*)"
)
"""What `hardware` may say, in lower case: `auto`, `cpu`, or a card's name, which holds a digit (h100, rtx4090, gb10),
with GPUs before it (`8xh100`) and machines before those (`2x8xh100`)."""

HARDWARE_FORMS = (
    "auto, cpu, a card as in h100, rtx4090 or dgx-spark, GPUs x card as in 8xh100, or 2x8xh100 for machines"
)

SPARK = "dgx-spark"

TAKEN = ("use_vllm", "vllm_mode", "vllm_tensor_parallel_size", "deepspeed", "fsdp", "fsdp_config")
"""Options of the brief's `training` that decide the shape; accelerate.yaml, not the trainer, gets the last three."""

_SPARK_NAMES = (SPARK, "gb10")
_SMI_QUERY = ("--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
_SMI_TIMEOUT_S = 10.0
_MIB_IN_GIB = 1024

_CARD_NAMES = (
    re.compile(r"\b(?P<line>[rg]tx)\s*(?P<pro>pro)?\s*(?P<number>\d{4})\b"),
    re.compile(r"\b(?P<number>[a-z]{1,2}\d{1,4}[a-z]?)\b"),
)


def machine_of(hardware: str) -> Machine:
    """Return the machine that the brief's `hardware` names; `auto` is this one, as its NVIDIA driver describes it.

    `memory_gb` is in GiB, of the smallest GPU, and known for `auto` alone; a DGX Spark's driver does not say it.
    Raises Refusal for a text of another form, MachineryFailure where the driver is there and does not answer.
    """
    text = hardware.strip().lower()
    found = HARDWARE.fullmatch(text)
    if found is None:
        raise Refusal(f"brief.yaml: hardware: {hardware!r} names no machine; write {HARDWARE_FORMS}")
    if text == "auto":
        return _this_machine()
    if text == "cpu":
        return Machine(name="cpu", gpus=0)
    name = SPARK if found["card"] in _SPARK_NAMES else found["card"]
    gpus, machines = int(found["gpus"] or 1), int(found["machines"] or 1)
    if name == SPARK and gpus > 1:
        raise Refusal(f"brief.yaml: hardware: a DGX Spark has one GPU; {gpus} machines are `{gpus}x1x{SPARK}`")
    return Machine(name=name, gpus=gpus, machines=machines)


def allows_sleep(machine: Machine) -> bool:
    """Tell whether vLLM's sleep mode may be on: on GB10's unified memory users saw it crash at wake-up (2025)."""
    return machine.name != SPARK


def shape_for(
    machine: Machine, method: str, training: Mapping[str, Any], *, attention_heads: int | None = None
) -> Shape:
    """Return which processes run on which devices; refuses with all faults at once.

    `training` is the brief's. `attention_heads` is the model's, where known: a vLLM server's devices must divide it.
    """
    faults = _faults(machine, method, training)
    if faults:
        raise Refusal(*faults)
    engine = _engine_of(machine, method, training)
    serving = _serving_devices(machine, training, attention_heads) if engine == "server" else 0
    trainers, processes = _trainers(machine, engine, serving)
    return Shape(
        kind=_kind(machine, engine),
        engine=engine,
        processes=processes,
        machines=machine.machines,
        trainer_devices=trainers,
        engine_devices=tuple(range(serving)),
        sharding=_sharding(processes, training),
    )


def device_faults(shape: Shape) -> list[str]:
    """Return what makes a device plan one that hangs or fails: devices used twice, or a server without its own."""
    faults = []
    for name, devices in (("trainer_devices", shape.trainer_devices), ("engine_devices", shape.engine_devices)):
        if len(set(devices)) < len(devices) or any(device < 0 for device in devices):
            faults.append(f"shape.{name}: {list(devices)} must be different devices from 0 on")
    if shape.engine == "server" and not shape.engine_devices:
        faults.append("shape.engine_devices: empty; a vLLM server needs devices of its own, or use `colocate`")
    if shape.engine != "server" and shape.engine_devices:
        faults.append(f"shape.engine_devices: engine {shape.engine} runs in the trainer's processes; leave it empty")
    shared = sorted(set(shape.trainer_devices) & set(shape.engine_devices))
    if shared and shape.machines == 1:
        faults.append(
            f"shape: devices {shared} are given to the vLLM server and to the trainer; NCCL cannot join one device "
            "twice, so give each its own"
        )
    return faults


def device_plan(shape: Shape) -> tuple[str, ...]:
    """Return one line for each part of the run that says where it runs and, where devices were split, why so."""
    where = "each training machine" if shape.kind == "cluster" else "this machine"
    if shape.kind == "cpu":
        return ("trainer: the CPU, one process",)
    lines = [f"trainer: {shape.processes} process(es), GPU {_listed(shape.trainer_devices)} of {where}"]
    if shape.engine == "colocate":
        lines.append("vLLM: inside every trainer process, on the same GPU")
    if shape.engine == "server":
        place = "the first machine, which does not train" if shape.kind == "cluster" else "this machine"
        lines.append(f"vLLM server: tensor parallel over GPU {_listed(shape.engine_devices)} of {place}")
        most = "the machine has" if shape.kind == "cluster" else "leaves the trainer at least half"
        lines.append(
            f"split: the largest power of two that divides the attention heads and {most}, because gradients and"
        )
        lines.append(
            "optimizer states need more memory than serving; `training: {vllm_tensor_parallel_size: N}` sets it"
        )
    if shape.sharding != "none":
        lines.append(f"sharding: {shape.sharding} over the {shape.processes} trainer processes")
    return tuple(lines)


def _this_machine() -> Machine:
    program = shutil.which("nvidia-smi")
    if program is None:
        return Machine(name="cpu", gpus=0)
    mend = "mend the driver, or name the machine under `hardware` (cpu, h100, 8xh100 ...)"
    try:
        said = subprocess.run(
            [program, *_SMI_QUERY],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SMI_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineryFailure(f"brief.yaml: hardware: auto: nvidia-smi does not answer ({error}); {mend}") from None
    if "No devices were found" in said.stdout + said.stderr:
        return Machine(name="cpu", gpus=0)
    if said.returncode:
        first = next(iter((said.stdout + said.stderr).split("\n")), "").strip()
        raise MachineryFailure(f"brief.yaml: hardware: auto: nvidia-smi failed ({first}); {mend}")
    return _machine_from(said.stdout)


def _machine_from(table: str) -> Machine:
    """Return the machine in a table of GPU names and MiB, one GPU a line; `[N/A]` is a memory that is not known."""
    rows = [line.rpartition(",") for line in table.splitlines() if line.strip()]
    if not rows:
        return Machine(name="cpu", gpus=0)
    sizes = [float(size) for _, _, size in rows if re.fullmatch(r"\s*\d+(?:\.\d+)?\s*", size)]
    memory = round(min(sizes) / _MIB_IN_GIB, 1) if len(sizes) == len(rows) else None
    return Machine(name=card_of(rows[0][0]), gpus=len(rows), memory_gb=memory)


def card_of(product: str) -> str:
    """Return a card's short name from the driver's, as in h100 for `NVIDIA H100 80GB HBM3`; `gpu` where it has none."""
    text = product.lower()
    if "gb10" in re.findall(r"\w+", text):
        return SPARK
    for pattern in _CARD_NAMES:
        found = pattern.search(text)
        if found:
            return "".join(part for part in found.groups() if part)
    return "gpu"


def _faults(machine: Machine, method: str, training: Mapping[str, Any]) -> list[str]:
    sharded = [option for option in ("deepspeed", "fsdp") if training.get(option)]
    faults = []
    if len(sharded) > 1:
        faults.append("training.deepspeed and training.fsdp: two ways to shard one model; keep one of them")
    if sharded and machine.gpus * machine.machines < 2:  # noqa: PLR2004
        faults.append(f"training.{sharded[0]}: there is one process and nothing to shard over; leave it out")
    if sharded and training.get("adapter") == "qlora":
        faults.append(f"training.{sharded[0]}: 4-bit weights are not sharded here; use adapter lora, or leave it out")
    return faults + (_engine_faults(machine, training) if method == "grpo" else [])


def _engine_faults(machine: Machine, training: Mapping[str, Any]) -> list[str]:
    mode, parallel = training.get("vllm_mode"), training.get("vllm_tensor_parallel_size")
    if mode not in (None, "colocate", "server"):
        return [f"training.vllm_mode: {mode!r} is not one of colocate, server"]
    faults = []
    if training.get("vllm_server_base_url"):
        faults.append("training.vllm_server_base_url: launch.sh starts the server and knows its address; leave it out")
    if mode == "server" and training.get("use_vllm") is False:
        faults.append("training.vllm_mode: server contradicts `use_vllm: false`; leave one of them out")
    if mode == "server" and machine.gpus == 0:
        faults.append("training.vllm_mode: server sends weights over NCCL, which needs GPUs; use colocate or none")
    elif mode == "server" and machine.gpus * machine.machines == 1:
        faults.append(
            "training.vllm_mode: server needs a GPU of its own beside the trainer's, and one is visible: both on it "
            "wait for each other for ever; use `vllm_mode: colocate` or a machine with more GPUs"
        )
    if parallel is not None and (isinstance(parallel, bool) or not isinstance(parallel, int) or parallel < 1):
        faults.append(f"training.vllm_tensor_parallel_size: {parallel!r} is not a whole number from 1 on")
    elif parallel is not None and not faults and _engine_of(machine, "grpo", training) == "server":
        most = machine.gpus if machine.machines > 1 else machine.gpus - 1
        if parallel > most:
            faults.append(
                f"training.vllm_tensor_parallel_size: {parallel} GPUs to serve leave none to train; at most {most}"
            )
    return faults


def _engine_of(machine: Machine, method: str, training: Mapping[str, Any]) -> Engine:
    if method != "grpo" or training.get("use_vllm") is False:
        return "transformers"
    if machine.gpus == 0:
        return "colocate" if training.get("use_vllm") else "transformers"
    if machine.gpus * machine.machines == 1 or training.get("vllm_mode") == "colocate":
        return "colocate"
    return "server"


def _serving_devices(machine: Machine, training: Mapping[str, Any], attention_heads: int | None) -> int:
    """Return how many GPUs serve: of a machine of its own all, else half of them; a power of two either way."""
    if training.get("vllm_tensor_parallel_size"):
        return int(training["vllm_tensor_parallel_size"])
    most = machine.gpus if machine.machines > 1 else machine.gpus // 2
    largest = 1 << (most.bit_length() - 1)
    return math.gcd(largest, attention_heads) if attention_heads else largest


def _trainers(machine: Machine, engine: Engine, serving: int) -> tuple[tuple[int, ...], int]:
    """Return the trainer's devices on one machine and the number of its processes over all machines."""
    if machine.gpus == 0:
        return (), 1
    if machine.machines == 1:
        return tuple(range(serving, machine.gpus)), machine.gpus - serving
    training_machines = machine.machines - (engine == "server")
    return tuple(range(machine.gpus)), machine.gpus * training_machines


def _kind(machine: Machine, engine: Engine) -> Literal["cpu", "one_gpu", "several_gpus", "server", "cluster"]:
    if machine.gpus == 0:
        return "cpu"
    if machine.machines > 1:
        return "cluster"
    if machine.gpus == 1:
        return "one_gpu"
    return "server" if engine == "server" else "several_gpus"


def _sharding(processes: int, training: Mapping[str, Any]) -> Literal["none", "zero3", "fsdp2"]:
    """Return how the model is spread: full fine-tuning by ZeRO-3, an adapter not at all, unless the brief asks."""
    if processes == 1:
        return "none"
    if training.get("fsdp"):
        return "fsdp2"
    if training.get("deepspeed"):
        return "zero3"
    return "zero3" if training.get("adapter", "none") in (None, "none") else "none"


def _listed(devices: tuple[int, ...]) -> str:
    return ", ".join(str(device) for device in devices)
