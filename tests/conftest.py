"""Fixtures that every test may ask for."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import runs
from llm_finetuning.cli import main

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


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
