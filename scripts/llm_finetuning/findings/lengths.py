"""Whether completions end: cut at the cap, never ended, alike; and what the rewards cost a step."""

import math
from collections.abc import Sequence
from statistics import median

from llm_finetuning.findings.evidence import Evidence, Scored
from llm_finetuning.findings.success import SHORT_SFT
from llm_finetuning.findings.wording import rate_words, seconds_words, text_of
from llm_finetuning.statistics import clustered_share, quantile
from llm_finetuning.types import Finding, Rate

_SHARE = 0.95  # of completions that a cap should let end
_TIMES = 4  # how much longer to draw where the needed cap is unknown
_TAIL = 40  # characters at the end of a text that stand there again and again: it runs in a circle
_LOOPS, _WINDOW = 3, 800  # how often, and within how many last characters


def truncation_finding(evidence: Evidence) -> Finding:
    """Return what was cut at the cap and which cap the lengths ask for; never having ended is a finding of its own."""
    policy = evidence.policy
    cut = [scored for scored in policy if scored.sample.finish_reason == "length"]
    counts = [
        (sum(scored.sample.finish_reason == "length" for scored in group), len(group)) for group in evidence.groups
    ]
    whole = clustered_share(counts)
    found = Rate(hits=len(cut), n=len(policy), low=whole.low, high=whole.high)
    cap = evidence.plan.max_completion_length or max((scored.sample.tokens for scored in cut), default=0)
    ended = any(scored.sample.finish_reason == "stop" for scored in [*policy, *evidence.low])
    blocks = bool(policy) and len(cut) / len(policy) > evidence.rule.truncated
    never = bool(policy) and len(cut) == len(policy)
    words, action = _cap_words(policy, cap)
    loops = sum(_runs_in_a_circle(scored) for scored in cut)
    if cut:
        words += f"; {loops} of the {len(cut)} cut ones run in a circle, which no cap mends"
    if never:
        low = "nor at low temperature" if not ended else "though it did at low temperature"
        words = f"; none ended by itself, {low}; {loops} run in a circle"
        action = (
            "check the end token first (chat template, `generation_config.json`), then draw again with "
            f"`max_completion_length: {_TIMES * cap}`: no completion ended by itself"
        )
    return Finding(
        code="never-ends" if never else "truncated",
        weight="blocks" if blocks else "fine",
        text=f"cut at `max_completion_length`: {rate_words(found)}{words}",
        next_action=action if blocks else None,
        rate=found,
        sample_ids=[scored.sample.sample_id for scored in cut],
    )


def _cap_words(policy: Sequence[Scored], cap: int) -> tuple[str, str]:
    """Return which cap lets 95% end, with its interval; a cut completion is longer than anything seen."""
    lengths = [
        math.inf if scored.sample.finish_reason == "length" else float(scored.sample.tokens) for scored in policy
    ]
    unknown = (
        f"raise `max_completion_length` to {_TIMES * cap} and sample again, to see which cap the lengths need; "
        f"or teach the model to end by a short SFT: {SHORT_SFT}"
    )
    if not lengths:
        return "", unknown
    needed, low, high = quantile(lengths, _SHARE)
    if math.isinf(needed):
        return f"; the cap that {_SHARE:.0%} need is unknown, since more are cut", unknown
    ends = f"{low or 0:.0f} to {f'{high:.0f}' if high is not None and math.isfinite(high) else 'more than was seen'}"
    return f"; {_SHARE:.0%} end within {needed:.0f} tokens (95% interval {ends})", unknown


def _runs_in_a_circle(scored: Scored) -> bool:
    """Tell whether a text's last characters stand there again and again."""
    text = text_of(scored.sample.completion)
    tail = text[-_TAIL:]
    return len(tail) == _TAIL and text[-_WINDOW:].count(tail) >= _LOOPS


def diversity_findings(evidence: Evidence) -> list[Finding]:
    """Return how many completions are an exact copy of a sibling."""
    counts = []
    for group in evidence.groups:
        texts = [text_of(scored.sample.completion) for scored in group]
        counts.append((len(texts) - len(set(texts)), len(texts)))
    whole = clustered_share(counts)
    if not whole.n:
        return []
    found = Rate(hits=sum(hits for hits, _ in counts), n=whole.n, low=whole.low, high=whole.high)
    many = whole.value > evidence.rule.duplicates
    distinct = sum(n - hits for hits, n in counts) / len(counts)
    return [
        Finding(
            code="duplicates",
            weight="warns" if many else "fine",
            text=f"completions that repeat a sibling word for word: {rate_words(found)}; "
            f"{distinct:.1f} distinct ones a group of {whole.n / len(counts):.1f}",
            next_action="raise `temperature`: copies of one completion teach nothing" if many else None,
            rate=found,
        )
    ]


def empty_findings(evidence: Evidence) -> list[Finding]:
    """Return how many completions say nothing, where any does: a chat model that is given plain text ends so.

    Where all do, it blocks: nothing was drawn that a reward or a reader could judge.
    """
    counts = [
        (sum(not text_of(scored.sample.completion).strip() for scored in group), len(group))
        for group in evidence.groups
    ]
    whole = clustered_share(counts)
    hits = sum(count for count, _ in counts)
    if not hits:
        return []
    found = Rate(hits=hits, n=whole.n, low=whole.low, high=whole.high)
    many = whole.value > evidence.rule.empty
    silent = found.hits == found.n
    return [
        Finding(
            code="empty",
            weight="blocks" if silent else "warns" if many else "fine",
            text=f"completions without a word: {rate_words(found)}",
            next_action="write the prompts as lists of messages if the model was tuned for chat, or show it a worked "
            "example in the prompt, then sample again"
            if many
            else None,
            rate=found,
        )
    ]


def cost_findings(evidence: Evidence) -> list[Finding]:
    """Return the rewards' wall time a generation batch, and its share beside the generation of that batch."""
    batch = evidence.plan.completions_per_batch
    if not evidence.policy or not batch:
        return []
    seconds: dict[str, float] = {}
    for scored in evidence.policy:
        for value in scored.score.values:
            seconds[value.name] = seconds.get(value.name, 0.0) + value.seconds
    a_batch = {name: total / len(evidence.policy) * batch for name, total in seconds.items()}
    whole, generation = sum(a_batch.values()), _generation_s(evidence.policy, batch)
    parts = ", ".join(f"`{name}` {seconds_words(value)}" for name, value in a_batch.items())
    words = (
        f"rewards take {seconds_words(whole)} for the {batch} completions of a generation batch ({parts}), as measured "
        f"here over {len(evidence.policy)}"
    )
    if generation is None:
        slow = whole > evidence.rule.step_s
        words += "; how long generation takes was not recorded"
    else:
        share = whole / (whole + generation)
        slow = share > evidence.rule.reward_share
        words += (
            f"; generation of that batch takes about {seconds_words(generation)} on the machine that sampled, so "
            f"rewards are {_percent(share)} of generation and rewards together; training itself is not in it"
        )
    return [
        Finding(
            code="reward-time",
            weight="warns" if slow else "fine",
            text=f"{words}; the device waits for rewards",
            next_action=f"make `{max(a_batch, key=a_batch.__getitem__)}` faster: it is paid in every step"
            if slow
            else None,
        )
    ]


def _generation_s(policy: Sequence[Scored], batch: int) -> float | None:
    """Return the seconds that a batch of so many completions takes; None where no sampler recorded any.

    The median, since the first batch on a device also waits for its kernels.
    """
    known = [scored.sample.seconds for scored in policy if scored.sample.seconds is not None]
    middle = median(known) if known else 0.0
    return middle * batch if middle > 0.0 else None


def _percent(share: float) -> str:
    return "under 1%" if share < 0.01 else f"{share:.0%}"  # noqa: PLR2004  a percent
