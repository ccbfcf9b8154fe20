"""How a run ended, as one file; standard library only, because the supervisor writes it when the trainer cannot."""

import json
import os
import time
from pathlib import Path
from typing import Any

from guards import credentials

FINISHED, STOPPED, FAILED = "finished", "stopped", "failed"

EXIT_DONE = 0
EXIT_NO = 1  # the gate refuses, or a guard stopped the run
EXIT_BAD_INPUT = 2
EXIT_MACHINERY = 4


def path_in(here: Path) -> Path:
    """Return the outcome's place in a run folder."""
    return here / "logs" / "outcome.json"


def write(here: Path, state: str, reason: str, *, global_step: int, exit_code: int) -> None:
    """Write the outcome in one piece; the rank that calls it first in a run is believed."""
    path = path_in(here)
    path.parent.mkdir(parents=True, exist_ok=True)
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    body = {
        "state": state,
        "reason": credentials.hidden(reason),
        "global_step": global_step,
        "exit_code": exit_code,
        "at": at,
    }
    draft = path.with_name(f".outcome.{os.getpid()}")
    draft.write_text(json.dumps(body, indent=1) + "\n", "utf-8")
    try:
        os.link(draft, path)  # fails where one is there: what stops a run is the first cause, not the last symptom
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def read(here: Path) -> dict[str, Any] | None:
    """Return the outcome of the last start, or None while it runs or before it began."""
    try:
        body = json.loads(path_in(here).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return body if isinstance(body, dict) else None


def clear(here: Path) -> None:
    """Forget the outcome of an earlier start."""
    path_in(here).unlink(missing_ok=True)
