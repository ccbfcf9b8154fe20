"""What the gate judges by: the thresholds, the plan of training, and samples, scores and readings side by side."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from llm_finetuning.findings import abstentions
from llm_finetuning.types import AuditReport, Label, ProbeReport, Sample, Score

WITHIN = 1e-6  # TRL keeps rewards as float32; a smaller difference cannot be seen in training
DIFFERS = 1e-8  # rewards of a group that differ by more carry a signal, as torch.isclose tells them apart

Modes = Literal["sum_then_normalize", "normalize_then_sum"]
Advantages = Callable[[Sequence[Sequence[float]], Sequence[float], Sequence[int], Modes], list[float]]
"""TRL's advantages of: reward values a completion, weights, sizes of the consecutive groups, how rewards are joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The thresholds of the gate; a share blocks when it is beyond its limit."""

    success: float  # weighted reward from which a completion counts as a success
    labels: int = 50  # completions that a person must have judged
    abstained: float = 0.05  # share of completions that no reward scores
    infrastructure: float = 0.01  # share of completions of which a reward says nothing since its machinery failed
    truncated: float = 0.20  # share of completions cut at `max_completion_length`
    saturated: float = 0.95  # success at which nothing is left to learn
    signal: float = 0.30  # share of groups with a signal below which the gate warns
    duplicates: float = 0.50  # share of completions that repeat a sibling above which the gate warns
    constant: float = 0.50  # share of completions that are one text, from which the gate asks what it alone would earn
    empty: float = 0.10  # share of completions without a word above which the gate warns
    lenient_gap: float = 0.10  # share that is right but not in the form the reward reads, above which the gate warns
    reading_s: float = 1.0  # median seconds a label below which nobody can have read
    reward_share: float = 0.20  # rewards' share of generation and rewards together above which the gate warns
    step_s: float = 10.0  # where no generation was timed: seconds of rewards a batch above which the gate warns
    program_labels_count: bool = False  # the demo alone: its reader is a program


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the brief plans for training, as far as the gate looks at it."""

    num_generations: int | None = None  # None: as many as were drawn
    max_completion_length: int | None = None  # tokens; None: the longest cut completion
    completions_per_batch: int | None = None  # completions of one generation batch, over which rewards are called
    aggregation: Modes = "sum_then_normalize"
    weights: Mapping[str, float] = field(default_factory=dict)  # by the reward's name; 1 where it is not there
    form_rewards: frozenset[str] = frozenset()  # names of the rewards that look at form alone
    advantages: Advantages | None = None  # None: no dry run


@dataclass(frozen=True, slots=True)
class Scored:
    """One completion with what it was paid."""

    sample: Sample
    score: Score

    @property
    def reward(self) -> float | None:
        """The weighted sum; None when every reward abstained."""
        return self.score.reward


Word = Literal["accept", "reject", "unsure", "contested"]


@dataclass(frozen=True, slots=True)
class Read:
    """One completion with the reward's word and the readers' on it."""

    scored: Scored
    word: Word  # `contested`: one reader accepts it and another rejects it
    labels: list[Label]  # every reader's standing one
    chosen: bool  # read since errors hide there, by any of its readers


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that the findings look at."""

    policy: list[Scored]  # as training draws them
    low: list[Scored]  # the low-temperature pass
    groups: list[list[Scored]]  # the policy pass by prompt id
    read: list[Read]
    rule: Rule
    plan: Plan
    audit: AuditReport | None
    probe: ProbeReport | None

    @property
    def generations(self) -> int:
        """The planned size of a group, or the largest that was drawn."""
        return self.plan.num_generations or max((len(group) for group in self.groups), default=0)


def silent_ones(evidence: Evidence) -> frozenset[str]:
    """Return the ids of the samples that every reward abstained from, one of them without a reason to."""
    everything = [*evidence.policy, *evidence.low]
    scored = abstentions.scored_by((one.sample.prompt_id, one.score.values) for one in everything)
    return frozenset(
        one.sample.sample_id
        for one in everything
        if one.reward is None and abstentions.silent(one.sample.prompt_id, one.score.values, scored)
    )


def is_paid(reward: float, rule: Rule) -> bool:
    """Tell whether a weighted reward counts as a success; 0.6 + 0.3 + 0.1 is a little below 1 in binary."""
    return reward >= rule.success - WITHIN


def component_names(scores: Sequence[Scored]) -> list[str]:
    """Return the names of the rewards in these scores, in the brief's order."""
    return list(dict.fromkeys(value.name for scored in scores for value in scored.score.values))


def by_prompt(scores: Sequence[Scored]) -> list[list[Scored]]:
    """Return completions by prompt id, in order of first appearance."""
    groups: dict[str, list[Scored]] = {}
    for scored in scores:
        groups.setdefault(scored.sample.prompt_id, []).append(scored)
    return list(groups.values())
