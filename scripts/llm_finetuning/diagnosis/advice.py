"""One next change for a verdict, as options of TRL 1.16, or none; a variant answers a cause, never a model.

Sources: DAPO (Yu et al., 2025, arXiv:2503.14476) for entropy that is spent and for long degenerate reasoning; Dr. GRPO
(Liu et al., 2025, arXiv:2503.20783) for length that drifts; GSPO (Zheng et al., 2025, arXiv:2507.18071) for mixtures of
experts. On-policy every ratio is 1, so that clipping and the level of ratios change nothing (TRL's paper index, GSPO):
such options carry what makes the run off-policy.
"""

from collections.abc import Callable, Mapping
from typing import Any

from llm_finetuning.diagnosis.record import Advice, DiagnosisFinding
from llm_finetuning.diagnosis.rules.ruling import Ruling, number
from llm_finetuning.diagnosis.samples import LengthBias
from llm_finetuning.diagnosis.signals import Signals
from llm_finetuning.recipes import variants

KEEP = "keep plain GRPO"

COLD = 0.7
"""Temperature below which what is sampled is sharper than what is trained: entropy is lost to sampling."""

STEEP = 1e-3
"""Learning rate that is ten times the usual one of an adapter, and a thousand times that of all weights."""

EARLY = 0.1
"""Share of the run within which a reward that is lost is the learning rate's doing, not the mixture of experts'."""


def advise(
    s: Signals, found: DiagnosisFinding, rulings: Mapping[str, Ruling], bias: LengthBias | None = None
) -> Advice:
    """Return the one next change for a verdict."""
    if found.role != "failure":
        return _keep(s, found)
    if is_of_experts(s, found):
        return _gspo(s, found, rulings)
    return _ADVICE[found.code](s, found, bias)


def _keep(s: Signals, found: DiagnosisFinding) -> Advice:
    because = {
        "healthy": "the reward rises and no failure mode shows; a variant would change what works",
        "format_first_phase": "format before correctness is the usual order; "
        + ("a longer run shows what comes of it" if s.ended else "wait until about step 300"),
        "too_short": "no course can be told from so few rows; "
        + ("this run has ended: a longer run, or several seeds, can show one" if s.ended else "let it run on"),
    }.get(found.code, "nothing shows a failure mode, and no change is better than one without a reason")
    return Advice(change=KEEP, because=because)


def is_of_experts(s: Signals, found: DiagnosisFinding) -> bool:
    """Tell whether what is left is the instability that sequence ratios are for; no log of one was public."""
    if not s.moe or found.role != "failure":
        return False
    if found.code == "sampler_drift":
        return True
    late = found.since is not None and found.since > float(s.log.steps[0]) + EARLY * s.steps
    unstable = found.code in ("grad_spikes", "reward_decline") or (found.code == "policy_collapse" and late)
    return unstable and s.off_policy is True


def _gspo(s: Signals, found: DiagnosisFinding, rulings: Mapping[str, Ruling]) -> Advice:
    seen = rulings.get("mismatch", Ruling()).unknown
    gap = f"; before that, exclude that sampler and trainer disagree from the start: {seen}" if seen else ""
    return _variant(
        s,
        "gspo",
        f"{found.code} of a mixture of experts: the experts of a token change from update to update, so that ratios of "
        f"tokens are noise and those of sequences are not; simpler causes are excluded below{gap}",
        other="routing replay (R3), which TRL does not have and verl and NeMo-RL do, mends the rest",
    )


def _variant(s: Signals, name: str, because: str, other: str = "") -> Advice:
    options = {option: value for option, (value, _) in variants.VARIANTS[name].options.items()}
    if all(_same(s.options.get(option), value) for option, value in options.items()):
        return Advice(
            change="lower the learning rate to a third",
            because=f"{because}; the run has the options of {name} already",
            options=_scaled(s, 1 / 3),
        )
    needs = variants.VARIANTS[name].off_policy > 1
    carries = other
    if needs and s.off_policy is True:
        share = f" (clip_ratio/region_mean {number(s.clips)})" if s.clips else ""
        carries = "; ".join(filter(None, [f"the run is off-policy already{share}, so that the clip acts", other]))
    elif needs:
        added = _off_policy(s, variants.off_policy_of(name))
        options |= added
        words = ", ".join(f"{option}={value}" for option, value in added.items())
        carries = "; ".join(filter(None, [f"{words} makes the run off-policy: on-policy the clip never acts", other]))
    return Advice(
        change=f"train with the options of {name}", because=because, options=options, variant=name, carries=carries
    )


def _off_policy(s: Signals, times: int) -> dict[str, Any]:
    """Return the option that lets a generation serve several optimizer steps."""
    accumulation = s.option("gradient_accumulation_steps")
    if accumulation is not None and accumulation >= 1:
        return {"steps_per_generation": int(times * accumulation)}
    return {"num_iterations": 2}  # holds whatever the accumulation is, which steps_per_generation is counted in


def _same(held: Any, value: Any) -> bool:
    try:
        return bool(held == value) or float(held) == float(value)
    except (TypeError, ValueError):
        return False


def _scaled(s: Signals, factor: float) -> dict[str, Any]:
    rate = s.option("learning_rate") or _logged_rate(s)
    return {"learning_rate": float(f"{rate * factor:.2g}")} if rate else {}


def _logged_rate(s: Signals) -> float | None:
    import numpy as np

    _, rates = s.held("learning_rate")
    return float(np.max(rates)) if len(rates) and float(np.max(rates)) > 0 else None


def _rate(s: Signals, words: str, factor: float, because: str, carries: str = "") -> Advice:
    return Advice(
        change=f"set the learning rate to {words}", because=because, options=_scaled(s, factor), carries=carries
    )


def _nan(_: Signals, found: DiagnosisFinding, __: LengthBias | None) -> Advice:
    if found.text.startswith("reward"):
        change = "mend the reward: it has to return a number, or None for one completion, never NaN for all"
        return Advice(change=change, because="a row without a reward teaches nothing, and loss and gradient hide it")
    return Advice(
        change="find the first step that is no number: bf16, the learning rate, or a completion without a token",
        because="no variant of GRPO mends a number that is none",
    )


def _kl(s: Signals, found: DiagnosisFinding, _: LengthBias | None) -> Advice:
    if "kl_first" in found.numbers:
        return Advice(
            change="make the reference the policy that training starts from: same weights, template and decoding",
            because="so large a distance was there before the first update; no option of the loss removes it",
        )
    return _rate(s, "a fifth", 1 / 5, "the policy left its reference faster than the reward could follow", _restart(s))


def _collapse(s: Signals, _: DiagnosisFinding, __: LengthBias | None) -> Advice:
    because = "a reward that is lost and stays lost is too large an update; what is seen later follows from it"
    return _rate(s, "a fifth", 1 / 5, because, _restart(s))


def _restart(s: Signals) -> str:
    again = "restart from the base model or a checkpoint from before that step, not from the last one"
    off = f"; off-policy steps (clip_ratio {number(s.clips)}) make it worse" if s.clips else ""
    return again + off


def _mismatch(s: Signals, _: DiagnosisFinding, __: LengthBias | None) -> Advice:
    if s.moe:
        return Advice(
            change="compute the head in float32 on both sides, then the same dtype and backend for all of the model",
            because="a gap from the start is precision or routing, which ratios of sequences do not mend",
            options={"cast_lm_head_to_fp32": True},
            carries="TRL has no routing replay (R3); verl and NeMo-RL have it",
        )
    return Advice(
        change="make sampler and trainer the same model: weight synchronisation, dtype, quantisation, chat template",
        because="a gap from the start is a fault of the set-up, not of the loss",
    )


def _support(_: Signals, __: DiagnosisFinding, ___: LengthBias | None) -> Advice:
    return Advice(
        change="sample from the whole distribution",
        because="a smaller support multiplies each token's ratio by the mass that was kept, so that long answers fade",
        options={"top_p": 1.0, "top_k": 0},
    )


def _drift(s: Signals, _: DiagnosisFinding, __: LengthBias | None) -> Advice:
    if s.off_policy:
        name = "num_iterations" if (s.option("num_iterations") or 1) > 1 else "steps_per_generation"
        value = 1 if name == "num_iterations" else int(s.option("gradient_accumulation_steps") or 1)
        return Advice(
            change="use a generation for one optimizer step alone",
            because="samples age between generations, and the gap grows with them",
            options={name: value},
        )
    return Advice(
        change="check that new weights reach the sampler after each step",
        because="on-policy the gap cannot grow unless the sampler falls behind; on a mixture of experts say --moe",
    )


def _proxy(_: Signals, found: DiagnosisFinding, bias: LengthBias | None) -> Advice:
    if "perplexity_end" in found.numbers:
        return Advice(
            change="hold the policy near its reference",
            because="of two public runs on one task the one with beta 0.1 kept its texts, at the same reward",
            options={"beta": 0.1},
        )
    pays = f"; length earns advantage (rank correlation {number(bias.rho)})" if bias is not None and bias.pays else ""
    return Advice(
        change="mend the reward: pay the easy part only where what is wanted is paid, then `finetune gate` again",
        because=f"a variant of GRPO would earn the same reward faster{pays}",
    )


def _truncation(s: Signals, found: DiagnosisFinding, _: LengthBias | None) -> Advice:
    adapted = "cut_first_rows" in found.numbers
    return Advice(
        change="double the cap on completions, after a look whether cut ones end at all (end token, template)",
        because="an answer that is cut is paid for what stands before the cap, so that the reward speaks of the cap",
        options={"max_completion_length": int(2 * s.cap)} if s.cap is not None else {},
        carries="train from the base model again: this policy has learned to be short"
        if adapted
        else "masking cut completions instead would leave few to learn from",
    )


def _silent(_: Signals, found: DiagnosisFinding, __: LengthBias | None) -> Advice:
    if found.numbers.get("from_start"):
        return Advice(
            change="train on prompts of which the model solves some and not all: keep those with 20 to 80 % success",
            because="no loss learns from groups of one reward; none solved: demonstrations first; all: harder ones",
        )
    return Advice(
        change="go back to before that step, with prompts that the model solves in 20 to 80 % of tries",
        because="groups became alike before the task was solved; from there on nothing is learned",
    )


def _entropy_gone(s: Signals, found: DiagnosisFinding, _: LengthBias | None) -> Advice:
    return _simpler(s) or _variant(s, "dapo", f"{found.text}; a wider upper clip lets unlikely tokens grow again")


def _simpler(s: Signals) -> Advice | None:
    """Return the option that spends entropy by itself; None where none that is known does, and a variant is due."""
    temperature, rate = s.option("temperature"), s.option("learning_rate") or _logged_rate(s)
    if (s.option("entropy_coef") or 0) < 0:
        because = "a coefficient below 0 is paid for entropy that is lost"
        return Advice(change="take the price on entropy out", because=because, options={"entropy_coef": 0.0})
    if temperature is not None and temperature < COLD:
        because = f"at {number(temperature)} samples are sharper than the policy, and training makes it as sharp"
        return Advice(change="sample at temperature 1", because=because, options={"temperature": 1.0})
    if rate is not None and rate > STEEP:
        because = f"{number(rate)} is far above the usual rate of an adapter, 1e-4, and steps so large spend entropy"
        return _rate(s, "a tenth", 1 / 10, because, _restart(s))
    return None


def _entropy_up(s: Signals, _: DiagnosisFinding, __: LengthBias | None) -> Advice:
    because = "exploration runs away and is not paid for; a wider clip would feed it"
    if (s.option("entropy_coef") or 0) > 0:
        return Advice(change="take the entropy bonus out", because=because, options={"entropy_coef": 0.0})
    if (s.option("epsilon_high") or 0) > (s.option("epsilon") or 0.2) and s.off_policy:
        return Advice(
            change="narrow the upper clip", because=because, options={"epsilon_high": s.option("epsilon") or 0.2}
        )
    return _rate(s, "a third", 1 / 3, because, "check the gap between sampler and trainer as well")


def _length(s: Signals, found: DiagnosisFinding, bias: LengthBias | None) -> Advice:
    if bias is not None and bias.pays:
        return Advice(
            change="take the pay for length out of the reward, then `finetune gate` again",
            because=f"within groups length earns advantage (rank correlation {number(bias.rho)}, p = {bias.p:.1g}): "
            "the reward does that, no loss",
        )
    entropy = s.trend("entropy")
    if entropy.direction == "down" and entropy.end < 0.5 * entropy.start:
        return _simpler(s) or _variant(s, "dapo", f"{found.text}, and entropy halves: long degenerate reasoning")
    return _variant(s, "dr_grpo", f"{found.text}: length drifts whatever the quality", other=_length_words(s))


def _length_words(s: Signals) -> str:
    if s.options.get("loss_type") in ("dapo", "bnpo"):
        return (
            f"loss_type {s.options['loss_type']} has no division by each completion's length already; what is left is "
            "the division by the group's deviation, so that scale_rewards is the part that acts"
        )
    return "both belong together: with loss_type alone the group's deviation still weighs easy and hard prompts more"


def _decline(s: Signals, _: DiagnosisFinding, __: LengthBias | None) -> Advice:
    return _rate(s, "a third", 1 / 3, "the reward falls with no other cause in the log; go back to before it fell")


def _spikes(s: Signals, found: DiagnosisFinding, _: LengthBias | None) -> Advice:
    limit = float(f"{max(2 * found.numbers['median'], 1e-6):.1g}")
    now = s.option("max_grad_norm")
    if now is not None and now <= limit:
        return _rate(s, "a third", 1 / 3, f"gradients are clipped at {number(now)} already")
    return Advice(
        change="clip gradients at twice their median",
        because="single updates far above the usual size undo many others",
        options={"max_grad_norm": limit},
    )


def _still(s: Signals, _: DiagnosisFinding, __: LengthBias | None) -> Advice:
    words = "ten times its value"
    return _rate(s, words, 10.0, "the policy has not moved, so that no loss was tried yet; LoRA takes about 1e-5")


_ADVICE: Mapping[str, Callable[[Signals, DiagnosisFinding, LengthBias | None], Advice]] = {
    "nan": _nan,
    "kl_blowup": _kl,
    "sampler_mismatch": _mismatch,
    "truncated_sampling_bias": _support,
    "sampler_drift": _drift,
    "proxy_only": _proxy,
    "policy_collapse": _collapse,
    "truncation": _truncation,
    "zero_signal": _silent,
    "entropy_explosion": _entropy_up,
    "entropy_collapse": _entropy_gone,
    "length_growth": _length,
    "reward_decline": _decline,
    "grad_spikes": _spikes,
    "no_movement": _still,
}
