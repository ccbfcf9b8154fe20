"""gate.html: one self-contained file from which a colleague can trust a run, or see why not.

No script, nothing from another address; every text of a model, a data set or a reader is escaped and its control
characters are shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from llm_finetuning.artifact import Header
from llm_finetuning.brief import Brief
from llm_finetuning.findings.evidence import Evidence
from llm_finetuning.findings.wording import text_of
from llm_finetuning.lineage import is_overridden
from llm_finetuning.types import Finding, GateReport, Label, ProbeResult, Weight
from llm_finetuning.web import rendering
from llm_finetuning.web.gate_pictures import pictures

SHOWN = 200  # disagreements, and failing probes, with their texts; gate.json and probe.json hold all
_WEIGHTS = get_args(Weight)


@dataclass(frozen=True, slots=True)
class View:
    """What the page shows."""

    brief: Brief
    report: GateReport
    evidence: Evidence
    labels: Sequence[Label]  # all of the file, in its order
    header: Header  # of gate.json: the maker and all that was judged
    engine: dict[str, Any]  # what the sampling engine said of itself


def render(view: View) -> str:
    """Return the page as HTML."""
    environment = rendering.environment()
    environment.filters["text"] = rendering.shortened("samples.jsonl or probe.json")
    report, evidence = view.report, view.evidence
    return environment.get_template("gate.html").render(
        brief=view.brief,
        report=report,
        overridden=is_overridden(report),
        override_of=[override for override in report.overrides if override.fingerprint == report.fingerprint],
        findings={weight: [item for item in report.findings if item.weight == weight] for weight in _WEIGHTS},
        counts={weight: sum(item.weight == weight for item in report.findings) for weight in _WEIGHTS},
        summary=_summary(view),
        pictures=pictures(evidence, report),
        disagreements=[_disagreement(view, item) for item in report.disagreements[:SHOWN]],
        more_disagreements=max(0, len(report.disagreements) - SHOWN),
        contested=[
            {
                "sample_id": item.scored.sample.sample_id,
                "reward": item.scored.reward,
                "prompt": text_of(item.scored.sample.prompt),
                "completion": text_of(item.scored.sample.completion),
                "labels": item.labels,
            }
            for item in evidence.read
            if item.word == "contested"
        ],
        failing=_failing(view)[:SHOWN],
        more_failing=max(0, len(_failing(view)) - SHOWN),
        audit=evidence.audit,
        probe=evidence.probe,
        readers=_readers(view),
        programs=sorted(
            {label.reader for item in evidence.read for label in item.labels if label.reader_kind == "program"}
        ),
        parts=_parts(evidence),
        header=view.header,
        versions={key: value for key, value in view.engine.items() if isinstance(value, str | int | float | bool)},
    )


def _summary(view: View) -> list[tuple[str, str, str]]:
    """Return the numbers that are looked at first: a name, the number, and what it rests on."""
    by_code = {finding.code: finding for finding in view.report.findings}
    found = [
        ("Completions read", str(_judged(view)), f"of {len(view.evidence.policy)}"),
        ("Paid, but rejected", *_rate(by_code.get("false-pass"))),
        ("Not paid, but accepted", *_rate(by_code.get("false-fail"))),
    ]
    kappa = view.report.kappa
    if kappa is not None:
        found.append(("Kappa, reward and reader", f"{kappa.value:.2f}", f"{kappa.low:.2f} to {kappa.high:.2f}"))
    success = next(
        (by_code[code] for code in ("base-success", "never-succeeds", "always-succeeds") if code in by_code), None
    )
    found += [
        ("Base success", *_rate(success)),
        ("Groups with a signal", *_rate(by_code.get("groups-with-signal"))),
        ("Cut at the cap", *_rate(by_code.get("truncated") or by_code.get("never-ends"))),
    ]
    if view.evidence.probe is not None:
        exploits = [
            result
            for result in view.evidence.probe.results
            if result.probe.kind == "exploit" and result.probe.weighs == "blocks"
        ]
        earned = sum(result.verdict == "earned" for result in exploits)
        found.append(("Attacks that were paid", str(earned), f"of {len(exploits)} tried"))
    return found


def _judged(view: View) -> int:
    return sum(item.word != "unsure" and item.scored.sample.pass_name == "policy" for item in view.evidence.read)


def _rate(finding: Finding | None) -> tuple[str, str]:
    if finding is None or finding.rate is None or not finding.rate.n:
        return "-", "not known"
    rate = finding.rate
    return f"{rate.hits / rate.n:.0%}", f"{rate.hits} of {rate.n}; {rate.low:.0%} to {rate.high:.0%}"


def _disagreement(view: View, item: Any) -> dict[str, Any]:
    read = next(read for read in view.evidence.read if read.scored.sample.sample_id == item.sample_id)
    return {"found": item, "labels": read.labels, "values": read.scored.score.values}


def _failing(view: View) -> list[ProbeResult]:
    probe = view.evidence.probe
    if probe is None:
        return []
    found = [result for result in probe.results if result.verdict in ("earned", "refused", "raised")]
    return sorted(found, key=lambda result: (result.probe.weighs != "blocks", result.verdict))


def _readers(view: View) -> list[dict[str, Any]]:
    """Return one row a reader: what was judged, how, and when."""
    standing = [label for item in view.evidence.read for label in item.labels]
    rows = []
    for reader in dict.fromkeys(label.reader for label in view.labels):
        all_of = [label for label in view.labels if label.reader == reader]
        counted = [label for label in standing if label.reader == reader]
        rows.append(
            {
                "reader": reader,
                "kind": all_of[0].reader_kind,
                "written": len(all_of),
                **{word: sum(label.verdict == word for label in counted) for word in ("accept", "reject", "unsure")},
                "chosen": sum(label.part == "chosen" for label in counted),
                "sources": ", ".join(sorted({label.source for label in all_of})),
                "first": min(label.at for label in all_of),
                "last": max(label.at for label in all_of),
            }
        )
    return rows


def _parts(evidence: Evidence) -> dict[str, Any]:
    """Return how much was read of each part, and what each stands for."""
    policy = [item for item in evidence.read if item.scored.sample.pass_name == "policy"]
    chosen = sum(item.chosen for item in policy)
    return {"chosen": chosen, "random": len(policy) - chosen, "rest": len(evidence.policy) - chosen}
