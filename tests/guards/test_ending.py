"""How train.py takes its folder and leaves it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "scripts"
PATHS = [str(ROOT / "llm_finetuning" / "templates" / "run"), str(ROOT)]

PROGRAM = f"""
import sys
sys.path[:0] = {PATHS!r}
from pathlib import Path
from guards import ending
with ending.recorded(Path(sys.argv[1])):
    print("begun", flush=True)
    exec(sys.argv[2])
"""


def start(here: Path, work: str, **environ: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", PROGRAM, str(here), work]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env={"PATH": "", **environ})


def test_one_start_at_a_time_without_a_supervisor(tmp_path: Path) -> None:
    """`bash launch.sh` beside a run at work is refused, and says nothing about how that one ended."""
    first = start(tmp_path, "input()")
    assert first.stdout is not None
    assert first.stdout.readline() == "begun\n"
    second = start(tmp_path, "pass")
    said = second.communicate(timeout=20)[1]
    assert second.returncode == 2
    assert "it trains already" in said
    assert not (tmp_path / "logs" / "outcome.json").exists()
    assert json.loads((tmp_path / "logs" / "run.lock").read_text())["pid"] == first.pid
    first.communicate("\n", timeout=20)
    assert first.returncode == 0
    assert json.loads((tmp_path / "logs" / "outcome.json").read_text())["state"] == "finished"


def test_below_the_supervisor_the_folder_is_its_own(tmp_path: Path) -> None:
    """The lock that the supervisor handed on is not asked for again."""
    process = start(tmp_path, "pass", FINETUNE_LOCK_FD="7")
    process.communicate(timeout=20)
    assert process.returncode == 0
    assert not (tmp_path / "logs" / "run.lock").exists()


def test_the_outcome_holds_no_credentials(tmp_path: Path) -> None:
    """What an exception says reaches files and terminals later."""
    work = "import os; raise ValueError('boom ' + os.environ['MY_API_KEY'] + ' https://user:passw0rd@host')"
    process = start(tmp_path, work, MY_API_KEY="sekret-12345")
    process.communicate(timeout=20)
    assert process.returncode == 4
    reason = json.loads((tmp_path / "logs" / "outcome.json").read_text())["reason"]
    assert reason == "ValueError: boom [hidden] https://[hidden]@host"


@pytest.mark.parametrize(
    ("work", "code", "state"),
    [
        ("raise ending.refuse('a: wrong; mend it', 'b: too')", 2, "failed"),
        ("raise OSError(28, 'No space left on device')", 4, "failed"),
        ("pass", 0, "finished"),
    ],
    ids=["refused", "disk full", "finished"],
)
def test_every_way_out_is_written_down(tmp_path: Path, work: str, code: int, state: str) -> None:
    """The exit code is the outcome's."""
    process = start(tmp_path, work)
    process.communicate(timeout=20)
    outcome = json.loads((tmp_path / "logs" / "outcome.json").read_text())
    assert (process.returncode, outcome["exit_code"], outcome["state"]) == (code, code, state)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """One line instead of a traceback."""
    (tmp_path / "logs").write_text("a file")
    process = start(tmp_path, "pass")
    said = process.communicate(timeout=20)[1]
    assert process.returncode == 4
    assert "logs: cannot be written" in said
    assert "Traceback" not in said
