"""What the audit of the data set and the attacks on the reward have found, carried into the gate with its weight."""

import dataclasses
from collections.abc import Sequence

from llm_finetuning.findings.evidence import Evidence
from llm_finetuning.types import Finding


def findings(evidence: Evidence) -> list[Finding]:
    """Return what is not fine, each code behind `audit-` or `probe-`, and one line that says how much was tried."""
    found = []
    if evidence.audit is not None:
        words = f"the audit looked at {evidence.audit.rows} rows of the data set"
        found += [_summary("audit", words, evidence.audit.findings), *_carried("audit", evidence.audit.findings)]
    if evidence.probe is not None:
        told = sum(work.problem is None for work in evidence.probe.honest)
        words = (
            f"the probes tried {len(evidence.probe.results)} completions; right and wrong are told apart on {told} of "
            f"{len(evidence.probe.honest)} prompts"
        )
        found += [_summary("probe", words, evidence.probe.findings), *_carried("probe", evidence.probe.findings)]
    return found


def _summary(code: str, words: str, findings_of: Sequence[Finding]) -> Finding:
    counts = {
        weight: sum(finding.weight == weight for finding in findings_of) for weight in ("blocks", "warns", "fine")
    }
    return Finding(
        code=code,
        weight="fine",
        text=f"{words}: {counts['blocks']} findings block, {counts['warns']} warn, {counts['fine']} are fine",
        next_action=None,
    )


def _carried(prefix: str, findings_of: Sequence[Finding]) -> list[Finding]:
    return [
        dataclasses.replace(
            finding,
            code=finding.code if finding.code.startswith(f"{prefix}-") else f"{prefix}-{finding.code}",
            text=f"{prefix}: {finding.text}",
        )
        for finding in findings_of
        if finding.weight != "fine"
    ]
