"""Does the run learn, and is the log long enough to say so?"""

from llm_finetuning.diagnosis import trends
from llm_finetuning.diagnosis.record import DiagnosisFinding, Effect
from llm_finetuning.diagnosis.rules.ruling import Ruling, course, number
from llm_finetuning.diagnosis.signals import Signals

FEWEST_ROWS, FEWEST_STEPS, SHORT_RUN = 8, 40, 100
"""Rows and steps below which nothing but a fault of the first rows can be told; runs under a hundred steps need
`trends.ROWS_OF_TREND` rows, as each of them then speaks of few completions."""

STILL = 1e-3
"""Nats a token after `STILL_STEPS`: the policy is still its start; public runs that learn pass it by then."""

STILL_STEPS = 50


def is_too_short(s: Signals) -> bool:
    """Tell whether the log is too short for any course."""
    few = s.rows < FEWEST_ROWS or s.steps < FEWEST_STEPS
    return few or (s.steps < SHORT_RUN and s.rows < trends.ROWS_OF_TREND)


def movement(s: Signals) -> Ruling:
    """A policy that does not leave its start, and a reward that does not move either."""
    import numpy as np

    _, values = s.held("kl")
    if not len(values) or not s.has("reward"):
        return Ruling(unknown="no kl beside a reward in the log, which would show whether the policy moves")
    tail = float(np.median(values[-max(3, len(values) // 4) :]))
    parts = any(s.trend(metric).direction in ("up", "down") for metric in s.components.values())
    highest = float(np.max(trends.smooth(values)))
    if s.steps <= STILL_STEPS or highest >= STILL or s.reward_moves != "flat" or parts:
        return Ruling(clear=f"kl {number(tail)} in the last quarter, as it was logged")
    return Ruling(
        found=(
            DiagnosisFinding(
                code="no_movement",
                role="failure",
                text=f"kl is {tail:.1e} after {s.steps:.0f} steps and the reward stays at "
                f"{number(s.trend('reward').end)}: the policy has hardly been changed",
                since=float(s.log.steps[0]),
                until=float(s.log.steps[-1]),
                numbers={"kl_tail": tail},
                effect=Effect(metric="kl", value=tail),
                confirm="at ten times the learning rate kl passes 0.001 within 50 steps",
                refute="a warm-up that is not over",
            ),
        )
    )


def progress(s: Signals) -> Ruling:
    """What is left to say when nothing is wrong: healthy, or that the log cannot show it."""
    found = s.trend("reward")
    goals = [s.trend(s.components[name]) for name in s.wanted]
    moves = [goal.direction for goal in goals]
    if s.reward_moves == "up" and (not goals or "down" not in moves):
        return Ruling(found=(_healthy(s, found),))
    if "up" in moves and s.reward_moves != "down":
        return Ruling(found=(_healthy(s, goals[moves.index("up")]),))
    if found.direction == "unknown":
        text = f"{found.n} rows hold a reward, {trends.ROWS_OF_TREND} are needed to judge its course"
    elif s.reward_moves == "up":
        text = f"the reward rises {course(found.start, found.end)} while {', '.join(s.wanted)} shows no change"
    elif found.smallest <= 0:
        text = f"the reward is {number(found.end)} in every row: without any variation there is no course to judge"
    else:
        text = (
            f"the reward stays at {number(found.end)} (p = {found.p:.2g}); so many rows with this noise show a change "
            f"of {number(found.smallest)} or more, so that a smaller gain may be there"
        )
    return Ruling(
        found=(
            DiagnosisFinding(
                code="inconclusive",
                role="undecided",
                text=text,
                numbers={"p": found.p} | ({"smallest": found.smallest} if found.direction != "unknown" else {}),
                effect=_effect("reward", found),
                confirm="`finetune evaluate` of the last checkpoint and of the base, then `finetune compare`"
                if s.log.held_out
                else "a held-out score that rises, on 64 prompts or more every 20 to 50 steps",
                refute="a reward that still has not moved when the log is four times as long",
            ),
        )
    )


def too_short(s: Signals) -> DiagnosisFinding:
    """Return the finding that the log is too short, with what it lacks."""
    lacks = [f"{trends.ROWS_OF_TREND} rows"] if s.rows < trends.ROWS_OF_TREND else []
    lacks += [f"{SHORT_RUN} steps"] if s.steps < SHORT_RUN else []
    return DiagnosisFinding(
        code="too_short",
        role="undecided",
        text=f"{s.rows} rows over {s.steps:.0f} steps: too few to tell a course from chance",
        numbers={"rows": s.rows, "steps": s.steps},
        confirm=f"a log of {' and '.join(lacks)}",
        refute="",
    )


def _healthy(s: Signals, found: trends.Trend) -> DiagnosisFinding:
    name = "reward" if found == s.trend("reward") else s.components[s.wanted[0]]
    what = "the reward" if name == "reward" else s.wanted[0]
    return DiagnosisFinding(
        code="healthy",
        role="sound",
        text=f"{what} rises {s.said(name)} and nothing that could be looked for is wrong",
        numbers={"start": found.start, "end": found.end, "p": found.p},
        effect=_effect("reward", found),
        confirm="`finetune evaluate` of this checkpoint and the base, then `finetune compare`",
        refute="a held-out success that does not rise: then the reward is hacked",
    )


def _effect(metric: str, found: trends.Trend) -> Effect:
    known = found.direction != "unknown"
    return Effect(
        metric=metric,
        value=found.change if known else 0.0,
        low=found.low if known else None,
        high=found.high if known else None,
    )
