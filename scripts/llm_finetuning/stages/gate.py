"""Decide from samples, scores, labels, audit and probes whether a reward may be trained on.

The reward is compared with a reader and with attacks; the model's success is compared with never and always. What is
looked at stands in `findings`, one file a question; here they are put in order and the verdict is worded.
"""

from collections.abc import Mapping, Sequence

from llm_finetuning.findings import again, agreement, constant, earlier, lengths, readings, success, values
from llm_finetuning.findings.evidence import Evidence, Plan, Rule, Scored, by_prompt
from llm_finetuning.types import (
    AuditReport,
    Finding,
    GateReport,
    GateVerdict,
    Label,
    Override,
    ProbeReport,
    Sample,
    Score,
)

__all__ = ["Rule", "evidence_of", "judge"]

_ACTING = ("blocks", "insufficient")

_CAUSES: tuple[tuple[str, ...], ...] = (
    ("reward-", "judged-unscored", "advantages", "probe-reward-"),
    ("infrastructure", "unscored", "probe-gold-", "audit-"),
    ("never-ends", "empty"),
    ("never-succeeds",),
    ("probe-", "format-only"),
    ("grouping",),
    ("readers-disagree", "false-"),
    ("always-succeeds",),
    ("groups-with-signal",),
    ("truncated",),
    ("labels",),
)
"""Beginnings of codes, what explains the others first: the report lists what blocks so, the first one's action is next.

Where nothing ends, says a word or succeeds, a reward that pays attacks is mended later: no training could begin.
"""

_WHY_NEVER: tuple[tuple[str, ...], ...] = (("truncated",), ("probe-variant-",), ("false-fail",))
"""What explains that nothing succeeds, and so comes before it: what was cut off never finished, or right work is not
paid."""


def evidence_of(
    samples: Sequence[Sample],
    scores: Sequence[Score],
    labels: Sequence[Label],
    *,
    rule: Rule,
    plan: Plan | None = None,
    audit: AuditReport | None = None,
    probe: ProbeReport | None = None,
) -> Evidence:
    """Return what the findings look at; `labels` are those that stand and count."""
    score_of = {score.sample_id: score for score in scores}
    everything = [Scored(sample, score_of[sample.sample_id]) for sample in samples]
    policy = [scored for scored in everything if scored.sample.pass_name == "policy"]
    return Evidence(
        policy=policy,
        low=[scored for scored in everything if scored.sample.pass_name != "policy"],
        groups=by_prompt(policy),
        read=readings.read_samples(labels, {scored.sample.sample_id: scored for scored in everything}),
        rule=rule,
        plan=plan or Plan(),
        audit=audit,
        probe=probe,
    )


def judge(
    samples: Sequence[Sample],
    scores: Sequence[Score],
    labels: Sequence[Label],
    seen: Mapping[str, str],
    *,
    rule: Rule,
    fingerprint: str,
    plan: Plan | None = None,
    audit: AuditReport | None = None,
    probe: ProbeReport | None = None,
    overrides: Sequence[Override] = (),
    labels_cut: bool = False,
) -> GateReport:
    """Return the gate's report.

    `seen` maps a sample id to the digest of what a reader of it sees today; `labels` are all of the file, in its
    order; `labels_cut` tells that the file's last line is half written. Without `audit` or `probe` nothing is said of
    the data set or of attacks.
    """
    standing = readings.standing(labels, seen, rule)
    evidence = evidence_of(samples, scores, standing.labels, rule=rule, plan=plan, audit=audit, probe=probe)
    found = [
        *values.fault_findings(evidence),
        *values.abstention_findings(evidence),
        *values.advantage_findings(evidence),
        *earlier.findings(evidence),
        *agreement.findings(evidence),
        *readings.findings(evidence, labels, seen, labels_cut=labels_cut),
        *success.findings(evidence),
        lengths.truncation_finding(evidence),
        *lengths.diversity_findings(evidence),
        *constant.constant_findings(evidence),
        *lengths.empty_findings(evidence),
        *values.component_findings(evidence),
        *lengths.cost_findings(evidence),
    ]
    found = in_order(found)
    verdict, next_action = verdict_of(found)
    if verdict != "open":  # what acts comes first
        next_action = again.with_commands(next_action, found[0].code, last="gate")
    return GateReport(
        verdict=verdict,
        next_action=next_action,
        findings=found,
        disagreements=agreement.disagreements(evidence),
        agreement=agreement.table(evidence.read, rule),
        success_threshold=rule.success,
        fingerprint=fingerprint,
        notes=[*standing.notes, *override_notes(overrides, fingerprint)],
        kappa=agreement.reward_against_reader(evidence),
        signal=success.signal_by_size(evidence),
        component_shares=values.component_shares(evidence),
        overrides=list(overrides),
    )


def override_notes(overrides: Sequence[Override], fingerprint: str) -> list[str]:
    """Return one line for each override, which says whether it speaks of the state that is judged."""
    return [
        f"overridden by {override.by} on {override.at}: {override.reason}"
        if override.fingerprint == fingerprint
        else f"{override.by} overrode another state of this run on {override.at} ({override.reason}): it counts no more"
        for override in overrides
    ]


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """Return what blocks or is wanting with the first cause first, then the others as they came."""
    acting = [finding for finding in findings if finding.weight in _ACTING]
    causes = _CAUSES
    if any(finding.code == "never-succeeds" and finding.weight == "blocks" for finding in acting):
        place = _CAUSES.index(("never-succeeds",))
        causes = (*_CAUSES[:place], *_WHY_NEVER, *_CAUSES[place:])

    def order(finding: Finding) -> tuple[int, bool]:
        found = (place for place, begins in enumerate(causes) if finding.code.startswith(begins))
        return next(found, len(causes)), finding.weight != "blocks"

    return [*sorted(acting, key=order), *(finding for finding in findings if finding.weight not in _ACTING)]


def verdict_of(findings: Sequence[Finding]) -> tuple[GateVerdict, str]:
    """Return the verdict and the one next action, that of the first cause."""
    acting = [finding for finding in in_order(findings) if finding.weight in _ACTING]
    if not acting:
        return "open", "train: the reward means what the reader means, and there is something to learn"
    blocked = any(finding.weight == "blocks" for finding in acting)
    return ("blocked" if blocked else "insufficient-evidence"), str(acting[0].next_action)
