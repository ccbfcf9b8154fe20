"""A reward that raises, returns what is no list of numbers, or pays a number that is none: the run ends and says so."""

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from guards import data, ending, outcome

LARGEST = 3.4028234663852886e38  # of float32, in which TRL keeps rewards
SEARCH_S = 60.0  # for the completion that a call died of; a reward may ask a judge for each


class Faults:
    """What is wrong with the calls of one reward, in words that name it, its line and the row."""

    def __init__(self, name: str, rows: data.Rows, files: Sequence[Path] = ()) -> None:
        """Take the brief's own reward files; a line of one of them is what a person looks for."""
        self._name, self._rows, self._files = name, rows, tuple(files)

    def end(self, error: BaseException, numbers: Sequence[int], alone: Callable[[int], Any] | None = None) -> NoReturn:
        """Raise what ends the run for an error; `alone` calls the reward on one completion, to find whose it is."""
        from llm_finetuning.errors import Stop

        if isinstance(error, ending.Ended | Stop) or ending.is_full(error):
            raise error  # says itself what is wrong; the library's rewards say so of their machinery
        from llm_finetuning.rewards.composition import words_of

        which, found = self._located(error, numbers, alone)
        raise self._refuse(f"raised {words_of(found)}", which, found) from error

    def values(self, returned: Any, numbers: Sequence[int]) -> list[Any]:
        """Return what came back as a list, one number or None for each completion; raises Ended for anything else."""
        if isinstance(returned, str | bytes | dict) or not hasattr(returned, "__iter__"):
            raise self._refuse(f"returned {_kind(returned)} where a list of numbers is needed", self._batch(numbers))
        listed = list(returned)
        if len(listed) != len(numbers):
            words = f"returned {len(listed)} value(s) for {len(numbers)} completion(s), exactly one for each is needed"
            raise self._refuse(words, self._batch(numbers))
        for row, item in zip(numbers, listed, strict=True):
            if item is None:
                continue
            try:
                value = _number(item)
            except (TypeError, ValueError, OverflowError, RuntimeError):  # torch raises the last
                words = f"returned {_kind(item)} ({item!r:.40}) where a number or None is needed"
                raise self._refuse(words, self._row(row)) from None
            if math.isnan(value) or abs(value) > LARGEST:
                raise ending.Ended(
                    f"reward {self._name} paid {item!r:.40} on {self._row(row)}: mend its arithmetic, return None "
                    "where it abstains on purpose, and score and gate anew",
                    outcome.EXIT_NO,
                )
        return listed

    def _located(
        self, error: BaseException, numbers: Sequence[int], alone: Callable[[int], Any] | None
    ) -> tuple[str, BaseException]:
        until = time.monotonic() + SEARCH_S
        for place, row in enumerate(numbers):
            if alone is None or time.monotonic() > until:
                break
            try:
                with own_interrupts():
                    alone(place)
            except CtrlC:
                raise KeyboardInterrupt from None
            except ending.Ended:
                continue  # alone it raises nothing
            except BaseException as found:  # noqa: BLE001  whatever a person's reward raises
                return self._row(row), found
        return self._batch(numbers), error

    def _refuse(self, words: str, which: str, error: BaseException | None = None) -> ending.Ended:
        from llm_finetuning.rewards.composition import place_of

        found = [place_of(error, path) for path in self._files] if error is not None else []
        lines = [place for place, path in zip(found, self._files, strict=False) if place != str(path)]
        place = f"{lines[0]}: " if lines else ""
        return ending.refuse(
            f"{place}reward {self._name} {words}: on {which}; mend the reward, then score, gate and build again"
        )

    def _row(self, row: int) -> str:
        if self._rows.is_training(row):
            return f"training row {row}"
        return f"held-out row {row - len(self._rows.train)}"

    def _batch(self, numbers: Sequence[int]) -> str:
        first = f", the first of them of {self._row(numbers[0])}" if numbers else ""
        return f"a batch of {len(numbers)} completion(s){first}"


class CtrlC(BaseException):
    """SIGINT came while a reward ran; a KeyboardInterrupt there is the reward's own."""


@contextlib.contextmanager
def own_interrupts() -> Iterator[None]:
    """Tell a real Ctrl-C from a reward's KeyboardInterrupt, where signals are heard: in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return

    def hear(_number: int, _frame: FrameType | None) -> None:
        raise CtrlC

    signal.signal(signal.SIGINT, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _number(item: Any) -> float:
    if isinstance(item, str | bytes):
        raise TypeError  # float("1.0") would hide a text that torch refuses
    return float(item)


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
