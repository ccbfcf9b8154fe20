"""What a command prints: facts to standard output, progress to standard error."""

import contextlib
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from llm_finetuning.errors import Interrupted
from llm_finetuning.rewards.invisible import INVISIBLE
from llm_finetuning.strict_json import strict

QUIET_LINE_EVERY_S = 5.0
BATCH_GAP_S = 0.5
_MINUTE_S, _HOUR_S = 60, 3600

# Beside what nobody sees, where a reader reads 42 and a reward something else: control characters but for tab and line
# feed, and halves of surrogate pairs, which no encoding takes.
_HIDDEN = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff{INVISIBLE}]")


def finish(lines: list[str], facts: dict[str, Any], *, as_json: bool) -> None:
    """Print the result: one JSON object with `--json`, a few lines of text without."""
    # ASCII alone: JSON escapes what a terminal could obey, and its reader gets every character back.
    text = json.dumps(strict(facts), indent=1, allow_nan=False) if as_json else visible("\n".join(lines))
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Print one line of progress."""
    sys.stderr.write(visible(text) + "\n")
    sys.stderr.flush()


def visible(text: str) -> str:
    """Return text with control characters shown instead of obeyed: completions reach a terminal through here.

    Escape sequences could repaint the screen, and bidirectional overrides show another order than was written.
    """
    return _HIDDEN.sub(_shown, text)


def _shown(hidden: re.Match[str]) -> str:
    code = ord(hidden.group())
    return chr(0x2400 + code) if code < 0x20 else f"<U+{code:04X}>"  # noqa: PLR2004  the block of control pictures


def duration(seconds: float) -> str:
    """Return a time as a person says it: `0.25 s`, `45 s`, `3 min`, `2.5 h`."""
    if seconds < 2 * _MINUTE_S:
        return f"{seconds:.3g} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004  of long ones no parts
    return f"{seconds / _MINUTE_S:.0f} min" if seconds < 2 * _HOUR_S else f"{seconds / _HOUR_S:.1f} h"


@contextlib.contextmanager
def goes_on_with(line: str | None) -> Iterator[None]:
    """Let Ctrl-C name the line that goes on with what was begun, where the one that was typed would begin anew.

    For the part of a verb in which an option such as `--fresh` has done its work; nothing where `line` is None.
    """
    try:
        yield
    except KeyboardInterrupt:
        if line is None:
            raise
        raise Interrupted(f"interrupted; what was written is kept, and `{line}` goes on with it") from None


class _Pace:
    """How fast items come, taken where they come: an engine hands over a whole batch at once, and is then silent."""

    def __init__(self, left: int) -> None:
        """Begin now, with so many items to come."""
        self.begun = self.latest = time.monotonic()
        self.count, self._left = 0, left

    def advance(self, n: int) -> None:
        """Count items that have come just now."""
        self.count, self.latest = self.count + n, time.monotonic()

    @property
    def speed(self) -> float:
        """Items a second, over all that have come."""
        return self.count / max(self.latest - self.begun, 1e-9)

    @property
    def seconds_left(self) -> float:
        """The time of an item, over all that have come, for each that has not; as of the latest."""
        return (self._left - self.count) / max(self.speed, 1e-9)


@contextlib.contextmanager
def progress(what: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Show a bar with rate and remaining time on a terminal, a line now and then elsewhere; yields `advance(n)`."""
    if sys.stderr.isatty():
        with _bar(what, total, done) as advance:
            yield advance
        return
    pace = _Pace(total - done)
    told = pace.begun

    def advance_quietly(n: int) -> None:
        nonlocal told
        now = time.monotonic()
        # A rate taken in the middle of a batch would be far too low.
        if pace.count and now - told >= QUIET_LINE_EVERY_S and now - pace.latest > BATCH_GAP_S:
            told = now
            left = f"{pace.seconds_left:.0f} s left"
            note(f"{what}: {done + pace.count} of {total}, {pace.speed:.1f} a second, {left}")
        pace.advance(n)

    yield advance_quietly
    if time.monotonic() - pace.begun >= QUIET_LINE_EVERY_S:
        note(f"{what}: {done + pace.count} of {total}")


@contextlib.contextmanager
def _bar(what: str, total: int, done: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[pace]}"),  # rich's own time left is taken from the last burst of a batch
    )
    pace = _Pace(total - done)
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total, completed=done, pace="")

        def advance(n: int) -> None:
            pace.advance(n)
            bar.update(task, advance=n, pace=f"{pace.speed:.1f}/s, {duration(round(pace.seconds_left))} left")

        yield advance
