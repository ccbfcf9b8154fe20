"""From which weighted sum on a completion counts as a success."""

from collections.abc import Sequence

from llm_finetuning.brief import FILE_NAME, LoadedBrief
from llm_finetuning.errors import Refusal
from llm_finetuning.findings.evidence import Rule, is_paid
from llm_finetuning.types import Component


def success_of(loaded: LoadedBrief, components: Sequence[Component]) -> float:
    """Return the weighted reward that counts as a success: the brief's, or the middle of what can be paid."""
    return threshold_of(loaded, components, loaded.brief.gate.success, key="gate.success")


def threshold_of(loaded: LoadedBrief, components: Sequence[Component], wanted: float | None, *, key: str) -> float:
    """Return `wanted`, which stands in the brief under `key`, or the middle of what these components can pay.

    Refuses a threshold that all that is paid reaches, or nothing.
    """
    ends = [(part.weight * part.low, part.weight * part.high) for part in components]
    lowest, highest = sum(min(pair) for pair in ends), sum(max(pair) for pair in ends)
    if wanted is None:
        return float(lowest + highest) / 2
    if not (lowest < wanted and is_paid(highest, Rule(success=wanted))):
        place = f"{loaded.run_dir / FILE_NAME}: {key}"
        payers = "these rewards pay" if key == "gate.success" else "what grades pays"
        raise Refusal(f"{place}: {wanted:g} cannot be told apart; {payers} {lowest:g} to {highest:g}")
    return float(wanted)
