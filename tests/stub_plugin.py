"""A small plugin around the real launcher: stub packages under a real lock, so that a first call takes seconds.

Its paths hold spaces, its packages come from a folder, and its PATH holds only what is put there.
"""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from llm_finetuning import PLUGIN_ROOT
from llm_finetuning.environment import CORE_MODULES

STANDARD_LIBRARY_ONLY = ("__init__", "environment", "errors", "extras", "installer", "interpreter")
TOOLS = ("sh", "dash", "sha256sum", "readlink", "mkdir")
DEAD_INDEX = "http://127.0.0.1:9/simple"

# Says where it runs; like the real CLI it hands a missing core package to `repair_and_restart`.
CLI = """
import json, os, sys
def main():
    try:
        import click
    except ImportError as error:
        from llm_finetuning.environment import repair_and_restart
        return repair_and_restart(error)
    import random, types
    facts = {"python": sys.executable, "arguments": sys.argv[1:], "managed": os.environ.get("FINETUNE_MANAGED_ENV")}
    facts |= {module.__name__: module.__file__ for module in (click, random, types)}
    print(json.dumps(facts))
    return int(os.environ.get("STUB_EXIT", "0"))
"""


class StubPlugin:
    """A plugin folder, a data folder and an environment of variables in which nothing else is found."""

    def __init__(self, folder: Path) -> None:
        """Lay the plugin out below a folder."""
        self.folder = folder
        self.root = folder / "plug in"
        self.home = folder / "data home"
        self.cwd = folder / "work"
        self.bin = folder / "bin"
        for made in (self.root / "requirements", self.cwd, self.bin):
            made.mkdir(parents=True)
        self._lay_out_sources()
        wheels = [self.add_wheel(name.replace(".", "-"), f"{name.replace('.', '/')}.py") for name in CORE_MODULES]
        lock = "".join(f"{name}==1.0 --hash=sha256:{digest}\n" for name, digest in wheels)
        (self.root / "requirements" / "core.txt").write_text(lock, "utf-8")
        for tool in TOOLS:
            if found := shutil.which(tool):
                (self.bin / tool).symlink_to(found)
        (self.bin / "python3").symlink_to(Path(sys.executable).resolve())

    def _lay_out_sources(self) -> None:
        package = self.root / "scripts" / "llm_finetuning"
        package.mkdir(parents=True)
        for name in STANDARD_LIBRARY_ONLY:
            shutil.copy(PLUGIN_ROOT / "scripts" / "llm_finetuning" / f"{name}.py", package)
        (package / "cli.py").write_text(CLI, "utf-8")
        shutil.copy(PLUGIN_ROOT / "scripts" / "finetune", self.root / "scripts")
        (self.root / "bin").mkdir()
        shutil.copy(PLUGIN_ROOT / "bin" / "finetune", self.root / "bin")

    @property
    def wheels(self) -> Path:
        """The folder that pip finds packages in; without spaces, because pip splits its setting at them."""
        return self.folder / "wheels"

    def add_wheel(self, name: str, module: str, version: str = "1.0") -> tuple[str, str]:
        """Put a package of one empty module into the folder of wheels; returns its name and its SHA-256."""
        self.wheels.mkdir(exist_ok=True)
        info = f"{name.replace('-', '_')}-{version}.dist-info"
        files = {
            module: "",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{path},sha256={_urlsafe(text)},{len(text)}\n" for path, text in files.items())
        path = self.wheels / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            for inside, text in (*files.items(), (f"{info}/RECORD", f"{record}{info}/RECORD,,\n")):
                wheel.writestr(zipfile.ZipInfo(inside), text)  # without the time of day, so that digests repeat
        return name, hashlib.sha256(path.read_bytes()).hexdigest()

    def environ(self, **more: str) -> dict[str, str]:
        """Return the variables of a person without a network, whose packages lie in a folder."""
        return {
            "PATH": str(self.bin),
            "HOME": str(self.folder),
            "FINETUNE_HOME": str(self.home),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "UV_NO_CONFIG": "1",
            "UV_NO_INDEX": "1",
            "UV_OFFLINE": "1",
            "UV_FIND_LINKS": str(self.wheels),
            "UV_CACHE_DIR": str(self.folder / "uv-cache"),
            **more,
        }

    def offline(self) -> dict[str, str]:
        """Return the variables of a person whose package index does not answer."""
        return self.environ() | {
            "PIP_NO_INDEX": "0",
            "PIP_FIND_LINKS": "",
            "PIP_INDEX_URL": DEAD_INDEX,
            "UV_NO_INDEX": "0",
            "UV_OFFLINE": "0",
            "UV_FIND_LINKS": "",
            "UV_DEFAULT_INDEX": DEAD_INDEX,
            "UV_HTTP_RETRIES": "0",
        }

    @property
    def launcher(self) -> Path:
        """The launcher in this plugin."""
        return self.root / "scripts" / "finetune"

    @property
    def builder(self) -> list[str]:
        """The command behind a first call, as the launcher gives it."""
        program = self.root / "scripts" / "llm_finetuning" / "environment.py"
        return [str(self.bin / "python3"), "-I", "-B", str(program), "core"]

    @property
    def env(self) -> Path:
        """The environment's folder."""
        digest = hashlib.sha256((self.root / "requirements" / "core.txt").read_bytes()).hexdigest()
        return self.home / f"env-{digest[:16]}"

    @property
    def packages(self) -> Path:
        """The folder in the environment that its packages lie in."""
        return next(self.env.glob("lib/python*/site-packages"))

    def start(self, *arguments: str, environ: dict[str, str] | None = None) -> "subprocess.Popen[str]":
        """Start the launcher in its own process group."""
        return subprocess.Popen(
            [str(self.launcher), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environ or self.environ(),
            cwd=self.cwd,
            start_new_session=True,
        )

    def call(
        self, *arguments: str, command: list[str] | None = None, **more: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run the launcher, or another command in its place, to its end."""
        return self.run([*(command or [str(self.launcher)]), *arguments], self.environ(**more))

    def run(self, command: list[str], environ: dict[str, str]) -> "subprocess.CompletedProcess[str]":
        """Run a command in the working folder."""
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environ,
            cwd=self.cwd,
            check=False,
        )


def facts(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """Return what the stub CLI said of itself; fails with its errors where it did not run."""
    assert done.stdout, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def _urlsafe(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
