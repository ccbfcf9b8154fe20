"""Decide from samples, scores, labels, audit and probes whether a reward may be trained on.

The reward is compared with a reader and with attacks; the model's success is compared with never and always. What is
looked at stands in `findings`, one file a question; here they are put in order and the verdict is worded.
"""

from collections.abc import Mapping, Sequence

from llm_finetuning.findings import agreement, earlier, lengths, readings, success, values
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

_CAUSES = (
    ("reward-", "advantages", "probe-reward-"),
    ("infrastructure", "unscored", "probe-gold-", "audit-"),
    ("probe-", "format-only"),
    ("grouping",),
    ("readers-disagree", "false-"),
    ("never-succeeds", "always-succeeds"),
    ("groups-with-signal",),
    ("never-ends", "truncated"),
    ("labels",),
)
"""Beginnings of codes, what explains the others first: the one next action is the first cause's."""


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
        *lengths.empty_findings(evidence),
        *values.component_findings(evidence),
        *lengths.cost_findings(evidence),
    ]
    verdict, next_action = verdict_of(found)
    return GateReport(
        verdict=verdict,
        next_action=next_action,
        findings=found,
        disagreements=agreement.disagreements(evidence.read, rule),
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


def verdict_of(findings: Sequence[Finding]) -> tuple[GateVerdict, str]:
    """Return the verdict and the one next action."""
    acting = [finding for finding in findings if finding.weight in ("blocks", "insufficient")]
    if not acting:
        return "open", "train: the reward means what the reader means, and there is something to learn"
    blocking = {finding.code for finding in acting if finding.weight == "blocks"}
    # What was cut off was never finished, so the cap explains why nothing succeeds.
    cut = {"never-ends", "truncated"} if "never-succeeds" in blocking else set()

    def order(finding: Finding) -> tuple[float, bool]:
        early = finding.code in cut and finding.weight == "blocks"
        return (_cause("never-succeeds") - 0.5 if early else _cause(finding.code)), finding.weight != "blocks"

    first = min(acting, key=order)
    return ("blocked" if blocking else "insufficient-evidence"), str(first.next_action)


def _cause(code: str) -> int:
    return next((place for place, begins in enumerate(_CAUSES) if code.startswith(begins)), len(_CAUSES))
