"""Checks of driver and GPUs: are they there, new enough for this torch, free, and of the right kind."""

import re

from llm_finetuning.machine.facts import Capability, Facts, Gpu, TorchDevice
from llm_finetuning.machine.needs import Needs
from llm_finetuning.machine.outcome import Outcome, failed, on_gpu, passed, skipped, warning
from llm_finetuning.machine.versions import numbers

OLDEST_DRIVERS = {"13": (580, 65, 6), "12": (525, 60, 13), "11": (450, 80, 2)}
"""By CUDA's major release the oldest driver that runs all of its minor ones, on Linux: NVIDIA's CUDA compatibility
documentation, table of minor version compatibility."""

HALTING_DRIVER = (590,)
"""On GB10 a user saw CUDA graphs hang under it (a public blog of 2026, one report)."""

BF16_FROM: Capability = (8, 0)
"""The first capability that multiplies matrices in bfloat16 (CUDA programming guide, table of features)."""

GB10: Capability = (12, 1)
BUSY_GIB = 1.0
_ARCHITECTURE = re.compile(r"(?P<kind>sm|compute)_(?P<number>\d+)(?P<only>[af]?)")


def gpu(facts: Facts, needs: Needs) -> Outcome:
    """The GPUs that the brief names are on this machine, and this shell may use them."""
    if needs.elsewhere is not None:
        words = f"{needs.elsewhere}; nothing that concerns its GPU was looked at"
        return warning(words, "run preflight on that machine")
    if needs.machine.gpus:
        return _gpus(facts, needs)
    if needs.hardware == "auto" and facts.driver.hardware:
        words = "the PCI bus shows an NVIDIA device, but no driver speaks for it: the run would train on the CPU"
        return warning(words, "install the driver, or start the container with `--gpus all`")
    return passed("the run is for the CPU")


def _gpus(facts: Facts, needs: Needs) -> Outcome:
    wanted, left = needs.machine.gpus, len(facts.visible)
    if not facts.gpus:
        return failed(*_no_gpu(facts))
    if left < wanted:
        said = facts.environment.get("CUDA_VISIBLE_DEVICES", "")
        words = f"the run uses {wanted} GPU(s), and CUDA_VISIBLE_DEVICES={said} leaves {left}"
        return failed(words, f"set CUDA_VISIBLE_DEVICES to {wanted} GPU(s), or name fewer under `hardware`")
    names = ", ".join(dict.fromkeys(gpu.name for gpu in _used(facts, needs)))
    return passed(f"{wanted} x {names}" if wanted > 1 else names)


@on_gpu
def driver(facts: Facts, needs: Needs) -> Outcome:
    """The driver answers and is new enough for the CUDA that torch was built for."""
    if facts.driver.fault is not None or facts.driver.version is None:
        return failed(*_no_gpu(facts))
    torch = facts.interpreter.torch
    if torch is None or torch.cuda is None:
        return skipped(f"driver {facts.driver.version}; without a CUDA build of torch there is nothing to hold it to")
    version, major = facts.driver.version, torch.cuda.partition(".")[0]
    oldest = OLDEST_DRIVERS.get(major)
    words = f"driver {version}, torch for CUDA {torch.cuda}"
    if oldest is not None and numbers(version) < oldest and not torch.devices:
        return failed(
            f"{words}: that needs driver {oldest[0]} or newer",
            f"update the NVIDIA driver to {oldest[0]} or newer, or install a torch that is built for an older CUDA",
        )
    if is_gb10(facts, needs) and numbers(version)[:1] == HALTING_DRIVER:
        return warning(f"{words}: on GB10 CUDA graphs were seen to hang under 590", "install a driver of series 580")
    return passed(words)


@on_gpu
def torch_devices(facts: Facts, needs: Needs) -> Outcome:
    """Torch, in the training interpreter, sees the GPUs."""
    torch = facts.interpreter.torch
    if torch is None or torch.cuda is None:
        return skipped("no CUDA build of torch in the training interpreter")
    if torch.fault is not None:
        words = f"torch cannot be used there: {torch.fault}"
        if "libcudart" in torch.fault or "libcu" in torch.fault:
            return failed(words, f"reinstall torch and what is compiled for it: {pip_torch(facts, needs)}")
        return failed(words, f"make `{facts.interpreter.path} -c 'import torch; torch.zeros(1).cuda()'` work first")
    if not torch.imported:
        return skipped("torch was not asked")
    if len(torch.devices) < needs.machine.gpus:
        words = f"torch sees {len(torch.devices)} of the {needs.machine.gpus} GPU(s) that the run uses"
        return failed(words, "give this shell or container the GPUs (CUDA_VISIBLE_DEVICES, `--gpus all`)")
    return passed(", ".join(_said(device) for device in torch.devices[: needs.machine.gpus]))


@on_gpu
def capability(facts: Facts, needs: Needs) -> Outcome:
    """Torch has machine code for the GPU's compute capability."""
    torch = facts.interpreter.torch
    known = _capability(facts, needs)
    if torch is None or not torch.architectures or known is None:
        return skipped("architectures of torch, or the capability of the GPU, are not known")
    had = " ".join(torch.architectures)
    words = f"capability {known[0]}.{known[1]}, torch has {had}"
    if not supports(known, torch.architectures):
        older = all(built > known for built in _capabilities(torch.architectures))
        kind = "the CUDA 12.6 build of torch, which keeps older GPUs" if older else "a newer torch"
        return failed(
            f"{words}: nothing that runs on this GPU", f"install {kind} from pytorch.org, or take another GPU"
        )
    if known not in _capabilities(torch.architectures):
        words += "; what torch says of an unsupported capability is harmless"
    return passed(words)


@on_gpu
def precision(facts: Facts, needs: Needs) -> Outcome:
    """The GPU computes in the 16-bit format that the run is to use."""
    known = _capability(facts, needs)
    if known is None:
        return skipped("the capability of the GPU is not known")
    words = f"capability {known[0]}.{known[1]}"
    if needs.bf16 and known < BF16_FROM:
        return failed(f"bf16 is on, and {words} has no bfloat16", "write `training: {bf16: false, fp16: true}`")
    return passed(f"{'bfloat16' if needs.bf16 else 'float16 or float32'}, {words}")


@on_gpu
def mig(facts: Facts, needs: Needs) -> Outcome:
    """A GPU that is cut into MIG instances gives the run one, and one is enough."""
    devices = facts.interpreter.torch.devices if facts.interpreter.torch is not None else ()
    if not any(gpu.mig for gpu in facts.gpus) and not any("MIG" in device.name for device in devices):
        return passed("not cut into MIG instances")
    if needs.machine.gpus > 1:
        words = f"the run uses {needs.machine.gpus} GPUs, and NCCL joins no MIG instances"
        return failed(words, "name one GPU under `hardware`, or have MIG switched off")
    if not devices:
        return failed(
            "MIG is on, and torch sees no instance", "set CUDA_VISIBLE_DEVICES to an instance (`nvidia-smi -L`)"
        )
    return warning(
        f"MIG: the run gets {_said(devices[0])}, not the whole GPU",
        f"plan on it: `finetune plan {needs.run} --available {devices[0].free_gib:.1f}`",
    )


@on_gpu
def busy(facts: Facts, needs: Needs) -> Outcome:
    """Nobody else computes on the GPUs of the run."""
    used = _used(facts, needs)
    if closed := [gpu.index for gpu in used if gpu.prohibited]:
        words = f"GPU {closed[0]} is in compute mode `prohibited`"
        return failed(words, f"have an administrator run `nvidia-smi -i {closed[0]} -c DEFAULT`")
    others = [(gpu, process) for gpu in used for process in gpu.processes]
    large = [pair for pair in others if pair[1].memory_gib is None or pair[1].memory_gib >= BUSY_GIB]
    if not large:
        return passed("no other process holds a GiB of them")
    listed = "; ".join(
        f"GPU {gpu.index}: process {process.pid} ({process.name}) holds "
        + (f"{process.memory_gib:.1f} GiB" if process.memory_gib is not None else "memory that is not told")
        for gpu, process in large
    )
    return warning(listed, f"end process {large[0][1].pid} if it is yours, or wait for it")


def supports(capability: Capability, architectures: tuple[str, ...]) -> bool:
    """Tell whether code for these architectures runs on a device.

    Machine code (`sm_`) runs on its own major capability from its minor one on, and with the suffix `a` on exactly
    its own; PTX (`compute_`) on every later one (CUDA C++ programming guide, application compatibility). So sm_120
    runs on the 12.1 of GB10.
    """
    for text in architectures:
        found = _ARCHITECTURE.fullmatch(text)
        if found is None:
            continue
        built = _pair(found["number"])
        if found["only"] == "a":
            fits = capability == built
        elif found["kind"] == "compute" and not found["only"]:
            fits = capability >= built
        else:
            fits = capability[0] == built[0] and capability >= built
        if fits:
            return True
    return False


def is_gb10(facts: Facts, needs: Needs) -> bool:
    """Tell whether the run's GPU here is the GB10 of a DGX Spark or one of its siblings by other makers."""
    if not needs.on_gpu:
        return False
    return any("GB10" in gpu.name for gpu in facts.gpus) or _capability(facts, needs) == GB10


def is_unified(facts: Facts, needs: Needs) -> bool:
    """Tell whether the run's GPU here takes its memory from the host's."""
    torch = facts.interpreter.torch
    integrated = needs.on_gpu and torch is not None and any(device.integrated for device in torch.devices)
    return integrated or is_gb10(facts, needs)


def pip_torch(facts: Facts, needs: Needs) -> str:
    """Return the command that installs the build of torch that this product was tried with."""
    return f"{facts.interpreter.path} -m pip install --force-reinstall torch=={needs.versions.get('torch', '2.13.0')}"


def _no_gpu(facts: Facts) -> tuple[str, str]:
    if facts.driver.fault is not None:
        return facts.driver.fault, "reinstall the NVIDIA driver and reboot, until `nvidia-smi` lists the GPU"
    if facts.host.container:
        return "no NVIDIA driver in this container", "start the container with `--gpus all`"
    return "no NVIDIA driver answers", "install the NVIDIA driver, until `nvidia-smi` lists the GPU"


def _used(facts: Facts, needs: Needs) -> tuple[Gpu, ...]:
    return facts.visible[: needs.machine.gpus]


def _capability(facts: Facts, needs: Needs) -> Capability | None:
    """Return the lowest capability among the GPUs of the run."""
    torch = facts.interpreter.torch
    found = [device.capability for device in torch.devices[: needs.machine.gpus]] if torch is not None else []
    found = found or [gpu.capability for gpu in _used(facts, needs) if gpu.capability is not None]
    return min(found, default=None)


def _capabilities(architectures: tuple[str, ...]) -> list[Capability]:
    return [_pair(found["number"]) for text in architectures if (found := _ARCHITECTURE.fullmatch(text))]


def _pair(number: str) -> Capability:
    return int(number[:-1] or 0), int(number[-1])


def _said(device: TorchDevice) -> str:
    return f"{device.name}, {device.free_gib:.1f} of {device.total_gib:.1f} GiB free"
