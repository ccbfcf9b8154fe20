"""What a run has shown before it is built: prompt lengths from its audit, pass rate and dead prompts from its gate."""

from llm_finetuning import lineage
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.recipes.config import Measured
from llm_finetuning.types import GateReport

BASE_RATES = ("base-success", "never-succeeds", "always-succeeds")
"""Findings of the gate that carry the pass rate of the base model."""


def of_gate(loaded: LoadedBrief, report: GateReport) -> Measured:
    """Return what the files that an open gate rests on say; the gate has proved them fresh."""
    rate = next((found.rate for found in report.findings if found.code in BASE_RATES and found.rate), None)
    return Measured(
        longest_prompt=longest_prompt(loaded),
        passed=(rate.hits / rate.n, rate.low, rate.high) if rate is not None and rate.n else None,
        constant_prompts=_constant_prompts(loaded),
    )


def longest_prompt(loaded: LoadedBrief) -> int | None:
    """Return the tokens of the longest prompt; None where nobody counted them."""
    counted = lineage.current_audit(loaded).prompt_tokens if _is_audited(loaded) else None
    return counted["max"] if counted is not None else None


def audit_note(loaded: LoadedBrief) -> str:
    """Return what a person should know of the data set of a method without a gate."""
    if not _is_audited(loaded):
        return "the data set was not audited"
    found = [finding.code for finding in lineage.current_audit(loaded).findings if finding.weight == "blocks"]
    if not found:
        return "the audit found nothing in the data set that blocks"
    return f"the audit found faults in the data set that no gate will stop: {', '.join(dict.fromkeys(found))}"


def _is_audited(loaded: LoadedBrief) -> bool:
    return (loaded.run_dir / "audit.json").exists()


def _constant_prompts(loaded: LoadedBrief) -> tuple[str, ...]:
    samples = lineage.complete_samples(loaded, without=["completion_ids"]).records
    paid: dict[str, set[float]] = {}
    for score in lineage.current_scores(loaded, samples):
        if score.pass_name == "policy":
            paid.setdefault(score.prompt_id, set()).update(() if score.reward is None else (score.reward,))
    return tuple(prompt_id for prompt_id, values in paid.items() if len(values) == 1)
