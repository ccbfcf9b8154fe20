"""Every record that crosses a stage: frozen, without behaviour.

Records are plain dataclasses; `artifact` checks them with pydantic where they enter from a file.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

NOT_HANDED_ON = ("prompt", "completion", "completion_ids")
"""Columns of a data set that TRL 1.16.0 does not pass to a reward."""

Text = str | list[dict[str, Any]]
"""A prompt or completion in TRL's two forms: plain text, or a list of chat messages."""

Pass = Literal["policy", "low_temperature"]
"""`policy` samples as training will; `low_temperature` asks what the model does when it does not explore."""

FinishReason = Literal["stop", "length"]
"""`stop`: an end token was produced. `length`: the completion was cut at `max_completion_length`."""

Verdict = Literal["accept", "reject", "unsure"]
"""What a reader says of one completion."""

Part = Literal["random", "chosen"]
"""Why a completion is read: drawn at random, for rates that speak of all; or chosen, since errors hide there."""

Reader = Literal["person", "program"]
"""Who read: the gate counts persons; a program's labels count in the demo alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One prompt of the dataset."""

    row: int  # position in the dataset, from 1; the file's line number where the format is JSONL
    prompt_id: str
    prompt: Text
    columns: dict[str, Any]  # every other column, as TRL hands them to a reward


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One completion of one prompt, with all that a reward is called with."""

    sample_id: str
    prompt_id: str
    row: int
    pass_name: Pass
    index: int  # place in its group, from 0
    prompt: Text
    columns: dict[str, Any]
    completion: Text
    completion_ids: list[int] | None  # None where the server did not say them
    tokens: int  # length of the completion, end token included
    finish_reason: FinishReason
    temperature: float
    seconds: float | None = None  # wall time of its batch divided by the completions in it; None where not measured


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardValue:
    """What one reward paid for one completion."""

    name: str
    value: float | None  # None: abstained, or not a finite number
    reason: str | None  # the reward's own word, where it gives one
    fault: str | None  # why it cannot be trained on: nan, infinite, unstable, out_of_range; None when sound
    seconds: float  # wall time of the reward's call divided by the completions in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What the composed reward paid for one completion, as TRL computes it."""

    sample_id: str
    prompt_id: str
    pass_name: Pass
    values: list[RewardValue]
    reward: float | None  # weighted sum over the rewards that did not abstain; None when all did
    advantage: float | None  # within its group; None outside the policy pass
    extras: dict[str, Any] = field(default_factory=dict)  # what rewards said through `log_extra`


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One completion that a person is asked to read, and why this one."""

    sample_id: str
    part: Part
    why: str  # in a few words; empty for the random part


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What one reader decided about one completion."""

    sample_id: str
    reader: str
    reader_kind: Reader
    verdict: Verdict
    note: str
    at: str  # ISO 8601, UTC
    seen_sha256: str  # digest of what was on screen; a sample drawn again asks for a new label
    source: Literal["terminal", "page", "import", "demo"]
    part: Part = "random"  # labels made elsewhere count as drawn at random


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A share with its count and its 95% interval."""

    hits: int
    n: int
    low: float  # 0..1
    high: float  # 0..1


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number that is not a plain share, with its 95% interval and how many observations it rests on."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing the gate found, with its numbers."""

    code: str
    weight: Literal["blocks", "insufficient", "warns", "fine"]
    text: str  # one line: what, with n and interval
    next_action: str | None  # what to do about it, in the imperative
    rate: Rate | None = None
    estimate: Estimate | None = None  # where it is no plain share of what was counted
    sample_ids: list[str] = field(default_factory=list)
    data_rows: list[int] = field(default_factory=list)  # rows of the dataset that it speaks of, from 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """One completion that the reward and the reader judge differently."""

    sample_id: str
    verdict: Verdict
    reward: float | None
    kind: Literal["false_pass", "false_fail"]  # paid though rejected; not paid though accepted
    prompt: str
    answer: str | None
    completion: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The dataset's faults before anything is sampled."""

    next_action: str
    findings: list[Finding]  # what blocks comes first
    rows: int
    prompt_tokens: dict[str, int] | None  # min, median, p95 and max; None where no tokenizer could be asked
    notes: list[str]


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
    agreement: dict[str, int]  # counts of paid_accept, paid_reject, unpaid_accept, unpaid_reject
    success_threshold: float  # weighted reward from which a completion counts as a success
    fingerprint: str  # SHA-256 of everything the verdict depends on
    notes: list[str]
    kappa: Estimate | None = None  # of reward and reader
    signal: dict[str, Estimate] = field(default_factory=dict)  # size of a group -> share that will carry a signal
    component_shares: dict[str, float] = field(default_factory=dict)  # of the variance of the sum within groups
    overrides: list[Override] = field(default_factory=list)  # all that were ever made; one counts for its fingerprint


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationItem:
    """What one model did with one held-out row; the lists hold one entry a completion, as in the transcripts."""

    prompt_id: str
    row: int
    n: int  # completions that were scored; one on which every reward abstained is neither success nor failure
    successes: int
    rewards: list[float | None]
    values: dict[str, list[float | None]]  # component -> what it paid
    tokens: list[int]
    finish_reasons: list[FinishReason]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """How well one model does on the held-out rows; the header says with which settings and rewards."""

    name: str
    model: str  # folder or hub id, as it was named
    greedy: bool
    samples: int  # completions an item
    success_threshold: float  # weighted reward from which a completion counts as a success
    passes: dict[str, Estimate]  # k -> pass@k
    reward: Estimate | None  # mean of the weighted sum; None where every reward abstained
    components: dict[str, Estimate]  # mean of what each reward paid; one that always abstained is left out
    tokens: Estimate  # mean length, end token included
    cut: Estimate  # share of completions cut at the cap
    items: list[EvaluationItem]
    notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """One number of two models, and its difference item by item: candidate less base."""

    base: float
    candidate: float
    difference: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Whether one model does better than another on the same held-out rows."""

    base: str
    candidate: str
    verdict: Literal["improved", "worse", "no-difference-shown"]
    next_action: str
    success: Shift  # pass@1
    passes: dict[str, Shift]  # larger k -> pass@k
    test: Literal["exact McNemar", "sign-flip"]
    p_value: float
    won: int  # items on which the candidate succeeds more often
    lost: int
    tied: int
    smallest_shown: float  # difference in pass@1 that so many items with this spread show in four of five tries
    reward: Shift | None
    components: dict[str, Shift]
    tokens: Shift
    cut: Shift
    notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One reward of the composed reward, ready to be called."""

    name: str  # distinct among the brief's rewards; the trainer's metric is `rewards/<name>/mean`
    function: Callable[..., Any]  # TRL's signature; may be async
    weight: float
    low: float  # declared range
    high: float
