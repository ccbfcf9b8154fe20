"""What a training log holds once it is read, whichever trainer release or export wrote it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Column = np.ndarray[Any, np.dtype[np.float64]]
    Mask = np.ndarray[Any, np.dtype[np.bool_]]


_OF_PAIRS = frozenset(("chosen", "rejected", "margins", "accuracies"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One metric over a run, a place for each row of its log."""

    values: "Column"  # shape (rows,); NaN where it was not logged, and where it was logged as no finite number
    bad: "Mask"  # shape (rows,); True where it was logged, as null, NaN or infinity


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLog:
    """A training log under the metric names of TRL 1.16, rows in the order in which they were written.

    `series` holds training metrics, `held_out` those of evaluations without their prefix `eval_`. A component of the
    reward is `rewards/NAME/mean` in both.
    """

    source: str  # the file or folder it was read from
    form: str  # run | trainer_state | jsonl | csv | console | tensorboard | wandb
    era: str  # the TRL releases whose names these are: "0.14-0.15", "1.0+", "unknown"
    steps: "Column"  # shape (rows,); ascending but for a resumed run's repeated steps, which the reader resolved
    numbered: bool  # False where the log names no step, and rows were counted
    series: Mapping[str, Series]
    held_out: Mapping[str, Series]  # over `held_out_steps`
    held_out_steps: "Column"
    options: Mapping[str, Any]  # what is known of the training arguments, in TRL's spelling
    renamed: Mapping[str, str] = field(default_factory=dict)  # name in the log -> name here, where they differ
    notes: tuple[str, ...] = ()  # rows left out, torn last lines, steps that restart
    weights: Mapping[str, float] = field(
        default_factory=dict
    )  # of the components by name, where a run of ours has them
    ended: bool = False  # the run's own record says that all its steps are done

    @property
    def components(self) -> tuple[str, ...]:
        """Return the names of the reward's components, in the order of the log."""
        head, tail = "rewards/", "/mean"
        return tuple(
            name[len(head) : -len(tail)] for name in self.series if name.startswith(head) and name.endswith(tail)
        )

    @property
    def is_paid(self) -> bool:
        """Tell whether completions were paid a reward; what DPO and its kin log under rewards/ is none."""
        return "reward" in self.series or bool(set(self.components) - _OF_PAIRS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One row of TRL's table of completions."""

    step: int
    prompt: str
    completion: str
    rewards: Mapping[str, float | None]  # unweighted, by component
    advantage: float | None
    columns: Mapping[str, Any] = field(default_factory=dict)  # what rewards logged beside
