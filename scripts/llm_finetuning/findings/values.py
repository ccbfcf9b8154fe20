"""Whether the values can be trained on: faults, abstentions, components, and a dry run of TRL's advantages."""

import math
from collections import Counter
from collections.abc import Sequence

from llm_finetuning.findings import abstentions
from llm_finetuning.findings.evidence import DIFFERS, Evidence, Modes, Scored, component_names, silent_ones
from llm_finetuning.findings.wording import listed, rate_words, rows_words
from llm_finetuning.statistics import rate
from llm_finetuning.types import Finding, HonestWork

_FAULTS = {
    "nan": "returned NaN, which TRL treats as an abstention",
    "infinite": "paid infinity, which sets its whole group's advantages to zero or breaks the gradient",
    "unstable": "paid another value when the batch was reversed",
    "out_of_range": "paid outside its declared range",
}
_MODES: tuple[Modes, ...] = ("sum_then_normalize", "normalize_then_sum")
_MOSTLY = 0.9  # share of the variance from which the sum is one component's


def fault_findings(evidence: Evidence) -> list[Finding]:
    """Return one finding for each kind of fault of each reward, over both passes."""
    hits: dict[tuple[str, str], list[str]] = {}
    scores = [*evidence.policy, *evidence.low]
    for scored in scores:
        for value in scored.score.values:
            if value.fault:
                hits.setdefault((value.name, value.fault), []).append(scored.sample.sample_id)
    return [
        Finding(
            code=f"reward-{fault.replace('_', '-')}",
            weight="blocks",
            text=f"`{name}` {_FAULTS[fault]}: {rate_words(rate(len(ids), len(scores)))}",
            next_action=f"fix `{name}` (first: {ids[0]}), then score again",
            rate=rate(len(ids), len(scores)),
            sample_ids=ids,
        )
        for (name, fault), ids in sorted(hits.items())
    ]


def abstention_findings(evidence: Evidence) -> list[Finding]:
    """Return the abstentions in two: those of failed machinery, and those that no reward scores for another reason."""
    down = {
        scored.sample.sample_id: reasons
        for scored in [*evidence.policy, *evidence.low]
        if (reasons := [value.reason for value in scored.score.values if abstentions.is_machinery(value)])
    }
    found = []
    if down:
        counts = Counter(reason for said in down.values() for reason in said)
        whole = rate(len(down), len(evidence.policy) + len(evidence.low))
        blocks = whole.hits / whole.n > evidence.rule.infrastructure
        words = listed(f"{reason} {count}" for reason, count in counts.most_common())
        found.append(
            Finding(
                code="infrastructure",
                weight="blocks" if blocks else "warns",
                text=f"a reward's machinery failed: {rate_words(whole)} ({words})",
                next_action="bring the reward's service or sandbox up, then score again; these are no zeros",
                rate=whole,
                sample_ids=list(down),
            )
        )
    unscored = [scored for scored in evidence.policy if scored.reward is None and scored.sample.sample_id not in down]
    plain = rate(len(unscored), len(evidence.policy))
    blocks = (plain.hits / plain.n if plain.n else 1.0) > evidence.rule.abstained
    rows = sorted({scored.sample.row for scored in unscored})
    found.append(
        Finding(
            code="unscored",
            weight="blocks" if blocks else "fine",
            text=f"completions that no reward scores: {rate_words(plain)}{rows_words(rows)}",
            next_action=_score_them(evidence, unscored) if blocks else None,
            rate=plain,
            sample_ids=[scored.sample.sample_id for scored in unscored],
            data_rows=rows,
        )
    )
    return found


def _score_them(evidence: Evidence, unscored: Sequence[Scored]) -> str:
    """Return what to do about completions that no reward scores: the reward's fault, or that of a few rows."""
    silent = silent_ones(evidence)
    scored = {one.sample.prompt_id for one in evidence.policy if one.reward is not None}
    others = [one for one in unscored if one.sample.sample_id in silent and one.sample.prompt_id in scored]
    if len(others) * 2 >= len(unscored):
        return f"mend the reward, which scores other completions of the same rows: {abstentions.PAY_ZERO}"
    rows = {one.sample.row for one in unscored}
    chat = any(abstentions.is_chat(one.sample.completion) for one in unscored)
    whole = len({one.sample.row for one in evidence.policy})
    return abstentions.mend_reward(len(rows), whole, chat=chat, rows="make those rows scorable or remove them")


def component_findings(evidence: Evidence) -> list[Finding]:
    """Return the components that pay the same for all, and whose word the sum is."""
    names = component_names(evidence.policy)
    found = _constant(evidence.policy, names)
    paying = [name for name in names if evidence.plan.weights.get(name, 1.0)]  # a weight of 0 only watches
    if paying and evidence.plan.form_rewards >= set(paying):
        found.append(
            Finding(
                code="format-only",
                weight="blocks",
                text=f"every reward ({listed(paying)}) looks at form alone: it can be earned with no content",
                next_action="add a reward that tells right from wrong, then score again",
            )
        )
    shares = component_shares(evidence)
    if len(shares) > 1:
        form = sum(shares[name] for name in evidence.plan.form_rewards if name in shares)
        mostly = form > _MOSTLY
        parts = ", ".join(f"`{name}` {share:.0%}" for name, share in shares.items())
        found.append(
            Finding(
                code="component-shares",
                weight="warns" if mostly else "fine",
                text=f"what the differences within groups come from: {parts} of the variance of the sum",
                next_action="lower the weights of the rewards of form: training would teach form alone"
                if mostly
                else None,
            )
        )
    return found


def _constant(policy: Sequence[Scored], names: Sequence[str]) -> list[Finding]:
    if len(names) < 2 or len(policy) < 2:  # noqa: PLR2004  one reward that is constant is told by the groups
        return []
    found = []
    for place, name in enumerate(names):
        values = {scored.score.values[place].value for scored in policy} - {None}
        if len(values) > 1:
            continue
        constant = f"{next(iter(values)):g}" if values else "nothing"
        found.append(
            Finding(
                code="constant-reward",
                weight="warns",
                text=f"`{name}` pays {constant} for all {len(policy)} completions, so it teaches nothing",
                next_action=f"check `{name}` against a completion that should be paid otherwise",
            )
        )
    return found


def component_shares(evidence: Evidence) -> dict[str, float]:
    """Return each component's share of the variance of the weighted sum within groups: its covariance with the sum.

    Only differences within a group become advantages. The shares sum to 1; one below 0 works against the sum. Empty
    where nothing differs.
    """
    names = component_names(evidence.policy)
    covariances = dict.fromkeys(names, 0.0)
    for group in evidence.groups:
        rows = [
            [evidence.plan.weights.get(value.name, 1.0) * (value.value or 0.0) for value in scored.score.values]
            for scored in group
            if scored.reward is not None
        ]
        if len(rows) < 2:  # noqa: PLR2004  nothing to differ from
            continue
        sums = [sum(row) for row in rows]
        middle = sum(sums) / len(sums)
        for place, name in enumerate(names):
            mean = sum(row[place] for row in rows) / len(rows)
            covariances[name] += sum(
                (row[place] - mean) * (total - middle) for row, total in zip(rows, sums, strict=True)
            )
    whole = sum(covariances.values())
    if whole <= DIFFERS:
        return {}
    return {name: covariance / whole for name, covariance in covariances.items()}


def advantage_findings(evidence: Evidence) -> list[Finding]:
    """Return what TRL would make of these rewards in both of its modes, and what doing nothing would get."""
    dry = evidence.plan.advantages
    if dry is None or not evidence.policy:
        return []
    names = component_names(evidence.policy)
    weights = [evidence.plan.weights.get(name, 1.0) for name in names]
    table = [
        [math.nan if value.value is None else value.value for value in scored.score.values]
        for group in evidence.groups
        for scored in group
    ]
    sizes = [len(group) for group in evidence.groups]
    differs = any(_spread(group) > DIFFERS for group in evidence.groups)
    broken, words = [], []
    for mode in _MODES:
        advantages = dry(table, weights, sizes, mode)
        infinite = sum(not math.isfinite(value) for value in advantages)
        zero = sum(abs(value) <= DIFFERS for value in advantages)
        words.append(f"{mode}: {len(advantages) - zero} of {len(advantages)} are not zero")
        if infinite or (differs and zero == len(advantages)):
            words[-1] += f", {infinite} are not finite" if infinite else ", though rewards differ"
            broken.append(mode)
    weight = "blocks" if evidence.plan.aggregation in broken else "warns" if broken else "fine"
    found = Finding(
        code="advantages",
        weight=weight,  # type: ignore[arg-type]
        text=f"a dry run of TRL's advantages, {'; '.join(words)}",
        next_action=f"do not train with `multi_objective_aggregation: {broken[0]}`: nothing would be learnt"
        if broken
        else None,
    )
    return [found, *_did_nothing(evidence)]


def _spread(group: Sequence[Scored]) -> float:
    rewards = [scored.reward for scored in group if scored.reward is not None]
    return max(rewards) - min(rewards) if rewards else 0.0


def _did_nothing(evidence: Evidence) -> list[Finding]:
    """Set one completion that says nothing among siblings that tried and failed, and show both advantages.

    A default of 0 for an empty completion beats honest failure that is paid less, on any release of TRL.
    """
    dry, probe = evidence.plan.advantages, evidence.probe
    if dry is None or probe is None:
        return []
    better = [
        work
        for work in probe.honest
        if work.failure is not None and work.empty is not None and work.empty > work.failure + DIFFERS
    ]
    known = [work for work in probe.honest if work.failure is not None]
    if not known:
        return []
    shown = better[0] if better else known[0]
    size = max(2, evidence.generations)
    parts = []
    for mode in _MODES:
        values = dry(_nothing_among_failures(shown, size), [1.0], [size], mode)
        parts.append(f"{mode}: nothing {values[0]:+.2f}, failed {values[1]:+.2f}")
    paid = "nothing, it abstains," if shown.empty is None else f"{shown.empty:g}"
    found = rate(len(better), len(known))
    return [
        Finding(
            code="did-nothing",
            weight="warns" if better else "fine",
            text=f"prompts on which saying nothing is paid more than trying and failing: {rate_words(found)} "
            f"(row {shown.row}: {paid} against {shown.failure:g}; advantages {'; '.join(parts)})",
            next_action="pay nothing no more than an honest failure" if better else None,
            rate=found,
            data_rows=[work.row for work in better],
        )
    ]


def _nothing_among_failures(work: HonestWork, size: int) -> list[list[float]]:
    failure = math.nan if work.failure is None else work.failure
    return [[math.nan if work.empty is None else work.empty], *([[failure]] * (size - 1))]
