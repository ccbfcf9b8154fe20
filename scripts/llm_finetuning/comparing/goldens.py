"""Is the candidate better on the goldens that decide, and are they enough to say so?"""

import math
from collections.abc import Iterator

from llm_finetuning.comparing.evidence import Evidence, gap_words, in_turn, shift_words
from llm_finetuning.comparing.pairs import LEVEL
from llm_finetuning.types import Finding


def findings(evidence: Evidence) -> Iterator[Finding]:
    """Yield what success on the goldens says.

    `worse` rejects: interval and test agree that success falls. `improved` speaks for the candidate. Between them
    nothing is shown either way, which is no answer: `no-difference`. A gain that is shown but smaller than the wanted
    one is still a gain and promotes, with a warning: the candidate is better than what is used today, and whether so
    little is worth a change is a person's to say.
    """
    found = evidence.deciding
    success = found.success
    gap = success.difference
    if not gap.n:
        yield Finding(
            code="not-graded",
            weight="insufficient",
            text="no golden was graded for both models",
            next_action=f"mend the graders until they grade the goldens' completions, {_scored_anew(evidence)}",
        )
        return
    could_undo = evidence.ungraded and (
        evidence.most_gain >= 0 if found.verdict == "worse" else evidence.least_gain <= 0
    )
    if could_undo and found.verdict != "no-difference-shown":
        yield _ungraded(evidence)
    if found.verdict == "worse":
        if not could_undo:
            yield Finding(
                code="worse",
                weight="blocks",
                text=f"success on {gap.n} goldens falls from {shift_words(success)}; {_test(evidence)}",
                next_action=f"keep `{found.base}`; read the {found.lost} items that `{found.candidate}` lost in "
                f"promotion-report.html, and train on what they have in common: `{evidence.commands.next_run}`",
                estimate=gap,
            )
    elif found.verdict == "improved":
        yield Finding(
            code="improved",
            weight="fine",
            text=f"success on {gap.n} goldens rises from {shift_words(success)}; {_test(evidence)}",
            next_action=None,
            estimate=gap,
        )
        yield from _small(evidence)
    else:
        text, mend = _undecided(evidence)
        yield Finding(
            code="no-difference",
            weight="insufficient",
            text=f"no difference is shown on {gap.n} goldens: success from {shift_words(success)}; "
            f"{_test(evidence)}{_agreement(evidence)}{text}",
            next_action=mend,
            estimate=gap,
        )
    yield from _enough(evidence)


def _test(evidence: Evidence) -> str:
    found = evidence.deciding
    return f"{found.won} won, {found.lost} lost, {found.test} p = {found.p_value:.2g}"


def _agreement(evidence: Evidence) -> str:
    """Return which of interval and test shows a difference where the other does not; a verdict needs both."""
    found = evidence.deciding
    gap = found.success.difference
    by_interval, by_test = gap.low > 0 or gap.high < 0, found.p_value <= LEVEL
    if by_interval == by_test:
        return ""
    if found.test == "exact McNemar":
        interval, test = "Tango's, an approximation", "McNemar's, which counts chance out"
    else:
        interval, test = "Student's, which takes the gains to be spread like a bell", "sign-flip, which does not"
    return (
        f"; the interval ({interval}) leaves 0 {'out' if by_interval else 'in'}, and the test ({test}) gives chance "
        f"{'at most' if by_test else 'more than'} 1 in 20: a difference counts only where both show it"
    )


def _scored_anew(evidence: Evidence) -> str:
    moved = " and ".join(evidence.commands.moved)
    return f"move {moved} away, and score the kept completions anew: {in_turn(evidence.commands.scored_anew)}"


def _small(evidence: Evidence) -> Iterator[Finding]:
    gap = evidence.deciding.success.difference
    if gap.value < evidence.wanted.gain:
        yield Finding(
            code="gain-small",
            weight="warns",
            text=f"the gain is smaller than the {evidence.wanted.gain:g} that the brief wants: {gap_words(gap)}",
            next_action="decide whether so small a gain is worth the change",
            estimate=gap,
        )


def _undecided(evidence: Evidence) -> tuple[str, str]:
    """Return what more is to be said where nothing is shown, and the one thing to do about it."""
    found, wanted = evidence.deciding, evidence.wanted.gain
    gap = found.success.difference
    commands, again = evidence.commands, in_turn(evidence.commands.again)
    if found.success.base + wanted > 1:
        solved = f"`{found.base}` solves {found.success.base:.0%} of these"
        return (
            f"; `{found.base}` leaves no room for a gain of {wanted:g}",
            f"take harder goldens: {solved}; then {again}",
        )
    if gap.high < wanted:
        never = f"more goldens will not show a gain of {wanted:g}, which these rule out"
        return f"; a gain of {wanted:g} is ruled out", f"train longer or on other data, `{commands.next_run}`: {never}"
    needed = evidence.items_needed
    words = f"; paired, so many show {found.smallest_shown:.3f} in four of five tries"
    edge = "the difference is at the edge of what these goldens show"
    if needed is not None and needed > gap.n:
        power = f"so many show a gain of {wanted:g} in four of five tries"
        return words, f"evaluate both on about {needed} goldens: {power}; add them, then {again}"
    if not commands.more:
        return words, f"evaluate both on more goldens, about {2 * gap.n}: {edge}; add them, then {again}"
    return words, f"{edge}: evaluate both with {commands.more_samples} samples an item, {in_turn(commands.more)}"


def _enough(evidence: Evidence) -> Iterator[Finding]:
    """Yield why a gain on so few items is not enough to promote.

    Below 1 / gain items a single one moves pass@1 by more than the gain that is wanted.
    """
    found = evidence.deciding
    n = found.success.difference.n
    least = math.ceil(1 / evidence.wanted.gain - 1e-9)
    if n < least:
        yield Finding(
            code="too-few-items",
            weight="insufficient",
            text=f"{n} goldens decide: one of them moves pass@1 by {1 / n:.3f}, more than the wanted gain of "
            f"{evidence.wanted.gain:g}",
            next_action=f"add goldens: about {max(least, evidence.items_needed or 0)} to show that gain; then "
            f"{in_turn(evidence.commands.again)}",
        )


def _ungraded(evidence: Evidence) -> Finding:
    """Return that completions nobody graded could undo what is shown.

    They are taken at their worst, since a grader may give up on what only one of the models writes: if all of them
    spoke the other way, would anything be left of the difference?
    """
    what = "loss" if evidence.deciding.verdict == "worse" else "gain"
    return Finding(
        code="ungraded-items",
        weight="insufficient",
        text=f"{evidence.ungraded} of {evidence.items} goldens have completions that were not graded, which could undo "
        f"the {what}",
        next_action=f"mend the graders until they grade these completions, {_scored_anew(evidence)}",
    )
