"""promotion-report.html: one self-contained file with why a candidate may take its base's place, or may not.

No script, nothing from another address; every text of a model or a data set is escaped and its control characters are
shown.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from llm_finetuning.artifact import Header
from llm_finetuning.brief import Brief
from llm_finetuning.comparing.pairs import Pair, gains, graded, paired
from llm_finetuning.comparing.table import Row, rows_of
from llm_finetuning.findings.evidence import Rule, is_paid
from llm_finetuning.findings.wording import text_of
from llm_finetuning.promoting.contest import Contest
from llm_finetuning.types import Estimate, Evaluation, EvaluationItem, Promotion, Sample, Shift, Weight
from llm_finetuning.web import drawing, rendering

SHOWN = 20  # items that were won, and as many that were lost, with their texts; the rest are counted
_WEIGHTS = get_args(Weight)


@dataclass(frozen=True, slots=True)
class View:
    """What the page shows."""

    brief: Brief
    found: Promotion
    header: Header  # of promotion.json: the maker, and all that the answer rests on
    contest: Contest


@dataclass(frozen=True, slots=True, kw_only=True)
class Duel:
    """One item that was won or lost, with a completion of each model that shows it."""

    prompt_id: str
    bucket: str | None
    prompt: str
    gold: str | None
    rates: tuple[str, str]  # how often each succeeds
    completions: tuple[str, str]
    grades: tuple[float | None, float | None]


def render(view: View) -> str:
    """Return the page as HTML."""
    environment = rendering.environment()
    environment.filters["text"] = rendering.shortened("eval/")
    environment.filters["sentence"] = rendering.sentence
    found = view.found
    deciding = found.fresh or found.goldens
    won, lost = _duels(view)
    evaluations = [side.goldens for side in view.contest.sides]
    return environment.get_template("promotion.html").render(
        brief=view.brief,
        found=found,
        deciding=deciding,
        findings={weight: [one for one in found.findings if one.weight == weight] for weight in _WEIGHTS},
        summary=_summary(found),
        rows=rows_of(found),
        pictures=_pictures(found),
        won=won[:SHOWN],
        more_won=len(won) - SHOWN,
        lost=lost[:SHOWN],
        more_lost=len(lost) - SHOWN,
        kept=all(view.contest.transcripts),
        leaked=found.leaked,
        header=view.header,
        measured=[(one.records[0], one.header) for one in evaluations],
    )


def _summary(found: Promotion) -> list[tuple[str, str, str]]:
    """Return the numbers that are looked at first: a name, the number, and what it rests on."""
    deciding = found.fresh or found.goldens
    success = deciding.success
    told = [
        ("pass@1", f"{success.base:.0%} → {success.candidate:.0%}", f"{success.difference.n} goldens"),
        ("Gain", f"{success.difference.value:+.3f}", _ends(success.difference)),
        ("Items won, lost", f"{deciding.won}, {deciding.lost}", f"p = {deciding.p_value:.2g}"),
    ]
    if found.drift is not None:
        gap = found.drift.success.difference
        told.append(("Drift", f"{gap.value:+.3f}", f"{_ends(gap)}; budget {found.drift_budget:g}"))
    else:
        told.append(("Drift", "-", "not measured"))
    if deciding.reward is not None:
        gap = deciding.reward.difference
        told.append(("Training reward", f"{gap.value:+.3g}", _ends(gap, ".3g")))
    told.append(("Leaked goldens", str(len({leak.prompt_id for leak in found.leaked})), "left out of the answer"))
    return told


def _ends(gap: Estimate, form: str = ".3f") -> str:
    return f"{gap.low:+{form}} to {gap.high:+{form}}"


def _pictures(found: Promotion) -> list[dict[str, Any]]:
    deciding = found.fresh or found.goldens
    shares = [("pass@1", deciding.success), *((f"pass@{k}", one) for k, one in deciding.passes.items())]
    shares += [(part.name, part.success) for part in found.buckets]
    drawn = [
        _picture(
            "Success on the goldens",
            shares,
            f"{found.candidate} less {found.base}, each with its 95% interval; right of 0 is better",
            None,
        )
    ]
    if found.drift is not None:
        parts = [("all kinds", found.drift.success), *((part.name, part.success) for part in found.kinds)]
        drawn.append(
            _picture(
                "General ability: the drift suite",
                parts,
                f"the broken line is the budget, a fall of {found.drift_budget:g}: all of the first interval has to "
                "lie right of it",
                found.drift_budget,
            )
        )
    return drawn


def _picture(title: str, shares: Sequence[tuple[str, Shift]], caption: str, budget: float | None) -> dict[str, Any]:
    colour = {"good": "good", "bad": "bad", "level": "plain"}
    rows = [
        (name, shift.difference, colour[Row(name=name, shift=shift, form="").tone])
        for name, shift in shares
        if shift.difference.n
    ]
    about = "; ".join(f"{name} {gap.value:+.3f}, {_ends(gap)}" for name, gap, _ in rows)
    drawn = drawing.shifts(rows, budget=budget, title=title, about=about, x_label="difference in pass@1")
    return {"title": title, "drawn": drawn, "caption": caption}


def _duels(view: View) -> tuple[list[Duel], list[Duel]]:
    """Return the items that were won and those that were lost, the clearest first."""
    base, candidate = (side.goldens.records[0] for side in view.contest.sides)
    leaked = {leak.prompt_id for leak in view.found.leaked}
    pairs = graded(paired(base, candidate, without=leaked))
    by_gain = sorted(zip(gains(pairs), pairs, strict=True), key=lambda one: (-abs(one[0]), one[1][0].row))
    won = [_duel(view, pair, base, is_won=True) for gain, pair in by_gain if gain > 0]
    lost = [_duel(view, pair, base, is_won=False) for gain, pair in by_gain if gain < 0]
    return won, lost


def _duel(view: View, pair: Pair, base: Evaluation, *, is_won: bool) -> Duel:
    rule = Rule(success=base.success_threshold)
    sides = [
        _shown(item, samples.get(item.prompt_id, []), lambda grade: is_paid(grade, rule), succeeds=succeeds)
        for item, samples, succeeds in zip(pair, view.contest.transcripts, (not is_won, is_won), strict=True)
    ]
    known = [sample for sample, _ in sides if sample is not None]
    return Duel(
        prompt_id=pair[0].prompt_id,
        bucket=pair[0].bucket,
        prompt=text_of(known[0].prompt) if known else "",
        gold=_gold(known[0]) if known else None,
        rates=(f"{pair[0].successes} of {pair[0].n}", f"{pair[1].successes} of {pair[1].n}"),
        completions=tuple("" if sample is None else text_of(sample.completion) for sample, _ in sides),  # type: ignore[arg-type]
        grades=tuple(grade for _, grade in sides),  # type: ignore[arg-type]
    )


def _shown(
    item: EvaluationItem, samples: Sequence[Sample], is_success: Callable[[float], bool], *, succeeds: bool
) -> tuple[Sample | None, float | None]:
    """Return the first completion that went the way the item did for this model, with its grade."""
    told = [
        (sample, grade)
        for sample, grade in zip(samples, item.grades, strict=False)
        if grade is not None and is_success(grade) == succeeds
    ]
    return told[0] if told else (None, None)


def _gold(sample: Sample) -> str | None:
    gold = sample.columns.get("answer")
    return None if gold is None else str(gold)
