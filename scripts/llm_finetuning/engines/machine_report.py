"""Say what the training interpreter is and has, without importing TRL, vLLM or transformers.

The job is {"packages": [NAME, ...], "devices": BOOL}. One record comes back: {"kind": "machine", "version", "machine",
"encoding", "packages": {NAME: {"version", "platforms", "requires"}}, "torch", "ptxas"}. Versions and bounds come from
the packages' metadata. torch is imported only with `devices`, because that takes seconds and some GPU memory; without
it, what it was built for stands in its `version.py`.
"""

import ast
import contextlib
import importlib.metadata
import importlib.util
import locale
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from llm_finetuning.engines import protocol

GIB = 1024**3
RELEASE = re.compile(r"release (\d+\.\d+)")
ASSEMBLER_WAIT_S = 10.0


def main(job: protocol.Job, send: protocol.Send) -> None:
    """Send the one record."""
    watched = list(job["packages"])
    send(
        {
            "kind": "machine",
            "version": list(sys.version_info[:2]),
            "machine": platform.machine(),
            "encoding": locale.getpreferredencoding(False),  # noqa: FBT003 - takes no keyword
            "packages": {name: found for name in watched if (found := package(name, watched)) is not None},
            "torch": torch_report(devices=bool(job["devices"])),
            "ptxas": assemblers(),
        }
    )


def package(name: str, watched: list[str]) -> dict[str, Any] | None:
    """Return version, wheel platforms and the bounds on watched packages; None where it is not installed."""
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    wheel = found.read_text("WHEEL") or ""
    tags = [line.partition(":")[2].strip() for line in wheel.splitlines() if line.startswith("Tag:")]
    platforms = sorted({part for tag in tags for part in tag.rpartition("-")[2].split(".")})
    wanted = [line for line in found.requires or () if _plain_name(line) in watched and ";" not in line]
    return {"version": found.version, "platforms": platforms, "requires": wanted}


def torch_report(*, devices: bool) -> dict[str, Any] | None:
    """Return what torch is; with `devices` what it sees, too. None where there is none."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    report = built_for(Path(next(iter(spec.submodule_search_locations))) / "version.py")
    return {**report, **(seen() if devices else {})}


def built_for(path: Path) -> dict[str, Any]:
    """Return version and CUDA release in torch's version.py; it assigns plain values alone."""
    values: dict[str, Any] = {}
    with contextlib.suppress(OSError, SyntaxError):
        for node in ast.parse(path.read_text("utf-8")).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            value = getattr(node, "value", None)
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
                values[target.id] = value.value
    return {"version": str(values.get("__version__", "")), "cuda": values.get("cuda")}


def seen() -> dict[str, Any]:
    """Import torch and return what it sees of the devices, or why it cannot; in the order in which launch.sh counts."""
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if not os.environ.get("CUDA_VISIBLE_DEVICES", "set"):
        del os.environ["CUDA_VISIBLE_DEVICES"]  # empty, which launch.sh takes for all of them
    try:
        import torch

        found: dict[str, Any] = {"imported": True, "cuda": torch.version.cuda, "architectures": [], "devices": []}
        if torch.version.cuda is None:
            return found
        found["architectures"] = torch._C._cuda_getArchFlags().split()  # noqa: SLF001 - get_arch_list hides it
    except (ImportError, OSError, AttributeError) as fault:
        return {"fault": f"{type(fault).__name__}: {_first(fault)}"}
    try:
        found["devices"] = [device(torch, index) for index in range(torch.cuda.device_count())]
    except (RuntimeError, AssertionError) as fault:
        found["fault"] = f"{type(fault).__name__}: {_first(fault)}"
    return found


def device(torch: Any, index: int) -> dict[str, Any]:
    """Return one device as torch sees it."""
    properties = torch.cuda.get_device_properties(index)
    free, total = torch.cuda.mem_get_info(index)
    return {
        "name": properties.name,
        "capability": [properties.major, properties.minor],
        "total_gib": total / GIB,
        "free_gib": free / GIB,
        "integrated": bool(getattr(properties, "is_integrated", False)),
    }


def assemblers() -> list[list[str]]:
    """Return the assemblers that Triton brings, with their releases."""
    spec = importlib.util.find_spec("triton")
    if spec is None or not spec.submodule_search_locations:
        return []
    folder = Path(next(iter(spec.submodule_search_locations))) / "backends/nvidia/bin"
    found = []
    for path in sorted(folder.glob("ptxas*")):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            said = subprocess.run(
                [str(path), "--version"], capture_output=True, text=True, timeout=ASSEMBLER_WAIT_S, check=False
            )
            if release := RELEASE.search(said.stdout):
                found.append([str(path), release[1]])
    return found


def _plain_name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return re.sub(r"[-_.]+", "-", found.group()).lower() if found else ""


def _first(fault: Exception) -> str:
    return next((line.strip() for line in str(fault).splitlines() if line.strip()), "")


if __name__ == "__main__":
    protocol.serve(main)
