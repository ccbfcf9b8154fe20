"""Call the composed reward on written completions as `score` does, and live through what a reward may do.

A reward that raises, returns nonsense, computes without end or ends the process would end the verb. The completion
that it dies of is found by halving and set down; the rest is scored without it.
"""

import contextlib
import os
import pickle
import re
import select
import signal
import sys
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llm_finetuning.stages import score as stage
from llm_finetuning.types import Component, Probe, Sample, Score, Text

CPU_LIMIT_S = 10.0  # of one call; what takes longer holds a training step
CPU_LIMIT_AGAIN_S = 1.0  # of a call after one that took too long: now it is looked for
PROCESS_LIMIT_S = 20.0  # wall time of one call in a process of its own
ENDLESS_CALLS = 12  # calls that may take too long before the rest is left untried

_PIECES = re.compile(r"\w{1,4}|\W")


class _Endless(BaseException):
    """A call took too much CPU time; no `except Exception` of a reward catches it."""


@dataclass(frozen=True, slots=True)
class Paid:
    """What came of one completion: its score, or what TRL would die of."""

    score: Score | None
    fault: str | None = None


@dataclass(slots=True)
class Trial:
    """A composed reward, ready to be tried."""

    components: Sequence[Component]
    generations: int  # completions a group, as training draws
    per_call: int  # completions a call
    ids_known: bool = True  # whether completions come with token ids
    tokens_per_piece: float = 1.0
    max_tokens: int = 256
    own_process: bool = False  # whether completions are programs that a reward may run in this process
    whole_batch_faults: list[str] = field(default_factory=list)  # what happened to batches, but to none of their parts
    on_progress: Callable[[int], None] = lambda _: None
    endless: int = 0  # calls that took too long
    record: list[tuple[Probe, "Paid"]] = field(default_factory=list)  # all that was tried

    def pay(self, probes: Sequence[Probe]) -> list[Paid]:
        """Return what each probe is paid, in order."""
        paid: list[Paid] = []
        for batch in self._batches(probes):
            paid.extend(self._pay(batch))
            self.on_progress(len(batch))
        self.record.extend(zip(probes, paid, strict=True))
        return paid

    def values_one_by_one(self, probes: Sequence[Probe]) -> list[list[float | None] | None]:
        """Return each probe's values when it is called alone; None where that raises."""
        return [self._values([probe]) for probe in probes]

    def values_in_thread(self, probes: Sequence[Probe]) -> list[list[float | None] | None]:
        """Return each probe's values when a thread other than the main one calls."""
        found: list[list[float | None] | None] = []

        def call() -> None:
            found.extend(self._values([probe]) for probe in probes)

        thread = threading.Thread(target=call, name="probe")
        thread.start()
        thread.join()
        return found

    def _values(self, probes: Sequence[Probe]) -> list[float | None] | None:
        try:
            scores = self._score(probes)
        except stage.RewardFault:
            return None
        return [value.value for score in scores for value in score.values]

    def _batches(self, probes: Sequence[Probe]) -> list[list[Probe]]:
        """Split into calls of whole groups: no more probes of one prompt stand together than training draws."""
        size = max(self.generations, self.per_call // self.generations * self.generations)
        return [list(probes[begin : begin + size]) for begin in range(0, len(probes), size)]

    def _pay(self, batch: Sequence[Probe]) -> list[Paid]:
        if self.endless >= ENDLESS_CALLS:
            return [Paid(None)] * len(batch)
        try:
            return [Paid(score) for score in self._run(batch)]
        except stage.RewardFault as fault:
            words = f"`{fault.reward}`: {fault.placed}"
            guilty = {sample.sample_id for sample in fault.samples}
        except (_Endless, _Died) as fault:
            words, guilty = str(fault), set()
            self.endless += 1
        if len(batch) == 1:
            return [Paid(None, words)]
        before = len(self.whole_batch_faults)
        # The named one stands alone; without a name, halves tell.
        parts = [[probe] if probe.probe_id in guilty else [] for probe in batch] if len(guilty) == 1 else []
        parts = [part for part in parts if part] + [[probe for probe in batch if probe.probe_id not in guilty]]
        if len(parts) == 1:
            middle = len(batch) // 2
            parts = [list(batch[:middle]), list(batch[middle:])]
        known: dict[str, Paid] = {}
        for part in parts:
            known.update(zip([probe.probe_id for probe in part], self._pay(part), strict=True))
        found = [known[probe.probe_id] for probe in batch]
        if not any(paid.fault for paid in found) and len(self.whole_batch_faults) == before:
            self.whole_batch_faults.append(words)
        return found

    def _run(self, batch: Sequence[Probe]) -> list[Score]:
        if self.own_process:
            return _in_child(lambda: self._score(batch))
        with _cpu_limit(CPU_LIMIT_AGAIN_S if self.endless else CPU_LIMIT_S):
            return self._score(batch)

    def _score(self, batch: Sequence[Probe]) -> list[Score]:
        samples = [self._sample(probe, place) for place, probe in enumerate(batch)]
        return stage.score(samples, self.components, completions_per_call=len(batch), aggregation=stage.Aggregation())

    def _sample(self, probe: Probe, place: int) -> Sample:
        ids = self._ids(probe.completion)
        return Sample(
            sample_id=probe.probe_id,
            prompt_id=f"group {place // self.generations}",
            row=1,
            pass_name="policy",  # noqa: S106  the pass that training draws
            index=place,
            prompt=probe.prompt,
            columns=probe.columns,
            completion=probe.completion,
            completion_ids=ids if self.ids_known else None,
            tokens=len(ids),
            finish_reason="stop",
            temperature=1.0,
        )

    def _ids(self, completion: Text) -> list[int]:
        """Return ids that stand for the tokens: as many as the run's own texts have, equal for equal pieces."""
        pieces = [zlib.crc32(piece.encode(errors="replace")) % 30000 + 10 for piece in pieces_of(completion)]
        return pieces[: min(self.max_tokens, max(1, round(len(pieces) * self.tokens_per_piece)))] or [2]


def pieces_of(completion: Text) -> list[str]:
    """Return the pieces of a completion that stand for its tokens."""
    return _PIECES.findall(completion if isinstance(completion, str) else str(completion[-1].get("content") or ""))


class _Died(Exception):  # noqa: N818  it is what the reward did
    """A call ended its process, or had to be ended."""


@contextlib.contextmanager
def _cpu_limit(seconds: float) -> Iterator[None]:
    """Raise `_Endless` after too much CPU time; signals reach the main thread alone, elsewhere there is no limit."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: Any) -> None:
        raise _Endless(f"took more than {seconds:g} s of CPU time; it would hold the training step")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _in_child(work: Callable[[], list[Score]]) -> list[Score]:
    """Return what `work` returns in a forked process; raises `_Died` when the process does not live to tell."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads do not come along, and none is needed
        child = os.fork()
    if child == 0:
        os.close(reading)
        _tell(writing, work)
    os.close(writing)
    try:
        data = _received(reading)
    finally:
        os.close(reading)
        for end in (os.killpg, os.kill):  # what the program started, then the child, should it have no group yet
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if data is None:
        raise _Died(f"did not return within {PROCESS_LIMIT_S:g} s; it would hold the training step")
    try:
        result = pickle.loads(data)  # noqa: S301  written by this program's own child
    except Exception:  # noqa: BLE001  nothing, or a part: the child died on the way
        raise _Died("the process that called the reward ended; the trainer's would have") from None
    if isinstance(result, Mapping):
        raise stage.RewardFault(result["reward"], result["samples"], result["words"])
    return list(result)


def _tell(writing: int, work: Callable[[], list[Score]]) -> None:
    """Do the work and write its result: the child's whole life."""
    os.setpgid(0, 0)
    sys.stdout = sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  open for the child's whole life
    try:
        try:
            result: Any = work()
        except stage.RewardFault as fault:
            result = {"reward": fault.reward, "samples": fault.samples, "words": fault.placed}
        with os.fdopen(writing, "wb") as stream:
            stream.write(pickle.dumps(result))
    finally:
        os._exit(0)


def _received(reading: int) -> bytes | None:
    """Return all that the child writes, None when it takes too long."""
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([reading], [], [], PROCESS_LIMIT_S)
        if not ready:
            return None
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
