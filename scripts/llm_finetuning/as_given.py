"""A run directory in what is said to a person, as that person named it: a brief that was read knows its absolute path.

What a command prints is pasted into the shell it came from, and `my-run` on one line beside its absolute path on the
next looks like two runs.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from llm_finetuning.errors import Stop


@contextlib.contextmanager
def refusals(run_dir: Path) -> Iterator[None]:
    """Let refusals and failures name the run directory as it was given."""
    try:
        yield
    except Stop as stop:
        stop.lines = tuple(said(line, run_dir) for line in stop.lines)
        stop.args = ("\n".join(stop.lines),)
        raise


def said(text: str, run_dir: Path) -> str:
    """Return a text with the absolute path of a run directory, and of what is in it, as it was given."""
    own = str(run_dir.resolve())
    if own == str(run_dir) or own == "/":
        return text
    return re.sub(rf"(?<![\w./-]){re.escape(own)}(?![\w-]|\.\w)", lambda _: str(run_dir), text)


def said_with_followers(text: str, run_dir: Path) -> str:
    """Return likewise a text that may also name a run beside it which follows on it (RUN-2, RUN-sft)."""
    text = said(text, run_dir)
    if run_dir.is_absolute():
        return text
    own = run_dir.resolve()
    beside = Path(os.path.relpath(own.parent)) / own.name  # of `.` that is `../run`
    return re.sub(rf"(?<![\w./-]){re.escape(str(own))}(?=-\w)", lambda _: str(beside), text)
