"""Training logs for the tests: built by hand, simulated, and the labelled ones that were handed to us."""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from llm_finetuning.diagnosis.log import RunLog, Series

ROOT = Path(__file__).resolve().parents[2]
LOGS = Path(os.environ.get("FINETUNE_CASES", ROOT.parent / "shared" / "cases")) / "logs"

PLANTED: Mapping[str, tuple[str, ...]] = {  # start of a made log's name -> verdicts that name its fault
    "healthy": ("healthy",),
    "gspo_onpolicy": ("healthy",),  # a variant that changes nothing on-policy
    "small_batch": ("healthy", "inconclusive"),
    "lr_low": ("no_movement",),
    "lr_mild": ("policy_collapse",),
    "kl_blowup": ("kl_blowup", "policy_collapse"),
    "entropy_collapse": ("policy_collapse", "entropy_collapse"),  # a learning rate that loses the policy within steps
    "offpolicy_clip": ("policy_collapse", "reward_decline"),
    "even": ("zero_signal", "policy_collapse", "reward_decline", "entropy_collapse"),
    "format_hack": ("proxy_only",),
    "length_hack": ("proxy_only", "length_growth"),
    "proxy_hack": ("proxy_only",),
    "nan_reward": ("nan",),
    "truncation": ("truncation",),  # half of the first completions are cut, and the policy learns to be short
    "zero_signal": ("zero_signal",),
}

Columns = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A labelled log."""

    name: str
    path: Path
    accepted: tuple[str, ...]  # the label first


def cases() -> list[Case]:
    """Return the handed logs; none where they are not there."""
    if not (LOGS / "index.json").is_file():
        return []
    index = json.loads((LOGS / "index.json").read_text("utf-8"))
    public = [
        Case(entry["id"], LOGS / f"{entry['id']}.json", (entry["label"], *entry["also_acceptable"])) for entry in index
    ]
    return [*public, *(Case(path.stem, path, _planted(path.stem)) for path in sorted((LOGS / "made").glob("*.json")))]


def _planted(name: str) -> tuple[str, ...]:
    return next(verdicts for start, verdicts in PLANTED.items() if name.startswith(start))


def log(
    columns: Mapping[str, Sequence[float | None] | Any],
    *,
    steps: Sequence[float] | None = None,
    held_out: Mapping[str, Sequence[float]] | None = None,
    held_out_steps: Sequence[float] = (),
    **options: Any,
) -> RunLog:
    """Return a log of these columns; None is a value that was not logged, NaN one that was logged as no number."""
    rows = len(next(iter(columns.values()))) if columns else 0
    return RunLog(
        source="made by hand",
        form="jsonl",
        era="1.0+",
        steps=np.arange(1, rows + 1, dtype=float) if steps is None else np.asarray(steps, dtype=float),
        numbered=True,
        series={name: series(values) for name, values in columns.items()},
        held_out={name: series(values) for name, values in (held_out or {}).items()},
        held_out_steps=np.asarray(held_out_steps, dtype=float),
        options=options,
    )


def series(values: Sequence[float | None] | Any) -> Series:
    """Return one metric."""
    numbers = np.array([math.nan if value is None else float(value) for value in values], dtype=float)
    bad = np.array([value is not None and not math.isfinite(value) for value in values], dtype=bool)
    numbers[~np.isfinite(numbers)] = math.nan
    return Series(values=numbers, bad=bad)


def noise(rng: np.random.Generator, rows: int, correlation: float = 0.0, size: float = 1.0) -> Any:
    """Return stationary noise of a deviation `size`, each row correlated with the one before."""
    drawn = rng.standard_normal(rows + 50)
    for at in range(1, len(drawn)):
        drawn[at] = correlation * drawn[at - 1] + math.sqrt(1 - correlation**2) * drawn[at]
    return size * drawn[50:]


def ramp(start: float, end: float, rows: int = 100) -> Any:
    """Return a straight course."""
    return np.linspace(start, end, rows)


def sound(seed: int = 0, rows: int = 100, correlation: float = 0.0, *, gain: float | None = None) -> Columns:
    """Return a run in which nothing is wrong: a reward that rises in one of three shapes, entropy spent on the way.

    `gain` 0 is a run whose reward does not move.
    """
    rng = np.random.default_rng(seed)
    at = np.arange(rows) / rows
    shape = (at, 1 - np.exp(-4 * at), 1 / (1 + np.exp(-12 * (at - 0.5))))[seed % 3]
    low = rng.uniform(0.1, 0.5)
    rise = rng.uniform(0.25, 0.45) if gain is None else gain
    chance = low + rise * shape

    def noisy(size: float) -> Any:
        return noise(rng, rows, correlation, size)

    return {
        "reward": np.clip(chance + noisy(0.07), 0, 1),
        "reward_std": np.clip(0.4 + noisy(0.03), 0.05, 1),
        "frac_reward_zero_std": np.clip(0.1 + 0.4 * rise * shape + noisy(0.06), 0, 1),
        "completions/mean_length": 200 + noisy(10.0),
        "completions/clipped_ratio": np.clip(0.03 + noisy(0.03), 0, 1),
        "entropy": np.clip(0.8 - 0.4 * shape + noisy(0.05), 0.01, None),
        "kl": np.abs(0.2 * at + noisy(0.02)),
        "grad_norm": np.exp(noisy(0.4)),
        "loss": noisy(0.02),
        "clip_ratio/region_mean": np.zeros(rows),
    }


def short(seed: int = 0, rows: int = 30, correlation: float = 0.0, *, fall: float = 0.0) -> RunLog:
    """Return a short run whose reward rises while what is wanted, of weight 0, stands still or falls by `fall`."""
    columns = sound(seed, rows, correlation)
    wanted = noise(np.random.default_rng(seed + 10_000), rows, correlation, 0.05)
    columns["rewards/easy/mean"] = columns["reward"]
    columns["rewards/wanted/mean"] = np.clip(0.4 - ramp(0, fall, rows) + wanted, 0, 1)
    return log(columns, reward_weights=[1.0, 0.0])


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a handed log."""
    found = json.loads(path.read_text("utf-8"))
    listed: list[dict[str, Any]] = found if isinstance(found, list) else found["log_history"]
    return listed


def training_rows(path: Path) -> list[dict[str, Any]]:
    """Return a handed log's rows of training alone."""
    return [row for row in rows_of(path) if "train_runtime" not in row and not _is_evaluation(row)]


def _is_evaluation(row: Mapping[str, Any]) -> bool:
    return any(name.startswith("eval_") for name in row) and "train_reward" not in row


def renamed(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows whose components have names that say nothing."""
    known: dict[str, str] = {}

    def opaque(name: str) -> str:
        head, slash, rest = name.partition("rewards/")
        if not slash or head not in ("", "eval_"):
            return name
        part, slash, kind = rest.partition("/")
        return f"{head}rewards/{known.setdefault(part, f'c{len(known)}')}{slash}{kind}"

    return [{opaque(name): value for name, value in row.items()} for row in rows]


def altered(case: Case) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield a log as a user may have it: its first part, some of its rows, or under other names."""
    rows = training_rows(case.path)
    for part in (0.25, 0.5, 0.75):
        yield f"first {part:.0%}", rows[: max(1, int(part * len(rows)))]
    yield "every 2nd row", rows[::2]
    yield "every 5th row", rows[::5]
    yield "opaque names", renamed(rows_of(case.path))


def shuffled(rows: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return rows in another order under the steps of the old one, so that no course is left."""
    steps = [row.get("step", at) for at, row in enumerate(rows, 1)]
    order = rng.permutation(len(rows))
    return [{**rows[place], "step": step} for place, step in zip(order, steps, strict=True)]
