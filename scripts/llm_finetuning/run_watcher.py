"""Looks at a run again and again from outside: reads its log where it grew, and diagnoses it; changes nothing."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_finetuning.errors import Refusal
from llm_finetuning.live_view import Reached, View, profiled_seconds, view

if TYPE_CHECKING:
    from llm_finetuning.diagnosis.log import Completion, RunLog
    from llm_finetuning.training_run import TrainingRun

EVERY_S = 2.0  # between two looks at least
PART = 10  # a look may take one of so many parts of the time
QUIET_S = 600.0  # a log of a run that is not ours and was not written for so long has ended
QUIET_STEPS = 20  # or for so many steps
_LOGS = ("trainer_state.json", "checkpoint-*/trainer_state.json", "*.jsonl", "**/events.out.tfevents.*")
_END = b"train_runtime"  # of the row that transformers writes last
_TAIL = 4096  # bytes that hold it
_FORMS_WITH_TIMES = ("jsonl", "csv")  # exports of wandb and the like, which alone have TRL's profiling rows


class RunWatcher:
    """One run: what is logged of it, what that says, and how far it is."""

    def __init__(
        self, path: Path, *, goal: str | None = None, moe: bool | None = None, python: str | None = None
    ) -> None:
        """Take a run directory, a trainer's output folder or a log; refuses what is not there."""
        from llm_finetuning.diagnosis.reading import folders
        from llm_finetuning.training_run import TrainingRun

        if not path.exists():
            raise Refusal(f"{path}: no such file or folder; name a run directory, a trainer's output folder or a log")
        self.path, self._goal, self._moe, self._python = path, goal, moe, python
        run = folders.run_folder(path) if path.is_dir() else None
        self._training: TrainingRun | None = TrainingRun(run) if run is not None else None
        self.found: tuple[RunLog, View] | None = None  # what was seen last; replaced as one, since a page reads it
        self._seen: tuple[Any, ...] = ()
        self._due = 0.0
        self._reader: str | None = None  # an interpreter with pyarrow; empty where none is at hand
        self._tables: tuple[str, ...] = ()
        self._completions: list[Completion] = []

    def look(self, *, patient: bool = False) -> View | None:
        """Return the run as it is now; None where nothing changed, or where it is too soon to look again.

        With `patient` a log that holds nothing yet is waited for, and one that cannot be read just now is a note.
        """
        begun = time.monotonic()
        if begun < self._due:
            return None
        seen = self._mark()
        if seen == self._seen:
            return None
        try:
            self.found = self._read()
            self._seen = seen
        except Refusal:
            if not patient or not (self.found is not None or self._may_begin()):
                raise
            return None
        finally:
            took = time.monotonic() - begun
            self._due = begun + took + max(EVERY_S, PART * took)
        return self.view

    @property
    def view(self) -> View | None:
        """What was seen last."""
        return self.found[1] if self.found is not None else None

    def _read(self) -> "tuple[RunLog, View]":
        from llm_finetuning import diagnosis
        from llm_finetuning.diagnosis import reading
        from llm_finetuning.diagnosis.reading import folders

        log = reading.read(self.path, untrained=True)
        completions, notes = self._kept(log)
        profiled = {}
        if log.form in _FORMS_WITH_TIMES and self.path.is_file():
            profiled = profiled_seconds(reading.table_of(self.path).rows)
        paid = log.is_paid
        found = diagnosis.diagnose(log, goal=self._goal, moe=self._moe, completions=completions) if paid else None
        notes = [*log.notes, *notes]
        draws = folders.held_out_draws(about) if (about := folders.run_about(self.path)) is not None else None
        reached = self._reached(log)
        return log, view(log, found, reached, completions=completions, profiled=profiled, draws=draws, notes=notes)

    def _kept(self, log: "RunLog") -> tuple[list["Completion"], list[str]]:
        """Return the completions that were kept, read anew where a table was added; and why there are none."""
        from llm_finetuning import interpreter
        from llm_finetuning.diagnosis import reading

        folder = self._training.folder if self._training else self.path
        tables = tuple(sorted(table.name for table in (folder / "completions").glob("completions_*.parquet")))
        if not tables:
            return [], []
        if self._reader is None:
            self._reader = interpreter.at_hand(self._python or self._named(), ["pyarrow"]) or ""
        if not self._reader:
            return [], ["the kept completions are not shown: name an interpreter with pyarrow, --python PATH"]
        if tables != self._tables:
            self._completions = reading.completions(folder, python=self._reader, log=log)
            self._tables = tables
        return self._completions, []

    def _named(self) -> str | None:
        """Return the interpreter that the run's brief names."""
        from llm_finetuning import brief

        try:
            return brief.load(self.path).brief.environment
        except Refusal:  # no run of ours, or a brief that was changed since: watching needs none
            return None

    def _reached(self, log: "RunLog") -> Reached:
        step = _last(log)
        if self._training is not None:
            return self._of_run(self._training, step)
        last = log.options.get("max_steps")
        last_step = float(last) if isinstance(last, int | float) and last > 0 else None
        reason = self._ended(log, step, last_step)
        left = None
        if last_step is not None and not reason and (pace := _pace(log)) is not None:
            left = max(0.0, last_step - step) * pace
        return Reached(
            state="ended" if reason else "open", step=step, last_step=last_step, seconds_left=left, reason=reason
        )

    def _of_run(self, training: "TrainingRun", step: float) -> Reached:
        progress = training.progress()
        last_step = float(progress.max_steps) if progress is not None else None
        if training.is_running():
            left, doing = (progress.seconds_left, progress.doing) if progress is not None else (None, "")
            return Reached(state="running", step=step, last_step=last_step, seconds_left=left, doing=doing)
        ended = training.outcome()
        reason = f"{ended['state']}, {ended['reason']}" if ended else "no process trains there"
        return Reached(state="ended", step=step, last_step=last_step, reason=reason)

    def _ended(self, log: "RunLog", step: float, last_step: float | None) -> str:
        """Return why the log of a run that is not ours does not grow any more; empty where it may."""
        if last_step is not None and step >= last_step:
            return f"step {step:g} was the last"
        if self.path.is_file() and _END in _tail(self.path):
            return "the trainer wrote its summary"
        silent = self._silent_s()
        return f"nothing was written for {silent / 60:.0f} min" if _is_quiet(silent, log) else ""

    def _silent_s(self) -> float:
        return time.time() - max((found.st_mtime for _, found in self._stats()), default=0.0)

    def _mark(self) -> tuple[Any, ...]:
        """Return what changes where there may be something new to see."""
        files = [(str(path), found.st_mtime_ns, found.st_size) for path, found in self._stats()]
        if self._training is not None:
            return (*sorted(files), self._training.is_running())
        return (*sorted(files), _is_quiet(self._silent_s(), self.found[0] if self.found is not None else None))

    def _stats(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self._files():
            with contextlib.suppress(OSError):  # a checkpoint that the trainer removed just now
                yield path, path.stat()

    def _files(self) -> Iterator[Path]:
        """Yield the files that a log of this run may be in."""
        if self.path.is_file():
            yield self.path
        elif self._training is not None:
            yield from (self._training.folder / "logs").glob("progress.jsonl")
        else:
            for pattern in _LOGS:
                yield from self.path.glob(pattern)

    def _may_begin(self) -> bool:
        """Tell whether a log that holds nothing yet may do so soon."""
        if self._training is not None:
            return self._training.is_running()
        return not _is_quiet(self._silent_s(), None) and any(self._files())


def _last(log: "RunLog") -> float:
    """Return the last step that is logged; before the first row of training that of an evaluation."""
    steps = log.steps if len(log.steps) else log.held_out_steps
    return float(steps[-1]) if len(steps) else 0.0


def _tail(path: Path) -> bytes:
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - _TAIL))
        return stream.read()


def _is_quiet(silent_s: float, log: "RunLog | None") -> bool:
    pace = _pace(log) if log is not None else None
    return silent_s > max(QUIET_S, QUIET_STEPS * (pace or 0.0))


def _pace(log: "RunLog") -> float | None:
    """Return the seconds of a step in the newest rows; None where the log does not say."""
    import numpy as np

    found = log.series.get("step_time")
    held = found.values[np.isfinite(found.values)] if found is not None else np.empty(0)
    return float(np.mean(held[-10:])) if len(held) else None
