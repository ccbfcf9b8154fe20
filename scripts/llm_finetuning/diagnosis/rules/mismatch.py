"""Do the sampler and the trainer agree on the probabilities of what was sampled?"""

from llm_finetuning.diagnosis import trends
from llm_finetuning.diagnosis.record import DiagnosisFinding, Effect
from llm_finetuning.diagnosis.rules.ruling import Ruling, course, number, share
from llm_finetuning.diagnosis.signals import Signals

GAP = 0.05
"""Mean absolute difference of log-probabilities a token: NVIDIA's NeMo-RL takes exp of it above 1.05 for a fault of the
framework, verl 0.01 for one of precision; sound TRL runs show 0.005 to 0.03."""

GAP_SOUND = 0.03
BELOW_ONE, ROWS_BELOW_ONE, RATIO = 1.0, 0.6, 0.8
"""Importance ratios never above 1 in most rows: the trainer gives all that was sampled less than the sampler did, as it
does where the sampler cut its support (top_p, top_k) and the trainer did not. A mean ratio alone is no sign: in TRL's
default mode it is a product over the tokens of a sequence, and 0.4 to 0.7 is usual."""

_GAP = "sampling/sampling_logp_difference/mean"
_RATIO = "sampling/importance_sampling_ratio"


def mismatch(s: Signals) -> Ruling:
    """A gap that is there from the start, one that grows, or a sampler with a smaller support."""
    import numpy as np

    steps, gap = s.held(_GAP)
    if not len(gap):
        return Ruling(unknown="no sampling/sampling_logp_difference (TRL 0.23 and later, with vLLM)")
    first = float(np.median(gap[: max(3, len(gap) // 10)]))
    last = float(np.median(gap[-max(3, len(gap) // 4) :]))
    if first > GAP and last > GAP:
        return Ruling(found=(_from_the_start(s, first, last, float(steps[0])),))
    grows = s.trend(_GAP).direction == "up" and first < GAP_SOUND and last > GAP
    if grows:
        since = float(steps[trends.crossing(gap, (first + last) / 2, upward=True)])
        return Ruling(found=(_drift(s, first, last, since),))
    if (bias := _truncated_support(s)) is not None:
        return Ruling(found=(bias,))
    return Ruling(clear=f"log-probabilities of sampler and trainer differ by {number(last)} a token")


def _from_the_start(s: Signals, first: float, last: float, step: float) -> DiagnosisFinding:
    of_moe = " (a mixture of experts: routing that differs between the two)" if s.moe else ""
    return DiagnosisFinding(
        code="sampler_mismatch",
        role="failure",
        text=f"sampler and trainer differ by {number(first)} nats a token from the start ({number(last)} at the end): "
        f"the two do not compute the same model{of_moe}",
        since=step,
        numbers={"first": first, "last": last},
        effect=Effect(metric=_GAP, value=first),
        confidence="literature only",
        confirm="the gap is as large at learning rate 0, or with the trainer's own generation it is gone",
        refute="a gap near 0 before the first update",
    )


def _drift(s: Signals, first: float, last: float, since: float) -> DiagnosisFinding:
    return DiagnosisFinding(
        code="sampler_drift",
        role="failure",
        text=f"the gap between sampler and trainer grows {course(first, last)} nats a token: sound at the start, so "
        "that policy and samples drift apart" + (" (mixture of experts)" if s.moe else ""),
        since=since,
        numbers={"first": first, "last": last},
        effect=Effect(metric=_GAP, value=last - first),
        confidence="literature only",
        confirm="with one optimizer step a generation the gap stays where it started",
        refute="the gap grows at learning rate 0 too: then weights are not synchronised",
    )


def _truncated_support(s: Signals) -> DiagnosisFinding | None:
    import numpy as np

    steps, highest = s.held(f"{_RATIO}/max")
    _, mean = s.held(f"{_RATIO}/mean")
    if len(highest) < 8 or not len(mean):  # noqa: PLR2004
        return None
    below = float(np.mean(highest < BELOW_ONE))
    ratio = float(np.median(mean))
    if below < ROWS_BELOW_ONE or ratio >= RATIO:
        return None
    top_p = s.option("top_p")
    return DiagnosisFinding(
        code="truncated_sampling_bias",
        role="failure",
        text=f"the highest importance ratio is below 1 in {share(below)} of rows (median of the means "
        f"{number(ratio)}): the sampler draws from a smaller support than the trainer scores"
        + (f", top_p = {top_p:g}" if top_p is not None and top_p < 1 else "")
        + ", and longer completions lose their gradient exponentially",
        since=float(steps[0]),
        numbers={"rows_below_one": below, "ratio": ratio},
        effect=Effect(metric=f"{_RATIO}/mean", value=ratio),
        confirm="top_p below 1 or top_k above 0 in the run's options",
        refute="top_p 1, top_k 0 and the same ratios",
    )
