"""What a promotion is judged by: two models on the goldens and on the drift suite, what leaked, what is wanted."""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_finetuning.types import Arena, Comparison, Estimate, Evaluation, Leak, PartShift, Shift


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the brief asks of a candidate, in pass@1."""

    gain: float = 0.05  # what it should be better by
    drift: float = 0.05  # largest drop on the drift suite that is accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How the candidate was trained, as far as a remedy depends on it."""

    method: str = "grpo"
    lora: bool = True
    beta: float = 0.0  # weight of the KL term; of GRPO alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Leakage:
    """Which goldens stand in the training data."""

    found: Sequence[Leak] = ()
    unread: str | None = None  # why the training data was not looked at, or not all of it; None where it was
    mend: str = ""  # what to do about that


@dataclass(frozen=True, slots=True, kw_only=True)
class Suites:
    """The drift suite of both models; one is None where it was not measured."""

    base: Evaluation | None = None
    candidate: Evaluation | None = None
    missing: Sequence[str] = ()  # commands that measure what is not there


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """What a next action names, each ready for a shell as it stands."""

    compare: str  # these two, once more
    again: Sequence[str]  # measures both in the same way under free names, and compares those
    more: Sequence[str]  # likewise with more completions an item; empty where no more can be drawn
    more_samples: int  # completions an item of those
    scored_anew: Sequence[str]  # scores the kept completions of both, once the files in `moved` are moved away
    moved: Sequence[str]
    trained: str  # measures what the run trained, or says how it is trained
    audit: str
    diagnose: str
    next_run: str  # begins a run with this one's brief
    place: str  # what makes use of the candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is known of two evaluations beside their numbers."""

    same_model: bool = False
    engines_differ: bool = False
    goldens_changed: bool = False  # the file of the held-out rows is another one than was evaluated
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that the findings look at."""

    goldens: Comparison
    fresh: Comparison | None  # without the goldens that leaked; None where none did
    leaked: Comparison | None  # those alone
    buckets: Sequence[PartShift]
    drift: Comparison | None
    kinds: Sequence[PartShift]
    reward_p_value: float  # of the shift of what training pays, on the items that decide
    graders: Sequence[str]
    items: int  # goldens that decide, graded or not
    ungraded: int  # of them, those with a completion of either model that was not graded
    least_gain: float  # in pass@1 on them, where every such completion spoke against the candidate
    most_gain: float  # likewise, where each of them spoke for it
    items_needed: int | None
    wanted: Wanted
    training: Training
    leakage: Leakage
    suites: Suites
    commands: Commands
    setting: Setting
    arena: Arena | None

    @property
    def deciding(self) -> Comparison:
        """The comparison that decides: on the goldens that did not leak."""
        return self.fresh or self.goldens

    @property
    def is_better(self) -> bool:
        """Tell whether the candidate is shown to be better on the items that decide."""
        return self.deciding.verdict == "improved"

    @property
    def does_not_rise(self) -> bool:
        """Tell whether success falls, stays, or is shown to rise by less than is wanted.

        "Not shown to rise" would not do: too few items never show anything, and that is no fault of the candidate.
        """
        found = self.deciding.success.difference
        return not self.is_better and bool(found.n) and (found.value <= 0 or found.high < self.wanted.gain)


def shift_words(shift: Shift, form: str = ".3f") -> str:
    """Return a shift as `0.396 to 0.046 (-0.350, 95% interval -0.396 to -0.304)`."""
    return f"{shift.base:{form}} to {shift.candidate:{form}} ({gap_words(shift.difference, form)})"


def gap_words(gap: Estimate, form: str = ".3f") -> str:
    """Return a difference as `-0.350, 95% interval -0.396 to -0.304`."""
    return f"{gap.value:+{form}}, 95% interval {gap.low:+{form}} to {gap.high:+{form}}"


def in_turn(commands: Sequence[str]) -> str:
    """Return commands as they are run one after another: "`a`, then `b`"."""
    return ", then ".join(f"`{command}`" for command in commands)
