"""Whether a reward that said nothing had a reason for it: None is for what is not the model's doing.

TRL leaves a completion that no reward scores out of its group's mean and gives it an advantage of 0: failing this way
costs nothing. A reason of the machinery excuses that. A reason of the row (its gold, schema or tests cannot be read)
does so where the reward scored no other completion of the row, since a bad row is bad for all of them.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from llm_finetuning.types import ProbeResult, RewardValue

_MACHINERY = ("judge_", "infrastructure", "not_installed", "out_of_time", "sandbox", "no_sandbox")
"""How a reason begins when a reward abstained since its machinery failed: no fault of the model or of the gold."""

_NO_IDS = "no_token_ids"  # the engine that sampled told none

DATA_REASONS = re.compile(r"\w+_unreadable|schema_\w+")
"""Reasons of an abstention that are the row's fault, not the machine's."""

COSTS_NOTHING = (
    "TRL leaves such completions out of their group, with an advantage of 0, so that failing this way costs nothing"
)
PAY_ZERO = "return 0.0 where the completion is at fault; None is for what is not the model's doing"

Scored = frozenset[tuple[str, str]]
"""(prompt id, reward) of every reward that scored some completion of the prompt."""


def is_machinery(value: RewardValue) -> bool:
    """Tell whether a reward abstained since its machinery failed."""
    return value.value is None and value.reason is not None and value.reason.startswith(_MACHINERY)


def scored_by(values: Iterable[tuple[str, Sequence[RewardValue]]]) -> Scored:
    """Return which rewards scored some completion of which prompt."""
    return frozenset((prompt_id, one.name) for prompt_id, of in values for one in of if one.value is not None)


def silent(prompt_id: str, values: Sequence[RewardValue], scored: Scored) -> list[str]:
    """Return the rewards that abstained without a reason that excuses it; none where any reward scored."""
    if any(one.value is not None for one in values):
        return []
    return [
        one.name
        for one in values
        if one.fault is None and not _excused(one, scored_others=(prompt_id, one.name) in scored)
    ]


def _excused(value: RewardValue, *, scored_others: bool) -> bool:
    if is_machinery(value) or value.reason == _NO_IDS:
        return True
    return not scored_others and value.reason is not None and DATA_REASONS.fullmatch(value.reason) is not None


def failures(results: Iterable[ProbeResult]) -> list[ProbeResult]:
    """Return what is plainly the model's failure on prompts whose right answer is scored; spoilt golds are not."""
    return [
        result
        for result in results
        if result.success is not None
        and result.fault is None
        and result.probe.weighs == "blocks"
        and result.probe.family != "blank_gold"
        and (result.probe.kind == "exploit" or result.probe.family == "honest")
    ]


def silent_failures(results: Sequence[ProbeResult]) -> list[tuple[ProbeResult, list[str]]]:
    """Return the failures that no reward scored, each with the rewards that had no reason to abstain."""
    scored = scored_by((one.probe.prompt_id, one.values) for one in results if one.probe.family != "blank_gold")
    # Where one reward is all there is, right work that was scored was scored by it.
    scored |= {(one.probe.prompt_id, one.values[0].name) for one in failures(results) if len(one.values) == 1}
    told = ((one, silent(one.probe.prompt_id, one.values, scored)) for one in failures(results))
    return [(one, names) for one, names in told if names]


def mend_reward(failed: int, tried: int, *, chat: bool, rows: str) -> str:
    """Return what to do about golds or rows that come out wrong: where most do, the reward is at fault, not the rows.

    `rows` is the action where it is a few of them.
    """
    if failed * 2 < tried:
        return rows
    form = "; this run's prompts are chat, so a completion comes as a list of messages: read `c[-1]['content']`"
    return (
        f"mend the reward, not the rows: {failed} of {tried} cannot all be wrong; "
        f"call it by hand on one right answer{form if chat else ''}"
    )


def is_chat(text: Any) -> bool:
    """Tell whether a prompt or completion is a list of messages."""
    return isinstance(text, list)
