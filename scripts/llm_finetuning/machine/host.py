"""Memory of the host and its container, folders and ports: from /proc, /sys and the file system."""

import contextlib
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

from llm_finetuning.machine.facts import Folder, Host
from llm_finetuning.planning.hardware import meminfo_gib
from llm_finetuning.planning.job import GIB

UNLIMITED = 1 << 60  # bytes; cgroup v1 writes about 2^63 for no limit
WATCHERS = ("earlyoom", "systemd-oomd", "nohang", "oomd")
"""Daemons that end a process before the memory is used up."""

KNOWN_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "NCCL_SOCKET_IFNAME",
    "PYTHONUTF8",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TRANSFORMERS_OFFLINE",
    "TRITON_PTXAS_BLACKWELL_PATH",
    "TRITON_PTXAS_PATH",
)
"""Variables that decide what training does on a machine; tokens are none of them."""


def read(root: Path = Path("/")) -> Host:
    """Return the host's memory; `root` holds proc, sys and dev."""
    sizes = meminfo_gib(_text(root / "proc/meminfo"))
    limit, used = cgroup(root)
    return Host(
        total_gib=sizes.get("MemTotal"),
        free_gib=sizes.get("MemFree"),
        available_gib=sizes.get("MemAvailable"),
        swap_gib=sizes.get("SwapTotal", 0.0),
        zram="/dev/zram" in _text(root / "proc/swaps"),
        early_oom=next((name for name in _programs(root / "proc") if name in WATCHERS), None),
        limit_gib=None if limit is None else limit / GIB,
        used_gib=None if used is None else used / GIB,
        shm_gib=_size(root / "dev/shm"),
        container=(root / ".dockerenv").exists() or (root / "run/.containerenv").exists(),
    )


def cgroup(root: Path) -> tuple[int | None, int | None]:
    """Return limit and use of this process's cgroup in bytes, the tightest of its line; None, None without a limit.

    Version 2 has one tree, version 1 one for memory. A container sees its own cgroup as the root of the tree.
    """
    folders = [folder for folder in _cgroup_folders(root) if folder.is_dir()]
    found = []
    for folder in folders:
        for limit_name, used_name in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit = _text(folder / limit_name).strip()
            if limit.isdigit() and int(limit) < UNLIMITED:
                used = _text(folder / used_name).strip()
                taken = int(used) - _reclaimable(folder) if used.isdigit() else 0
                found.append((int(limit), max(0, taken)))
    return min(found, key=lambda pair: pair[0] - pair[1], default=(None, None))


def folder(role: str, wanted: Path) -> Folder:
    """Return the room in a folder that is there or will be made, which is that of the nearest one above it."""
    place = wanted.expanduser()
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        free: float | None = shutil.disk_usage(place).free / GIB
        device: int | None = place.stat().st_dev
    except OSError:
        free, device = None, None
    writable = place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    return Folder(role=role, path=str(wanted), free_gib=free, writable=writable, device=device)


def taken(ports: tuple[int, ...]) -> tuple[int, ...]:
    """Return which of these ports somebody listens on, as seen by trying to listen there."""
    found = []
    for port in ports:
        try:
            with socket.create_server(("", port)):
                pass
        except OSError:
            found.append(port)
    return tuple(found)


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that matter."""
    return {name: environ[name] for name in KNOWN_VARIABLES if name in environ}


def _cgroup_folders(root: Path) -> Iterator[Path]:
    """Yield the folders of the cgroup and of all above it, up to the root of its tree."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers not in ("", "memory"):
            continue
        base = root / "sys/fs/cgroup" / controllers
        inner = base / path.strip("/")
        while True:
            yield inner
            if inner == base or base not in inner.parents:
                break
            inner = inner.parent


def _reclaimable(folder: Path) -> int:
    """Return the bytes of file pages that the kernel drops when it needs memory."""
    for line in _text(folder / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file") and value.isdigit():
            return int(value)
    return 0


def _programs(proc: Path) -> Iterator[str]:
    for entry in proc.glob("[0-9]*/comm"):
        yield _text(entry).strip()


def _size(path: Path) -> float | None:
    try:
        return shutil.disk_usage(path).total / GIB
    except OSError:
        return None


def _text(path: Path) -> str:
    """Return a file of the kernel; empty where this system has none, or it is gone."""
    with contextlib.suppress(OSError):
        return path.read_text("utf-8", errors="replace")
    return ""
