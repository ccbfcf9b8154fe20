"""What a reward is attacked with, and what it did."""

from dataclasses import dataclass, field
from typing import Any, Literal

from llm_finetuning.types.findings import Finding
from llm_finetuning.types.samples import RewardValue, Text

ProbeKind = Literal["exploit", "variant", "control"]
"""`exploit` must not earn, `variant` is right work in another form and must be paid, `control` is honest work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One written completion that the composed reward is tried on, derived from a real prompt and its gold."""

    probe_id: str
    kind: ProbeKind
    family: str
    prompt_id: str
    prompt: Text
    columns: dict[str, Any]
    completion: Text
    about: str  # what was done, in a few words
    weighs: Literal["blocks", "warns"] = "blocks"  # warns: whether it should be paid depends on what was asked for
    earns_at: float = 0.5  # share of the way from honest failure to honest success from which it counts as paid


ProbeVerdict = Literal["held", "earned", "refused", "unscored", "raised"]
"""`earned`: an exploit was paid. `refused`: right work was not. `unscored`: every reward abstained, or there is no
honest work to compare with. `raised`: TRL would die of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """What one probe was paid, beside what honest work on the same prompt is paid."""

    probe: Probe
    values: list[RewardValue]
    reward: float | None  # weighted sum; None when every reward abstained
    failure: float | None  # the reward of honest failure on this prompt
    success: float | None  # the reward of honest success on this prompt
    verdict: ProbeVerdict
    fault: str | None = None  # what TRL would die of, and in which reward
    differs: list[str] = field(default_factory=list)  # ways of calling that gave another value


@dataclass(frozen=True, slots=True, kw_only=True)
class HonestWork:
    """What honest work on one prompt is paid, and the texts that show it."""

    prompt_id: str
    row: int
    gold: str | None  # None where no gold column is known
    form: str  # name of the form that right answers are written in
    right: Text | None  # a right answer in it
    wrong: Text | None  # a clearly wrong answer in it
    success: float | None  # what the right one is paid; None where it is not scored
    failure: float | None
    empty: float | None  # what saying nothing is paid
    problem: Literal["unpaid", "format_only", "unscored", "unknown"] | None  # None: right work is told from wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """What the composed reward does under attack, family by family."""

    verdict: Literal["held", "blocked", "insufficient-evidence"]
    next_action: str
    findings: list[Finding]  # one a family that was tried, with its rate
    honest: list[HonestWork]
    results: list[ProbeResult]
    notes: list[str]
