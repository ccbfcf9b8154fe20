"""Many programs over several boxes: in parallel, each distinct one once, and none that a lost box takes with it."""

import asyncio
import json
import os
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_finetuning.sandbox import levels
from llm_finetuning.sandbox.box.judge import total_of
from llm_finetuning.sandbox.jobs import Outcome, Program
from llm_finetuning.sandbox.wire import program_to_json
from llm_finetuning.sandbox.worker import Worker, WorkerFailure

OnOutcome = Callable[[int, Outcome], None]

_WORKERS_TO_LOSE = 2  # over one program; then it is taken to be at fault, or crashing the judge would pay
_STARTS = 2
_MOST_SLOWDOWN = 8.0


class Pool:
    """Workers of one level. It may be used from several threads, and in a process that was forked from its maker's."""

    def __init__(
        self,
        workers: int | None = None,
        level: str | None = None,
        packages: tuple[str, ...] = ("numpy",),
        boundary: str | None = None,
    ) -> None:
        """Choose the level; boxes start when there is work. By default there is one for each usable core.

        `level` and `boundary` are those of `levels.choose`, which raises NoLevel. `packages` are what a program may
        import beside the standard library.
        """
        self.level = levels.choose(level, boundary)
        self.packages = packages
        self._cores = len(os.sched_getaffinity(0))
        self.workers = workers if workers is not None else self._cores
        if self.workers < 1:
            raise ValueError(f"workers is {workers}; at least one is needed")
        self._finalizer: weakref.finalize[..., Pool] | None = None
        self.start_over()
        _pools.add(self)

    def run(self, programs: Sequence[Program], on_outcome: OnOutcome | None = None) -> list[Outcome]:
        """Return the outcome of every program, in order. `on_outcome` is told of each as it ends, in this thread."""
        outcomes: dict[int, Outcome] = {}
        for place, outcome in self.stream(programs):
            outcomes[place] = outcome
            if on_outcome is not None:
                on_outcome(place, outcome)
        return [outcomes[place] for place in range(len(programs))]

    async def arun(self, programs: Sequence[Program], on_outcome: OnOutcome | None = None) -> list[Outcome]:
        """Do what `run` does without holding the event loop up; `on_outcome` is called in another thread.

        If the caller is cancelled, no further program is begun.
        """
        batch = _Batch(programs)

        def consume() -> list[Outcome]:
            for place, outcome in self._stream(batch):
                if on_outcome is not None:
                    on_outcome(place, outcome)
            return [batch.outcomes[place] for place in range(len(programs)) if place in batch.outcomes]

        try:
            return await asyncio.to_thread(consume)
        finally:
            batch.cancelled = True

    def stream(self, programs: Sequence[Program]) -> Iterator[tuple[int, Outcome]]:
        """Yield the place and the outcome of every program as they end; closing the iterator begins no further one."""
        return self._stream(_Batch(programs))

    def close(self) -> None:
        """End every box; programs that still run end as `infrastructure`."""
        self._closed = True
        for worker in list(self._started):
            worker.close()
        for thread in list(self._threads):
            if thread is not threading.current_thread():
                thread.join()

    def __enter__(self) -> "Pool":  # noqa: PYI034  `Self` came with Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_over(self) -> None:
        """Be without boxes and threads, which are another process's: for a forked copy, and for the start."""
        self._closed = False
        self._free = threading.Semaphore(self.workers)
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._started: list[Worker] = []
        self._threads: set[threading.Thread] = set()
        if self._finalizer is not None:
            self._finalizer.detach()
        # Ends the boxes when nobody holds the pool any more, and when the interpreter exits.
        self._finalizer = weakref.finalize(self, _close_all, self._started)

    def _stream(self, batch: "_Batch") -> Iterator[tuple[int, Outcome]]:
        if self._closed:
            raise ValueError("the pool is closed")
        threads = [
            threading.Thread(target=self._work, args=(batch,), name=f"finetune-sandbox-{number}", daemon=True)
            for number in range(min(self.workers, batch.distinct))
        ]
        self._threads.update(threads)
        for thread in threads:
            thread.start()
        try:
            working = len(threads)
            while working:
                ended = batch.results.get()
                if ended is None:
                    working -= 1
                elif isinstance(ended, BaseException):
                    raise ended
                else:
                    for place in ended[0].places:
                        batch.outcomes[place] = ended[1]
                        yield place, ended[1]
            for thread in threads:
                thread.join()
        finally:
            batch.cancelled = True
            self._threads.difference_update(thread for thread in threads if not thread.is_alive())

    def _work(self, batch: "_Batch") -> None:
        """Judge programs of the batch until none is left."""
        try:
            while (job := batch.take()) is not None:
                batch.results.put((job, self._judge(job, batch)))
        except BaseException as error:  # noqa: BLE001  our bug: raised where the outcomes are awaited, not lost here
            batch.results.put(error)
        finally:
            batch.results.put(None)
            self._threads.discard(threading.current_thread())

    def _judge(self, job: "_Job", batch: "_Batch") -> Outcome:
        reason = job.fault or batch.broken
        if reason:
            return _infrastructure(reason, job.total)
        for _ in range(_WORKERS_TO_LOSE):
            try:
                worker = self._check_out()
            except WorkerFailure as failure:
                batch.broken = f"no worker can be started: {failure}"
                return _infrastructure(batch.broken, job.total)
            try:
                outcome = worker.run_job(job.form, slowdown=self._slowdown())
            except WorkerFailure as failure:
                reason = str(failure)
            else:
                return outcome
            finally:
                self._check_in(worker)
            if self._closed:
                return _infrastructure("the pool was closed", job.total)
        return Outcome("error", 0, job.total, f"program {job.places[0]} ended two workers: {reason}")

    def _check_out(self) -> Worker:
        self._free.acquire()
        try:
            with self._lock:
                if self._idle:
                    return self._idle.pop()
            return self._start()
        except BaseException:
            self._free.release()
            raise

    def _start(self) -> Worker:
        """Return a new worker; what keeps one from starting may pass, so it is tried again once."""
        for last in (False, True):
            if self._closed:
                raise WorkerFailure("the pool was closed")
            try:
                worker = Worker(self.level, self.packages)
            except WorkerFailure:
                if last:
                    raise
            else:
                with self._lock:
                    self._started.append(worker)
                if self._closed:  # while it started
                    worker.close()
                return worker
        raise AssertionError("unreachable")

    def _check_in(self, worker: Worker) -> None:
        with self._lock:
            if worker.alive:
                self._idle.append(worker)
            else:
                self._started.remove(worker)
        self._free.release()

    def _slowdown(self) -> float:
        """Return by how much programs are slower here than on a core of their own, which a wall limit allows for."""
        load = max(float(self.workers), os.getloadavg()[0])
        return min(max(1.0, load / self._cores), _MOST_SLOWDOWN)


@dataclass(slots=True)
class _Job:
    """One distinct program, and where it stands in the batch."""

    form: dict[str, Any]
    total: int
    places: list[int] = field(default_factory=list)
    fault: str = ""  # why it cannot be handed to a box


class _Batch:
    """The distinct programs of one call, and their outcomes."""

    def __init__(self, programs: Sequence[Program]) -> None:
        jobs: dict[str, _Job] = {}
        for place, program in enumerate(programs):
            try:
                form = program_to_json(program)
                key, job = json.dumps(form), _Job(form, total_of(form))
            except ValueError as error:
                key, job = f"{place}", _Job({}, 0, fault=f"the tests hold what cannot be handed over: {error}")
            jobs.setdefault(key, job).places.append(place)
        self.distinct = len(jobs)
        # What has ended; None for each thread that is through, also when the batch was cancelled.
        self.results: queue.SimpleQueue[tuple[_Job, Outcome] | BaseException | None] = queue.SimpleQueue()
        self.outcomes: dict[int, Outcome] = {}
        self.cancelled = False
        self.broken = ""  # why no worker can be started
        self._waiting = deque(jobs.values())

    def take(self) -> _Job | None:
        """Return a job that nobody has taken, or None."""
        if self.cancelled:
            return None
        try:
            return self._waiting.popleft()
        except IndexError:
            return None


def _infrastructure(reason: str, total: int) -> Outcome:
    return Outcome("infrastructure", 0, total, reason)


def _close_all(workers: list[Worker]) -> None:
    for worker in list(workers):
        worker.close()


_pools: "weakref.WeakSet[Pool]" = weakref.WeakSet()


def _start_over() -> None:
    for pool in list(_pools):
        pool.start_over()


os.register_at_fork(after_in_child=_start_over)
