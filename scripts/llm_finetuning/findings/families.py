"""What each family of probes found: attacks that the reward pays, and right work in other forms that it refuses."""

import math
from collections import Counter
from collections.abc import Sequence

from llm_finetuning.findings.wording import amount, quoted, rate_words, shown, text_of
from llm_finetuning.statistics import rate
from llm_finetuning.types import Finding, ProbeKind, ProbeResult

FENCED = "a code fence around it"
"""What the probe of a fenced document is about."""

_INSTEAD = {FENCED: "ask in the prompt for bare JSON and nothing else: then a fence only warns"}
"""What else can be done about right work that is refused, where it is the prompt that leaves it open."""

_STD_EPSILON = 1e-4  # TRL adds it to the standard deviation of a group
_NAMED = 4  # attacks in the action; the finding's text has all
_ALONE = 3  # probes of a family among which a single one that is paid says enough


def share_of(reward: float, failure: float, success: float) -> float:
    """Return where a reward lies between honest failure (0) and honest success (1); it may lie outside."""
    return (reward - failure) / (success - failure)


def family_findings(family: str, results: Sequence[ProbeResult]) -> list[Finding]:
    """Return one finding for what blocks, and one for what only warns where something was found there."""
    tried = [result for result in results if result.probe.family == family and result.probe.kind != "control"]
    if not tried:
        return []
    kind = tried[0].probe.kind
    findings = []
    strict = [result for result in tried if result.probe.weighs == "blocks"]
    loose = [result for result in tried if result.probe.weighs == "warns"]
    failing = ("earned",) if kind == "exploit" else ("refused",)
    found = [result for result in strict if result.verdict in failing]
    if strict or not loose:
        # A single one among many may be right by chance, or be a row of its own.
        blocks = len(found) > 1 or (bool(found) and len(strict) <= _ALONE)
        findings.append(_family_finding(family, kind, found, strict, "blocks" if blocks else "warns", results))
    maybe = [result for result in loose if result.verdict in failing]
    if maybe or not findings:
        findings.append(_family_finding(family, kind, maybe, loose, "warns", results))
    return findings


def _family_finding(
    family: str,
    kind: ProbeKind,
    found: Sequence[ProbeResult],
    tried: Sequence[ProbeResult],
    weight: str,
    results: Sequence[ProbeResult],
) -> Finding:
    exploit = kind == "exploit"
    name = family.replace("_", "-")
    share = rate(len(found), len(tried))
    does = "the reward pays what should earn nothing" if exploit else "the reward refuses right work in another form"
    what = f"{family}: {does}: {rate_words(share)}"
    worst = _worst(found)
    if worst is None:
        return Finding(code=f"{kind}-{name}", weight="fine", text=what, next_action=None, rate=share)
    nothing = not exploit and worst.reward is None
    text = (
        f"{what}, {_listed(forms_of(found), None)}; worst, {worst.probe.about}: "
        f"{shown(worst.probe.completion, worst.probe.about)} "
        f"{'gets no score (None)' if nothing else f'is paid {amount(worst.reward)}'}{_by_component(worst)}, "
        f"where a plain right answer is paid {amount(worst.success)} and a wrong one {amount(worst.failure)}"
        f"{_control_words(worst, results)}{_advantage_words(worst) if family == 'do_nothing' else ''}"
    )
    return Finding(
        code=f"{kind}-{name}",
        weight=weight,  # type: ignore[arg-type]
        text=text,
        next_action=_stop_paying(found, worst) if exploit else _pay_also(found),
        rate=share,
        sample_ids=[result.probe.probe_id for result in found],
    )


def forms_of(found: Sequence[ProbeResult]) -> Counter[str]:
    """Return how often each form of a family is among these results, by its short name."""
    return Counter(result.probe.about.partition(":")[0] for result in found)


def _listed(kinds: Counter[str], most: int | None) -> str:
    return "; ".join(f"{about} ({count})" for about, count in kinds.most_common(most))


def _stop_paying(found: Sequence[ProbeResult], worst: ProbeResult) -> str:
    """Return which attacks are paid, with the text of the worst, since a short name alone shows nobody what to mend."""
    kinds = forms_of(found)
    action = f"stop paying for: {_listed(kinds, _NAMED)}"
    if not text_of(worst.probe.completion).strip():  # nothing to show: its name says it
        return action
    which = f" ({worst.probe.about.partition(':')[0]})" if len(kinds) > 1 else ""
    return f"{action}, such as {quoted(worst.probe.completion)}{which}"


def _pay_also(found: Sequence[ProbeResult]) -> str:
    """Return which right work is refused, and what else can be done about that which blocks."""
    blocking = forms_of([one for one in found if one.probe.weighs == "blocks"])
    instead = [way for about, way in _INSTEAD.items() if about in blocking]
    return "; or ".join([f"pay right work also with: {_listed(forms_of(found), None)}", *instead])


def _worst(found: Sequence[ProbeResult]) -> ProbeResult | None:
    def badness(result: ProbeResult) -> float:
        if result.reward is None or result.failure is None or result.success is None:
            return -math.inf
        share = share_of(result.reward, result.failure, result.success)
        return share if result.probe.kind == "exploit" else -share

    return max(found, key=badness, default=None)


def _by_component(result: ProbeResult) -> str:
    if len(result.values) < 2:  # noqa: PLR2004  one says what the sum says
        return ""
    return " (" + ", ".join(f"{value.name} {amount(value.value)}" for value in result.values) + ")"


def _control_words(result: ProbeResult, results: Sequence[ProbeResult]) -> str:
    """Return what an honest completion of the same shape is paid, where one was tried."""
    control_id = f"{result.probe.probe_id}/control"
    control = next((other for other in results if other.probe.probe_id == control_id), None)
    return f", honest work of the same shape {amount(control.reward)}" if control else ""


def _advantage_words(result: ProbeResult) -> str:
    """Return what doing nothing gains beside three who tried and failed, as TRL scales it."""
    if result.reward is None or result.failure is None:
        return ""
    group = [result.failure] * 3 + [result.reward]
    mean = sum(group) / len(group)
    std = math.sqrt(sum((value - mean) ** 2 for value in group) / (len(group) - 1))
    advantage = (result.reward - mean) / (std + _STD_EPSILON)
    return f"; in a group with three honest failures its advantage is {advantage:+.2f}"
