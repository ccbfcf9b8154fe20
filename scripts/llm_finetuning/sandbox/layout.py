"""What of this interpreter a program under test may see: the standard library, its shared libraries, some packages."""

import functools
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2]

PACKAGES_IN_BOX = "/packages"
_CACHE = "/etc/ld.so.cache"  # where the loader finds libraries of unusual folders
_ZONES = "/usr/share/zoneinfo"  # what `zoneinfo` reads
_HIDDEN = ("site-packages", "dist-packages")
_INVENTORY_S = 120.0


class NoLayout(Exception):  # noqa: N818  it is what is missing
    """The interpreter cannot be started bare, so no box can be made of it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths on the host."""

    path: Sequence[str]  # of the standard library's modules
    hidden: Sequence[str]  # folders of other packages within it
    libraries: Sequence[str]
    packages: Mapping[str, str]  # name of a file or a folder, and where it really is
    environment: Mapping[str, str]  # what the interpreter needs to start


def environment() -> dict[str, str]:
    """Return the whole environment of a box; nothing of the caller's is in it."""
    return {
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PYTHONSAFEPATH": "1",
        "PYTHONUTF8": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }


def command(module: str, call: str, *arguments: str) -> list[str]:
    """Return what starts a module of the box under this interpreter, without site packages.

    `-I` would ignore the fixed hash seed; with a clean environment and a path of our own it adds nothing.
    """
    code = (
        f"import sys; sys.path = [{str(SCRIPTS)!r}, *filter(None, sys.path)]; from {module} import {call} as go; "
        "del sys.path[0]; go()"
    )
    return [sys.executable, "-s", "-S", "-c", code, *arguments]


@functools.lru_cache
def resolve(packages: tuple[str, ...]) -> Layout:
    """Return what is to be visible; packages that are not installed are left out. Raises NoLayout."""
    found = _packages(packages)
    own = environment()
    try:
        inventory = _inventory(own, found)
    except NoLayout:
        # An interpreter of a module system or of a build folder finds its own library this way alone.
        if "LD_LIBRARY_PATH" not in os.environ:
            raise
        own["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
        inventory = _inventory(own, found)
    path = list(inventory["path"])
    roots = [*path, *found.values()]
    libraries = [name for name in dict.fromkeys(inventory["libraries"]) if not _within(name, roots)]
    libraries += [data for data in (_CACHE, _ZONES) if Path(data).exists()]
    hidden = [f"{entry}/{name}" for entry in path for name in _HIDDEN if Path(entry, name).is_dir()]
    return Layout(path=path, hidden=hidden, libraries=libraries, packages=found, environment=own)


def outermost(paths: Sequence[str]) -> list[str]:
    """Return the paths that lie in none of the others."""
    return [path for path in paths if not any(path.startswith(other + "/") for other in paths)]


def open_to_all(paths: Sequence[str]) -> bool:
    """Say whether a user who is nobody may reach and read the paths."""
    for path in paths:
        real = Path(path).resolve()
        if not real.stat().st_mode & 0o004:
            return False
        if not all(parent.stat().st_mode & 0o001 for parent in real.parents):
            return False
    return True


def _inventory(env: Mapping[str, str], packages: Mapping[str, str]) -> dict[str, list[str]]:
    arguments = command("llm_finetuning.sandbox.box.inventory", "main", *packages.values())
    try:
        ran = subprocess.run(
            arguments,
            env=env,
            cwd="/",
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_INVENTORY_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoLayout(f"{sys.executable}: does not start with a clean environment: {error}") from None
    if ran.returncode:
        last = ran.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"exit code {ran.returncode}"]
        raise NoLayout(f"{sys.executable}: does not start with a clean environment: {last[0]}")
    inventory: dict[str, list[str]] = json.loads(ran.stdout)
    return inventory


def _packages(names: Sequence[str]) -> dict[str, str]:
    """Return the files and folders of the packages that are installed, with the libraries that wheels put beside."""
    found: dict[str, str] = {}
    for name in names:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            continue
        if spec is None or spec.origin is None or not Path(spec.origin).is_file():
            continue
        file = Path(spec.origin)
        if spec.submodule_search_locations is None:
            found[file.name] = str(file.resolve())
            continue
        found[file.parent.name] = str(file.parent.resolve())
        libraries = file.parent.with_name(f"{name}.libs")
        if libraries.is_dir():
            found[libraries.name] = str(libraries.resolve())
    return found


def _within(path: str, roots: Sequence[str]) -> bool:
    real = os.path.realpath(path)
    return any(real == os.path.realpath(root) or real.startswith(os.path.realpath(root) + "/") for root in roots)
