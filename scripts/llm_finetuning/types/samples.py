"""Prompts, completions, what rewards paid for them, and what readers said of them."""

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
class Component:
    """One reward of the composed reward, ready to be called."""

    name: str  # distinct among the brief's rewards; the trainer's metric is `rewards/<name>/mean`
    function: Callable[..., Any]  # TRL's signature; may be async
    weight: float
    low: float  # declared range
    high: float
