"""What scored completions of the held-out rows say of one model: pass@k, rewards, lengths, each with its interval.

The row is the unit: completions of one row resemble each other, so an interval counts rows.
"""

import dataclasses
from collections.abc import Sequence

from llm_finetuning.findings.evidence import Rule, is_paid
from llm_finetuning.findings.wording import listed
from llm_finetuning.statistics import clustered_share, mean_over_items, pass_at_k
from llm_finetuning.types import Estimate, Evaluation, EvaluationItem, Sample, Score


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What was evaluated, and how."""

    name: str
    model: str
    greedy: bool
    samples: int  # completions an item
    success_threshold: float
    fingerprint: str  # of the items
    notes: Sequence[str] = ()


def evaluate(samples: Sequence[Sample], scores: Sequence[Score], setting: Setting) -> Evaluation:
    """Return the evaluation that samples and their scores, in one order, give; the samples are those of one model."""
    rule = Rule(success=setting.success_threshold)
    groups: dict[str, list[tuple[Sample, Score]]] = {}
    for sample, score in sorted(zip(samples, scores, strict=True), key=lambda pair: (pair[0].row, pair[0].index)):
        groups.setdefault(sample.prompt_id, []).append((sample, score))
    items = [_item(group, rule) for group in groups.values()]
    counts = [(item.successes, item.n) for item in items]
    names = [value.name for value in scores[0].values]
    components = {name: _mean([item.values[name] for item in items]) for name in names}
    return Evaluation(
        name=setting.name,
        suite="goldens",
        fingerprint=setting.fingerprint,
        model=setting.model,
        greedy=setting.greedy,
        samples=setting.samples,
        graders=names,
        success_threshold=setting.success_threshold,
        buckets={},
        corrected=None,
        passes={str(k): pass_at_k(counts, k) for k in sizes(setting.samples)},
        reward=_mean([item.rewards for item in items]),
        components={name: mean for name, mean in components.items() if mean is not None},
        tokens=mean_over_items([sum(item.tokens) / len(item.tokens) for item in items]),
        cut=clustered_share([(item.finish_reasons.count("length"), len(item.finish_reasons)) for item in items]),
        items=items,
        notes=[*setting.notes, *_notes(items, scores)],
    )


def sizes(samples: int) -> list[int]:
    """Return the k of pass@k that are told for so many completions an item: powers of two, and all of them."""
    return sorted({2**power for power in range(samples.bit_length())} | {samples})


def _item(group: Sequence[tuple[Sample, Score]], rule: Rule) -> EvaluationItem:
    samples, scores = [sample for sample, _ in group], [score for _, score in group]
    rewards = [score.reward for score in scores]
    known = [reward for reward in rewards if reward is not None]
    return EvaluationItem(
        prompt_id=samples[0].prompt_id,
        row=samples[0].row,
        bucket=None,
        source=None,
        n=len(known),
        successes=sum(is_paid(reward, rule) for reward in known),
        grades=rewards,
        rewards=rewards,
        values={
            value.name: [score.values[place].value for score in scores] for place, value in enumerate(scores[0].values)
        },
        tokens=[sample.tokens for sample in samples],
        finish_reasons=[sample.finish_reason for sample in samples],
    )


def _mean(lists: Sequence[Sequence[float | None]]) -> Estimate | None:
    """Return the mean over items of what was paid; None where nothing was."""
    known = [[value for value in values if value is not None] for values in lists]
    means = [sum(values) / len(values) for values in known if values]
    return mean_over_items(means) if means else None


def _notes(items: Sequence[EvaluationItem], scores: Sequence[Score]) -> list[str]:
    notes = []
    unscored = [item for item in items if item.n < len(item.rewards)]
    if unscored:
        count = sum(len(item.rewards) - item.n for item in unscored)
        notes.append(
            f"{count} of {len(scores)} completions were not scored, since every reward abstained "
            f"(items {listed(item.prompt_id for item in unscored)}); they count neither as success nor as failure"
        )
    for fault in sorted({value.fault for score in scores for value in score.values if value.fault}):
        names = dict.fromkeys(value.name for score in scores for value in score.values if value.fault == fault)
        notes.append(f"`{'`, `'.join(names)}` is {fault.replace('_', ' ')} for some completions; `score` says more")
    return notes
