"""What graded completions of a suite say of one model: pass@k, rewards, lengths, each with its interval.

The item is the unit: completions of one item resemble each other, so an interval counts items.
"""

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

from llm_finetuning.findings.evidence import Rule, is_paid
from llm_finetuning.findings.wording import listed
from llm_finetuning.statistics import clustered_share, corrected_rate, mean_over_items, pass_at_k
from llm_finetuning.types import Estimate, Evaluation, EvaluationItem, Sample, Score, Suite

NO_BUCKET = "(none)"
"""Bucket of the items whose column says none: they are a part like the others, so that none is missed."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRecord:
    """How a judge decided on work that people had labelled."""

    true_positives: int  # passed by the judge, of the `positives` that people passed
    positives: int
    true_negatives: int  # failed by the judge, of the `negatives` that people failed
    negatives: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What was evaluated, and how."""

    name: str
    model: str
    greedy: bool
    samples: int  # completions an item
    success_threshold: float
    fingerprint: str  # of the items
    suite: Suite = "goldens"
    bucket: str | None = None  # column that sorts the items into parts
    source: str | None = None  # column that says where an item comes from
    judge: JudgeRecord | None = None  # of the judge that alone decides; None where something else does
    notes: Sequence[str] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _Graded:
    """One completion with what it was given for success, and what training pays for it."""

    sample: Sample
    grade: Score
    paid: Score


def evaluate(
    samples: Sequence[Sample], grades: Sequence[Score], setting: Setting, *, paid: Sequence[Score] | None = None
) -> Evaluation:
    """Return the evaluation that samples and their scores, in one order, give; the samples are those of one model.

    `grades` decide success. `paid` is what training pays for the same completions, where that is something else; a
    reward that rises while success does not is a hacked one.
    """
    rule = Rule(success=setting.success_threshold)
    groups: dict[str, list[_Graded]] = {}
    graded = [_Graded(*parts) for parts in zip(samples, grades, paid or grades, strict=True)]
    for one in sorted(graded, key=lambda one: (one.sample.row, one.sample.index)):
        groups.setdefault(one.sample.prompt_id, []).append(one)
    items = [_item(group, rule, setting) for group in groups.values()]
    names = [value.name for value in grades[0].values]
    found = of_items(items, names, setting)
    return dataclasses.replace(found, notes=[*setting.notes, *_notes(items, graded, setting, found.corrected)])


def of_items(items: Sequence[EvaluationItem], graders: Sequence[str], setting: Setting) -> Evaluation:
    """Return the evaluation that graded items give; lengths and cuts only where every item says them."""
    counts = [(item.successes, item.n) for item in items]
    components = {name: _mean([item.values[name] for item in items]) for name in items[0].values}
    passes = {str(k): pass_at_k(counts, k) for k in sizes(setting.samples)}
    lengths = [sum(item.tokens) / len(item.tokens) for item in items if item.tokens]
    cuts = [(item.finish_reasons.count("length"), len(item.finish_reasons)) for item in items if item.finish_reasons]
    return Evaluation(
        name=setting.name,
        suite=setting.suite,
        fingerprint=setting.fingerprint,
        model=setting.model,
        greedy=setting.greedy,
        samples=setting.samples,
        graders=list(graders),
        success_threshold=setting.success_threshold,
        buckets=_buckets(items) if setting.bucket is not None else {},
        corrected=None if setting.judge is None else corrected_rate(passes["1"], **dataclasses.asdict(setting.judge)),
        passes=passes,
        reward=_mean([item.rewards for item in items]),
        components={name: mean for name, mean in components.items() if mean is not None},
        tokens=mean_over_items(lengths) if len(lengths) == len(items) else None,
        cut=clustered_share(cuts) if len(cuts) == len(items) else None,
        items=list(items),
        notes=list(setting.notes),
    )


def sizes(samples: int) -> list[int]:
    """Return the k of pass@k that are told for so many completions an item: powers of two, and all of them."""
    return sorted({2**power for power in range(samples.bit_length())} | {samples})


def _item(group: Sequence[_Graded], rule: Rule, setting: Setting) -> EvaluationItem:
    first = group[0].sample
    grades = [one.grade.reward for one in group]
    known = [grade for grade in grades if grade is not None]
    bucket = None if setting.bucket is None else _words(first.columns.get(setting.bucket)) or NO_BUCKET
    return EvaluationItem(
        prompt_id=first.prompt_id,
        row=first.row,
        bucket=bucket,
        source=None if setting.source is None else _words(first.columns.get(setting.source)),
        n=len(known),
        successes=sum(is_paid(grade, rule) for grade in known),
        grades=grades,
        rewards=[one.paid.reward for one in group],
        values=_values([one.paid for one in group]) | _values([one.grade for one in group]),
        tokens=[one.sample.tokens for one in group],
        finish_reasons=[one.sample.finish_reason for one in group],
    )


def _words(value: Any) -> str | None:
    """Return what a column says as text; None where it says nothing."""
    if isinstance(value, float) and math.isnan(value):  # an empty cell of a table
        return None
    text = value if isinstance(value, str) or value is None else json.dumps(value, ensure_ascii=False, default=str)
    return text if text and text.strip() else None


def _values(scores: Sequence[Score]) -> dict[str, list[float | None]]:
    return {value.name: [score.values[place].value for score in scores] for place, value in enumerate(scores[0].values)}


def _buckets(items: Sequence[EvaluationItem]) -> dict[str, Estimate]:
    """Return pass@1 of each part of the items, by name; what belongs to none comes last."""
    counts: dict[str, list[tuple[int, int]]] = {}
    for item in items:
        counts.setdefault(item.bucket or NO_BUCKET, []).append((item.successes, item.n))
    return {name: pass_at_k(counts[name], 1) for name in sorted(counts, key=lambda name: (name == NO_BUCKET, name))}


def _mean(lists: Sequence[Sequence[float | None]]) -> Estimate | None:
    """Return the mean over items of what was paid; None where nothing was."""
    known = [[value for value in values if value is not None] for values in lists]
    means = [sum(values) / len(values) for values in known if values]
    return mean_over_items(means) if means else None


def _notes(
    items: Sequence[EvaluationItem], graded: Sequence[_Graded], setting: Setting, corrected: Estimate | None
) -> list[str]:
    notes = []
    unscored = [item for item in items if item.n < len(item.grades)]
    if unscored:
        count = sum(len(item.grades) - item.n for item in unscored)
        notes.append(
            f"{count} of {len(graded)} completions were not scored, since every reward abstained "
            f"(items {listed(item.prompt_id for item in unscored)}); they count neither as success nor as failure"
        )
    if setting.judge is not None and corrected is None:
        notes.append("the judge's record does not tell right from wrong work well enough to correct its pass rate")
    values = [value for one in graded for score in (one.paid, one.grade) for value in score.values]
    for fault in sorted({value.fault for value in values if value.fault}):
        names = dict.fromkeys(value.name for value in values if value.fault == fault)
        notes.append(f"`{'`, `'.join(names)}` is {fault.replace('_', ' ')} for some completions; `score` says more")
    return notes
