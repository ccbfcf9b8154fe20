"""Whether a run can be trained, and what was built of it."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was tried on this machine before training."""

    name: str
    state: Literal["passed", "warning", "failed", "skipped"]
    text: str  # one line: what was tried and what came of it, or why nothing was
    next_action: str | None = None  # of a warning and a failure: the one thing to do about it, in the imperative


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvReport:
    """Whether this machine can train this run, and all that was tried."""

    verdict: Literal["ready", "ready-with-warnings", "blocked"]
    next_action: str
    checks: list[Check]
    machine: dict[str, Any]  # what was read of it, as `machine.facts` has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Whether a run fits its machine, and with which change of its brief it does; memory in GiB."""

    verdict: Literal["fits", "tight", "does not fit", "unknown"]
    reason: str  # one line: the phase that decides, or what is not known
    next_action: str
    device: dict[str, Any]  # name, total, free for the run, and how that comes about
    needs: dict[str, Any] | None  # of the device at its fullest: gib, low, high, formula
    phases: list[dict[str, Any]]  # name, gib, low, high, breaks, and the parts likewise with their formula
    engine: dict[str, Any] | None  # vLLM's share of the device: as it is, the least, the ample, and what is to fit
    remedy: dict[str, Any] | None  # the smallest change that fits: change, words, costs, gib, verdict
    tried: list[dict[str, Any]]  # each with all changes before it
    notes: list[str]
    time: dict[str, Any] | None = None  # seconds: phases, step, run, bottleneck; None where the device is not known
    calibrated: dict[str, Any] | None = None  # what was measured on the machine, and of which model
    layout: dict[str, Any] | None = None  # which processes run where, and the batch that each of them holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What a built run folder holds, so that its train.py can tell whether it is still what was built."""

    method: str
    files: dict[str, str]  # path within the folder -> SHA-256: all that decides what is trained, and how
    launch: dict[str, str]  # likewise: how it is installed and started, which a person may adapt to a machine
    frozen: dict[str, str]  # path as the brief writes it -> path within the folder
    model_files: dict[str, str] | None  # SHA-256 of a local model's template and tokenizer files; None for a hub id
    shape: dict[str, Any]  # which processes run where
    rows: int  # that are trained on
    notes: list[str]
    demo: bool  # made by the demo, whose gate counts for nothing else
