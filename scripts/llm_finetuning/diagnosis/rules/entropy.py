"""Does the policy still explore, and does it still know what it says?"""

from llm_finetuning.diagnosis import trends
from llm_finetuning.diagnosis.record import DiagnosisFinding, Effect
from llm_finetuning.diagnosis.rules.ruling import Ruling, course
from llm_finetuning.diagnosis.rules.signal import WEAK
from llm_finetuning.diagnosis.signals import Signals

GONE = 0.8
"""Share of the first entropy that is gone. Entropy falls in every sound run and is exchanged for reward (Cui et al.,
2025, arXiv:2505.22617); it is a collapse only where the reward does not move any more and is below its best."""

NOTHING_LEFT = 0.05
"""Nats a token: below, sampling returns one completion. A policy that starts there was made narrow before."""

NOTHING_OF_IT = 0.05
"""Share of the first entropy that is as good as nothing where it began high: above 1 nat a token."""

GROWN, GROWN_NATS = 2.0, 1.0
"""Times and nats by which entropy grows when exploration runs away; clip-higher was reported at 2.0 nats and worse."""


def entropy(s: Signals) -> Ruling:
    """Entropy that is spent while the reward stands still, or that grows without bound."""
    import numpy as np

    steps, values = s.held("entropy")
    if not len(values):
        return Ruling(unknown="no entropy in the log (TRL writes it since 0.20)")
    found = s.trend("entropy")
    if found.direction == "unknown":
        return Ruling(unknown="too few rows for the course of entropy")
    start = float(np.mean(values[:3]))
    end = float(np.mean(values[-max(3, len(values) // 5) :]))
    falls = found.direction == "down" and start > NOTHING_LEFT and end < (1 - GONE) * start
    grows = found.direction == "up" and end > GROWN * start and end - start > GROWN_NATS
    if falls and not _still_gains(s) and not s.at_ceiling and not _exchanged(s, start, end):
        since = float(steps[trends.crossing(values, (1 - GONE / 2) * start, upward=False)])
        text = f"entropy {course(start, end)} nats a token while the reward of the second half stands still"
        return Ruling(found=(_finding(s, "entropy_collapse", text, since, end - start, start),))
    if grows and s.reward_moves != "up":
        since = float(steps[trends.crossing(values, start + (end - start) / 2, upward=True)])
        text = f"entropy {course(start, end)} nats a token without a gain in reward"
        return Ruling(found=(_finding(s, "entropy_explosion", text, since, end - start, start),))
    if start > NOTHING_LEFT and end < (1 - GONE) * start:
        gain = s.reward_moves == "up"
        how = "spent on the gain in reward" if gain else "spent, and whether a gain was bought with it is not shown"
        text = f"entropy {course(start, end)} nats a token: {how}"
        return Ruling(found=(DiagnosisFinding(code="entropy_spent", role="watch", text=text),))
    return Ruling(clear=f"entropy {course(start, end)}")


def _still_gains(s: Signals) -> bool:
    """Tell whether the reward of the second half rises."""
    _, reward = s.held("reward")
    return trends.trend(reward[len(reward) // 2 :]).direction == "up"


def _exchanged(s: Signals, start: float, end: float) -> bool:
    """Tell whether entropy was spent on a gain, after which the reward rests: that is the usual exchange.

    It is a collapse all the same where nothing is left to sample from, and half of the groups agree.
    """
    import numpy as np

    late = s.second_half(s.silent)
    nothing_left = end < max(NOTHING_LEFT, NOTHING_OF_IT * start) and len(late) > 0 and float(np.mean(late)) >= WEAK
    return (s.reward_moves == "up" or s.hints_at_a_gain()) and not nothing_left


def _finding(s: Signals, code: str, text: str, since: float, change: float, start: float) -> DiagnosisFinding:
    found = s.trend("entropy")
    down = code == "entropy_collapse"
    return DiagnosisFinding(
        code=code,
        role="failure",
        text=text,
        since=since,
        until=float(s.log.steps[-1]),
        numbers={"start": start, "change": change, "p": found.p},
        effect=Effect(metric="entropy", value=change, low=found.low, high=found.high),
        confidence="literature only",
        confirm="completions of one prompt are the same text" if down else "completions turn into unrelated words",
        refute="a held-out score that still rises",
    )
