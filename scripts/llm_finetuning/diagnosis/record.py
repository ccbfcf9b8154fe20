"""What a diagnosis is made of: the records of diagnosis.json, frozen, without behaviour."""

from dataclasses import dataclass, field
from typing import Any, Literal

Confidence = Literal["measured", "literature only"]
"""`measured`: the rule was tried on public or made logs; `literature only`: it rests on papers and reports."""

Role = Literal["failure", "undecided", "sound", "watch", "consequence"]
"""What a finding says of the run; a `watch` decides nothing, a `consequence` began after the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How large the change is that a finding rests on, with its 95 % interval where one is known."""

    metric: str  # name in TRL 1.16
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisFinding:
    """One thing that the log shows."""

    code: str
    role: Role
    text: str  # one line, with its numbers
    since: float | None = None  # step from which it holds; None where it is about the log as a whole
    until: float | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    effect: Effect | None = None
    confidence: Confidence = "measured"
    confirm: str = ""  # what would confirm it
    refute: str = ""  # what would refute it


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The one next change; `options` are those of TRL 1.16."""

    change: str  # one line, in the imperative
    because: str
    options: dict[str, Any] = field(default_factory=dict)
    variant: str | None = None  # a name of recipes.variants where the change is a variant of GRPO
    carries: str = ""  # why the change acts, or what has to be set beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """A cause that was looked for and not found, or could not be looked for."""

    family: str
    state: Literal["excluded", "unknown"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """The smallest change of the mean reward that a log of so many rows shows in four of five tries."""

    rows: int
    smallest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """One completion that shows what was paid."""

    step: int
    paid: float
    goal: float | None  # what the component that is wanted paid
    prompt: str
    completion: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What a training log says of its run."""

    verdict: str  # code of the first cause in time, or healthy, too_short, inconclusive, format_first_phase
    state: Literal["healthy", "failure", "undecided"]
    text: str
    source: str
    form: str
    era: str
    rows: int
    first_step: float
    last_step: float
    goal: str | None  # component taken as the one that is wanted
    findings: list[DiagnosisFinding]  # the verdict's first
    advice: Advice
    excluded: list[Exclusion]
    power: list[Power]
    checkpoint: dict[str, Any] | None  # step and why: where to go back to
    missing: list[str]  # metrics that are not in the log, with what therefore cannot be said
    quotes: dict[str, list[Quote]] = field(default_factory=dict)  # before, after
    options: dict[str, Any] = field(default_factory=dict)  # that were known, of those which matter here
    notes: list[str] = field(default_factory=list)
