"""What memory one device of a machine has for a run: a card's own, one pool with the host's, or the CPU's."""

from dataclasses import dataclass
from pathlib import Path

from llm_finetuning.errors import Refusal
from llm_finetuning.planning import hardware
from llm_finetuning.recipes.config import Machine

MEMINFO = Path("/proc/meminfo")
MUCH_CACHE_GIB = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device that a process of the trainer has to itself."""

    name: str
    total_gib: float  # what a share such as vllm_gpu_memory_utilization is taken of
    free_gib: float  # what the run may take of it
    unified: bool = False
    words: str  # how the free memory comes about
    source: str = ""  # of the card's figures, in the marks of `planning.hardware`
    notes: tuple[str, ...] = ()


def device_of(
    machine: Machine,
    *,
    available_gib: float | None = None,
    host_gib: float = 0.0,
    meminfo: str | None = None,
) -> Device | None:
    """Return the device of a machine; None where nothing is known of its memory, for which `unknown_words` has a line.

    Args:
        machine: What the brief's `hardware` names.
        available_gib: Memory that is free before the run, where a person says it; of a machine with one memory for
            host and GPU it is what the kernel calls available, page cache not counted as taken.
        host_gib: What else the host will take while the run runs: shared memory, data workers. It counts where host
            and GPU have one memory.
        meminfo: The text of this machine's /proc/meminfo, where the machine is this one.
    """
    if machine.gpus == 0:
        return _cpu(available_gib, host_gib, meminfo)
    card = hardware.card_named(machine.name, machine.memory_gb)
    if card is None and available_gib is not None:
        words = "as stated; the card itself is not known, and a share of it counts as one of what is free"
        return Device(name=machine.name, total_gib=available_gib, free_gib=available_gib, words=words)
    if card is None:
        return None
    _check_stated(available_gib, card.memory_gib, card.name)
    if card.unified:
        return _unified(card, available_gib, host_gib, meminfo)
    free = min(available_gib, card.memory_gib) if available_gib is not None else card.memory_gib
    words = "as stated" if available_gib is not None else "nothing else on the card"
    return Device(name=card.name, total_gib=card.memory_gib, free_gib=free, words=words, source=card.source)


def this_meminfo() -> str | None:
    """Return this machine's /proc/meminfo; None where there is none, as on macOS."""
    try:
        return MEMINFO.read_text("utf-8")
    except OSError:
        return None


def unknown_words(machine: Machine) -> str:
    """Return the line that says of a machine that its memory is not known."""
    if machine.gpus == 0:
        return "hardware: this machine does not say how much memory is free; state it: --available GIB"
    return hardware.unknown_words(machine.name)


def _cpu(available_gib: float | None, host_gib: float, meminfo: str | None) -> Device | None:
    sizes = hardware.meminfo_gib(meminfo or "")
    available = available_gib if available_gib is not None else sizes.get("MemAvailable")
    if available is None:
        return None
    total = max(sizes.get("MemTotal", available), available)  # what is stated may be another machine's
    words = "as stated" if available_gib is not None else "available on this machine now"
    _check_host(host_gib, available)
    return Device(name="cpu", total_gib=total, free_gib=available - host_gib, words=words)


def _unified(card: hardware.Card, available_gib: float | None, host_gib: float, meminfo: str | None) -> Device:
    sizes = hardware.meminfo_gib(meminfo or "")
    total = sizes.get("MemTotal", card.memory_gib)
    idle = card.idle_available_gib if card.idle_available_gib is not None else total
    available, words = idle, "of a machine at rest"
    if available_gib is not None:
        available, words = available_gib, "as stated"
    elif "MemAvailable" in sizes:
        available, words = sizes["MemAvailable"], "on this machine now"
    floor = hardware.host_floor_gib(total)
    _check_host(host_gib, available - floor)
    words = f"{available:.1f} GiB available {words}, less {floor:.1f} for the host"
    if host_gib:
        words += f" and {host_gib:.1f} for shared memory and data workers"
    return Device(
        name=card.name,
        total_gib=total,
        free_gib=available - floor - host_gib,
        unified=True,
        words=words,
        source=card.source,
        notes=_cache_notes(sizes),
    )


def _check_stated(available_gib: float | None, total: float, name: str) -> None:
    """Refuse more memory than there is; a driver may count a little more than the table."""
    if available_gib is not None and available_gib > total * (1 + hardware.SAME_CARD):
        raise Refusal(f"--available {available_gib:g}: {name} has {total:.1f} GiB; state what is free of them")


def _check_host(host_gib: float, left: float) -> None:
    if host_gib and host_gib >= left:
        raise Refusal(f"--host {host_gib:g}: only {max(left, 0):.1f} GiB are there for the run and it; state less")


def _cache_notes(sizes: dict[str, float]) -> tuple[str, ...]:
    """Return what to know where much of the memory holds files: it is available, but CUDA counts it as taken."""
    cached = sizes.get("MemAvailable", 0.0) - sizes.get("MemFree", 0.0)
    if cached <= MUCH_CACHE_GIB:
        return ()
    words = (
        f"{cached:.0f} GiB of the available memory hold cached files, which CUDA counts as taken: where a start fails "
        "for want of memory, a person may drop them (`sync; echo 3 > /proc/sys/vm/drop_caches`, as root)"
    )
    return (words,)
