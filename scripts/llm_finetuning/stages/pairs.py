"""Preference data out of graded completions: pairs for DPO, ORPO and SimPO, single records with a label for KTO.

Chosen is a passing completion with the highest reward of its prompt; rejected is the failing one whose reward lies
nearest to the mean of the prompt's rewards less two standard deviations (N-1). Xiao et al. ("Finding the Sweet Spot:
Preference Data Construction for Scaling Preference Optimization", ACL 2025, arXiv:2502.16825) tried seven positions of
both: with the lowest reward as rejected DPO gets worse the more completions are drawn, with this one better. Of normal
rewards the lowest of 8 lies 1.4 standard deviations below the mean and the lowest of 32 about 2, so that in small
groups this mostly is the lowest; the report counts how often.

Completions of one reward, as all failing ones of a reward of 0 and 1 are, are drawn by the seed, so that an often
repeated one is drawn as often. The shortest, longest or first of them would teach length or place instead of success.
"""

import hashlib
import statistics as moments
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from llm_finetuning.findings import sides
from llm_finetuning.findings.evidence import Rule, Scored, by_prompt
from llm_finetuning.findings.sides import LEFT_OUT, Group
from llm_finetuning.findings.wording import rate_words
from llm_finetuning.statistics import mean_over_items, rate
from llm_finetuning.types import Estimate, Finding

DIGITS = 6  # TRL keeps rewards as float32; a smaller difference is none
LENGTH_GAP = 0.2  # share by which one side may be longer than the other on average
CUT_SHARE = 0.2  # of the rejected completions that may be cut at the cap
ALIKE = 0.9  # share of words before and after the first difference from which two texts are nearly the same
ALIKE_WORDS = 10  # of the longer text: answers of a few words always share most of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How pairs are chosen."""

    pairs_per_prompt: int = 1
    seed: int = 0
    match_length: bool = False  # a rejected completion about as long as the chosen one goes before one at the position


@dataclass(frozen=True, slots=True)
class Pair:
    """Two completions of one prompt."""

    chosen: Scored
    rejected: Scored
    is_lowest: bool  # the rejected one is paid what the lowest of the prompt is paid


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceSet:
    """What one data set of preferences was made from, and what a person should know of it; lengths in tokens."""

    method: str
    records: int
    rule: dict[str, Any]
    completions: int  # of the policy pass
    left_out: dict[str, int]  # key of LEFT_OUT -> completions
    prompts: dict[str, int]  # both, only_passing, only_failing or neither -> prompts with usable completions of it
    lengths: dict[str, Estimate]  # side -> mean over prompts; for pairs also `difference`, chosen less rejected
    findings: list[Finding]
    margin: Estimate | None = None  # reward of chosen less that of rejected, mean over prompts; None for single records
    lowest: int | None = None  # pairs whose rejected completion has the lowest reward of its prompt
    labels: dict[str, int] | None = None  # desirable and undesirable -> records; None for pairs
    weights: dict[str, float] | None = None  # that balance the labels in KTO's loss; None for pairs
    file: str = ""
    sha256: str = ""  # of the file


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsReport:
    """Every data set of preferences that was made from the samples and scores that the header names."""

    sets: list[PreferenceSet] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Made:
    """Rows in TRL's columns, and the report on them."""

    rows: list[dict[str, Any]]
    report: PreferenceSet


def make(
    scored: Iterable[Scored],
    *,
    method: str,
    rule: Rule,
    choice: Choice,
    weights: Mapping[str, float],
    columns: Sequence[str] = (),
) -> Made:
    """Return the data set for a method; no rows where no prompt has a pair, or for KTO where one label is missing.

    Args:
        scored: Completions with their scores, in any order; those of another pass than `policy` are left alone.
        method: The one that trains on it: dpo, orpo and simpo take pairs, kto single records.
        rule: Says from which reward on a completion passes.
        choice: How pairs are chosen; KTO takes every usable completion, and reads nothing of it.
        weights: Each reward's weight by its name; one of weight 0 only watches, and its abstentions are no matter.
        columns: Columns of the samples that the rows keep, where no column of TRL's has the name.
    """
    policy = sorted(
        (one for one in scored if one.sample.pass_name == "policy"),
        key=lambda one: (one.sample.row, one.sample.prompt_id, one.sample.index, one.sample.sample_id),
    )
    groups = [
        sides.group_of(completions, rule=rule, weights=weights, compared=method != "kto")
        for completions in by_prompt(policy)
    ]
    left_out = sum((Counter(group.left_out) for group in groups), Counter[str]())
    facts = {
        "method": method,
        "completions": len(policy),
        "left_out": {why: left_out[why] for why in LEFT_OUT if left_out[why]},
        "prompts": dict(Counter(sides.kind_of(group) for group in groups)),
    }
    if method == "kto":
        return _records(groups, facts, columns, {"success_threshold": rule.success})
    return _paired(groups, facts, columns, choice, {"success_threshold": rule.success})


# --- pairs -----------------------------------------------------------------------------------------------------------


def pairs_of(group: Group, choice: Choice) -> list[Pair]:
    """Return up to `pairs_per_prompt` pairs of one prompt; no text stands in two of them."""
    if not (group.passing and group.failing):
        return []
    position = moments.fmean(group.rewards) - 2 * moments.stdev(group.rewards)
    lowest = min(_reward(one) for one in group.failing)
    ranked = sorted(group.passing, key=lambda one: (-_reward(one), _draw(one, choice.seed)))
    left = list(group.failing)
    pairs: list[Pair] = []
    for chosen in sides.distinct(ranked)[: choice.pairs_per_prompt]:
        if not left:
            break
        rejected = min(left, key=lambda one: _rank(one, chosen, position, choice))
        left = [one for one in left if sides.said(one.sample.completion) != sides.said(rejected.sample.completion)]
        pairs.append(Pair(chosen, rejected, is_lowest=_reward(rejected) == lowest))
    return pairs


def _rank(one: Scored, chosen: Scored, position: float, choice: Choice) -> tuple[float, float, float, str]:
    """Return the place of a failing completion among those that may be rejected; the lowest is taken."""
    draw, off = _draw(one, choice.seed), round(abs(_reward(one) - position), DIGITS)
    if not choice.match_length:
        return 0, off, 0, draw
    apart = abs(one.sample.tokens - chosen.sample.tokens)
    return (0, off, apart, draw) if apart <= LENGTH_GAP * chosen.sample.tokens else (1, apart, off, draw)


def _reward(one: Scored) -> float:
    assert one.reward is not None, "group_of has sorted these out"
    return round(one.reward, DIGITS)


def _draw(one: Scored, seed: int) -> str:
    """Return a number that says nothing of a completion but which it is."""
    return hashlib.sha256(f"{seed} {one.sample.sample_id}".encode()).hexdigest()


def _paired(
    groups: Sequence[Group], facts: dict[str, Any], columns: Sequence[str], choice: Choice, rule: dict[str, Any]
) -> Made:
    found = [pairs for group in groups if (pairs := pairs_of(group, choice))]
    rows = [_pair_row(pair, number, columns) for pairs in found for number, pair in enumerate(pairs, 1)]
    everything = [pair for pairs in found for pair in pairs]
    lengths = {
        "chosen": _over_prompts([[pair.chosen.sample.tokens for pair in pairs] for pairs in found]),
        "rejected": _over_prompts([[pair.rejected.sample.tokens for pair in pairs] for pairs in found]),
        "difference": _over_prompts(
            [[pair.chosen.sample.tokens - pair.rejected.sample.tokens for pair in pairs] for pairs in found]
        ),
    }
    known = {side: mean for side, mean in lengths.items() if mean is not None}
    report = PreferenceSet(
        **facts,
        records=len(rows),
        rule={
            **rule,
            "chosen": "highest reward; of equal ones, drawn by the seed",
            "rejected": "reward nearest to the mean less two standard deviations; of equal ones, drawn by the seed",
            "pairs_per_prompt": choice.pairs_per_prompt,
            "seed": choice.seed,
            "match_length": choice.match_length,
        },
        lengths=known,
        margin=_over_prompts([[_reward(pair.chosen) - _reward(pair.rejected) for pair in pairs] for pairs in found]),
        lowest=sum(pair.is_lowest for pair in everything),
        findings=[*_one_sided(facts["prompts"]), *_of_pairs(everything, known, matched=choice.match_length)],
    )
    return Made(rows, report)


def _pair_row(pair: Pair, number: int, columns: Sequence[str]) -> dict[str, Any]:
    chosen, rejected = pair.chosen.sample, pair.rejected.sample
    own = {
        "id": f"{chosen.prompt_id}/{number}",
        "prompt": chosen.prompt,
        "chosen": chosen.completion,
        "rejected": rejected.completion,
        "chosen_sample": chosen.sample_id,
        "rejected_sample": rejected.sample_id,
        "chosen_reward": pair.chosen.reward,
        "rejected_reward": pair.rejected.reward,
    }
    return {**own, **_kept(pair.chosen, columns, own)}


def _kept(one: Scored, columns: Sequence[str], own: Mapping[str, Any]) -> dict[str, Any]:
    taken = {*own, "completion", "label", "chosen", "rejected"}
    return {name: one.sample.columns[name] for name in columns if name in one.sample.columns and name not in taken}


def _over_prompts(groups: Sequence[Sequence[float]]) -> Estimate | None:
    """Return the mean of each prompt's mean, with the interval over prompts; None where there are none."""
    means = [moments.fmean(group) for group in groups if group]
    return mean_over_items(means) if means else None


# --- single records --------------------------------------------------------------------------------------------------


def _records(groups: Sequence[Group], facts: dict[str, Any], columns: Sequence[str], rule: dict[str, Any]) -> Made:
    both = [(sides.distinct(group.passing), sides.distinct(group.failing)) for group in groups]
    rows = [
        _record_row(one, columns, label=label)
        for good, bad in both
        for one, label in sorted(
            [*((one, True) for one in good), *((one, False) for one in bad)],
            key=lambda pair: (pair[0].sample.index, pair[0].sample.sample_id),
        )
    ]
    labels = {"desirable": sum(len(good) for good, _ in both), "undesirable": sum(len(bad) for _, bad in both)}
    if not all(labels.values()):
        rows = []
    lengths = {
        "desirable": _over_prompts([[one.sample.tokens for one in good] for good, _ in both]),
        "undesirable": _over_prompts([[one.sample.tokens for one in bad] for _, bad in both]),
    }
    known = {side: mean for side, mean in lengths.items() if mean is not None}
    failing = [one for _, bad in both for one in bad]
    report = PreferenceSet(
        **facts,
        records=len(rows),
        rule={**rule, "desirable": "every passing completion", "undesirable": "every failing completion"},
        lengths=known,
        labels=labels,
        findings=[*_lengths(known, "desirable", "undesirable", matched=True), *_cut(failing, "undesirable")],
    )
    return Made(rows, report)


def _record_row(one: Scored, columns: Sequence[str], *, label: bool) -> dict[str, Any]:
    own = {
        "id": one.sample.sample_id,
        "prompt": one.sample.prompt,
        "completion": one.sample.completion,
        "label": label,
        "prompt_id": one.sample.prompt_id,
        "reward": one.reward,
    }
    return {**own, **_kept(one, columns, own)}


# --- what a person should know ---------------------------------------------------------------------------------------


def _one_sided(prompts: Mapping[str, int]) -> Iterator[Finding]:
    n = sum(prompts.values())
    for kind, word, action in (
        ("only_passing", "passing", "leave these prompts out of the next round; harder ones teach more"),
        ("only_failing", "failing", "draw more completions of these (`num_generations`), or teach them by SFT first"),
    ):
        if found := prompts.get(kind, 0):
            share = rate(found, n)
            text = f"{rate_words(share)} prompts have {word} completions alone, and no pair"
            weight: Literal["warns", "fine"] = "warns" if 2 * found > n else "fine"
            yield Finding(code=f"prompts-{word}", weight=weight, text=text, next_action=action, rate=share)


def _of_pairs(pairs: Sequence[Pair], lengths: Mapping[str, Estimate], *, matched: bool) -> Iterator[Finding]:
    yield from _lengths(lengths, "chosen", "rejected", matched=matched)
    yield from _cut([pair.rejected for pair in pairs], "rejected")
    alike = [pair for pair in pairs if _shared(pair) >= ALIKE]
    if alike:
        share = rate(len(alike), len(pairs))
        yield Finding(
            code="nearly-the-same",
            weight="warns",
            text=f"{rate_words(share)} pairs differ in less than a tenth of their words",
            # Pal et al., "Smaug", arXiv:2402.13228, and Razin et al., arXiv:2410.08847.
            next_action="watch `logps/chosen`: of such pairs DPO may make both sides less likely",
            rate=share,
            sample_ids=[pair.chosen.sample.sample_id for pair in alike],
        )


def _shared(pair: Pair) -> float:
    """Return the share of words that two texts begin and end with alike, of the longer one; 0 for short texts."""
    first, second = (sides.said(one.sample.completion).split() for one in (pair.chosen, pair.rejected))
    shorter, longer = sorted((len(first), len(second)))
    if longer < ALIKE_WORDS:
        return 0.0
    head = next((at for at in range(shorter) if first[at] != second[at]), shorter)
    tail = next((at for at in range(shorter - head) if first[-1 - at] != second[-1 - at]), shorter - head)
    return (head + tail) / longer


def _lengths(lengths: Mapping[str, Estimate], better: str, worse: str, *, matched: bool) -> Iterator[Finding]:
    if better not in lengths or worse not in lengths:
        return
    good, bad = lengths[better], lengths[worse]
    text = f"{better} {_tokens(good)}, {worse} {_tokens(bad)}"
    if "difference" in lengths:
        text += f"; difference {_tokens(lengths['difference'])}"
    longer, shorter = good.value > (1 + LENGTH_GAP) * bad.value, bad.value > (1 + LENGTH_GAP) * good.value
    if not longer and not shorter:
        yield Finding(code="lengths", weight="fine", text=text, next_action=None, estimate=lengths.get("difference"))
        return
    ways = ["`--match-length`"] * (not matched) + ["method simpo"] * (longer and better == "chosen")
    yield Finding(
        code="length-bias",
        weight="warns",
        text=f"{text}: {'length' if longer else 'brevity'} will be learnt too",
        next_action=f"{' or '.join(ways)} holds against it" if ways else "compare lengths after training",
        estimate=lengths.get("difference"),
    )


def _tokens(found: Estimate) -> str:
    return f"{found.value:.1f} tokens (95% interval {found.low:.1f} to {found.high:.1f})"


def _cut(side: Sequence[Scored], name: str) -> Iterator[Finding]:
    cut = [one for one in side if one.sample.finish_reason == "length"]
    if len(cut) > CUT_SHARE * len(side):
        share = rate(len(cut), len(side))
        yield Finding(
            code="rejected-cut",
            weight="warns",
            text=f"{rate_words(share)} {name} completions are cut at the cap, and the trainer ends them there",
            next_action="raise `max_completion_length` and sample again, or brevity is what is learnt",
            rate=share,
        )
