"""`sample --fresh`, interrupted: the line that it names goes on, and the line that was typed is not it."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import runs
from engines.endpoint_stub import Answer, StubServer

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
START = "import sys; sys.path[0] = sys.argv.pop(1); from llm_finetuning.cli import main; sys.exit(main())"

Finetune = Callable[..., tuple[int, str, str]]


class Slow:
    """A server that answers so many requests at once, and then waits to be let go."""

    def __init__(self, answers: int) -> None:
        """Answer so many at once."""
        self.answers = answers

    def __call__(self, route: str, _body: dict[str, Any], _count: int) -> Answer:
        """Answer when there is leave to."""
        if route == "/models":
            return 200, {}, {"data": [{"id": "smol", "max_model_len": 2048}]}
        self.answers -= 1
        while self.answers < 0:
            time.sleep(0.02)
        return (
            200,
            {},
            {"choices": [{"index": 0, "finish_reason": "stop", "text": "2"}], "usage": {"completion_tokens": 1}},
        )


@pytest.fixture
def slow() -> Slow:
    """What the server does."""
    return Slow(10_000)


@pytest.fixture
def served(tmp_path: Path, slow: Slow) -> Iterator[Path]:
    """A run that samples from that server, one request at a time."""
    server = StubServer(slow)
    endpoint = f"engine: endpoint, endpoint: {{url: {server.url}, model: smol, concurrency: 1}}}}\n"
    text = runs.BRIEF.replace("max_completion_length: 16}\n", f"max_completion_length: 16, {endpoint}")
    yield runs.write_run(tmp_path / "run", text=text)
    slow.answers = 10_000
    server.close()


def lines_of(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()[1:] if path.exists() else []


def test_ctrl_c_after_fresh_names_the_line_that_goes_on(served: Path, slow: Slow, finetune: Finetune) -> None:
    """Once more with the option would set aside what was drawn; the named line draws the rest and nothing else."""
    assert finetune("sample", served)[0] == 0
    slow.answers = 24
    path = served / "samples.jsonl"
    before = path.read_bytes()
    command = [sys.executable, "-c", START, str(SCRIPTS), "sample", str(served), "--fresh", "--python", sys.executable]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not ((served / "samples.1.jsonl").exists() and len(lines_of(path)) >= 8):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    line = f"finetune sample {served} --python {sys.executable}"
    assert process.returncode == 130
    assert f"interrupted; what was written is kept, and `{line}` goes on with it" in err
    begun = lines_of(path)
    assert 8 <= len(begun) < 75
    assert (served / "samples.1.jsonl").read_bytes() == before

    slow.answers = 10_000
    code, out, _ = finetune(*line.split()[1:])
    assert code == 0
    assert lines_of(path)[: len(begun)] == begun
    assert len(lines_of(path)) == 75
    assert not (served / "samples.2.jsonl").exists()
    assert f"wrote: {path}\n" in out


def test_ctrl_c_before_anything_was_set_aside(served: Path, finetune: Finetune) -> None:
    """The samples that were there are there as they were, and the line that was typed is the right one still."""
    assert finetune("sample", served)[0] == 0
    path = served / "samples.jsonl"
    before = path.read_bytes()
    program = "import signal, time; signal.signal(2, signal.default_int_handler); "
    program += "from llm_finetuning.sampling import drawing; drawing._ready = lambda *a: time.sleep(60); "
    start = START.replace("from llm_finetuning.cli", f"{program}from llm_finetuning.cli")
    command = [sys.executable, "-c", start, str(SCRIPTS), "sample", str(served), "--fresh"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "starting the endpoint engine" in process.stderr.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "interrupted; what was written is kept, run it again to go on" in err
    assert path.read_bytes() == before
    assert not (served / "samples.1.jsonl").exists()


def test_a_finished_file_is_not_said_to_be_written(served: Path, finetune: Finetune) -> None:
    """It is there already; with `--fresh` it is written."""
    path = served / "samples.jsonl"
    assert f"wrote: {path}\n" in finetune("sample", served)[1]
    out = finetune("sample", served)[1]
    assert "wrote: " not in out
    assert f"is there already: {path}; nothing was drawn\n" in out
    assert json.loads(finetune("sample", served, "--json")[1])["wrote"] is None
    assert f"wrote: {path}\n" in finetune("sample", served, "--fresh")[1]
