"""A program's records arrive, and every way in which it can end is told, ends the reader, and leaves nothing."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from llm_finetuning import program
from llm_finetuning.errors import MachineryFailure, Refusal

PACKAGE = Path(program.__file__).parent
GONE_WITHIN_S = 10

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write an engine program with the given body of `work(job, send)`; returns its name."""
    engines = tmp_path / "llm_finetuning" / "engines"
    engines.mkdir(parents=True)
    for module in [*PACKAGE.glob("*.py"), PACKAGE / "engines" / "__init__.py", PACKAGE / "engines" / "protocol.py"]:
        shutil.copy(module, tmp_path / "llm_finetuning" / module.relative_to(PACKAGE))
    monkeypatch.setattr(program, "SCRIPTS", tmp_path)

    def write_program(body: str) -> str:
        head = "import os, signal, subprocess, sys, time\nfrom llm_finetuning.engines import protocol\n\n"
        work = "def work(job, send):\n" + textwrap.indent(textwrap.dedent(body), "    ")
        (engines / "trial.py").write_text(f"{head}{work}\n\nprotocol.serve(work)\n", "utf-8")
        return "trial"

    return write_program


def is_alive(pid: int) -> bool:
    """Return whether the process runs; one that waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def all_gone(pids: list[int]) -> bool:
    """Return whether the processes end within the time allowed."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while time.monotonic() < deadline:
        if not any(is_alive(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def test_records_arrive_in_order_whatever_is_printed(write: Write) -> None:
    """Printing to standard output, from Python or below it, does not touch the records."""
    name = write("""
        print("noise")
        os.write(1, b"deeper noise\\n")
        for number in range(2000):
            send({"kind": "group", "number": number, "text": job["text"]})
    """)
    text = "line\nbreak \u2028 \U0001f389 lone surrogate \ud800"

    records = list(program.run_program(name, {"text": text}, python=sys.executable))

    assert list(range(2000)) == [record["number"] for record in records]
    assert {text} == {record["text"] for record in records}


@pytest.mark.parametrize(
    ("kind", "error"), [("bad_input", Refusal), ("machinery", MachineryFailure)], ids=["bad input", "machinery"]
)
def test_a_failure_is_raised_with_all_its_lines_after_the_records(
    write: Write, kind: str, error: type[Refusal] | type[MachineryFailure]
) -> None:
    """What was sent before the failure is not lost."""
    name = write(f"""
        send({{"kind": "group"}})
        raise protocol.{kind}("one: a: mend", "two: b: mend")
    """)
    got = []

    with pytest.raises(error) as caught:
        got.extend(program.run_program(name, {}, python=sys.executable))

    assert caught.value.lines == ("one: a: mend", "two: b: mend")
    assert isinstance(caught.value, error)


def test_many_faults_are_counted_not_poured_out(write: Write) -> None:
    """A dataset that is wrong everywhere does not fill the screen."""
    name = write("raise protocol.bad_input(*[f'row {row}: bad' for row in range(500)])")

    with pytest.raises(Refusal) as caught:
        list(program.run_program(name, {}, python=sys.executable))

    assert len(caught.value.lines) == 21
    assert caught.value.lines[-1] == "... and 480 more of this kind"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("sys.stderr.write('torch says no\\n'); os._exit(7)", "exit code 7; its last line: torch says no"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "killed, probably out of memory"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
        ("{}['absent']", "exit code 1; its last line: KeyError: 'absent'"),
        ("raise MemoryError", "out of memory on the host"),
    ],
    ids=["exit", "SIGKILL", "SIGSEGV", "exception", "memory"],
)
def test_a_death_without_a_word_is_told(write: Write, body: str, expected: str) -> None:
    """The code or signal and the last line are what a person has to go on."""
    with pytest.raises(MachineryFailure, match=r"trial|memory") as caught:
        list(program.run_program(write(body), {}, python=sys.executable))

    assert expected in str(caught.value)


def test_a_missing_module_names_interpreter_and_module(write: Write) -> None:
    """The person has to know into which environment to install what."""
    with pytest.raises(Refusal) as caught:
        list(program.run_program(write("import torch_of_another_world"), {}, python=sys.executable))

    assert sys.executable in str(caught.value)
    assert "'torch_of_another_world'" in str(caught.value)


@pytest.mark.parametrize("python", ["/nowhere/python", "/etc/passwd"], ids=["absent", "no program"])
def test_an_interpreter_that_does_not_start_is_refused(write: Write, python: str) -> None:
    """A wrong --python is bad input, not a crash."""
    with pytest.raises(Refusal, match=rf"{python}: cannot be started"):
        list(program.run_program(write("pass"), {}, python=python))


def test_a_program_that_is_not_python_at_all_is_told() -> None:
    """`--python` may name any program; what it says is shown."""
    with pytest.raises(MachineryFailure, match="exit code 1"):
        list(program.run_program("protocol", {"long": "x" * (1 << 20)}, python="/bin/false"))


def test_a_stray_child_that_holds_the_pipe_does_not_hang_the_reader(write: Write) -> None:
    """A forked child that left the group keeps the results open after the program is gone."""
    name = write("""
        send({"kind": "group", "pid": 0})
        if (pid := os.fork()) == 0:
            os.setsid()
            time.sleep(8)
            os._exit(0)
        send({"kind": "group", "pid": pid})
    """)
    begun = time.monotonic()

    records = list(program.run_program(name, {}, python=sys.executable))

    assert time.monotonic() - begun < 6
    os.kill(records[-1]["pid"], signal.SIGKILL)


def test_closing_the_reader_ends_the_program_and_its_children(write: Write) -> None:
    """A command that stops early leaves no process working."""
    name = write("""
        child = subprocess.Popen(["sleep", "300"])
        send({"kind": "ready", "pids": [os.getpid(), child.pid]})
        time.sleep(300)
    """)

    with contextlib.closing(program.run_program(name, {}, python=sys.executable)) as records:
        pids = next(records)["pids"]
        assert all(is_alive(pid) for pid in pids)

    assert all_gone(pids)


def test_a_killed_parent_takes_the_program_with_it(write: Write, tmp_path: Path) -> None:
    """SIGKILL gives the parent no chance to say goodbye; the end of standard input does it."""
    name = write("""
        child = subprocess.Popen(["sleep", "300"])
        send({"kind": "ready", "pids": [os.getpid(), child.pid]})
        time.sleep(300)
    """)
    parent_program = (
        "import sys\nfrom llm_finetuning.program import run_program\n"
        f"for record in run_program({name!r}, {{}}, python=sys.executable):\n"
        "    print(*record['pids'], flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent_program], cwd=tmp_path, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        parent.kill()

    assert len(pids) == 2
    assert all_gone(pids)
