"""What the gate's findings look at, built from rewards alone, for tests of one finding at a time."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from llm_finetuning.findings.evidence import Evidence, Plan, Rule, Scored, by_prompt
from llm_finetuning.findings.readings import read_samples
from llm_finetuning.types import Label, ProbeReport, RewardValue, Sample, Score

RULE = Rule(success=0.5)


def value(name: str, paid: float | None, reason: str | None = None, *, fault: str | None = None) -> RewardValue:
    return RewardValue(name=name, value=paid, reason=reason, fault=fault, seconds=0.01)


def scored(number: int, index: int, reward: float | None, **change: Any) -> Scored:
    """Return one completion that one reward `r` pays; `values` and any field of a sample may be given."""
    values = change.pop("values", [value("r", reward)])
    sample = Sample(
        sample_id=f"{number}/{index}",
        prompt_id=str(number),
        row=number + 1,
        pass_name="policy",
        index=index,
        prompt=f"prompt {number}",
        columns={},
        completion=f"text {number} {index}",
        completion_ids=None,
        tokens=10,
        finish_reason="stop",
        temperature=1.0,
    )
    sample = dataclasses.replace(sample, **change)
    score = Score(
        sample_id=sample.sample_id,
        prompt_id=sample.prompt_id,
        pass_name=sample.pass_name,
        values=values,
        reward=reward,
        advantage=None,
    )
    return Scored(sample, score)


def of_rewards(groups: Sequence[Sequence[float | None]]) -> list[Scored]:
    return [scored(prompt, index, reward) for prompt, group in enumerate(groups) for index, reward in enumerate(group)]


def evidence(
    policy: Sequence[Scored],
    *,
    low: Sequence[Scored] = (),
    labels: Sequence[Label] = (),
    rule: Rule = RULE,
    plan: Plan | None = None,
    probe: ProbeReport | None = None,
) -> Evidence:
    everything = {item.sample.sample_id: item for item in [*policy, *low]}
    return Evidence(
        policy=list(policy),
        low=list(low),
        groups=by_prompt(policy),
        read=read_samples(labels, everything),
        rule=rule,
        plan=plan or Plan(),
        audit=None,
        probe=probe,
    )


def label(sample_id: str, verdict: str, **change: Any) -> Label:
    made = Label(
        sample_id=sample_id,
        reader="ada",
        reader_kind="person",
        verdict=verdict,  # type: ignore[arg-type]
        note="",
        at="2026-01-01T10:00:00+00:00",
        seen_sha256="seen",
        source="page",
    )
    return dataclasses.replace(made, **change)


def named(findings: Sequence[Any], code: str) -> Any:
    """Return the one finding of this code."""
    (found,) = [finding for finding in findings if finding.code == code]
    return found


def codes(findings: Sequence[Any]) -> list[str]:
    return [finding.code for finding in findings]
