"""What evaluations measured, and what comes of comparing two."""

from dataclasses import dataclass
from typing import Literal

from llm_finetuning.types.findings import Estimate, Finding
from llm_finetuning.types.samples import FinishReason

Suite = Literal["goldens", "drift"]
"""`goldens`: the held-out rows of the task. `drift`: the product's own items of general ability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationItem:
    """What one model did with one held-out row; the lists hold one entry a completion, as in the transcripts."""

    prompt_id: str
    row: int
    bucket: str | None  # the part of the items it belongs to; None where none is named
    source: str | None  # where it comes from; None where that is not said
    n: int  # completions that were graded; one on which every grader abstained is neither success nor failure
    successes: int
    grades: list[float | None]  # weighted sum of the graders, which success is read from
    rewards: list[float | None]  # weighted sum of what training pays; the grades where no graders are named
    values: dict[str, list[float | None]]  # component -> what it paid
    tokens: list[int]  # empty where another program measured and did not say them; so below
    finish_reasons: list[FinishReason]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """How well one model does on one suite; the header says with which settings and rewards."""

    name: str
    suite: Suite
    fingerprint: str  # SHA-256 of the items: ids, prompts and columns
    model: str  # folder or hub id, as it was named
    greedy: bool
    samples: int  # completions an item
    graders: list[str]  # components that success is read from; the others are what training pays
    success_threshold: float  # weighted grade from which a completion counts as a success
    passes: dict[str, Estimate]  # k -> pass@k
    buckets: dict[str, Estimate]  # bucket -> pass@1; empty where none is named
    corrected: Estimate | None  # pass@1 corrected for the errors of the judge that graded; None where a program did
    reward: Estimate | None  # mean of the weighted sum; None where every reward abstained
    components: dict[str, Estimate]  # mean of what each reward paid; one that always abstained is left out
    tokens: Estimate | None  # mean length, end token included; None where it is not known
    cut: Estimate | None  # share of completions cut at the cap; None where it is not known
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
    success: Shift  # pass@1
    passes: dict[str, Shift]  # larger k -> pass@k
    test: Literal["exact McNemar", "sign-flip"]
    p_value: float
    won: int  # items on which the candidate succeeds more often
    lost: int
    tied: int
    smallest_shown: float  # difference in pass@1 that so many items with this spread show in four of five tries
    grade: Shift | None  # mean grade; None where grades say no more than pass or fail
    reward: Shift | None
    components: dict[str, Shift]
    tokens: Shift | None
    cut: Shift | None
    notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arena:
    """What a calibrated judge said of two models' answers side by side, each pair shown in both orders."""

    judge: str  # snapshot name
    won: int  # pairs on which both orders named the candidate
    lost: int
    tied: int  # the judge named neither, or the answer followed the order
    by_order: int  # of the ties: pairs on which it named whoever stood in one place
    unanswered: int  # pairs without a verdict in both orders
    p_value: float  # exact sign test of won against lost


@dataclass(frozen=True, slots=True, kw_only=True)
class PartShift:
    """How pass@1 shifts on one part of the items: a bucket of the goldens, or a kind of the drift suite."""

    name: str
    success: Shift
    p_value: float
    adjusted: float  # the same, adjusted for how many parts there are (Holm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A golden whose prompt stands in the training data."""

    prompt_id: str  # of the golden
    row: int  # of the training data, from 1
    column: str  # of that row
    how: Literal["same", "near"]  # but for case and space; nearly so, as `audit` has it


PromotionVerdict = Literal["promoted", "rejected", "insufficient"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """Whether a candidate may take its base's place, and all that this rests on."""

    base: str
    candidate: str
    verdict: PromotionVerdict
    reason: str  # one line: the finding that decided
    next_action: str  # the one thing to do now, in the imperative
    findings: list[Finding]  # what decides comes first
    goldens: Comparison  # on all of them
    fresh: Comparison | None  # without those that leaked, which decides; None where none leaked
    leaked: list[Leak]
    buckets: list[PartShift]  # of the items that decide; empty where none is named
    drift: Comparison | None  # None where one of the two was not measured
    kinds: list[PartShift]  # of the drift suite
    drift_budget: float  # largest drop of pass@1 on the drift suite that is accepted
    wanted_gain: float  # in pass@1, as the brief has it
    items_needed: int | None  # to show it in four of five tries; None: nothing was graded, or the base leaves no room
    arena: Arena | None
    notes: list[str]
