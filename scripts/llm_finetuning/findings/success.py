"""Whether there is something to learn: the base model's success, strictly and leniently, and groups with a signal."""

import re
import shlex
from collections.abc import Sequence

from llm_finetuning import statistics
from llm_finetuning.findings.evidence import DIFFERS, Evidence, Rule, Scored, is_paid
from llm_finetuning.findings.lenient import has_short_golds, says_gold
from llm_finetuning.findings.wording import listed, rate_words, share_words, text_of
from llm_finetuning.statistics import rate
from llm_finetuning.types import Estimate, Finding, Rate

SIZES = (4, 8, 16, 32)  # of a group for which the signal is predicted
_STEP = 1e-7  # rewards nearer than this are one value when a signal is predicted

SHORT_SFT = (
    "`finetune new RUN-sft --from RUN --method sft --dataset DEMOS.jsonl` on rows that hold a `prompt` in the form of "
    "yours and the right `completion`"
)
"""The way out where there is no success to reinforce; the findings do not know what the run is called."""


def for_run(action: str, run: str) -> str:
    """Return an action with RUN in its commands, where it stands between back-quotes, as this run's own name."""

    def named(command: re.Match[str]) -> str:
        return re.sub(r"(?<=\s)RUN(-sft)?(?=\s|`)", lambda word: shlex.quote(run + (word[1] or "")), command[0])

    return re.sub(r"`finetune [^`]*`", named, action)


def findings(evidence: Evidence) -> list[Finding]:
    """Return base success, the lenient reading of it, and the groups that carry a signal."""
    lenient = _lenient_finding(evidence)
    in_other_form = lenient is not None and lenient.weight == "warns"
    success = _success_finding(evidence, in_other_form=in_other_form)
    signal = _signal_finding(evidence, settled=success.code != "base-success", in_other_form=in_other_form)
    return [*_grouping_findings(evidence), success, *([lenient] if lenient else []), signal]


def _successes(groups: Sequence[Sequence[Scored]], rule: Rule) -> list[tuple[int, int]]:
    """Return (successes, scored completions) a prompt."""
    counts = []
    for group in groups:
        rewards = [scored.reward for scored in group if scored.reward is not None]
        counts.append((sum(is_paid(reward, rule) for reward in rewards), len(rewards)))
    return counts


def _clustered(counts: Sequence[tuple[int, int]]) -> Rate:
    whole = statistics.clustered_share(counts)
    return Rate(hits=sum(hits for hits, _ in counts), n=whole.n, low=whole.low, high=whole.high)


def _success_finding(evidence: Evidence, *, in_other_form: bool) -> Finding:
    rule = evidence.rule
    counts = _successes(evidence.groups, rule)
    found = _clustered(counts)
    greedy = _successes([evidence.low], rule)[0]
    prompts = sum(n > 0 for _, n in counts)
    words = f"base success: {rate_words(found)}; the interval counts {prompts} prompts, not completions alone"
    left = len(evidence.policy) - found.n
    words += f"; {left} completions that no reward scores are left out" if left else ""
    words += f"; at low temperature {greedy[0]} of {greedy[1]}"
    never = found.n > 0 and found.hits == 0
    always = found.n > 0 and found.hits / found.n >= rule.saturated
    action = None
    if never and in_other_form:
        action = (
            "fix the prompt, or teach the form with a short SFT: answers are right, but not in the form the reward "
            f"reads; {SHORT_SFT}, then gate the model it leaves"
        )
    elif never and greedy[0]:
        action = "lower `temperature`: the model succeeds at a low one and never at this one"
    elif never:
        action = (
            f"teach it first, since GRPO needs some success: a short SFT, {SHORT_SFT}, then gate the model it leaves"
        )
    elif always:
        action = "do not train on this: the model has it already; choose harder prompts"
    return Finding(
        code="never-succeeds" if never else "always-succeeds" if always else "base-success",
        weight="blocks" if never or always else "fine",
        text=words,
        next_action=action,
        rate=found,
    )


def _lenient_finding(evidence: Evidence) -> Finding | None:
    """Count what a lenient reading finds right, beside what is paid; only where golds are short answers."""
    scored = [item for item in evidence.policy if item.reward is not None]
    if not has_short_golds(scored):
        return None
    rule = evidence.rule
    right, missed = [], []
    for group in evidence.groups:
        known = [item for item in group if item.reward is not None]
        said = [item for item in known if says_gold(item)]
        unpaid = [item for item in said if item.reward is not None and not is_paid(item.reward, rule)]
        right.append((len(said), len(known)))
        missed.append((len(unpaid), len(known)))
    flexible, gap = _clustered(right), statistics.clustered_share(missed)
    large = gap.low > 0 and gap.value > rule.lenient_gap
    return Finding(
        code="lenient-success",
        weight="warns" if large else "fine",
        text=f"read leniently (the gold is the last number or phrase): {rate_words(flexible)}; "
        f"right by that and not paid: {share_words(gap)}",
        next_action="fix the prompt or teach the form with a short SFT: a larger group does not help"
        if large
        else None,
        rate=flexible,
        estimate=gap,
        sample_ids=[
            item.sample.sample_id
            for item in scored
            if item.reward is not None and not is_paid(item.reward, rule) and says_gold(item)
        ]
        if large
        else [],
    )


def _rewards(group: Sequence[Scored]) -> list[float]:
    return [scored.reward for scored in group if scored.reward is not None]


def observed_signal(evidence: Evidence) -> Rate:
    """Count groups by the spread of their raw rewards: the pooled spread hides that every group is constant."""
    spreads = [max(rewards) - min(rewards) if rewards else 0.0 for rewards in map(_rewards, evidence.groups)]
    return rate(sum(spread > DIFFERS for spread in spreads), len(spreads))


def signal_by_size(evidence: Evidence) -> dict[str, Estimate]:
    """Return for each size of a group the share of groups that will carry a signal.

    Up to the drawn size it is counted without a model. Beyond it, where rewards take two values, success is taken as
    beta distributed over prompts; where they take more, the drawn size's share stands as the least to expect.
    """
    rewards = [[round(reward / _STEP) for reward in _rewards(group)] for group in evidence.groups]
    drawn = max((len(group) for group in rewards), default=0)
    if drawn < 2:  # noqa: PLR2004  no group to speak of
        return {}
    values = {reward for group in rewards for reward in group}
    top = max(values)
    pairs = [(sum(reward == top for reward in group), len(group)) for group in rewards]
    found = {}
    least = statistics.share_with_signal(rewards, 2)
    for size in sorted({*SIZES, evidence.generations}):
        full = sum(len(group) >= size for group in rewards) * 2 >= sum(bool(group) for group in rewards)
        if full:
            found[str(size)] = least = statistics.share_with_signal(rewards, size)
        elif len(values) <= 2:  # noqa: PLR2004  right and wrong
            found[str(size)] = _at_least(statistics.predicted_mixed(pairs, size), least)
        else:
            found[str(size)] = Estimate(value=least.value, low=least.low, high=1.0, n=least.n)
    return found


def _at_least(found: Estimate, least: Estimate) -> Estimate:
    """Return an estimate that is no lower than that of a smaller group, which a larger one cannot fall below."""
    return Estimate(
        value=max(found.value, least.value),
        low=max(found.low, least.low),
        high=max(found.high, least.value),
        n=found.n,
    )


def _signal_finding(evidence: Evidence, *, settled: bool, in_other_form: bool) -> Finding:
    """Return the groups with a signal; `settled` where never or always succeeding says more than they do."""
    found = observed_signal(evidence)
    share = found.hits / found.n if found.n else 0.0
    dead = found.n > 0 and found.hits == 0 and not settled
    weak = share < evidence.rule.signal
    by_size = signal_by_size(evidence)
    words = ", ".join(f"{share_words(expected)} at {size}" for size, expected in by_size.items())
    action = None
    if (dead or weak) and not settled:
        if in_other_form:
            action = "fix the prompt or teach the form with a short SFT: a larger group does not help"
        else:
            action = _more_signal(evidence, by_size)
    return Finding(
        code="groups-with-signal",
        weight="blocks" if dead else "warns" if weak or settled else "fine",
        text=f"groups whose rewards differ, so that something can be learnt: {rate_words(found)}"
        + (f"; predicted by `num_generations`: {words}" if words else ""),
        next_action=action,
        rate=found,
        estimate=by_size.get(str(evidence.generations)),
    )


def _more_signal(evidence: Evidence, by_size: dict[str, Estimate]) -> str:
    """Return what gives more signal: the smallest group that reaches the wanted share, or other prompts."""
    for size, expected in by_size.items():  # a smaller group than now is below the share, as now is
        if expected.value >= evidence.rule.signal:
            return f"raise `num_generations` to {size}, which makes {expected.value:.0%} of the groups carry a signal"
    return "filter prompts that always or never succeed: to raise `num_generations` would not make their groups differ"


def _grouping_findings(evidence: Evidence) -> list[Finding]:
    """Compare each group's prompt texts: where ids are wrong, groups are mixed and every number about them is void."""
    mixed = [
        group[0].sample.prompt_id
        for group in evidence.groups
        if len({text_of(scored.sample.prompt) for scored in group}) > 1
    ]
    if not mixed:
        return []
    found = rate(len(mixed), len(evidence.groups))
    return [
        Finding(
            code="grouping",
            weight="insufficient",
            text=f"groups that hold more than one prompt text, so that nothing about groups can be said: "
            f"{rate_words(found)} ({listed(mixed, 3)})",
            next_action="mend the ids (`dataset.id`) so that each names one prompt, then `finetune sample RUN --fresh`",
            rate=found,
        )
    ]
