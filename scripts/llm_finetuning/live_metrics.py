"""The metrics that `watch` shows of a run: which ones, what they are called, and what they were over its course."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_finetuning.diagnosis.log import RunLog

if TYPE_CHECKING:
    from llm_finetuning.diagnosis.log import Column

RECENT = 10  # rows that `recent` and `first` are means of
COURSE = 24  # marks of a course

METRICS: Sequence[tuple[str, str]] = (  # metric, what it is called here
    ("entropy", "entropy"),
    ("kl", "KL"),
    ("clip_ratio/region_mean", "tokens clipped"),
    ("sampling/importance_sampling_ratio/mean", "sampler ratio"),
    ("sampling/sampling_logp_difference/mean", "sampler gap"),
    ("grad_norm", "gradient norm"),
    ("learning_rate", "learning rate"),
    ("step_time", "step time, s"),
)
"""Shown where they are there, beneath the reward, its components, the groups and the lengths."""

_CALLED = dict(METRICS)

PAID_HELD_OUT = "held-out mean reward"
OVER_BATCHES = "held-out {part}, mean over batches"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric over the rows that hold it."""

    name: str
    now: float
    first: float  # mean of the first `RECENT` rows
    recent: float  # mean of the last `RECENT` rows
    course: tuple[float, ...]  # at most `COURSE` means over equal stretches of the run


def of(log: RunLog, draws: tuple[int, int] | None) -> tuple[Metric, ...]:
    """Return what is shown of a log; `draws` as `live_view.view` takes them."""
    names = _held_out_names(log, draws)
    held = [(name, log.held_out[metric].values) for metric, name in names.items() if metric in log.held_out]
    trained = columns(log)
    place = sum(name in log.series for name in names)
    ordered = [*trained[:place], *held, *trained[place:]]
    return tuple(metric for name, values in ordered if (metric := _metric(name, values)) is not None)


def _held_out_names(log: RunLog, draws: tuple[int, int] | None) -> dict[str, str]:
    """Return the metrics of evaluations that are shown, by name; a mean of what was paid is not called a success."""
    by_batch = draws is not None and not _batches_weigh_alike(log, draws[0])
    reward = f"{PAID_HELD_OUT} of {draws[0]} draws" if draws is not None else PAID_HELD_OUT
    reward = OVER_BATCHES.format(part="reward") if by_batch else reward
    if log.is_paid or (not log.series and "reward" in log.held_out):
        called = OVER_BATCHES if by_batch else "held-out mean {part}"
        return {"reward": reward, **{f"rewards/{part}/mean": called.replace("{part}", part) for part in _parts(log)}}
    return {"reward": reward, "loss": "held-out loss"}


def _batches_weigh_alike(log: RunLog, draws: int) -> bool:
    """Tell whether the mean over an evaluation's batches, which TRL logs, is that of its draws: none is short.

    `per_device_eval_batch_size` counts completions, as TRL takes it; False where it is not known. How many processes
    share an evaluation is not in the log's options: one is taken.
    """
    size = log.options.get("per_device_eval_batch_size")
    return isinstance(size, int) and size > 0 and (draws <= size or draws % size == 0)


def about_held_out(log: RunLog, draws: tuple[int, int] | None) -> list[str]:
    """Return what the reward of an evaluation is: `evaluate` says another number of the same rows."""
    if "reward" not in log.held_out:
        return []
    no_rate = "no success rate, which `finetune evaluate` measures on the same rows"
    if draws is None:
        return [f"{PAID_HELD_OUT}: the mean of what a few draws were paid, as the trainer takes it: {no_rate}"]
    each = f"{draws[0]} draws were paid, {'one' if draws[1] == 1 else draws[1]} of each row"
    if _batches_weigh_alike(log, draws[0]):
        return [f"{PAID_HELD_OUT}: the mean of what {each}: {no_rate}"]
    size = log.options.get("per_device_eval_batch_size")
    rest = "so that this is not the mean of the rows" if size else "so that this need not be the mean of the rows"
    words = "the trainer logs the mean of each batch's mean: a short last batch weighs as much as a full one"
    return [f"{OVER_BATCHES.format(part='reward')}: {each}, and {words}, {rest}; it is {no_rate}"]


def recent(log: RunLog, name: str) -> float | None:
    """Return the mean of a metric of training over its last rows; None where it was not logged."""
    found = _metric(name, log.series[name].values) if name in log.series else None
    return found.recent if found is not None else None


def columns(log: RunLog) -> list[tuple[str, "Column"]]:
    """Return what is shown of training: its name here, and a value for each row."""
    from llm_finetuning.diagnosis.signals import Signals

    signals = Signals(log=log)
    if not log.is_paid:
        losses = ("loss", "mean_token_accuracy", *(f"rewards/{part}/mean" for part in log.components), "entropy")
        shown = (*losses, "grad_norm", "learning_rate", "step_time")
        return [(_CALLED.get(name, name), log.series[name].values) for name in shown if name in log.series]
    parts = [("reward", "reward"), *((f"rewards/{part}/mean", part) for part in _parts(log))]
    return [
        *((name, log.series[metric].values) for metric, name in parts if metric in log.series),
        ("groups with signal", 1 - signals.silent),
        ("length", signals.column("completions/mean_length")),
        ("cut at the cap", signals.cut),
        *((name, signals.column(metric)) for metric, name in METRICS),
    ]


def _parts(log: RunLog) -> tuple[str, ...]:
    """Return the components of a reward that has several; before the first step evaluations alone name them."""
    head, tail = "rewards/", "/mean"
    evaluated = (name for name in log.held_out if name.startswith(head) and name.endswith(tail))
    parts = log.components if log.series else tuple(name[len(head) : -len(tail)] for name in evaluated)
    return parts if len(parts) > 1 else ()


def _metric(name: str, values: "Column") -> Metric | None:
    import numpy as np

    held = values[np.isfinite(values)]
    if not len(held):
        return None
    return Metric(
        name=name,
        now=float(held[-1]),
        first=_mean(held[:RECENT]),
        recent=_mean(held[-RECENT:]),
        course=tuple(_mean(part) for part in np.array_split(held, min(COURSE, len(held)))),
    )


def _mean(values: "Column") -> float:
    import numpy as np

    return float(np.sum(values / len(values)))  # a sum of the largest numbers has no end
