"""Does the candidate keep what the base could do outside the task?"""

from collections.abc import Iterator

from llm_finetuning.comparing.evidence import Evidence, Training, gap_words, in_turn, shift_words
from llm_finetuning.comparing.pairs import LEVEL
from llm_finetuning.statistics import non_inferior
from llm_finetuning.types import Comparison, Finding


def findings(evidence: Evidence) -> Iterator[Finding]:
    """Yield where the drop on the drift suite stands against the budget.

    `drift-exceeded` rejects, however good the goldens are: the whole interval lies beyond the budget, so that the model
    has lost more than was allowed for what it gained. `drift-unclear`: the interval holds the budget; the suite's items
    are fixed, so the way to an answer is a candidate that drifts less. `drift-missing`: one of the two was not
    measured, and what nobody measured is not within anything. `drift-within`: all of the interval lies above the
    budget, which is what a promotion needs; a fall that is shown all the same is a warning.
    """
    found = evidence.drift
    budget = evidence.wanted.drift
    if found is None:
        yield Finding(
            code="drift-missing",
            weight="insufficient",
            text=f"general ability of {_unmeasured(evidence)} was not measured ({in_turn(evidence.suites.missing)}): a "
            "gain on the task may have cost it",
            next_action=f"measure it: {in_turn([*evidence.suites.missing, evidence.commands.compare])}",
        )
        return
    gap = found.success.difference
    words = f"success on {gap.n} items of the drift suite goes from {shift_words(found.success)}"
    standing = non_inferior(gap, budget)
    if standing == "beyond":
        yield Finding(
            code="drift-exceeded",
            weight="blocks",
            text=f"{words}: a larger drop than the budget of {budget:g}",
            next_action=_remedy(evidence),
            estimate=gap,
        )
    elif standing == "unclear":
        yield Finding(
            code="drift-unclear",
            weight="insufficient",
            text=f"{words}: neither shown to stay within the budget of {budget:g} nor to exceed it",
            next_action=_remedy(evidence),
            estimate=gap,
        )
    else:
        yield Finding(
            code="drift-within",
            weight="fine",
            text=f"{words}: within the budget of {budget:g}",
            next_action=None,
            estimate=gap,
        )
    if found.success.base < budget:
        yield Finding(
            code="drift-floor",
            weight="warns",
            text=f"`{found.base}` solves {found.success.base:.0%} of the drift suite and cannot fall beyond the budget",
            next_action="measure what it must not lose by rows of your own among the goldens, in a bucket of their own",
        )
    yield from _falls(found, is_within=standing == "within")
    yield from _kinds(evidence)


def _unmeasured(evidence: Evidence) -> str:
    suites, names = evidence.suites, evidence.goldens
    lacking = [
        name for name, found in ((names.base, suites.base), (names.candidate, suites.candidate)) if found is None
    ]
    return " and of ".join(f"`{name}`" for name in lacking)


def _remedy(evidence: Evidence) -> str:
    return f"{remedy(evidence.training)}; `{evidence.commands.next_run}` begins that run"


def remedy(training: Training) -> str:
    """Return the one change of training that holds drift back; the mildest that this method has and does not use yet.

    A KL term holds the policy near the model it began from. LoRA changes less than all weights do and forgets less
    (Biderman et al. 2024, "LoRA Learns Less and Forgets Less"). General data beside the task's is what is left.
    """
    if training.method == "grpo" and not training.beta:
        return "train again with a KL term: `training: {beta: 0.04}` in the brief"
    if training.method == "grpo":
        return f"train again with a stronger KL term than `beta: {training.beta:g}`, or take an earlier checkpoint"
    if not training.lora:
        return "train again with `training: {adapter: lora}`: it changes less of the model than all weights"
    return "mix general rows into the training data, about one in ten, and train again"


def _falls(found: Comparison, *, is_within: bool) -> Iterator[Finding]:
    if is_within and found.verdict == "worse":
        yield Finding(
            code="drift-falls",
            weight="warns",
            text=f"the fall on the drift suite is small but no chance: {found.won} won, {found.lost} lost, "
            f"{found.test} p = {found.p_value:.2g}",
            next_action="look at what was lost before another training begins from this candidate",
        )


def _kinds(evidence: Evidence) -> Iterator[Finding]:
    """Yield the kinds of general ability that clearly fall; the suite as a whole is what the budget is for."""
    for kind in evidence.kinds:
        if kind.adjusted <= LEVEL and kind.success.difference.high < 0:
            yield Finding(
                code="drift-kind-falls",
                weight="warns",
                text=f"`{kind.name}` of the drift suite falls by itself: {gap_words(kind.success.difference)} on "
                f"{kind.success.difference.n} items, p = {kind.adjusted:.2g} for {len(evidence.kinds)} kinds",
                next_action=f"look at what was lost of `{kind.name}`, and whether your users need it",
                estimate=kind.success.difference,
            )
