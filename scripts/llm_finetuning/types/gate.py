"""What the audit and the gate found."""

from dataclasses import dataclass, field
from typing import Literal

from llm_finetuning.types.findings import Estimate, Finding
from llm_finetuning.types.samples import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The dataset's faults before anything is sampled."""

    next_action: str
    findings: list[Finding]  # what blocks comes first
    rows: int
    prompt_tokens: dict[str, int] | None  # min, median, p95 and max; None where no tokenizer could be asked
    notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """One completion that the reward and the reader judge differently."""

    sample_id: str
    verdict: Verdict
    reward: float | None
    kind: Literal["false_pass", "false_fail", "unscored"]  # paid though rejected; not paid though accepted; no word
    prompt: str
    answer: str | None
    completion: str
    note: str


GateVerdict = Literal["open", "blocked", "insufficient-evidence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """A person's word that the run goes on though the gate did not open."""

    by: str
    reason: str
    at: str  # ISO 8601, UTC
    fingerprint: str  # of the state that it speaks of; it says nothing of another


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """The gate's answer and all that it rests on."""

    verdict: GateVerdict
    next_action: str
    findings: list[Finding]
    disagreements: list[Disagreement]
    agreement: dict[str, int]  # counts of {paid, unpaid, unscored}_{accept, reject}, unsure and contested
    success_threshold: float  # weighted reward from which a completion counts as a success
    fingerprint: str  # SHA-256 of everything the verdict depends on
    notes: list[str]
    kappa: Estimate | None = None  # of reward and reader
    signal: dict[str, Estimate] = field(default_factory=dict)  # size of a group -> share that will carry a signal
    component_shares: dict[str, float] = field(default_factory=dict)  # of the variance of the sum within groups
    overrides: list[Override] = field(default_factory=list)  # all that were ever made; one counts for its fingerprint
