"""Whether a candidate does better than a base on the same items, judged item by item.

Both models answered the same items, so the spread between items drops out of their difference (Miller 2024, "Adding
Error Bars to Evals", section 4). A verdict needs both: a 95% interval of the difference in pass@1 that leaves out zero,
and a test that leaves chance at most one in 20. With one completion an item these are Tango's score interval and
McNemar's exact test, with several Student's interval over items and the sign-flip test. Grades of more than pass and
fail have the bootstrap interval of their mean beside it.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Literal

from llm_finetuning.comparing import pairs as paired_items
from llm_finetuning.comparing.pairs import LEVEL, Number, Pair
from llm_finetuning.findings.wording import listed
from llm_finetuning.statistics import holm, mean_over_items, paired_mean, pass_at, smallest_shown
from llm_finetuning.types import Comparison, Evaluation, EvaluationItem, PartShift, Shift


def compare(base: Evaluation, candidate: Evaluation, *, without: Collection[str] = ()) -> Comparison:
    """Return the comparison of two evaluations of the same items with the same settings and graders.

    The items in `without` are left out. Where nothing is left nothing is shown, and every number rests on 0 items.
    """
    pairs = paired_items.paired(base, candidate, without=without)
    scored = paired_items.graded(pairs)
    single = base.samples == 1
    gains = paired_items.gains(scored)
    success = paired_items.success(scored, single=single)
    p_value = paired_items.p_value(scored)
    return Comparison(
        base=base.name,
        candidate=candidate.name,
        verdict=verdict_of(success, p_value),
        success=success,
        passes=_passes(base, pairs),
        test="exact McNemar" if single else "sign-flip",
        p_value=p_value,
        won=sum(gain > 0 for gain in gains),
        lost=sum(gain < 0 for gain in gains),
        tied=sum(not gain for gain in gains),
        smallest_shown=smallest_shown([float(gain) for gain in gains]) if gains else 1.0,
        grade=paired_items.grade(pairs),
        reward=paired_items.reward(pairs),
        components=_components(base, pairs),
        tokens=paired_items.shift(pairs, _length, mean_over_items),
        cut=paired_items.shift(pairs, _share_cut, paired_mean),
        notes=_left_out(pairs),
    )


def verdict_of(success: Shift, p_value: float) -> Literal["improved", "worse", "no-difference-shown"]:
    """Return what interval and test agree on."""
    better, worse = success.difference.low > 0, success.difference.high < 0
    if p_value > LEVEL or not (better or worse):
        return "no-difference-shown"
    return "improved" if better else "worse"


def parts(base: Evaluation, candidate: Evaluation, *, without: Collection[str] = ()) -> list[PartShift]:
    """Return the shift of pass@1 in each bucket, by name; items without a bucket, or not graded for both, are no part.

    Many parts give many chances of a false alarm, so each p-value is also given adjusted for their number (Holm).
    """
    groups: dict[str, list[Pair]] = {}
    for pair in paired_items.graded(paired_items.paired(base, candidate, without=without)):
        if pair[0].bucket is not None:
            groups.setdefault(pair[0].bucket, []).append(pair)
    names = sorted(groups)
    p_values = [paired_items.p_value(groups[name]) for name in names]
    return [
        PartShift(
            name=name,
            success=paired_items.success(groups[name], single=base.samples == 1),
            p_value=p_value,
            adjusted=adjusted,
        )
        for name, p_value, adjusted in zip(names, p_values, holm(p_values), strict=True)
    ]


def _length(item: EvaluationItem) -> float | None:
    return sum(item.tokens) / len(item.tokens) if item.tokens else None


def _share_cut(item: EvaluationItem) -> float | None:
    return item.finish_reasons.count("length") / len(item.finish_reasons) if item.finish_reasons else None


def _passes(base: Evaluation, pairs: Sequence[Pair]) -> dict[str, Shift]:
    def chance_of(k: int) -> Number:
        return lambda item: pass_at(k, item.successes, item.n) if item.n >= k else None

    shifts = {k: paired_items.shift(pairs, chance_of(int(k)), paired_mean) for k in base.passes if k != "1"}
    return {k: shift for k, shift in shifts.items() if shift is not None}


def _components(base: Evaluation, pairs: Sequence[Pair]) -> dict[str, Shift]:
    def paid_by(name: str) -> Callable[[EvaluationItem], float | None]:
        return lambda item: paired_items.mean(item.values[name])

    shifts = {name: paired_items.shift(pairs, paid_by(name), mean_over_items) for name in base.components}
    return {name: shift for name, shift in shifts.items() if shift is not None}


def _left_out(pairs: Sequence[Pair]) -> list[str]:
    missing = [before.prompt_id for before, after in sorted(pairs, key=_row) if not before.n or not after.n]
    if not missing:
        return []
    return [f"{len(missing)} of {len(pairs)} items were not graded for both and are left out ({listed(missing)})"]


def _row(pair: Pair) -> int:
    return pair[0].row
