"""How train.py ends: one line that says why, logs/outcome.json, and the exit code that belongs to it."""

import contextlib
import errno
import fcntl
import json
import os
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from guards import gate_check, outcome

LOCK_FD = "FINETUNE_LOCK_FD"


class Ended(Exception):  # noqa: N818  an answer, not an error of the program
    """Something that a person can act on; the words say what, where and how to mend it."""

    def __init__(self, reason: str, exit_code: int) -> None:
        """Take the line that is shown and `outcome.EXIT_...`."""
        super().__init__(reason)
        self.reason, self.exit_code = reason, exit_code


def refuse(*faults: str) -> Ended:
    """Return the end of a run whose config or environment is wrong, with all faults at once."""
    return Ended("\n".join(faults), outcome.EXIT_BAD_INPUT)


def say(words: str) -> None:
    """Print a line of the run's own, once in all processes."""
    if os.environ.get("RANK", "0") == "0":
        sys.stdout.write(f"[run] {words}\n")
        sys.stdout.flush()


class Run:
    """What the end of the run has to know: the trainer, once there is one."""

    def __init__(self, here: Path) -> None:
        """Take the run folder."""
        self.here = here
        self.trainer: Any = None

    @property
    def global_step(self) -> int:
        """Return the optimiser steps that were done."""
        return int(self.trainer.state.global_step) if self.trainer is not None else 0

    def train(self, not_one_step: str) -> None:
        """Train on from the last whole checkpoint and save the model; ends the run where not one step was done.

        From a checkpoint of the last step the model is saved as it is. A run that a guard has stopped is not saved: its
        last checkpoint is from before the fault.
        """
        from guards import data, last_step

        checkpoint = data.last_checkpoint(Path(self.trainer.args.output_dir))
        try:
            self.trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        except last_step.AllTaken:
            last_step.finish(self.trainer)
        if self.global_step == 0:
            raise refuse(not_one_step)
        stopped = outcome.read(self.here) is not None
        # Of several processes the first one through writes that the run has finished: not before all have looked
        # whether it was stopped, and not before the model is there.
        self.trainer.accelerator.wait_for_everyone()
        if not stopped:
            self.trainer.save_model(str(self.here / "model"))
            self.trainer.save_state()
        self.trainer.accelerator.wait_for_everyone()

    def end(self, state: str, reason: str, exit_code: int) -> None:
        """Write how the run ended, unless an earlier cause stands there already."""
        outcome.write(self.here, state, reason, global_step=self.global_step, exit_code=exit_code)


@contextlib.contextmanager
def recorded(here: Path) -> Iterator[Run]:
    """Turn every way out of train.py into an outcome and an exit code; a fault of ours keeps its traceback."""
    held = None
    if os.environ.get("RANK", "0") == "0":
        held = _take(here)
    run = Run(here)
    try:
        yield run
    except Ended as ended:
        state = outcome.STOPPED if ended.exit_code == outcome.EXIT_NO else outcome.FAILED
        run.end(state, ended.reason, ended.exit_code)
        sys.stderr.write(f"{ended.reason}\n")
    except gate_check.Refused as refused:
        run.end(outcome.FAILED, str(refused), outcome.EXIT_NO)
        sys.stderr.write(f"{refused}\n")
    except BaseException as error:  # noqa: BLE001  every way out is written down
        if isinstance(code := getattr(error, "exit_code", None), int):  # a refusal of the frozen package
            run.end(outcome.FAILED, str(error), code)
            sys.stderr.write(f"{error}\n")
        else:
            traceback.print_exc()
            run.end(outcome.FAILED, _words(error), outcome.EXIT_MACHINERY)
    else:
        run.end(outcome.FINISHED, f"trained {run.global_step} steps", outcome.EXIT_DONE)
    ended_as = outcome.read(here)
    if held is not None:
        os.close(held)
    sys.exit(int(ended_as["exit_code"]) if ended_as else outcome.EXIT_MACHINERY)


def _take(here: Path) -> int | None:
    """Hold the run folder by an open, locked file; ends the process where another start holds it.

    Returns the file, or None where the supervisor holds it for us.
    """
    lock = None
    try:
        (here / "logs").mkdir(exist_ok=True)
        if LOCK_FD not in os.environ:
            lock = os.open(here / "logs" / "run.lock", os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(lock, 0)
            os.pwrite(lock, json.dumps({"pid": os.getpid(), "at": round(time.time(), 3)}).encode(), 0)
        outcome.clear(here)
    except BlockingIOError:
        sys.stderr.write(f"{here}: it trains already; let that run end, or stop it with SIGTERM\n")
        sys.exit(outcome.EXIT_BAD_INPUT)
    except OSError as error:
        sys.stderr.write(f"{here / 'logs'}: cannot be written ({error.strerror}); mend that and start again\n")
        sys.exit(outcome.EXIT_MACHINERY)
    return lock


def is_full(error: BaseException) -> bool:
    """Tell whether something failed since the disk is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _words(error: BaseException) -> str:
    if is_full(error):
        return f"the disk is full ({error}); free some space and start again, it goes on from the last checkpoint"
    return f"{type(error).__name__}: {error}".splitlines()[0]
