"""What a calibrated judge says who sees both models' answers side by side."""

from collections.abc import Iterator

from llm_finetuning.comparing.evidence import Evidence
from llm_finetuning.comparing.pairs import LEVEL
from llm_finetuning.types import Finding


def findings(evidence: Evidence) -> Iterator[Finding]:
    """Yield whether the judge agrees. It supports or warns and never decides: graders decide what success is."""
    arena = evidence.arena
    if arena is None:
        return
    asked = arena.won + arena.lost + arena.tied
    words = f"judge `{arena.judge}` prefers the candidate on {arena.won} of {asked} items and the base on {arena.lost}"
    words += f"; sign test p = {arena.p_value:.2g}"
    if arena.p_value > LEVEL:
        yield Finding(code="arena-even", weight="fine", text=words, next_action=None)
    elif arena.won > arena.lost:
        yield Finding(code="arena-agrees", weight="fine", text=words, next_action=None)
    else:
        yield Finding(
            code="arena-disagrees",
            weight="warns",
            text=words,
            next_action="read pairs that the base won before the candidate takes its place",
        )
    if arena.by_order * 2 > asked:
        yield Finding(
            code="arena-by-order",
            weight="warns",
            text=f"on {arena.by_order} of {asked} items the judge named whoever stood in one place",
            next_action="trust it little here: calibrate another judge",
        )
