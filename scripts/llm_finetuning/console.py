"""What a command prints: facts to standard output, progress to standard error."""

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from llm_finetuning.strict_json import strict

QUIET_LINE_EVERY_S = 5.0
BATCH_GAP_S = 0.5


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
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    code = ord(character)
    if character in "\n\t" or (code >= 0x20 and not 0x7F <= code < 0xA0 and not _hides(code) and not _lone(code)):  # noqa: PLR2004
        return character
    return chr(0x2400 + code) if code < 0x20 else f"<U+{code:04X}>"  # noqa: PLR2004  the block of control pictures


# Marks of direction, and letters of no width: the reader would see 42 where a reward sees something else.
_UNSEEN = frozenset((0x061C, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2060, 0xFEFF))


def _hides(code: int) -> bool:
    return 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069 or code in _UNSEEN  # noqa: PLR2004


def _lone(code: int) -> bool:
    return 0xD800 <= code <= 0xDFFF  # noqa: PLR2004  a surrogate, which no encoding takes


@contextlib.contextmanager
def progress(what: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Show a bar with rate and remaining time on a terminal, a line now and then elsewhere; yields `advance(n)`."""
    if sys.stderr.isatty():
        with _bar(what, total, done) as advance:
            yield advance
        return
    begun = told = latest = time.monotonic()
    count = 0

    def advance_quietly(n: int) -> None:
        nonlocal count, told, latest
        now = time.monotonic()
        # An engine hands over a whole batch at once; a rate taken in its middle would be far too low.
        if count and now - told >= QUIET_LINE_EVERY_S and now - latest > BATCH_GAP_S:
            told = now
            speed = count / (latest - begun)
            left = (total - done - count) / speed
            note(f"{what}: {done + count} of {total}, {speed:.1f} a second, {left:.0f} s left")
        latest, count = now, count + n

    yield advance_quietly
    if time.monotonic() - begun >= QUIET_LINE_EVERY_S:
        note(f"{what}: {done + count} of {total}")


@contextlib.contextmanager
def _bar(what: str, total: int, done: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    begun = time.monotonic()
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total, completed=done, speed="")
        count = 0

        def advance(n: int) -> None:
            nonlocal count
            count += n
            bar.update(task, advance=n, speed=f"{count / max(time.monotonic() - begun, 1e-9):.1f}/s")

        yield advance
