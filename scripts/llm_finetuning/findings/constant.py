"""Whether the model says one and the same thing to most prompts, and earns no more than that alone would earn."""

from collections import Counter, defaultdict

from llm_finetuning.findings.evidence import Evidence, Scored, is_paid
from llm_finetuning.findings.sides import said
from llm_finetuning.findings.wording import quoted, rate_words, share_words
from llm_finetuning.statistics import clustered_share, rate
from llm_finetuning.types import Finding

_LEAST_PROMPTS = 2  # to which one and the same answer can be given


def constant_findings(evidence: Evidence) -> list[Finding]:
    """Warn where one text is most completions and base success is not shown to be better than always giving it.

    What always giving it earns is seen on the prompts to which it was given, each counted once; base success is better
    where its 95% interval lies above that. Texts are compared without regard to case, white space and final stop.
    """
    texts = Counter(text for one in evidence.policy if (text := _text(one)))
    if not texts:
        return []
    text, count = texts.most_common(1)[0]
    share = rate(count, len(evidence.policy))
    if count < evidence.rule.constant * len(evidence.policy):
        return []
    paid: dict[str, list[bool]] = defaultdict(list)
    counts = []
    for group in evidence.groups:
        scored = [(one, is_paid(one.reward, evidence.rule)) for one in group if one.reward is not None]
        counts.append((sum(hit for _, hit in scored), len(scored)))
        for one, hit in scored:
            if _text(one) == text:
                paid[one.sample.prompt_id].append(hit)
    base = clustered_share(counts)
    if len(paid) < _LEAST_PROMPTS or not base.value:
        return []  # one prompt has one answer; where nothing succeeds another finding says so
    earns = rate(sum(sum(hits) * 2 > len(hits) for hits in paid.values()), len(paid))
    if base.low > earns.hits / earns.n:
        return []
    shown = next(one for one in evidence.policy if _text(one) == text)
    return [
        Finding(
            code="constant-answer",
            weight="warns",
            text=f"one and the same answer, {quoted(shown.sample.completion)}, is {rate_words(share)} of the "
            f"completions; always giving it would succeed on {rate_words(earns)} of the prompts to which it was given, "
            f"and base success is {share_words(base)}: success at the level of a constant answer is no skill, and a "
            "group of equal answers has no advantage",
            next_action="look at the prompt and the chat template first, then raise `temperature`, take a stronger "
            "model, or teach the task by a short SFT",
            rate=share,
            estimate=base,
        )
    ]


def _text(scored: Scored) -> str:
    """Return a completion as it is compared with others; empty where it says nothing."""
    return said(scored.sample.completion).casefold().rstrip(".!").rstrip()
