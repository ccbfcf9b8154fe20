"""Do completions grow without becoming better?"""

from llm_finetuning.diagnosis import trends
from llm_finetuning.diagnosis.record import DiagnosisFinding, Effect
from llm_finetuning.diagnosis.rules.ruling import Ruling, course
from llm_finetuning.diagnosis.signals import Signals, is_wanted

GROWN = 0.25
"""Growth of the mean length from which it is more than drift; sound public runs moved by less, or became shorter."""


_EVALUATIONS = 4


def _held_out_stands_still(s: Signals) -> bool:
    """Tell whether a held-out success is at the end no higher than at the start."""
    import numpy as np

    for name, series in s.log.held_out.items():
        values = series.values[trends.present(series.values)]
        if len(values) >= _EVALUATIONS and is_wanted(name.removeprefix("rewards/").removesuffix("/mean")):
            quarter = max(1, len(values) // 4)
            return bool(np.mean(values[-quarter:]) <= np.mean(values[:quarter]))
    return False


def length(s: Signals) -> Ruling:
    """Length that rises while neither the reward nor what is wanted of it does.

    Length that rises together with the reward is undecidable from a log: longer reasoning may be what is better.
    """
    import numpy as np

    steps, values = s.held("completions/mean_length")
    if not len(values):
        return Ruling(unknown="no length in the log")
    found = s.trend("completions/mean_length")
    if found.direction == "unknown":
        return Ruling(unknown="too few rows for the course of the length")
    start = float(np.mean(values[: max(3, len(values) // 10)]))
    end = found.end
    grown = found.direction == "up" and end > (1 + GROWN) * start
    if not grown:
        return Ruling(clear=f"length {course(start, end)} tokens")
    metrics = [s.components[name] for name in s.wanted] or ["reward"]
    better = (s.reward_moves == "up" and not s.wanted) or any(map(s.hints_at_a_gain, metrics))
    better = better and not _held_out_stands_still(s)
    if better:
        text = f"length {course(start, end)} tokens with the reward: whether longer is better the log cannot tell"
        return Ruling(found=(DiagnosisFinding(code="length_with_reward", role="watch", text=text),))
    # A length that falls first lies above that level in its first rows too, which would date it before its cause.
    since = float(steps[trends.below_for_good(-values, -(1 + GROWN) * start)])
    drifting = s.reward_moves == "up"
    return Ruling(
        found=(
            DiagnosisFinding(
                code="length_growth",
                role="failure",
                text=f"length {course(start, end)} tokens (p = {found.p:.2g}), past a quarter more at step {since:g}, "
                + ("while the reward rises and what is wanted does not" if drifting else "without a gain in reward"),
                since=since,
                until=float(steps[-1]),
                numbers={"start": start, "end": end, "p": found.p},
                effect=Effect(metric="completions/mean_length", value=found.change, low=found.low, high=found.high),
                confidence="literature only",
                confirm="wrong completions grow, right ones do not",
                refute="right completions grow as well, on held-out rows",
            ),
        )
    )
