"""Did the optimisation come apart: numbers that are none, a policy far from its reference, a reward lost, spikes?"""

from typing import TYPE_CHECKING

from llm_finetuning.diagnosis import trends
from llm_finetuning.diagnosis.record import DiagnosisFinding, Effect
from llm_finetuning.diagnosis.rules.ruling import Ruling, course, number, share
from llm_finetuning.diagnosis.signals import Signals

if TYPE_CHECKING:
    from llm_finetuning.diagnosis.log import Column

NULL_REWARDS = 0.05
"""Share of rows without a reward from which it is a fault: TRL 1.16 writes null where every reward of a row is NaN,
while loss and gradient stay finite, so that the null is its only trace."""

BAD_GRADIENTS = 0.02
"""Share of rows with a loss or gradient that is no number. One row occurs in sound runs (bf16, an empty answer)."""

KL_TORN = 10.0
"""Nats a token in the first row: no step does this; the reference is not the policy that training started from."""

KL_OFFSET = 0.1
"""Nats a token in the first row: quantised policies and merged adapters start there (0.13 to 0.6 in public logs)."""

KL_LOST = 2.0
"""Nats a token without a gain since: sound public runs stay under 0.3, toy runs whose reward rises reach 1.8."""

KL_HIGH = 1.0
"""Nats a token together with a reward that is lost; alone it is a watch."""

WORTH = 0.5
"""Gain of the reward, in deviations of it, that pays for `KL_LOST`; Cohen (1988) calls half a deviation medium."""

SPIKE = 10.0
"""Times the median gradient norm of the 21 rows about it that had a signal: a level that moves is no spike."""

COLLAPSED = 0.5
"""Share of the reward's range, and of its first level above the lowest, that is gone for good."""


def nan(s: Signals) -> Ruling:
    """Rewards, loss or gradients that are no number."""
    import numpy as np

    reward = s.bad("reward")
    logged = int(np.sum(reward | trends.present(s.column("reward"))))
    grads = s.bad("grad_norm") | s.bad("loss")
    found: list[DiagnosisFinding] = []
    for what, where, of, least in (
        ("reward", reward, logged, NULL_REWARDS),
        ("loss or gradient", grads, s.rows, BAD_GRADIENTS),
    ):
        count = int(np.sum(where))
        if count >= 2 and count >= least * max(1, of):  # noqa: PLR2004  one row alone is no pattern
            first = float(s.log.steps[int(np.argmax(where))])
            found.append(
                DiagnosisFinding(
                    code="nan",
                    role="failure",
                    text=f"{what} is no number in {count} of {of} rows, first at step {first:g}",
                    since=first,
                    numbers={"rows": count, "of": of},
                    confirm="call the reward on the completions of that step: it returns NaN or None for all of them"
                    if what == "reward"
                    else "a rerun in float32, or at a tenth of the learning rate, stays finite",
                    refute="the reward function logged a number for that step elsewhere",
                )
            )
    strange = int(np.sum(reward | grads))
    but = f"all but {strange} of {s.rows}" if strange else f"all {s.rows}"
    clear = f"reward, loss and gradient are numbers in {but} rows"
    return Ruling(found=tuple(found[:1]), clear=clear)


def kl(s: Signals) -> Ruling:
    """A policy that left its reference, or never started from it."""
    import numpy as np

    steps, values = s.held("kl")
    if not len(values):
        return Ruling(unknown="no kl in the log (beta is 0 by default since TRL 0.19)")
    first = float(values[0])
    if first > KL_TORN:
        return Ruling(found=(_torn(first, float(steps[0])),))
    offset = first if first > KL_OFFSET else 0.0
    course_of_kl = trends.smooth(values) - offset
    tail = float(np.median(values[-max(3, len(values) // 4) :])) - offset
    found: list[DiagnosisFinding] = []
    if offset:
        found.append(
            DiagnosisFinding(
                code="kl_reference_offset",
                role="watch",
                text=f"kl starts at {number(first)}: the reference is not quite the policy that training started from "
                "(quantised weights, an adapter); thresholds count from there",
                since=float(steps[0]),
                numbers={"kl": first},
            )
        )
    highest = float(np.max(course_of_kl))
    above = f" above its start of {number(offset)}" if offset else ""
    gained, before, after = _gain_since(s, _step_past(steps, course_of_kl, KL_HIGH))
    lost = highest > KL_HIGH and after < before and _collapses(s) is not None
    if (tail > KL_LOST and not gained) or lost:
        since = _step_past(steps, course_of_kl, KL_HIGH)
        found.insert(
            0,
            DiagnosisFinding(
                code="kl_blowup",
                role="failure",
                text=f"kl passes {KL_HIGH:g} nat a token at step {since:g} (highest {number(highest)}, last quarter "
                f"{number(tail)}{above}) and the reward gains nothing from it ({course(before, after)})",
                since=since,
                until=float(steps[-1]),
                numbers={"kl_highest": highest, "kl_tail": tail, "reward_before": before, "reward_after": after},
                effect=Effect(metric="kl", value=tail),
                confirm="completions after that step read unlike the base model's, or are broken text",
                refute="the same score on held-out rows as before that step",
            ),
        )
    elif tail > KL_HIGH / 2:
        found.append(
            DiagnosisFinding(
                code="kl_high",
                role="watch",
                text=f"kl is {number(tail)} nats a token{above} in the last quarter while the reward holds: "
                "read completions",
                numbers={"kl_tail": tail},
            )
        )
    return Ruling(found=tuple(found), clear=f"kl {number(tail)}{above} in the last quarter")


def _torn(first: float, step: float) -> DiagnosisFinding:
    return DiagnosisFinding(
        code="kl_blowup",
        role="failure",
        text=f"kl is {number(first)} nats a token in the first row: reference and policy do not belong together "
        "(another model, a template, constrained decoding), which no training step does",
        since=step,
        numbers={"kl_first": first},
        effect=Effect(metric="kl", value=first),
        confirm="kl of the untrained policy against the reference, on the same tokens, is as high",
        refute="kl below 0.01 before the first update",
    )


def _step_past(steps: "Column", values: "Column", level: float) -> float:
    import numpy as np

    past = np.flatnonzero(values > level)
    return float(steps[past[0]]) if len(past) else float(steps[-1])


def _gain_since(s: Signals, step: float) -> tuple[bool, float, float]:
    """Return whether the reward of the last quarter is above that until a step by more than its noise, and both."""
    import numpy as np

    steps, reward = s.held("reward")
    if not len(reward):
        return False, 0.0, 0.0
    until = reward[: max(3, int(np.sum(steps <= step)))]
    after = reward[-max(3, len(reward) // 4) :]
    error = float(np.sqrt(np.var(until) / len(until) + np.var(after) / len(after)))
    before, now = float(np.mean(until)), float(np.mean(after))
    spread = s.column("reward_std")
    usual = float(np.nanmedian(spread)) if trends.present(spread).any() else float(np.std(reward))
    # A gain that is a small part of what completions differ by is none that pays for such a distance.
    return s.reward_moves == "up" and now - before > max(2 * error, WORTH * usual), before, now


def _collapses(s: Signals) -> trends.Jump | None:
    """Return a loss of most of the reward within the first rows, or by a course that ends there."""
    import numpy as np

    _, reward = s.held("reward")
    silenced = trends.jump(s.silent)
    also_silent = silenced is not None and silenced.direction == "up"
    early = trends.jump(reward, surer=also_silent)
    later = trends.loss(reward)
    if early is not None and early.direction == "down":
        loss = early
    elif later is not None:
        loss = later
    elif s.trend("reward").direction == "down":
        found = s.trend("reward")
        rest = reward[-max(3, len(reward) // 4) :]
        share_lost = (found.start - float(np.median(rest))) / max(float(np.ptp(reward)), 1e-12)
        loss = trends.Jump(direction="down", start=found.start, tail=float(np.median(rest)), share=share_lost)
    else:
        return None
    low = min(0.0, float(np.min(reward)))
    halved = loss.start - loss.tail > 0.5 * (loss.start - low)
    return loss if loss.share > COLLAPSED and halved else None


def collapse(s: Signals) -> Ruling:
    """A reward that was there at the start and is gone."""
    steps, reward = s.held("reward")
    if len(reward) < 8:  # noqa: PLR2004
        return Ruling(unknown="too few rows with a reward")
    lost = _collapses(s)
    if lost is None:
        found = s.trend("reward")
        return Ruling(clear=f"reward {course(found.start, found.end)}: not lost")
    since = float(steps[trends.below_for_good(reward, (lost.start + lost.tail) / 2)])
    return Ruling(
        found=(
            DiagnosisFinding(
                code="policy_collapse",
                role="failure",
                text=f"reward falls from {number(lost.start)} to {number(lost.tail)}, half of it by step {since:g}, "
                f"and stays there ({share(lost.share)} of its range)",
                since=since,
                until=float(steps[-1]),
                numbers={"reward_start": lost.start, "reward_tail": lost.tail},
                effect=_effect(s, lost.tail - lost.start),
                confirm="a rerun from the base at a fifth of the learning rate keeps its reward past that step",
                refute="the data's order: prompts from that step on that are harder than those before it",
            ),
        )
    )


def decline(s: Signals) -> Ruling:
    """A reward that falls without being gone."""
    found = s.trend("reward")
    early = trends.jump(s.column("reward"))
    falls = found.direction == "down" or (early is not None and early.direction == "down")
    if found.direction == "unknown":
        return Ruling(unknown="too few rows for a trend")
    if not falls or _collapses(s) is not None:
        return Ruling(clear=f"reward {course(found.start, found.end)}: no fall beyond its noise")
    steps, reward = s.held("reward")
    start, end = (found.start, found.end) if found.direction == "down" or early is None else (early.start, early.tail)
    # Noise takes a slow fall past its middle early, which would make the symptom older than its cause.
    since = float(steps[trends.below_for_good(reward, (start + end) / 2)])
    return Ruling(
        found=(
            DiagnosisFinding(
                code="reward_decline",
                role="failure",
                text=f"reward falls {s.said('reward')}, half of it for good by step {since:g}",
                since=since,
                until=float(steps[-1]),
                numbers={"start": start, "end": end, "p": found.p},
                effect=_effect(s, end - start),
                confirm="the same prompts, sampled again from the checkpoint before that step, score higher",
                refute="the data's order: harder prompts from that step on; shuffle it and look again",
            ),
        )
    )


def spikes(s: Signals) -> Ruling:
    """Gradients far above their usual size, in rows that had a signal."""
    import numpy as np

    steps, norms = s.live_gradients
    if len(norms) < trends.ROWS_OF_TREND:
        return Ruling(unknown="no grad_norm in the log, or too few rows with a signal")
    usual = trends.surroundings(norms)
    over = norms > SPIKE * usual
    count = int(np.sum(over))
    if count < 3 or count < 0.02 * len(norms):  # noqa: PLR2004  a few in a long run are what clipping is for
        return Ruling(clear=f"{count} of {len(norms)} gradients above {SPIKE:g} times their median")
    first = float(steps[int(np.argmax(over))])
    at = int(np.argmax(norms / usual))
    top, median = float(norms[at]), float(usual[at])
    return Ruling(
        found=(
            DiagnosisFinding(
                code="grad_spikes",
                role="watch" if s.reward_moves == "up" or s.at_ceiling else "failure",
                text=f"{count} of {len(norms)} gradients lie above {SPIKE:g} times the median about them, "
                f"up to {number(top)} for {number(median)}; first at step {first:g}",
                since=first,
                numbers={"rows": count, "median": median, "highest": top},
                effect=Effect(metric="grad_norm", value=top / median),
                confirm="with max_grad_norm at the median the curve of the reward becomes smoother",
                refute="the same with clipping far below the spikes in force already",
            ),
        )
    )


def _effect(s: Signals, value: float) -> Effect:
    found = s.trend("reward")
    known = found.direction == "down"
    return Effect(metric="reward", value=value, low=found.low if known else None, high=found.high if known else None)
