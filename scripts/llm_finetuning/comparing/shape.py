"""What else changed in the completions: their length, the cap, components, graded quality, and how varied they are."""

from collections.abc import Iterator

from llm_finetuning.comparing.evidence import Evidence, gap_words, in_turn, shift_words
from llm_finetuning.types import Finding

LONGER = 0.2  # share of the base's mean length from which a change of length is worth a look


def findings(evidence: Evidence) -> Iterator[Finding]:
    """Yield the shifts beside success that a person would want to know of; one of them rejects."""
    yield from _cut(evidence)
    yield from _length(evidence)
    yield from _components(evidence)
    yield from _grade(evidence)
    yield from _diversity(evidence)


def _cut(evidence: Evidence) -> Iterator[Finding]:
    """Yield whether more completions are cut at the cap.

    With no gain for it that rejects: the policy writes on until it is cut, which costs every user and pays none.
    """
    cut = evidence.deciding.cut
    if cut is None or cut.difference.low <= 0:
        return
    words = f"more completions are cut at the cap: {shift_words(cut)}"
    if evidence.does_not_rise:
        yield Finding(
            code="cut-without-gain",
            weight="blocks",
            text=f"{words}, and success does not rise: {shift_words(evidence.deciding.success)}",
            next_action="read cut completions: if they would end, give the brief a larger `max_completion_length`: "
            f"{in_turn(evidence.commands.again)}; if they ramble, give the reward a `length_penalty` and train again, "
            f"`{evidence.commands.next_run}`",
            estimate=cut.difference,
        )
    else:
        yield Finding(
            code="cut-rises",
            weight="warns",
            text=words,
            next_action="serve it with a larger cap than `max_completion_length`, and look whether they end there",
            estimate=cut.difference,
        )


def _length(evidence: Evidence) -> Iterator[Finding]:
    tokens = evidence.deciding.tokens
    if tokens is None:
        return
    gap = tokens.difference
    if gap.low <= 0 <= gap.high or abs(gap.value) < LONGER * tokens.base:
        return
    longer = gap.value > 0
    yield Finding(
        code="longer" if longer else "shorter",
        weight="warns",
        text=f"completions are {'longer' if longer else 'shorter'} by {abs(gap.value) / max(tokens.base, 1):.0%}: "
        f"{shift_words(tokens, '.4g')} tokens",
        next_action="look whether what they say more is worth reading"
        if longer
        else "look whether what they no longer say was needed",
        estimate=gap,
    )


def _components(evidence: Evidence) -> Iterator[Finding]:
    """Yield the components that are paid less than before, whatever the sum does: a form may be lost so."""
    for name, shift in evidence.deciding.components.items():
        if shift.difference.high < 0:
            yield Finding(
                code="component-falls",
                weight="warns",
                text=f"`{name}` pays less: {shift_words(shift, '.3g')}",
                next_action=f"look at completions that `{name}` no longer pays",
                estimate=shift.difference,
            )


def _grade(evidence: Evidence) -> Iterator[Finding]:
    """Yield where the mean grade goes another way than success, which only counts what passes the threshold."""
    grade = evidence.deciding.grade
    if grade is None:
        return
    if grade.difference.high < 0 and evidence.is_better:
        yield Finding(
            code="grade-falls",
            weight="warns",
            text=f"more completions pass, and the mean grade falls: {shift_words(grade, '.3g')}",
            next_action="read items with the lowest grades: what fails may fail worse than before",
            estimate=grade.difference,
        )
    if grade.difference.low > 0 and not evidence.is_better:
        yield Finding(
            code="grade-rises",
            weight="warns",
            text=f"the mean grade rises, and no gain in success is shown: {shift_words(grade, '.3g')}",
            next_action="look whether `evaluation.success` is the threshold that you mean",
            estimate=grade.difference,
        )


def _diversity(evidence: Evidence) -> Iterator[Finding]:
    """Yield whether pass@k falls while pass@1 does not: the policy finds one way more surely, and fewer ways at all.

    GRPO sharpens what the base model samples already and may lose the rest (Yue et al. 2025, "Does Reinforcement
    Learning Really Incentivize Reasoning Capacity in LLMs Beyond the Base Model?").
    """
    passes = evidence.deciding.passes
    if not passes:
        return
    k = max(passes, key=int)
    gap = passes[k].difference
    if gap.high < 0 and evidence.deciding.verdict != "worse":
        yield Finding(
            code="diversity-lost",
            weight="warns",
            text=f"pass@{k} falls where pass@1 does not: {gap_words(gap)}; fewer items are solved at all",
            next_action="sample several answers only with the base model, or train with more varied prompts",
            estimate=gap,
        )
