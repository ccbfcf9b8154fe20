"""The launcher as a person meets it: first calls, later calls, and all that can be wrong with a machine."""

import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llm_finetuning import PLUGIN_ROOT
from stub_plugin import StubPlugin, facts

OVERHEAD_S = 0.060  # what the issue allows the launcher to add to Python's own start
LONGEST_BUILD_S = 60.0
UV = shutil.which("uv") or shutil.which("uv", path=Path(sys.executable).parent)


class CalledPlugin(StubPlugin):
    """A plugin whose first call is over."""

    def __init__(self, folder: Path) -> None:
        """Lay it out and call it."""
        super().__init__(folder)
        self.first_call = self.call("score", "a b", "--json")


@pytest.fixture
def plugin(tmp_path: Path) -> StubPlugin:
    """A plugin that was never called."""
    return StubPlugin(tmp_path)


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory) -> CalledPlugin:
    """A plugin with its environment made; tests that break something take `broken`."""
    return CalledPlugin(tmp_path_factory.mktemp("called"))


@pytest.fixture
def broken(called: StubPlugin, plugin: StubPlugin) -> StubPlugin:
    """A plugin with a copy of a made environment, to be broken by the test."""
    shutil.copytree(called.home, plugin.home, symlinks=True)
    return plugin


def one_line(done: "subprocess.CompletedProcess[str]", code: int) -> str:
    """Return the line that a failed call ends with; progress may stand before it, a traceback nowhere."""
    assert code == done.returncode, done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout
    return done.stderr.splitlines()[-1]


def files_under(folder: Path) -> set[Path]:
    """Return every file below a folder."""
    return {path for path in folder.rglob("*") if path.is_file()}


# ---- a call that goes well


def test_first_call_says_what_it_makes_and_how_large(called: CalledPlugin) -> None:
    """One line names the folder and the size; the command runs in the new environment, arguments and all."""
    first = called.first_call

    assert first.stderr.count("\n") == 1
    assert f"preparing a Python environment in {called.env}, once (about 35 MB" in first.stderr
    assert facts(first)["python"] == str(called.env / "bin" / "python")
    assert facts(first)["arguments"] == ["score", "a b", "--json"]


def test_later_call_is_silent(called: StubPlugin) -> None:
    """Nothing but the command's own output."""
    done = called.call("status")

    assert not done.stderr
    assert str(called.env) == facts(done)["managed"]


def test_exit_code_is_the_commands(called: StubPlugin) -> None:
    """The gate's answer is an exit code, which the launcher must hand on."""
    assert called.call(STUB_EXIT="3").returncode == 3


def test_nothing_is_written_beside_the_sources(called: StubPlugin) -> None:
    """The plugin folder may be read-only: bytecode goes to the data folder, whatever the caller set."""
    before = files_under(called.root)
    for compiled in (called.home / "pycache").rglob("cli.*.pyc"):
        compiled.unlink()
    called.call(PYTHONDONTWRITEBYTECODE="1")
    assert list((called.home / "pycache").rglob("cli.*.pyc"))
    called.run(called.builder, called.environ())
    called.call(FINETUNE_PYTHON=str(called.env / "bin" / "python"))

    assert before == files_under(called.root)
    assert not [path for path in before if path.suffix == ".pyc"]


@pytest.mark.parametrize("way", ["bin", "link to bin", "chain of links", "relative", "sh", "dash"])
def test_every_way_to_call_it(called: StubPlugin, tmp_path: Path, way: str) -> None:
    """The plugin's folder is found through links, from another folder, and under every POSIX shell."""
    link, second = tmp_path / "finetune", tmp_path / "second"
    link.symlink_to(called.root / "bin" / "finetune")
    second.symlink_to("finetune")
    command = {
        "bin": [str(called.root / "bin" / "finetune")],
        "link to bin": [str(link)],
        "chain of links": [str(second)],
        "relative": [os.path.relpath(called.launcher, called.cwd)],
        "sh": ["sh", str(called.launcher)],
        "dash": ["dash", str(called.launcher)],
    }[way]
    if way == "dash" and not shutil.which("dash"):
        pytest.skip("dash is not installed")

    assert str(called.env) == facts(called.call(command=command))["managed"]


@pytest.mark.parametrize("script", ["scripts/finetune", "bin/finetune"])
def test_scripts_are_posix_and_executable(script: str) -> None:
    """What Debian's sh parses, every sh does."""
    path = PLUGIN_ROOT / script
    shell = shutil.which("dash") or "sh"

    assert os.access(path, os.X_OK)
    assert subprocess.run([shell, "-n", str(path)], check=False).returncode == 0


def test_hostile_working_folder(plugin: StubPlugin) -> None:
    """Files there that are named like real modules are never run, neither while building nor later."""
    for name in ("random", "types", "click", "json", "pip", "venv", "subprocess", "llm_finetuning"):
        (plugin.cwd / f"{name}.py").write_text("raise SystemExit('the working folder was imported')", "utf-8")
    first, later = plugin.call(), plugin.call()

    assert (first.returncode, later.returncode) == (0, 0), first.stderr + later.stderr
    here = str(plugin.cwd)
    assert not [value for value in facts(later).values() if value and value[: len(here)] == here]
    assert str(plugin.root) not in facts(later)["types"]


def test_start_costs_little(called: StubPlugin) -> None:
    """After the first call the launcher adds less than 60 ms of CPU time to Python's own start."""
    snippet = "import sys; sys.path.insert(0, sys.argv.pop(1)); from llm_finetuning.cli import main; main()"
    plain = [str(called.env / "bin" / "python"), "-c", snippet, str(called.root / "scripts")]
    environ = called.environ(PYTHONPYCACHEPREFIX=str(called.home / "pycache"))

    def cpu_s(command: list[str]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        called.run(command, environ)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    pairs = [(cpu_s([str(called.launcher)]), cpu_s(plain)) for _ in range(9)]
    added = statistics.median(launched - direct for launched, direct in pairs)

    assert added < OVERHEAD_S


# ---- calls at once, and calls that were killed


@pytest.mark.parametrize("count", [2, 5])
def test_first_calls_at_once(plugin: StubPlugin, count: int) -> None:
    """One makes the environment, the others wait for it; all run."""
    calls = [plugin.start(str(number)) for number in range(count)]
    ends = [call.communicate(timeout=LONGEST_BUILD_S) for call in calls]
    said = "".join(errors for _, errors in ends)

    assert [0] * count == [call.returncode for call in calls], said
    assert said.count("preparing a Python environment") == 1


def start_building(plugin: StubPlugin) -> "subprocess.Popen[bytes]":
    """Start the builder alone and return it in the middle of its work."""
    builder = subprocess.Popen(
        plugin.builder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=plugin.environ(),
        cwd=plugin.cwd,
        start_new_session=True,
    )
    until = time.monotonic() + LONGEST_BUILD_S
    while not (plugin.env / "pyvenv.cfg").exists():
        assert builder.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    return builder


@pytest.mark.parametrize("killed", ["builder alone", "builder and its pip"])
def test_killed_builder(plugin: StubPlugin, killed: str) -> None:
    """The lock dies with its last holder; an installer that outlives its parent is waited for."""
    builder = start_building(plugin)
    if killed == "builder alone":
        builder.kill()
    else:
        os.killpg(builder.pid, signal.SIGKILL)
    builder.wait()
    assert not (plugin.env / "complete").exists()
    done = plugin.call()

    assert done.returncode == 0, done.stderr
    assert ("waiting for it" in done.stderr) == (killed == "builder alone")


def test_interrupt_while_building(plugin: StubPlugin) -> None:
    """Ctrl-C ends the first call without a traceback, and the next call makes the environment."""
    builder = subprocess.Popen(
        plugin.builder,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=plugin.environ(),
        cwd=plugin.cwd,
    )
    while not (plugin.env / "pyvenv.cfg").exists():
        time.sleep(0.01)
    builder.send_signal(signal.SIGINT)
    _, said = builder.communicate()

    assert builder.returncode == 130
    assert said.splitlines()[-1] == "finetune: interrupted; the next call begins again"
    assert plugin.call().returncode == 0


# ---- an environment that broke


def test_dangling_interpreter(broken: StubPlugin) -> None:
    """The Python that the environment was made from is gone: the environment is made again."""
    python = broken.env / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3")

    assert "preparing a Python environment" in broken.call().stderr
    assert broken.call().stderr == ""


def test_lost_marker(broken: StubPlugin) -> None:
    """A folder without its marker was half-made, and is made again."""
    (broken.env / "complete").unlink()
    (broken.env / "stray").touch()

    assert broken.call().returncode == 0
    assert not (broken.env / "stray").exists()


def test_lost_package(broken: StubPlugin) -> None:
    """The environment is mended and the same command runs, arguments and all."""
    (broken.packages / "click.py").unlink()
    done = broken.call("score", "a b")

    assert f"{broken.env} is broken (No module named 'click')" in done.stderr
    assert facts(done)["arguments"] == ["score", "a b"]
    assert broken.call().stderr == ""


def test_lost_package_beside_extras(broken: StubPlugin) -> None:
    """Gigabytes of extras are kept: only the core packages are installed again."""
    (broken.packages / "click.py").unlink()
    (broken.env / "extra-train").write_text("gigabytes", "utf-8")
    done = broken.call()

    assert done.returncode == 0, done.stderr
    assert (broken.env / "extra-train").read_text("utf-8") == "gigabytes"


def test_lost_pip_beside_extras(broken: StubPlugin) -> None:
    """What cannot be mended is made again, extras or not."""
    (broken.packages / "click.py").unlink()
    shutil.rmtree(broken.packages / "pip")
    (broken.env / "extra-train").touch()

    assert broken.call().returncode == 0
    assert not (broken.env / "extra-train").exists()


def test_repair_that_does_not_help(broken: StubPlugin, tmp_path: Path) -> None:
    """Something outside the environment hides the package: one repair, then an end that names the cause."""
    hiding = tmp_path / "hiding"
    hiding.mkdir()
    (hiding / "click.py").write_text("raise ImportError('hidden', name='click')", "utf-8")
    line = one_line(broken.call(PYTHONPATH=str(hiding)), 4)

    assert f"{broken.env}: hidden, after a repair too; unset PYTHONPATH" in line


# ---- a machine that lacks something


def test_offline(plugin: StubPlugin) -> None:
    """A first call without a network says so, where pip's words are, and leaves nothing that looks made."""
    done = plugin.run([str(plugin.launcher)], plugin.offline())
    log = plugin.env.with_name(f"{plugin.env.name}.log")

    assert f"finetune: {plugin.env} is not made: cannot reach the package index" in one_line(done, 4)
    assert done.stderr.rstrip().endswith(f"(everything that was said: {log})")
    assert "Failed to establish a new connection" in log.read_text("utf-8")
    assert plugin.call().returncode == 0


def test_later_call_needs_no_network(called: StubPlugin) -> None:
    """Once made, the environment is enough."""
    assert called.run([str(called.launcher)], called.offline()).returncode == 0


def test_offline_repair_keeps_the_extras(broken: StubPlugin) -> None:
    """A repair that cannot reach the index ends in one line and takes nothing away."""
    (broken.packages / "click.py").unlink()
    (broken.env / "extra-train").touch()
    done = broken.run([str(broken.launcher)], broken.offline())

    assert "is not mended: cannot reach the package index" in one_line(done, 4)
    assert (broken.env / "extra-train").exists()


def test_wrong_hash(plugin: StubPlugin) -> None:
    """A package that is not the locked one is refused."""
    plugin.add_wheel("click", "click/evil.py")

    assert "serves another file than the lock names" in one_line(plugin.call(), 4)


def test_no_python(plugin: StubPlugin) -> None:
    """No Python, or only one that is a dead shim, or too old."""
    (plugin.bin / "python3").unlink()
    for name, program in (("python3", "#!/bin/sh\nexit 127\n"), ("python", "#!/bin/sh\nexit 1\n")):
        (plugin.bin / name).write_text(program, "utf-8")
        (plugin.bin / name).chmod(0o755)

    assert "finetune: no Python 3.10 or newer on PATH: install one" in one_line(plugin.call(), 4)


def test_dead_shim_before_a_python(broken: StubPlugin) -> None:
    """A pyenv shim that is there and fails is passed over."""
    (broken.bin / "sha256sum").unlink()  # makes every call look for a Python
    (broken.bin / "python3").rename(broken.bin / "python3.12")
    (broken.bin / "python3").write_text("#!/bin/sh\necho 'pyenv: command not found' >&2\nexit 127\n", "utf-8")
    (broken.bin / "python3").chmod(0o755)

    assert broken.call().returncode == 0


def test_no_digest_program(called: StubPlugin, plugin: StubPlugin) -> None:
    """Without sha256sum, shasum and openssl the builder answers where the environment is."""
    (plugin.bin / "sha256sum").unlink()
    done = called.call(PATH=str(plugin.bin))

    assert str(called.env) == facts(done)["managed"]
    assert not done.stderr


def test_data_folder_that_cannot_be_made(plugin: StubPlugin) -> None:
    """The folder is named, and the variable that moves it."""
    (plugin.folder / "file").touch()
    line = one_line(plugin.call(FINETUNE_HOME=str(plugin.folder / "file" / "below")), 4)

    assert f"{plugin.folder / 'file' / 'below'}: " in line
    assert "set FINETUNE_HOME to a folder you can write" in line


def test_no_home(plugin: StubPlugin) -> None:
    """Without any folder to keep an environment in, the variables are named."""
    environ = plugin.environ()
    del environ["HOME"], environ["FINETUNE_HOME"]

    assert "set HOME, or FINETUNE_HOME" in one_line(plugin.run([str(plugin.launcher)], environ), 4)


@pytest.mark.parametrize(
    ("variable", "below"), [("XDG_DATA_HOME", "llm-finetuning"), ("HOME", ".local/share/llm-finetuning")]
)
def test_default_data_folder(called: StubPlugin, plugin: StubPlugin, variable: str, below: str) -> None:
    """Without FINETUNE_HOME the launcher and the builder follow the same rule."""
    data = plugin.folder / "given" / below
    data.parent.mkdir(parents=True, exist_ok=True)
    data.symlink_to(called.home)
    environ = plugin.environ() | {variable: str(plugin.folder / "given")}
    del environ["FINETUNE_HOME"]
    launched = plugin.run([str(plugin.launcher)], environ)
    built = plugin.run(plugin.builder, environ)

    assert f"{data}/env-" in facts(launched)["python"]
    assert facts(launched)["python"] == built.stdout.strip()


def test_full_disk(plugin: StubPlugin) -> None:
    """A disk without room is noticed before anything is downloaded."""
    mounted = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=2m none "$1" && exec "$2"', "sh"]
    plugin.home.mkdir()
    path = os.environ["PATH"]
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a small disk of their own")
    environ = plugin.environ(PATH=f"{plugin.bin}:{path}")
    done = plugin.run([*mounted, str(plugin.home), str(plugin.launcher)], environ)

    assert "needs about 0.3 GB and the disk has 0.0 GB free" in one_line(done, 4)


# ---- an interpreter of the person's own


def test_own_interpreter(called: StubPlugin, plugin: StubPlugin) -> None:
    """It is used as it is, and no environment is made."""
    own = called.env / "bin" / "python"
    done = plugin.call("x", FINETUNE_PYTHON=str(own))

    assert facts(done)["python"] == str(own)
    assert facts(done)["managed"] is None
    assert not plugin.env.exists()


def test_own_interpreter_without_any_home(called: StubPlugin, tmp_path: Path) -> None:
    """In a container with a read-only home it still runs."""
    (tmp_path / "file").touch()
    own = str(called.env / "bin" / "python")

    assert called.call(FINETUNE_PYTHON=own, FINETUNE_HOME=str(tmp_path / "file" / "below")).returncode == 0


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (None, "does not run as Python 3: name an interpreter, or unset it"),
        ("#!/bin/sh\nexit 0\n", "does not run as Python 3"),
        ("#!/bin/sh\necho False 3.8.18\n", "is Python 3.8.18: name one that is 3.10 or newer"),
    ],
)
def test_bad_interpreter(plugin: StubPlugin, program: str | None, says: str) -> None:
    """Not there, no Python, too old: bad input, in one line."""
    path = plugin.folder / "own"
    if program is not None:
        path.write_text(program, "utf-8")
        path.chmod(0o755)
    line = one_line(plugin.call(FINETUNE_PYTHON=str(path)), 2)

    assert line.startswith(f"finetune: FINETUNE_PYTHON={path} {says}")


def test_own_interpreter_without_the_packages(plugin: StubPlugin) -> None:
    """The command that installs them is printed, ready to paste."""
    folder = plugin.folder / "bare"
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", str(folder)], check=True)
    bare = folder / "bin" / "python"
    line = one_line(plugin.call(FINETUNE_PYTHON=str(bare)), 2)

    assert "No module named 'click'; install what the CLI needs" in line
    assert line.endswith(f"{bare} -m pip install --require-hashes -r '{plugin.root}/requirements/core.txt'")


# ---- uv


def test_uv_makes_it_where_it_is_there(plugin: StubPlugin) -> None:
    """The environment is uv's, and holds pip, which installs the extras."""
    if UV is None:
        pytest.skip("uv is neither on PATH nor beside this Python")
    (plugin.bin / "uv").symlink_to(UV)
    import ensurepip

    for wheel in (Path(ensurepip.__file__).parent / "_bundled").glob("*.whl"):
        shutil.copy(wheel, plugin.wheels)
    for seed in ("setuptools", "wheel"):
        plugin.add_wheel(seed, f"{seed}/__init__.py", "99.0")
    done = plugin.call()

    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "uv = " in (plugin.env / "pyvenv.cfg").read_text("utf-8")
    assert (plugin.packages / "pip").is_dir()


def test_uv_that_fails(plugin: StubPlugin) -> None:
    """Venv and pip get their turn: they may know a mirror that uv does not."""
    (plugin.bin / "uv").write_text("#!/bin/sh\necho 'error: no idea' >&2\nexit 2\n", "utf-8")
    (plugin.bin / "uv").chmod(0o755)
    done = plugin.call()

    assert done.returncode == 0, done.stderr
    assert "uv could not; trying venv and pip" in done.stderr


# ---- the real lock


def test_real_lock(tmp_path: Path) -> None:
    """The shipped lock installs, and the real CLI runs on it."""
    environ = {**os.environ, "FINETUNE_HOME": str(tmp_path / "home")}
    environ.pop("FINETUNE_PYTHON", None)
    command = [str(PLUGIN_ROOT / "scripts" / "finetune"), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=tmp_path, check=False)
    if "cannot reach the package index" in done.stderr:
        pytest.skip("the package index cannot be reached")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("finetune, version ")
