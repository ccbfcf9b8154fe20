"""Is the reward earned by something else than what is wanted?"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_finetuning.diagnosis import trends
from llm_finetuning.diagnosis.record import DiagnosisFinding, Effect
from llm_finetuning.diagnosis.rules.ruling import Ruling, course
from llm_finetuning.diagnosis.signals import Signals, is_wanted

if TYPE_CHECKING:
    from llm_finetuning.diagnosis.log import Column

PATIENCE = 100
"""Steps that what is wanted may stand still after the easy part has settled. Format before correctness is the usual
order: in public logs correctness woke 100 to 200 steps into the run."""

PATIENCE_AT_ALL = 300
"""Steps after which no first phase of format is left to wait for; Unsloth's notebooks ask for 150 to 200, doubled."""

SETTLED = 0.15
"""Noise of a settled component as a share of what it rose by: a ceiling, and no plateau with room above it."""

MATERIAL = 0.25
"""Share of what another part gains that a part has to lose where no name says which is wanted: a penalty that grows a
little as answers become better is no hack."""

TOP = 0.8
"""Share of the most that a component ever paid from which it has no room left."""

HARDLY = 0.1
"""Share of the reward's gain below which a component has not taken part in it."""

WORSE_HELD_OUT = 0.4
"""Growth of the logarithm of a held-out perplexity: half as much again, while the reward is at its highest. A public
pair of runs on one task has 0.25 with a KL term, and 1.3 without one, whose texts are broken."""

WORSE_SUCCESS, WORSE_P = 0.2, 0.1
"""Share of a held-out success that is gone, and the chance of such an order of evaluations; those on 8 prompts dipped
from 0.9 to 0.5 in sound runs, which no single one is evidence of."""

_EVALUATIONS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Course:
    """What one component does over the run."""

    name: str
    direction: str  # up, down, flat
    start: float
    end: float
    step: float  # at which half of its change is done
    ceiling: bool  # it rose and lies on a ceiling since
    varies: bool


def hacking(s: Signals) -> Ruling:
    """A part that rises while what is wanted falls, or stands still long after the part has settled."""
    if (found := _held_out(s)) is not None:
        return Ruling(found=(found,))
    if not s.components:
        return Ruling(unknown="the reward has one component, and no held-out measure of something else is logged")
    courses = {name: _course(s, name, metric) for name, metric in s.components.items()}
    rising = [found for found in courses.values() if found.direction == "up"]
    goals = [courses[name] for name in s.wanted] or list(courses.values())
    for goal in goals:
        easy = [part for part in rising if part.name != goal.name and part.name not in s.wanted]
        if goal.direction == "down" and easy and s.reward_moves != "down":
            most = max(easy, key=lambda part: part.end - part.start)
            if s.wanted or goal.start - goal.end >= MATERIAL * (most.end - most.start):
                return Ruling(found=(_falls(s, goal, most),))
    still = [goal for goal in goals if _is_still(s, goal) and not _at_top(s, goal)]
    easy = [part for part in rising if part not in still and part.name not in s.wanted]
    if still and easy and len(still) == len(s.wanted or still) and (s.wanted or all(part.ceiling for part in easy)):
        return Ruling(found=_stands_still(s, still[0], easy))
    return Ruling(clear="; ".join(f"{part.name} {course(part.start, part.end)}" for part in goals[:4]))


def falls_for_sure(s: Signals, found: DiagnosisFinding) -> bool:
    """Tell whether what is known to be wanted falls and the reward rises, each by the test for a trend.

    Both together are evidence in a log that is too short for either alone: `trends.ROWS_OF_TREND` rows do. A run of 30
    steps whose reward rose from 2.8 to 7.8 had what was wanted fall from 0.32 to 0.02, on held-out prompts too.
    """
    if found.effect is None or "goal_end" not in found.numbers:
        return False
    name = next((name for name, metric in s.components.items() if metric == found.effect.metric), "")
    known = name == s.goal or s.weights.get(name) == 0 or is_wanted(name)
    return known and s.trend("reward").direction == "up" and s.trend(found.effect.metric).direction == "down"


def _course(s: Signals, name: str, metric: str) -> _Course:
    import numpy as np

    steps, values = s.held(metric)
    found = s.trend(metric)
    early = trends.jump(values)
    direction = found.direction if found.direction in ("up", "down") else (early.direction if early else "flat")
    start = early.start if early and early.direction == direction else found.start
    late = values[len(values) // 2 :]
    end = float(np.mean(late)) if len(values) else start
    row = trends.crossing(values, (start + end) / 2, upward=end > start) if len(values) else 0
    return _Course(
        name=name,
        direction=direction,
        start=start,
        end=end,
        step=float(steps[row]) if len(values) else 0.0,
        ceiling=direction == "up" and bool(np.std(late) < SETTLED * abs(end - start)),
        varies=bool(len(values)) and float(np.ptp(values)) > 0,
    )


def _is_still(s: Signals, goal: _Course) -> bool:
    """Tell whether a component gained next to nothing of what the reward gained.

    That its trend is not significant would not do: a short log shows no trend of one that carries half the gain.
    Where no name tells what is wanted, a component that never changes is taken for a constant.
    """
    if goal.direction == "down" or not (goal.varies or s.wanted):
        return False
    reward = _course(s, "reward", "reward")
    return goal.end - goal.start < HARDLY * (reward.end - reward.start)


def _at_top(s: Signals, goal: _Course) -> bool:
    """Tell whether a component that stands still does so near the most that it ever paid: there it cannot rise."""
    import numpy as np

    _, values = s.held(s.components[goal.name])
    low, high = min(0.0, float(np.min(values))), float(np.max(values))
    return goal.varies and float(np.mean(values)) - low >= TOP * (high - low)


def _falls(s: Signals, goal: _Course, easy: _Course) -> DiagnosisFinding:
    named = "" if s.wanted else f" (if {goal.name} is what is wanted; name it with --goal)"
    return DiagnosisFinding(
        code="proxy_only",
        role="failure",
        text=f"{easy.name} rises {course(easy.start, easy.end)} while {goal.name} falls "
        f"{course(goal.start, goal.end)}, half of it by step {min(goal.step, easy.step):g}{named}",
        since=min(goal.step, easy.step),
        until=float(s.log.steps[-1]),
        numbers={"goal_start": goal.start, "goal_end": goal.end, "easy_start": easy.start, "easy_end": easy.end},
        effect=_effect(s, goal),
        confirm=f"the completions that are paid most after that step fail {goal.name}",
        refute=f"a held-out measure of what is wanted that rises although {goal.name} falls",
    )


def _stands_still(s: Signals, goal: _Course, easy: list[_Course]) -> tuple[DiagnosisFinding, ...]:
    """Return proxy_only after long enough a wait, else that this may be the usual first phase."""
    last = float(s.log.steps[-1])
    settled = max(_settled_step(s, part) for part in easy)
    waited = last - settled
    most = max(easy, key=lambda part: part.end - part.start)
    found = s.trend(s.components[goal.name])
    over = (
        goal.direction != "up"
        and waited >= PATIENCE
        and (all(part.ceiling for part in easy) or s.steps >= PATIENCE_AT_ALL)
    )
    later = max(PATIENCE_AT_ALL, settled + PATIENCE, last + 1)  # what the log has not reached yet
    text = (
        f"{most.name} rises {course(most.start, most.end)} and {goal.name} hardly moves "
        f"({course(goal.start, goal.end)}), "
        + (f"{waited:.0f} steps after what rises had settled" if waited else "while what rises has not settled yet")
    )
    return (
        DiagnosisFinding(
            code="proxy_only" if over else "format_first_phase",
            role="failure" if over else "undecided",
            text=text if over else f"{text}: too early to tell from the usual order, format before correctness",
            since=most.step,
            until=last,
            numbers={"goal": found.end, "waited": waited, "easy_start": most.start, "easy_end": most.end},
            effect=_effect(s, goal),
            confirm=f"the completions that are paid most fail {goal.name}"
            if over
            else f"after {later:.0f} steps {goal.name} has still not moved",
            refute=f"{goal.name} begins to rise",
        ),
    )


def _settled_step(s: Signals, part: _Course) -> float:
    """Return the step from which a component does not rise any more: nine tenths of its change are done."""
    steps, values = s.held(s.components[part.name])
    level = part.start + 0.9 * (part.end - part.start)
    at = trends.crossing(values, level, upward=True)
    rest = values[at:]
    return float(steps[-1]) if trends.trend(rest).direction == "up" and not part.ceiling else float(steps[at])


def _held_out(s: Signals) -> DiagnosisFinding | None:
    """Return a held-out measure of another kind that becomes worse while the reward of training is up.

    The held-out reward is the same function, so that a hacked one rises there as well.
    """
    import math

    import numpy as np

    if (fallen := _held_out_success(s)) is not None:
        return fallen
    found = s.log.held_out.get("perplexity")
    if found is None or s.reward_moves == "down":
        return None
    there = trends.present(found.values) & (found.values > 0)
    values: Column = found.values[there]
    steps = s.log.held_out_steps[there]
    if len(values) < _EVALUATIONS:
        return None
    grown = math.log(float(values[-1]) / float(values[0]))
    rises = float(np.mean(np.diff(values) > 0))
    if grown < WORSE_HELD_OUT or rises < 0.7:  # noqa: PLR2004  nearly every evaluation is worse than the one before
        return None
    at = int(np.argmax(np.log(values / values[0]) > WORSE_HELD_OUT / 2))
    return DiagnosisFinding(
        code="proxy_only",
        role="failure",
        text=f"held-out perplexity {course(float(values[0]), float(values[-1]))} while the reward holds or rises: the "
        "texts become worse as the reward is earned",
        since=float(steps[at]),
        until=float(steps[-1]),
        numbers={"perplexity_start": float(values[0]), "perplexity_end": float(values[-1])},
        effect=Effect(metric="perplexity", value=grown),
        confirm="completions of the last steps are unlike any text a person would accept",
        refute="a person prefers the last completions to the first ones",
    )


def _held_out_success(s: Signals) -> DiagnosisFinding | None:
    """Return a held-out success that falls while the reward of training rises: what is learned does not carry over.

    Evaluations are small, so that a fall counts where Kendall's test sees it at 10 % and a fifth of the first is gone.
    """
    import numpy as np

    if s.reward_moves != "up":
        return None
    for name, series in s.log.held_out.items():
        there = trends.present(series.values)
        values, steps = series.values[there], s.log.held_out_steps[there]
        part = name.removeprefix("rewards/").removesuffix("/mean")
        if len(values) < _EVALUATIONS or name.endswith("/std") or not (part in s.wanted or is_wanted(part)):
            continue
        quarter = max(1, len(values) // 4)
        first, last = float(np.mean(values[:quarter])), float(np.mean(values[-quarter:]))
        if last < (1 - WORSE_SUCCESS) * first and trends.falls(values) < WORSE_P:
            at = trends.crossing(values, (first + last) / 2, upward=False)
            return DiagnosisFinding(
                code="proxy_only",
                role="failure",
                text=f"held-out {part} falls {course(first, last)} while the reward of training rises",
                since=float(steps[at]),
                until=float(steps[-1]),
                numbers={"held_out_start": first, "held_out_end": last},
                effect=Effect(metric=name, value=last - first),
                confirm="`finetune evaluate` of the last checkpoint and one before that step, then `finetune compare`",
                refute="an evaluation on more prompts that does not fall",
            )
    return None


def _effect(s: Signals, goal: _Course) -> Effect:
    found = s.trend(s.components[goal.name])
    return Effect(metric=s.components[goal.name], value=found.change, low=_known(found.low), high=_known(found.high))


def _known(bound: float) -> float | None:
    import math

    return bound if math.isfinite(bound) else None
