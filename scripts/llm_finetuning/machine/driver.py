"""What the NVIDIA driver says: through `nvidia-ml-py` where it is installed, else from the text of `nvidia-smi`."""

import contextlib
import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from llm_finetuning.machine.facts import Capability, Driver, Gpu, Process
from llm_finetuning.planning.job import GIB

GPU_QUERY = (
    "--query-gpu=index,uuid,name,driver_version,compute_cap,memory.total,memory.free,mig.mode.current,compute_mode",
    "--format=csv,noheader,nounits",
)
PROCESS_QUERY = ("--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv,noheader,nounits")
TIMEOUT_S = 10.0
MIB_IN_GIB = 1024.0

_COLUMNS = 9
_PROHIBITED = 2  # NVML_COMPUTEMODE_PROHIBITED
_NVIDIA, _DISPLAY = "0x10de", "0x03"  # PCI vendor, and the class of display and 3D controllers
_RELEASE = re.compile(r"release (\d+\.\d+)")
CHOSEN_ASSEMBLERS = ("TRITON_PTXAS_BLACKWELL_PATH", "TRITON_PTXAS_PATH")
_ASSEMBLERS = ("/usr/local/cuda/bin/ptxas",)


def read() -> tuple[Driver, tuple[Gpu, ...]]:
    """Return the driver and its GPUs; a driver that is there and does not answer carries its fault."""
    on_bus = _on_bus()
    try:
        found = _through_nvml()
    except Exception:  # noqa: BLE001 - each fault of the library is a class of its own; nvidia-smi says it again
        found = None
    driver, gpus = found if found is not None else _through_program()
    return replace(driver, hardware=on_bus, toolkits=_toolkits()), gpus


def parse_gpus(text: str) -> tuple[str | None, list[Gpu]]:
    """Return driver version and GPUs in the answer to `GPU_QUERY`, one GPU a line.

    Whatever is no number (`[N/A]`, `N/A`, `[Not Supported]`, `[Insufficient Permissions]`) is None, not 0.
    """
    version, gpus = None, []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != _COLUMNS or not cells[0].isdigit():
            continue
        index, uuid, name, version, capability, total, free, mig, mode = cells
        gpus.append(
            Gpu(
                index=int(index),
                uuid=uuid,
                name=name,
                capability=_capability(capability),
                total_gib=_gib(total),
                free_gib=_gib(free),
                mig=mig == "Enabled",
                prohibited=mode == "Prohibited",
            )
        )
    return version, gpus


def parse_processes(text: str) -> dict[str, list[Process]]:
    """Return the computing processes in the answer to `PROCESS_QUERY`, by the UUID of their GPU."""
    found: dict[str, list[Process]] = {}
    for line in text.splitlines():
        uuid, _, rest = line.partition(",")
        pid, _, rest = rest.partition(",")
        name, _, used = rest.rpartition(",")
        if pid.strip().isdigit():
            process = Process(pid=int(pid), name=name.strip(), memory_gib=_gib(used))
            found.setdefault(uuid.strip(), []).append(process)
    return found


def together(gpus: list[Gpu], processes: dict[str, list[Process]]) -> tuple[Gpu, ...]:
    """Return the GPUs with the processes that compute on each."""
    return tuple(replace(gpu, processes=tuple(processes.get(gpu.uuid, ()))) for gpu in gpus)


def assembler(path: str) -> tuple[str, str] | None:
    """Return an assembler with its release; None where it is not there or does not say one."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if found := _RELEASE.search(said.stdout):
            return path, found[1]
    return None


def _through_program() -> tuple[Driver, tuple[Gpu, ...]]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return Driver(), ()
    table, fault = _ask(program, GPU_QUERY)
    if fault is not None:
        return Driver(fault=fault), ()
    version, gpus = parse_gpus(table)
    if not gpus:
        return Driver(version=version, fault=None if not table.strip() else f"nvidia-smi: {_first(table)}"), ()
    processes, _ = _ask(program, PROCESS_QUERY)
    return Driver(version=version), together(gpus, parse_processes(processes))


def _ask(program: str, query: tuple[str, ...]) -> tuple[str, str | None]:
    """Return what the program printed, and what is wrong with it."""
    try:
        said = subprocess.run(
            [program, *query], capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"nvidia-smi does not answer ({error})"
    if "No devices were found" in said.stdout + said.stderr:
        return "", None
    if said.returncode:
        return "", f"nvidia-smi: {_first(said.stdout + said.stderr) or f'ended with {said.returncode}'}"
    return said.stdout, None


def _through_nvml() -> tuple[Driver, tuple[Gpu, ...]] | None:
    """Return what the driver's library says; None where its Python binding is not installed."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ModuleNotFoundError:
        return None
    nvml.nvmlInit()
    try:
        gpus = tuple(_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
        return Driver(version=_text(nvml.nvmlSystemGetDriverVersion())), gpus
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def ask(name: str) -> Any:
        """Return the answer to one question; None where this device or this user has none."""
        try:
            return getattr(nvml, name)(handle)
        except nvml.NVMLError:
            return None

    memory, capability = ask("nvmlDeviceGetMemoryInfo"), ask("nvmlDeviceGetCudaComputeCapability")
    mig = ask("nvmlDeviceGetMigMode")
    return Gpu(
        index=index,
        name=_text(nvml.nvmlDeviceGetName(handle)),
        uuid=_text(ask("nvmlDeviceGetUUID") or ""),
        capability=(capability[0], capability[1]) if capability else None,
        total_gib=memory.total / GIB if memory and memory.total else None,
        free_gib=memory.free / GIB if memory and memory.total else None,
        mig=bool(mig and mig[0]),
        prohibited=ask("nvmlDeviceGetComputeMode") == _PROHIBITED,
        processes=tuple(_processes(ask("nvmlDeviceGetComputeRunningProcesses") or ())),
    )


def _processes(found: Any) -> Iterator[Process]:
    for process in found:
        used = process.usedGpuMemory
        yield Process(
            pid=process.pid,
            name=_program_of(process.pid),
            memory_gib=used / GIB if used is not None else None,
        )


def _program_of(pid: int) -> str:
    """Return a process's name; `?` for one of another container."""
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", errors="replace").strip()
    except OSError:
        return "?"


def _text(said: Any) -> str:
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)  # older bindings give bytes


def _capability(text: str) -> Capability | None:
    found = re.fullmatch(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def _gib(text: str) -> float | None:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)(?:\s*MiB)?\s*", text)
    return float(found[1]) / MIB_IN_GIB if found else None


def _first(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _on_bus() -> bool:
    """Tell whether the PCI bus shows an NVIDIA device; within a container the bus is the host's."""
    for device in Path("/sys/bus/pci/devices").glob("*"):
        with contextlib.suppress(OSError):
            vendor = (device / "vendor").read_text("utf-8").strip()
            if vendor == _NVIDIA and (device / "class").read_text("utf-8").startswith(_DISPLAY):
                return True
    return False


def _toolkits() -> tuple[tuple[str, str], ...]:
    """Return the assemblers outside Triton: those that its variables name, CUDA's usual one, and that on PATH."""
    named = [os.environ.get(name) for name in CHOSEN_ASSEMBLERS]
    paths = dict.fromkeys(path for path in (*named, *_ASSEMBLERS, shutil.which("ptxas")) if path)
    return tuple(known for path in paths if (known := assembler(path)) is not None)
