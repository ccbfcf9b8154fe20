"""May a candidate take its base's place? A checkpoint that only beats its own training reward may not.

`promoted` needs all of it: better on goldens that were not trained on, general ability within its budget, no sign that
the reward was gamed. `rejected` needs one thing that is shown to be wrong. Everything else is `insufficient`: something
is not measured, not enough, or a person's to weigh. Rejecting comes before wanting, since more evidence does not mend
what is shown. What is looked at stands in `comparing`, one file a question; here it is put in order and worded.
"""

import math
from collections.abc import Sequence
from typing import get_args

from llm_finetuning.comparing import arena as arenas
from llm_finetuning.comparing import drift, goldens, leakage, pairs, parts, reward, sameness, shape
from llm_finetuning.comparing.comparison import compare
from llm_finetuning.comparing.comparison import parts as shifts_of_parts
from llm_finetuning.comparing.evidence import Commands, Evidence, Leakage, Setting, Suites, Training, Wanted, gap_words
from llm_finetuning.statistics import items_needed
from llm_finetuning.types import Arena, Comparison, Evaluation, Finding, Promotion, PromotionVerdict, Weight

__all__ = ["Commands", "Leakage", "Setting", "Suites", "Training", "Wanted", "evidence_of", "promote"]

ORDER = (
    "reward-hacked",  # explains a fall of success, and of everything else
    "worse",
    "leaked-gain",
    "drift-exceeded",
    "cut-without-gain",
    "not-graded",
    "same-model",
    "leaked-power",
    "too-few-items",
    "reward-unmatched",
    "no-difference",
    "ungraded-items",
    "leakage-unread",
    "bucket-falls",
    "drift-missing",
    "drift-unclear",
)
"""Codes that keep a candidate from promotion, what decides first; the one next action is the first one's.

What explains others stands before them: a hacked reward before the success that it cost, no difference before a drift
that only matters for a candidate which is better.
"""

_WEIGHTS = get_args(Weight)


def promote(evidence: Evidence) -> Promotion:
    """Return whether the candidate may take its base's place; the answer does not depend on the order of the items."""
    found = sorted(
        (
            finding
            for question in (goldens, reward, leakage, drift, parts, shape, sameness, arenas)
            for finding in question.findings(evidence)
        ),
        key=_rank,
    )
    verdict, reason, next_action = _verdict(found, evidence)
    return Promotion(
        base=evidence.goldens.base,
        candidate=evidence.goldens.candidate,
        verdict=verdict,
        reason=reason,
        next_action=next_action,
        findings=found,
        goldens=evidence.goldens,
        fresh=evidence.fresh,
        leaked=list(evidence.leakage.found),
        buckets=list(evidence.buckets),
        drift=evidence.drift,
        kinds=list(evidence.kinds),
        drift_budget=evidence.wanted.drift,
        wanted_gain=evidence.wanted.gain,
        items_needed=evidence.items_needed,
        arena=evidence.arena,
        notes=[*evidence.setting.notes, *evidence.goldens.notes, *parts.notes(evidence)],
    )


def evidence_of(
    base: Evaluation,
    candidate: Evaluation,
    *,
    suites: Suites,
    leaks: Leakage,
    wanted: Wanted,
    training: Training,
    commands: Commands,
    setting: Setting,
    arena: Arena | None = None,
) -> Evidence:
    """Return what decides whether `candidate` may take the place of `base`, both evaluated on the same goldens.

    The drift suite of both, what leaked, what the brief wants, how the candidate was trained, and the commands that a
    next action may name are given; a pairwise judgement supports or warns.
    """
    leaked = {leak.prompt_id for leak in leaks.found} & {item.prompt_id for item in base.items}
    fresh_ids = {item.prompt_id for item in base.items} - leaked
    whole = compare(base, candidate)
    fresh = compare(base, candidate, without=leaked) if leaked else None
    deciding = pairs.paired(base, candidate, without=leaked)
    before, after = suites.base, suites.candidate
    measured = None if before is None or after is None else (before, after)
    return Evidence(
        goldens=whole,
        fresh=fresh,
        leaked=compare(base, candidate, without=fresh_ids) if leaked else None,
        buckets=shifts_of_parts(base, candidate, without=leaked),
        drift=compare(measured[0], measured[1]) if measured else None,
        kinds=shifts_of_parts(measured[0], measured[1]) if measured else [],
        reward_p_value=pairs.reward_p_value(deciding),
        graders=base.graders,
        items=len(deciding),
        ungraded=pairs.partly_graded(deciding),
        least_gain=pairs.least_gain(deciding),
        most_gain=pairs.most_gain(deciding),
        items_needed=_needed(fresh or whole, deciding, wanted.gain, base.samples),
        wanted=wanted,
        training=training,
        leakage=leaks,
        suites=suites,
        commands=commands,
        setting=setting,
        arena=arena,
    )


def _needed(found: Comparison, deciding: Sequence[pairs.Pair], gain: float, samples: int) -> int | None:
    """Return how many goldens show the wanted gain in four of five tries, with the spread that was measured.

    Where no item differs there is no spread to go by, and the base model's own says how many a plan would ask for. None
    where nothing was graded, or the base leaves no room for such a gain.
    """
    gap = found.success.difference
    if not gap.n or found.success.base + gain > 1:
        return None
    if found.won or found.lost:
        return math.ceil(gap.n * (found.smallest_shown / gain) ** 2)
    counts = [(before.successes, before.n) for before, _ in pairs.graded(deciding)]
    return items_needed(gain, base=counts, completions=samples)


def _rank(finding: Finding) -> tuple[int, int]:
    """Return where a finding stands; what decides nothing stays in the order of the questions."""
    return _WEIGHTS.index(finding.weight), ORDER.index(finding.code) if finding.code in ORDER else len(ORDER)


def _verdict(found: Sequence[Finding], evidence: Evidence) -> tuple[PromotionVerdict, str, str]:
    """Return the verdict, its reason in one line and the one next action, from findings in order."""
    first = found[0]
    if first.weight == "blocks":
        return "rejected", first.text, str(first.next_action)
    if first.weight == "insufficient":
        return "insufficient", first.text, str(first.next_action)
    better, kept = evidence.deciding, evidence.drift
    assert kept is not None, "without it drift is missing"
    reason = (
        f"better on {better.success.difference.n} goldens, {gap_words(better.success.difference)}; general ability "
        f"within its budget, {gap_words(kept.success.difference)}"
    )
    action = (
        f"read some items that `{better.candidate}` won and lost, then put it in place: `{evidence.commands.place}`"
    )
    return "promoted", reason, action
