"""Checks of memory: what the plan needs against what is free now, by the counter that is right for the machine."""

from llm_finetuning.machine.facts import Facts
from llm_finetuning.machine.gpu_checks import is_gb10, is_unified
from llm_finetuning.machine.needs import Needs, Planned
from llm_finetuning.machine.outcome import Outcome, failed, here, on_gpu, passed, skipped, warning
from llm_finetuning.planning.hardware import host_floor_gib

NCCL_SHM_GIB = 1.0
"""What NVIDIA's NCCL documentation gives a container (`--shm-size=1g`); Docker's own is 64 MiB."""

KERNELS_SHM_SHARE = 0.5
"""Of the memory, the size that Linux itself gives /dev/shm; a larger one was asked for."""

SHM = "/dev/shm"  # noqa: S108  the name of the file system, not a file made there
NO_SHARING = "host and GPU have memories of their own"


@here
def device_memory(facts: Facts, needs: Needs) -> Outcome:
    """What plan.json says the run needs is free now, by the counter that is right for the machine.

    On GB10 the driver answers N/A and CUDA counts cached files as taken: there, what the kernel calls available counts,
    less a floor for the host. A run on the CPU is held against available memory, too.
    """
    if needs.plan is None:
        return skipped(needs.plan_fault or "no current plan.json")
    shared = is_unified(facts, needs)
    total, free, words = _pool(facts) if shared or not needs.machine.gpus else _card(facts, needs)
    if free is None:
        return skipped(f"how much is free is not known: {words}")
    if shared and total is not None:
        floor = host_floor_gib(total)
        free, total, words = free - floor, total - floor, f"{words} less {floor:.1f} for the host"
    words = f"free {free:.1f} ({words})"
    return _held(needs.plan, total, free, words, cuda_free=facts.host.free_gib if shared else None)


def _held(plan: Planned, total: float | None, free: float, words: str, *, cuda_free: float | None) -> Outcome:
    """Return the plan's need held against what is free; `cuda_free` is what CUDA sees of the host's memory."""
    said = f"the plan needs {plan.gib:.1f} GiB ({plan.low:.1f} to {plan.high:.1f}); {words}"
    if plan.gib > free:
        if total is not None and plan.gib <= total:
            return failed(said, f"free {plan.gib - free:.1f} GiB: end the processes that hold it")
        return failed(said, f"write {plan.remedy} into brief.yaml" if plan.remedy else "take a smaller model or card")
    if cuda_free is not None and plan.gib > cuda_free:
        said += f"; CUDA itself sees {cuda_free:.1f}, because it counts cached files as taken"
        fix = (
            "where a start fails for want of memory, drop the cache: `sync; echo 3 > /proc/sys/vm/drop_caches`, as root"
        )
        return warning(said, fix)
    if plan.high > free:
        return warning(f"{said}; its upper end does not fit", "make room, or watch the first two steps")
    return passed(said)


@here
def host_memory(facts: Facts, needs: Needs) -> Outcome:
    """The host holds what it has to while weights are loaded: the largest file, or a copy for each process."""
    if not needs.machine.gpus or is_unified(facts, needs):
        return skipped("the run's memory is the host's: `device-memory` speaks of it")
    room = facts.host.available_gib
    if room is None:
        return skipped("this system does not say how much memory is available")
    needed, words = _loading(facts, needs)
    if needed is None:
        return skipped(f"{room:.1f} GiB available; {words}")
    said = f"{words}: {needed:.1f} GiB of {room:.1f} available"
    if needed > room:
        return failed(said, "close what holds memory on the host, or take a machine with more")
    return passed(said)


@here
def container(facts: Facts, needs: Needs) -> Outcome:
    """The container's memory limit leaves what the run takes of the host."""
    room, limit = facts.container_room_gib, facts.host.limit_gib
    if room is None or limit is None:
        return passed("no memory limit")
    if needs.machine.gpus:
        needed, words = _loading(facts, needs)
    else:
        needed, words = (needs.plan.gib, "the run") if needs.plan is not None else (None, "there is no current plan")
    said = f"limit {limit:.1f} GiB, {room:.1f} left"
    if is_unified(facts, needs):
        said += "; it does not hold back what CUDA takes of the same memory"
    if needed is None:
        return passed(f"{said}; not held against a need: {words}")
    if needed > room:
        fix = f"start the container with a memory limit of {needed + limit - room:.0f} GiB or more"
        return failed(f"{said}, and {words} takes {needed:.1f}", fix)
    return passed(f"{said}; {words} takes {needed:.1f}")


@on_gpu
def swap(facts: Facts, needs: Needs) -> Outcome:
    """A machine whose host and GPU have one memory has no swap, with which it thrashes before it fails."""
    if not is_unified(facts, needs):
        return skipped(NO_SHARING)
    if not facts.host.swap_gib:
        return passed("off")
    if facts.host.zram:
        words = f"{facts.host.swap_gib:.0f} GiB of zram, which takes from the memory that the GPU uses"
        return warning(words, "switch it off for the run: `sudo swapoff -a`")
    words = f"{facts.host.swap_gib:.0f} GiB on disk: a run that takes too much thrashes for minutes before it ends"
    return warning(words, "switch it off for the run: `sudo swapoff -a`")


@on_gpu
def early_oom(facts: Facts, needs: Needs) -> Outcome:
    """A machine whose host and GPU have one memory runs a daemon that ends a process before all of it hangs."""
    if not is_unified(facts, needs):
        return skipped(NO_SHARING)
    if facts.host.early_oom is not None:
        return passed(f"{facts.host.early_oom} runs")
    words = "nothing ends a process before the memory is used up, and then this machine hangs until it is switched off"
    return warning(words, "install one: `sudo apt install earlyoom`")


@here
def shared_memory(facts: Facts, needs: Needs) -> Outcome:
    """Shared memory holds what processes hand each other, and where host and GPU are one it is not promised twice."""
    size = facts.host.shm_gib
    if size is None:
        return skipped(f"this system has no {SHM}")
    if _is_promised_twice(facts, needs, size):
        words = f"{SHM} may grow to {size:.1f} GiB, of the memory that the GPU uses"
        return warning(words, f"count it into the plan: `finetune plan {needs.run} --host {size:.0f}`")
    several = needs.processes > 1 or needs.serving
    if not several and not needs.workers:
        return passed(f"{size:.1f} GiB; one process hands nothing over")
    if size < NCCL_SHM_GIB:
        what = "NCCL between the GPUs" if several else "the data workers"
        words = f"{size * 1024:.0f} MiB; {what} needs {NCCL_SHM_GIB:.0f} GiB"
        return failed(words, "start the container with `--shm-size 8g`")
    return passed(f"{size:.1f} GiB")


def _is_promised_twice(facts: Facts, needs: Needs, size: float) -> bool:
    """Tell whether a shared memory that somebody made larger than usual and the plan do not fit together."""
    total, available = facts.host.total_gib, facts.host.available_gib
    if not is_unified(facts, needs) or total is None or available is None or size <= KERNELS_SHM_SHARE * total:
        return False
    return needs.plan is None or needs.plan.gib + size > available - host_floor_gib(total)


@on_gpu
def sleep_mode(facts: Facts, needs: Needs) -> Outcome:
    """The sleep mode of vLLM is off where users saw it crash at wake-up."""
    if not needs.sleep:
        return passed("off")
    if is_gb10(facts, needs):
        words = "on, and on GB10 users saw it crash at wake-up (2025)"
        return warning(words, "leave `vllm_enable_sleep_mode` out of `training`")
    return passed("on")


def _pool(facts: Facts) -> tuple[float | None, float | None, str]:
    """Return total and available memory of the host, and what that is."""
    return facts.host.total_gib, facts.host.available_gib, "available memory of this machine"


def _card(facts: Facts, needs: Needs) -> tuple[float | None, float | None, str]:
    """Return total and free memory of the fullest GPU of the run; torch's own view of it comes first."""
    torch = facts.interpreter.torch
    devices = torch.devices[: needs.machine.gpus] if torch is not None else ()
    if devices:
        least = min(devices, key=lambda device: device.free_gib)
        return least.total_gib, least.free_gib, f"as torch sees {least.name}"
    known = [gpu for gpu in facts.visible[: needs.machine.gpus] if gpu.free_gib is not None]
    if not known:
        return None, None, "the driver does not say it"
    fullest = min(known, key=lambda gpu: gpu.free_gib or 0.0)
    return fullest.total_gib, fullest.free_gib, f"on GPU {fullest.index}, {fullest.name}"


def _loading(facts: Facts, needs: Needs) -> tuple[float | None, str]:
    """Return what loading takes of the host, and what that is."""
    if needs.load_gib:
        return needs.load_gib, f"weights while they are loaded by {needs.processes} processes"
    if facts.model is None or not facts.model.largest_gib:
        return None, "the weights are not here to be measured"
    return facts.model.largest_gib, "the largest file of weights"
