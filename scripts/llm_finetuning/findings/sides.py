"""Which completions of a prompt pass and which fail, beyond doubt: what may be preferred to what."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_finetuning.findings.evidence import Rule, Scored, is_paid
from llm_finetuning.types import Text

LEFT_OUT: Mapping[str, str] = {
    "unscored": "every reward abstained",
    "partly_unscored": "a reward abstained that scored others of the same prompt; for kto, any reward",
    "faulty": "a value that moves, is out of range or no finite number",
    "empty": "no text",
    "contradicted": "the same text passes and fails",
    "cut": "passes, but is cut at the cap",
    "repeated": "the text of another one of the same prompt",
}
"""Why a completion is in no record; the first reason that holds. A repeated text still counts where one is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The completions of one prompt by the side that they may stand on."""

    passing: list[Scored]
    failing: list[Scored]
    rewards: list[float]  # of all that are scored in full, so that what is left out later still counts
    left_out: Mapping[str, int]  # key of LEFT_OUT -> completions


def group_of(completions: Sequence[Scored], *, rule: Rule, weights: Mapping[str, float], compared: bool) -> Group:
    """Sort the completions of one prompt by what they may be used for.

    Where they are `compared`, a reward that abstains from all of them makes none better than another, as one that is
    for other prompts does; where each is judged alone, what it would have paid is missing.
    """
    wanted = {
        value.name
        for one in completions
        for value in one.score.values
        if weights.get(value.name, 1.0) and (value.value is not None or not compared)
    }
    left: Counter[str] = Counter()
    known: list[tuple[Scored, float]] = []
    for one in completions:
        why = _unscored(one, wanted, weights)
        if why is None and one.reward is not None:
            known.append((one, one.reward))
        else:
            left[why or "unscored"] += 1
    paid = {said(one.sample.completion) for one, reward in known if is_paid(reward, rule)}
    unpaid = {said(one.sample.completion) for one, reward in known if not is_paid(reward, rule)}
    sides: dict[bool, list[Scored]] = {True: [], False: []}
    for one, reward in known:
        text, passes = said(one.sample.completion), is_paid(reward, rule)
        if not text:
            left["empty"] += 1
        elif text in paid and text in unpaid:
            left["contradicted"] += 1
        elif passes and one.sample.finish_reason == "length":
            left["cut"] += 1
        else:
            sides[passes].append(one)
    for side in sides.values():
        left["repeated"] += len(side) - len(distinct(side))
    return Group(passing=sides[True], failing=sides[False], rewards=[reward for _, reward in known], left_out=left)


def _unscored(one: Scored, wanted: set[str], weights: Mapping[str, float]) -> str | None:
    """Return why a completion's reward cannot be held against its siblings'; None where it can."""
    counting = [value for value in one.score.values if weights.get(value.name, 1.0)]
    if any(value.fault is not None for value in counting):
        return "faulty"
    if one.reward is None:
        return "unscored"
    return "partly_unscored" if {value.name for value in counting if value.value is None} & wanted else None


def said(completion: Text) -> str:
    """Return what two completions are held against each other by: their text, without regard to white space."""
    if isinstance(completion, str):
        return " ".join(completion.split())
    parts = [
        str(message["content"] or "") if set(message) == {"role", "content"} else json.dumps(message, sort_keys=True)
        for message in completion
    ]
    return " ".join(" ".join(parts).split())


def distinct(side: Sequence[Scored]) -> list[Scored]:
    """Return the first completion of each text."""
    return list({said(one.sample.completion): one for one in reversed(side)}.values())[::-1]


def kind_of(group: Group) -> str:
    """Return which sides have a completion: both, only_passing, only_failing or neither."""
    if group.passing and group.failing:
        return "both"
    return "only_passing" if group.passing else "only_failing" if group.failing else "neither"
