"""One pool a process for each setting: rewards with equal settings share its workers."""

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_finetuning.sandbox.pool import Pool


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """What a pool is made from."""

    workers: int | None = None  # None: the machine's cores, shared among the ranks that run on it
    level: str | None = None  # None: the strongest that the machine offers
    packages: tuple[str, ...] = ("numpy",)
    boundary: str | None = None  # an outside boundary made for the purpose, by name


class _Shared:
    """The pools of this process, one thread at a time."""

    def __init__(self) -> None:
        self.pools: dict[PoolSettings, Pool] = {}
        self.lock = threading.Lock()


_shared = _Shared()


def pool_for(settings: PoolSettings) -> "Pool":
    """Return this process's pool for these settings, made on the first call.

    Raises `levels.NoLevel` where the machine offers no level that is allowed.
    """
    from llm_finetuning.sandbox.pool import Pool

    with _shared.lock:
        pool = _shared.pools.get(settings)
        if pool is None:
            workers = settings.workers or default_workers()
            pool = Pool(workers=workers, level=settings.level, packages=settings.packages, boundary=settings.boundary)
            _shared.pools[settings] = pool
        return pool


def default_workers() -> int:
    """Return how many workers a process gets: its cores, divided by the ranks that torchrun started on this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(1, cores // (int(ranks) if ranks.isdecimal() and int(ranks) else 1))


def close_all() -> None:
    """End the workers of every pool of this process; a later call makes new ones."""
    with _shared.lock:
        pools = list(_shared.pools.values())
        _shared.pools.clear()
    for pool in pools:
        pool.close()


def _unlock() -> None:
    """Let a forked child go on with pools of the same settings: a pool starts boxes of its own there."""
    _shared.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)
