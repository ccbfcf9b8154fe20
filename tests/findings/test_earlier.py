"""What audit and probes found is carried into the gate as it weighs."""

import dataclasses

from evidence_records import evidence, named, of_rewards
from llm_finetuning.findings import earlier
from llm_finetuning.types import AuditReport, Finding, ProbeReport


def finding(code: str, weight: str) -> Finding:
    return Finding(code=code, weight=weight, text=f"about {code}", next_action="do")  # type: ignore[arg-type]


def test_what_is_not_fine_is_carried_and_the_rest_is_counted() -> None:
    """Codes say where they come from, once; weights and rows stay."""
    audit = AuditReport(
        findings=[finding("gold-empty", "blocks"), finding("audit-small", "warns"), finding("ids", "fine")],
        rows=7,
        next_action="",
        prompt_tokens=None,
        notes=[],
    )
    probe = ProbeReport(
        verdict="blocked",
        next_action="",
        findings=[finding("exploit-echo", "blocks"), finding("honest-unknown", "insufficient")],
        honest=[],
        results=[],
        notes=[],
    )
    given = dataclasses.replace(evidence(of_rewards([[1.0, 0.0]])), audit=audit, probe=probe)
    found = earlier.findings(given)

    assert [(item.code, item.weight) for item in found] == [
        ("audit", "fine"),
        ("audit-gold-empty", "blocks"),
        ("audit-small", "warns"),
        ("probe", "fine"),
        ("probe-exploit-echo", "blocks"),
        ("probe-honest-unknown", "insufficient"),
    ]
    assert named(found, "audit").text.endswith("1 findings block, 1 warn, 1 are fine")
    assert named(found, "audit-gold-empty").text == "audit: about gold-empty"


def test_without_them_nothing_is_said() -> None:
    """The command asks for both; a caller that has none says nothing of them."""
    assert earlier.findings(evidence(of_rewards([[1.0]]))) == []
