"""A run folder from outside: whether it trains now, how far it is, how it ended; and how it is started and stopped."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_finetuning import artifact, run_progress
from llm_finetuning.errors import EXIT_MACHINERY, MachineryFailure, Refusal
from llm_finetuning.interpreter import training_environ
from llm_finetuning.run_progress import Progress

LOCK_FD = "FINETUNE_LOCK_FD"  # guards/supervisor.py hands it on to the trainer
POLL_S = 0.2
FULL = 1 << 20  # bytes; a disk with less has no room for a line of a log


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """The folder `train` of a run."""

    folder: Path

    @property
    def log(self) -> Path:
        """The file that holds what the trainer printed."""
        return self.folder / "logs" / "train.log"

    def is_running(self) -> bool:
        """Tell whether anything of a start is still alive: the lock is held as long as that."""
        try:
            with (self.folder / "logs" / "run.lock").open("rb") as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return True
        except OSError:
            return False
        return False

    def outcome(self) -> dict[str, Any] | None:
        """Return how the last start ended; None while it runs, or when nothing was started."""
        if self.is_running():
            return None
        try:
            body = json.loads((self.folder / "logs" / "outcome.json").read_text("utf-8"))
        except (OSError, ValueError):
            body = None
        return body if isinstance(body, dict) else self._unsaid()

    def _unsaid(self) -> dict[str, Any] | None:
        """Return the outcome of a start that could leave none: killed with its supervisor, or on a full disk."""
        if self._started() is None:
            return None
        reached = run_progress.read(self.folder)
        full = shutil.disk_usage(self.folder).free < FULL
        words = "the disk is full; free some space" if full else "ended without a word, as when the machine goes down"
        step = reached.step if reached else -1
        reason = f"{words}; the next start goes on from the last checkpoint"
        return {"state": "failed", "reason": reason, "global_step": step, "exit_code": EXIT_MACHINERY}

    def progress(self) -> Progress | None:
        """Return how far the last start is; None when it has not begun to train."""
        reached, started = run_progress.read(self.folder), self._started()
        return None if reached is None or (started is not None and reached.at < started["at"]) else reached

    def is_finished(self) -> bool:
        """Tell whether all steps are done and the model is there: another start has nothing left to do."""
        ended = self.outcome()
        return ended is not None and ended["state"] == "finished" and (self.folder / "model").is_dir()

    def start(self, python: str, environ: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        """Start launch.sh below its supervisor, apart from this process's terminal; refuses a second start."""
        logs = self.folder / "logs"
        try:
            logs.mkdir(exist_ok=True)
            lock = os.open(logs / "run.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as fault:
            raise MachineryFailure(f"{logs}: cannot be written ({fault.strerror}); mend that and start again") from None
        try:
            self._hold(lock)
            (logs / "outcome.json").unlink(missing_ok=True)
            os.ftruncate(lock, 0)
            process = subprocess.Popen(
                [python, str(self.folder.absolute() / "guards" / "supervisor.py")],  # it is started in the folder
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=[lock],
                env={**training_environ(), **environ, "PYTHON": python, LOCK_FD: str(lock)},
            )
        except OSError as fault:
            raise MachineryFailure(f"{self.folder}: cannot be started ({fault.strerror})") from fault
        finally:
            os.close(lock)
        return process

    def _hold(self, lock: int) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refusal(
                f"{self.folder}: it trains already (process {self._pid()}); `finetune status` shows how far it is, "
                f"`{artifact.shell_line('train', self.folder.parent, '--stop')}` ends it after the step at hand"
            ) from None

    def stop(self, wait_s: float, waiting: Callable[[], None] = lambda: None) -> bool:
        """Ask a run to finish its step, save and stop; tell whether it has ended within `wait_s` seconds.

        `waiting` is called again and again until then.
        """
        if not self.is_running():
            return True
        deadline = time.monotonic() + wait_s
        while (pid := self._pid()) is None and time.monotonic() < deadline:
            time.sleep(POLL_S)  # it was started a moment ago
        if pid is None:
            raise MachineryFailure(f"{self.folder / 'logs' / 'run.lock'}: says no process; end it by hand")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        while self.is_running() and time.monotonic() < deadline:
            waiting()
            time.sleep(POLL_S)
        return not self.is_running()

    def _pid(self) -> int | None:
        started = self._started()
        return None if started is None else int(started["pid"])

    def _started(self) -> dict[str, Any] | None:
        """Return what the last start wrote of itself: its process, and when; None where nothing was started."""
        try:
            body = json.loads((self.folder / "logs" / "run.lock").read_text("utf-8"))
            return {"pid": int(body["pid"]), "at": float(body["at"])}
        except (OSError, ValueError, KeyError, TypeError):
            return None
