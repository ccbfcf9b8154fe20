"""The terminal form of `review`, played through a real pseudo-terminal."""

import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
import tty
from pathlib import Path

import pytest

import runs
from llm_finetuning import artifact
from llm_finetuning.types import Label

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
START = "import sys; sys.path[0] = sys.argv.pop(1); from llm_finetuning.cli import main; sys.exit(main())"


class Terminal:
    """A process behind a pseudo-terminal, which stays open as under a shell: keys in, what is on screen out."""

    def __init__(self, *arguments: object) -> None:
        """Start `finetune` with these arguments."""
        self.master, self.slave = pty.openpty()
        command = [sys.executable, "-c", START, str(SCRIPTS), *map(str, arguments)]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
        place = self.slave
        self.process = subprocess.Popen(command, stdin=place, stdout=place, stderr=place, env=environment)
        self.shown = ""
        self.cursor = 0  # what was waited for before does not count again

    def until(self, words: str, seconds: float = 30.0) -> str:
        """Read the screen until `words` are on it and return what came since the last call."""
        begun, deadline = self.cursor, time.monotonic() + seconds
        while words not in self.shown[begun:]:
            if time.monotonic() > deadline:
                self.process.kill()
                self.process.wait()
                pytest.fail(f"not shown: {words!r} in {self.shown[begun:]!r}")
            if select.select([self.master], [], [], 0.2)[0]:
                self.shown += os.read(self.master, 65536).decode("utf-8", "replace")
        self.cursor = self.shown.find(words, begun) + len(words)
        return self.shown[begun : self.cursor]

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self.master, keys.encode())

    def answer(self, keys: str) -> None:
        """Press one key a sample, of three, each when its screen is whole."""
        for place, key in enumerate(keys):
            self.until(f"sample {place + 1} of 3")
            self.until("q stop")
            self.press(key)

    def end(self) -> int:
        """Wait for the end and return the exit code."""
        code = self.process.wait(30)
        os.close(self.master)
        os.close(self.slave)
        return code

    def left(self) -> bytes:
        """Wait for the end and return the keys that the next program on this terminal, as a shell, would read."""
        self.process.wait(30)
        tty.setraw(self.slave, termios.TCSANOW)
        return os.read(self.slave, 4096) if select.select([self.slave], [], [], 0.2)[0] else b""


def labels(run_dir: Path) -> list[tuple[str, str]]:
    return [(label.verdict, label.note) for label in artifact.read_lines(run_dir / "labels.jsonl", Label).records]


@pytest.fixture
def sampled(run_dir: Path) -> Path:
    runs.write_samples(run_dir)
    return run_dir


@pytest.mark.parametrize("back", ["k", "b"])
def test_reading_labels_noting_and_going_back(sampled: Path, back: str) -> None:
    """Each key does what the line at the bottom says, and each label is on disk before the next screen.

    The key that goes back is that of the page; its earlier name is still taken.
    """
    terminal = Terminal("review", sampled, "--terminal", "--reader", "ada", "--count", "3")
    assert "n note   k back   q stop" in terminal.until("q stop")
    terminal.press("a")
    terminal.until("sample 2 of 3")
    terminal.until("q stop")
    assert [("accept", "")] == labels(sampled)
    terminal.press("n")
    terminal.until("note: ")
    terminal.press("odd one\n")
    terminal.until("q stop")
    terminal.press("r")
    terminal.until("sample 3 of 3")
    terminal.until("q stop")
    terminal.press(back)
    assert "your label: reject odd one" in terminal.until("q stop")
    terminal.press("u")
    terminal.until("q stop")
    terminal.press("q")
    terminal.until("next: finetune ")
    assert terminal.end() == 0
    assert [("accept", ""), ("reject", "odd one"), ("unsure", "")] == labels(sampled)


def test_reader_comes_back_to_the_first_unread(sampled: Path) -> None:
    """A second sitting begins where the first ended."""
    first = Terminal("review", sampled, "--terminal", "--reader", "ada", "--count", "3")
    first.until("q stop")
    first.press("a")
    first.until("sample 2 of 3")
    first.until("q stop")
    first.process.kill()  # the window was closed
    first.end()
    second = Terminal("review", sampled, "--terminal", "--reader", "ada", "--count", "3")
    assert "sample 2 of 3" in second.until("q stop")
    second.press("q")
    second.until("next:")
    assert second.end() == 0


def test_completion_cannot_drive_the_terminal(run_dir: Path) -> None:
    """Escape sequences and markup in a completion are shown, not obeyed."""
    runs.write_samples(run_dir, text_of=lambda i, index: "\x1b[2J\x1b]0;owned\x07[bold red]x[/] \u202egnp.exe")
    terminal = Terminal("review", run_dir, "--terminal", "--reader", "ada", "--count", "1")
    shown = terminal.until("q stop")
    terminal.press("q")
    terminal.until("next:")
    terminal.end()

    assert "]0;owned" in shown
    assert "\x1b]0;" not in shown
    assert "[bold red]x[/]" in re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "\u202e" not in shown


def test_arrow_keys_are_no_verdicts(sampled: Path) -> None:
    """An arrow key comes as escape, bracket, letter; its letter A must not accept."""
    terminal = Terminal("review", sampled, "--terminal", "--reader", "ada", "--count", "2")
    terminal.until("q stop")
    for keys in ("\x1b[A", "\x1bOA", "\x1b[1;5R", "\x1b"):
        terminal.press(keys)
        terminal.until("q stop")
    terminal.press("q")
    terminal.until("next:")
    assert terminal.end() == 0
    assert labels(sampled) == []


@pytest.mark.parametrize("keys", ["rraq", "rq\nls\n", "q"], ids=["hasty", "lines", "stopped"])
def test_no_key_is_left_to_the_shell(sampled: Path, keys: str) -> None:
    """What was typed ahead of the end goes nowhere, however the sitting ends."""
    terminal = Terminal("review", sampled, "--terminal", "--reader", "ada", "--count", "2")
    terminal.until("q stop")
    terminal.press("a")
    terminal.until("sample 2 of 2")
    terminal.until("q stop")
    terminal.press(keys + "ar" * 20)
    terminal.until("next:")

    assert terminal.left() == b""
    assert terminal.end() == 0
    assert labels(sampled) == [("accept", ""), ("reject", "")][: 2 if "r" in keys else 1]


def test_a_key_that_comes_a_moment_late_is_dropped_too(sampled: Path) -> None:
    """Who types at reading speed presses once more before the end is on the screen."""
    terminal = Terminal("review", sampled, "--terminal", "--reader", "ada", "--count", "1")
    terminal.until("q stop")
    for _ in range(6):
        terminal.press("a")
        time.sleep(0.15)
    terminal.until("next:")

    assert terminal.left() == b""
    assert terminal.end() == 0
    assert labels(sampled) == [("accept", "")]


def test_the_end_says_what_was_labelled_and_what_comes_next(sampled: Path) -> None:
    """The last sample is off the screen; a second sitting finds nothing to read and says the same."""
    for keys in ("aur", ""):
        terminal = Terminal("review", sampled, "--terminal", "--reader", "ada", "--count", "3")
        terminal.answer(keys)
        last = terminal.until("next: finetune ")
        _, cleared, screen = last.rpartition("\x1b[2J")

        assert cleared
        assert "all 3 samples are read: 1 accepted, 1 rejected, 1 left unsure\r\n" in screen
        assert f"{len(keys)} labels added (reader ada), 2 of 75 samples judged" in screen
        assert terminal.end() == 0


@pytest.mark.parametrize("current", [True, False], ids=["current", "stale"])
def test_what_the_rewards_paid_is_shown_to_who_has_decided(sampled: Path, *, current: bool) -> None:
    """Never before, where it would sway the reader, and never scores of another reward."""
    runs.examine(sampled)
    if not current:
        text = (sampled / "brief.yaml").read_text()
        (sampled / "brief.yaml").write_text(text.replace("extract: last_number", "extract: whole"))
    terminal = Terminal("review", sampled, "--terminal", "--reader", "ada", "--count", "3")
    before = terminal.until("q stop")
    terminal.press("a")
    terminal.until("sample 2 of 3")
    before += terminal.until("q stop")
    terminal.press("k")
    after = terminal.until("q stop")
    terminal.press("q")
    terminal.until("next:")
    assert terminal.end() == 0
    assert "your label: accept" in after
    assert "rewards" not in before
    assert ("what the rewards paid" in after, "weighted sum: " in after) == (current, current)
    assert ("exact_answer: " in after) == current


def test_a_sitting_without_a_label_says_nothing_of_a_file(sampled: Path) -> None:
    """Nothing was written; one label is enough to say where it stands."""
    for keys in ("q", "aq"):
        terminal = Terminal("review", sampled, "--terminal", "--reader", "ada", "--count", "3")
        terminal.answer(keys)
        end = terminal.until("next: ")
        assert terminal.end() == 0
        assert f"{len(keys) - 1} labels added" in end
        assert ("wrote: " in end) == (keys == "aq")


@pytest.mark.parametrize(("key", "named"), [("x", "x"), ("\x1b[A", "escape"), ("\t", "'\\t'")])
def test_an_unknown_key_is_answered_with_those_there_are(sampled: Path, key: str, named: str) -> None:
    """Once: the screen after the next key is as before; a known key is answered with nothing."""
    terminal = Terminal("review", sampled, "--terminal", "--reader", "ada", "--count", "2")
    assert "no such key" not in terminal.until("q stop")
    terminal.press(key)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal.until("q stop"))
    assert f"no such key: {named}; there are\r\na accept   r reject   u unsure   n note   k back   q stop" in shown
    terminal.press("a")
    terminal.until("sample 2 of 2")
    assert "no such key" not in terminal.until("q stop")
    terminal.press("q")
    terminal.until("next:")
    assert terminal.end() == 0
