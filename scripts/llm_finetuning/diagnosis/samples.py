"""What kept completions say: does length earn advantage, and which texts were paid most before and after a change?

Only texts show a hacked reward where it has one component: held-out rewards are the same function.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from llm_finetuning.diagnosis.log import Completion
from llm_finetuning.diagnosis.record import Quote

if TYPE_CHECKING:
    from llm_finetuning.diagnosis.log import Column

QUOTES = 2
SHOWN_CHARACTERS = 600
_LARGEST = 1.7e308  # a number that JSON has

FEWEST_GROUPS = 30
"""Groups that mix completions of different advantage, below which the correlation is noise."""

BIAS, BIAS_P = 0.2, 1e-6
"""On made runs a reward for length gives 0.77 and all others at most 0.11."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthBias:
    """How far the advantage follows the length within groups, once what is wanted is taken out."""

    rho: float  # partial rank correlation, in -1..1
    p: float
    groups: int
    completions: int

    @property
    def pays(self) -> bool:
        """Tell whether the reward pays for length itself."""
        return self._sure and self.rho > BIAS

    @property
    def pays_the_short(self) -> bool:
        """Tell whether the reward pays for being short."""
        return self._sure and self.rho < -BIAS

    @property
    def _sure(self) -> bool:
        return self.groups >= FEWEST_GROUPS and self.p < BIAS_P


def length_bias(completions: Sequence[Completion], goal: str | None = None) -> LengthBias | None:
    """Return the correlation of length in characters and advantage within groups; None without groups to judge.

    Ranks are taken within each group of one step and prompt, so that hard prompts with long answers do not count
    (Spearman, 1904). Where a component says what is wanted, it is partialled out: right answers may be longer.
    """
    import numpy as np

    by_group: dict[tuple[int, str], list[Completion]] = defaultdict(list)
    for row in completions:
        if row.advantage is not None and math.isfinite(row.advantage):
            by_group[row.step, row.prompt].append(row)
    parts: list[tuple[Column, Column, Column]] = []
    for rows in by_group.values():
        advantages = np.array([row.advantage for row in rows], dtype=float)
        if len(rows) < 3 or float(np.ptp(advantages)) <= 0:  # noqa: PLR2004  two ranks always agree or oppose
            continue
        wanted = [row.rewards.get(goal) if goal is not None else 0.0 for row in rows]
        held = np.array([value if value is not None and math.isfinite(value) else 0.0 for value in wanted])
        lengths = np.array([len(row.completion) for row in rows], dtype=float)
        parts.append((_centred(lengths), _centred(advantages), _centred(held)))
    if not parts:
        return None
    length, advantage, wanted_ranks = (np.concatenate([part[i] for part in parts]) for i in range(3))
    rho = _partial(length, advantage, wanted_ranks)
    n = len(length)
    degrees = n - len(parts) - 2  # a mean a group, and the component that is taken out
    z = math.atanh(max(-0.999999, min(0.999999, rho))) * math.sqrt(max(1, degrees))
    return LengthBias(rho=rho, p=math.erfc(abs(z) / math.sqrt(2)), groups=len(parts), completions=n)


def quotes(
    completions: Sequence[Completion],
    since: float | None,
    goal: str | None,
    weights: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, list[Quote]]:
    """Return the completions that were paid most before a step and from it on; of equal pay, the last ones.

    A component without a weight counts once; one of weight 0 is watched and pays nothing.
    """
    if not completions:
        return {}
    boundary = since if since is not None else math.inf
    sides = {
        "before": [row for row in completions if row.step < boundary],
        "after": [row for row in completions if row.step >= boundary],
    }
    return {side: _highest(rows, goal, weights) for side, rows in sides.items() if rows}


def _highest(rows: Sequence[Completion], goal: str | None, weights: Mapping[str, float]) -> list[Quote]:
    found: dict[str, Quote] = {}
    for paid, row in sorted(
        ((_paid(row, weights), row) for row in rows), key=lambda p: (p[0], p[1].step), reverse=True
    ):
        text = row.completion
        shown = text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + " ..."
        if shown in found:
            continue
        held = row.rewards.get(goal) if goal is not None else None
        found[shown] = Quote(
            step=row.step,
            paid=paid,
            goal=held if held is not None and math.isfinite(held) else None,
            prompt=row.prompt[:SHOWN_CHARACTERS],
            completion=shown,
        )
        if len(found) == QUOTES:
            break
    return list(found.values())


def _paid(row: Completion, weights: Mapping[str, float]) -> float:
    """Return the weighted sum of what was paid; components that abstained add nothing."""
    held = ((weights.get(name, 1.0), value) for name, value in row.rewards.items())
    paid = sum(weight * value for weight, value in held if value is not None and math.isfinite(value))
    return min(max(paid, -_LARGEST), _LARGEST)


def _centred(values: "Column") -> "Column":
    """Return ranks less their mean."""
    from llm_finetuning.diagnosis.trends import ranks

    found = ranks(values)
    centred: Column = found - found.mean()
    return centred


def _partial(a: "Column", b: "Column", c: "Column") -> float:
    """Return the correlation of a and b without what both share with c."""
    ab, ac, bc = _correlation(a, b), _correlation(a, c), _correlation(b, c)
    left = (1 - ac**2) * (1 - bc**2)
    return (ab - ac * bc) / math.sqrt(left) if left > 1e-12 else 0.0  # noqa: PLR2004  c says all there is


def _correlation(a: "Column", b: "Column") -> float:
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / scale if scale > 0 else 0.0
