"""Whether a candidate does better than a base on the same held-out rows, judged item by item.

Both models answered the same items, so the spread between items drops out of their difference (Miller 2024, "Adding
Error Bars to Evals", section 4). A verdict needs both: a 95% interval of the difference in pass@1 that leaves out zero,
and a test that leaves chance at most one in 20. With one completion an item these are Tango's score interval and
McNemar's exact test, with several Student's interval over items and the sign-flip test.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from llm_finetuning.findings.wording import listed
from llm_finetuning.statistics import (
    mean_over_items,
    paired_mean,
    paired_shares,
    pass_at,
    sign_flip,
    smallest_shown,
)
from llm_finetuning.types import Comparison, Estimate, Evaluation, EvaluationItem, Shift

LEVEL = 0.05  # p-value up to which a difference is not put down to chance
LONGER = 0.2  # share of the base's mean length from which a change of length is worth a look

_Pair = tuple[EvaluationItem, EvaluationItem]
_Number = Callable[[EvaluationItem], float | None]  # None: the item says nothing of it


def compare(base: Evaluation, candidate: Evaluation, *, notes: Sequence[str] = ()) -> Comparison:
    """Return the comparison of two evaluations of the same items with the same settings and rewards."""
    other = {item.prompt_id: item for item in candidate.items}
    pairs = [(item, other[item.prompt_id]) for item in base.items]
    scored = [pair for pair in pairs if pair[0].n and pair[1].n]
    gains = [_rate(after) - _rate(before) for before, after in scored]
    success = _success(scored, gains, single=base.samples == 1)
    p_value = sign_flip(gains)
    smallest = smallest_shown([float(gain) for gain in gains]) if gains else 1.0
    better, worse = success.difference.low > 0, success.difference.high < 0
    verdict = "no-difference-shown" if p_value > LEVEL or not (better or worse) else "improved" if better else "worse"
    reward = _shift(pairs, lambda item: _mean(item.rewards), mean_over_items)
    tokens = _always(pairs, lambda item: sum(item.tokens) / len(item.tokens), mean_over_items)
    cut = _always(pairs, lambda item: item.finish_reasons.count("length") / len(item.finish_reasons), paired_mean)
    own = [_left_out(pairs), _hollow(reward, verdict), _length(tokens), _cut(cut)]
    return Comparison(
        base=base.name,
        candidate=candidate.name,
        verdict=verdict,  # type: ignore[arg-type]
        next_action=_next(base, candidate, verdict, success.difference, smallest),
        success=success,
        passes=_passes(base, pairs),
        test="exact McNemar" if base.samples == 1 else "sign-flip",
        p_value=p_value,
        won=sum(gain > 0 for gain in gains),
        lost=sum(gain < 0 for gain in gains),
        tied=gains.count(Fraction(0)),
        smallest_shown=smallest,
        reward=reward,
        components=_components(base, pairs),
        tokens=tokens,
        cut=cut,
        notes=[*notes, *(note for note in own if note)],
    )


def _rate(item: EvaluationItem) -> Fraction:
    return Fraction(item.successes, item.n)


def _success(pairs: Sequence[_Pair], gains: Sequence[Fraction], *, single: bool) -> Shift:
    if not pairs:
        return Shift(base=0.0, candidate=0.0, difference=Estimate(value=0.0, low=-1.0, high=1.0, n=0))
    if single:
        difference = paired_shares(gains.count(Fraction(1)), gains.count(Fraction(-1)), len(gains))
    else:
        difference = paired_mean([float(gain) for gain in gains])
    before, after = (float(sum(_rate(pair[place]) for pair in pairs) / len(pairs)) for place in (0, 1))
    return Shift(base=before, candidate=after, difference=difference)


def _shift(pairs: Sequence[_Pair], number: _Number, interval: Callable[[Sequence[float]], Estimate]) -> Shift | None:
    """Return the shift of a mean over the items on which both models say the number; None where there are none."""
    known = [
        (before, after)
        for pair in pairs
        if (before := number(pair[0])) is not None and (after := number(pair[1])) is not None
    ]
    if not known:
        return None
    return Shift(
        base=math.fsum(before for before, _ in known) / len(known),
        candidate=math.fsum(after for _, after in known) / len(known),
        difference=interval([after - before for before, after in known]),
    )


def _always(pairs: Sequence[_Pair], number: _Number, interval: Callable[[Sequence[float]], Estimate]) -> Shift:
    found = _shift(pairs, number, interval)
    assert found is not None, "every item says its lengths"
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _passes(base: Evaluation, pairs: Sequence[_Pair]) -> dict[str, Shift]:
    def chance_of(k: int) -> _Number:
        return lambda item: pass_at(k, item.successes, item.n) if item.n >= k else None

    shifts = {k: _shift(pairs, chance_of(int(k)), paired_mean) for k in base.passes if k != "1"}
    return {k: shift for k, shift in shifts.items() if shift is not None}


def _components(base: Evaluation, pairs: Sequence[_Pair]) -> dict[str, Shift]:
    def paid_by(name: str) -> _Number:
        return lambda item: _mean(item.values[name])

    shifts = {name: _shift(pairs, paid_by(name), mean_over_items) for name in base.components}
    return {name: shift for name, shift in shifts.items() if shift is not None}


def _next(base: Evaluation, candidate: Evaluation, verdict: str, difference: Estimate, smallest: float) -> str:
    if verdict == "improved":
        return f"read some completions of `{candidate.name}` before you use it: a number does not say how it was won"
    if verdict == "worse":
        return f"keep `{base.name}`, and read what `{candidate.name}` fails on"
    if not difference.n:
        return "mend the rewards: no item was scored for both models"
    if not difference.value:
        return "evaluate on more or harder held-out rows, or train longer: these rows show nothing either way"
    needed = math.ceil(difference.n * (smallest / difference.value) ** 2)
    if needed <= difference.n:
        return "evaluate with more `--samples` an item: the difference is at the edge of what these rows can show"
    return f"evaluate on about {needed} held-out rows to show a difference of this size, or train longer"


def _left_out(pairs: Sequence[_Pair]) -> str | None:
    missing = [before.prompt_id for before, after in pairs if not before.n or not after.n]
    if not missing:
        return None
    return f"{len(missing)} of {len(pairs)} items were not scored for both and are left out ({listed(missing)})"


def _hollow(reward: Shift | None, verdict: str) -> str | None:
    """Say that the reward rises where success does not, which is how a hacked reward looks."""
    if reward is None or reward.difference.low <= 0 or verdict == "improved":
        return None
    return (
        f"the mean reward rises by {reward.difference.value:.3g} where success does not: read what is paid now, it may "
        "be something else than success"
    )


def _length(tokens: Shift) -> str | None:
    found = tokens.difference
    if found.low <= 0 <= found.high or abs(found.value) < LONGER * tokens.base:
        return None
    share = abs(found.value) / max(tokens.base, 1)
    return f"completions are {'longer' if found.value > 0 else 'shorter'} by {share:.0%}"


def _cut(cut: Shift) -> str | None:
    if cut.difference.low <= 0:
        return None
    return f"more completions are cut at the cap: {cut.candidate:.0%} where it was {cut.base:.0%}"
