"""Were two models measured, and on the goldens that are there today?"""

from collections.abc import Iterator

from llm_finetuning.comparing.evidence import Evidence, in_turn
from llm_finetuning.types import Finding


def findings(evidence: Evidence) -> Iterator[Finding]:
    """Yield what makes the two evaluations less than a comparison of two models under equal conditions.

    One model twice is never promoted: what differs is chance, engine or seed, and would be promoted one time in 40.
    """
    found = evidence.setting
    if found.same_model:
        yield Finding(
            code="same-model",
            weight="insufficient",
            text="both evaluations are of the same model: what differs is chance, engine or seed",
            next_action=f"evaluate the model that was trained: `{evidence.commands.trained}`",
        )
    if found.engines_differ:
        yield Finding(
            code="engines-differ",
            weight="warns",
            text="the two were sampled by different engines, which can shift rates a little by themselves",
            next_action="evaluate both with one engine where the gain is small",
        )
    if found.goldens_changed:
        yield Finding(
            code="goldens-changed",
            weight="warns",
            text="the goldens are others today than those that both were evaluated on",
            next_action=f"evaluate both on the goldens of today: {in_turn(evidence.commands.again)}",
        )
