"""Put a diagnosis together from the rules' findings."""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llm_finetuning.diagnosis import samples, trends, verdict
from llm_finetuning.diagnosis.advice import advise, is_of_experts
from llm_finetuning.diagnosis.log import Completion, RunLog
from llm_finetuning.diagnosis.record import Diagnosis, DiagnosisFinding, Power
from llm_finetuning.diagnosis.rules.progress import too_short
from llm_finetuning.diagnosis.signals import Signals

if TYPE_CHECKING:
    from llm_finetuning.diagnosis.samples import LengthBias

TIMES = (1, 2, 4)
"""Lengths, in this log's, for which the smallest change is given."""

MATTERS = (
    *("loss_type", "scale_rewards", "beta", "epsilon", "epsilon_high", "importance_sampling_level", "entropy_coef"),
    *("num_iterations", "steps_per_generation", "gradient_accumulation_steps", "learning_rate", "max_grad_norm"),
    *("max_completion_length", "mask_truncated_completions", "num_generations", "temperature", "top_p", "top_k"),
    *("reward_weights", "vllm_importance_sampling_mode"),
)
"""Options that a verdict or its advice rests on."""

WANTED = (  # metric, since which release, what cannot be said without it
    ("reward", "", "whether the run learns"),
    ("frac_reward_zero_std", " (TRL 0.18)", "how many groups carry a signal"),
    ("completions/clipped_ratio", " (TRL 0.17)", "how many completions are cut"),
    ("entropy", " (TRL 0.20)", "whether exploration is spent"),
    ("kl", " (beta above 0; 1e-3 is enough for a trace)", "how far the policy is from its start"),
    ("grad_norm", "", "whether single updates are far too large"),
    ("sampling/sampling_logp_difference/mean", " (TRL 0.23 with vLLM)", "whether sampler and trainer agree"),
)


def report(log: RunLog, *, goal: str | None, moe: bool | None, completions: Sequence[Completion]) -> Diagnosis:
    """Return the diagnosis of a log."""
    s = Signals(log=log, goal=goal, moe=moe)
    if not s.rows:
        return _empty(s)
    rulings = verdict.rulings(s)
    findings = verdict.judge(s, rulings)
    if is_of_experts(s, findings[0]):  # the rule was tried on dense models
        findings[0] = dataclasses.replace(findings[0], confidence="literature only")
    first = findings[0]
    wanted = s.wanted[0] if len(s.wanted) == 1 else None
    bias = samples.length_bias(completions, wanted) if completions else None
    shows = first.role == "failure" and first.code in ("proxy_only", "length_growth", "policy_collapse", "zero_signal")
    return Diagnosis(
        verdict=first.code,
        state="failure" if first.role == "failure" else "healthy" if first.role == "sound" else "undecided",
        text=first.text,
        source=log.source,
        form=log.form,
        era=log.era,
        rows=s.rows,
        first_step=float(log.steps[0]),
        last_step=float(log.steps[-1]),
        goal=wanted,
        findings=[_in_numbers(finding) for finding in (*findings, *_length_finding(bias))],
        advice=advise(s, first, rulings, bias),
        excluded=verdict.exclusions(s, rulings, findings),
        power=_power(s) if first.role == "undecided" else [],
        checkpoint=_checkpoint(s, first),
        missing=_missing(s),
        quotes=samples.quotes(completions, first.since, wanted, s.weights) if shows else {},
        options={name: _plain(log.options[name]) for name in MATTERS if name in log.options},
        notes=[*log.notes, *_notes(s)],
    )


def _plain(value: Any) -> Any:
    """Return an option as JSON has it: numbers that are none as words."""
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _in_numbers(finding: DiagnosisFinding) -> DiagnosisFinding:
    """Return a finding without numbers that JSON has none for."""
    held = {name: value for name, value in finding.numbers.items() if math.isfinite(value)}
    effect = finding.effect
    if effect is not None:
        bounds = [bound if bound is not None and math.isfinite(bound) else None for bound in (effect.low, effect.high)]
        known = math.isfinite(effect.value)
        effect = dataclasses.replace(effect, low=bounds[0], high=bounds[1]) if known else None
    return dataclasses.replace(finding, numbers=held, effect=effect)


def _empty(s: Signals) -> Diagnosis:
    first = too_short(s)
    return Diagnosis(
        verdict=first.code, state="undecided", text=first.text, source=s.log.source, form=s.log.form, era=s.log.era,
        rows=0, first_step=0.0, last_step=0.0, goal=None, findings=[first], advice=advise(s, first, {}), excluded=[],
        power=[], checkpoint=None, missing=_missing(s), notes=list(s.log.notes),
    )  # fmt: skip


def _length_finding(bias: "LengthBias | None") -> list[DiagnosisFinding]:
    if bias is None:
        return []
    enough = bias.groups >= samples.FEWEST_GROUPS
    text = f"within {bias.groups} groups the rank correlation of length and advantage is {bias.rho:.2f}" + (
        f" (p = {bias.p:.1g})" if enough else f": too few groups to judge, {samples.FEWEST_GROUPS} are needed"
    )
    otherwise = "length_does_not_pay" if enough else "length_unknown"
    code = "length_pays" if bias.pays else "shortness_pays" if bias.pays_the_short else otherwise
    return [DiagnosisFinding(code=code, role="watch", text=text, numbers={"rho": bias.rho, "p": bias.p})]


def _power(s: Signals) -> list[Power]:
    """Return the smallest change of the mean reward that this log shows, and one two and four times as long."""
    found = s.trend("reward")
    if not math.isfinite(found.smallest) or found.smallest <= 0:
        return []
    return [Power(rows=found.n * times, smallest=trends.longer(found, times)) for times in TIMES]


def _checkpoint(s: Signals, first: DiagnosisFinding) -> dict[str, Any] | None:
    """Return the step to go back to: the best evaluation before the failure, else the best stretch of training."""
    import numpy as np

    if first.role != "failure" or first.since is None or first.since <= float(s.log.steps[0]):
        return None
    name = s.components[s.wanted[0]] if len(s.wanted) == 1 else "reward"
    held = s.log.held_out.get(name)
    if held is not None:
        there = trends.present(held.values) & (s.log.held_out_steps < first.since)
        if there.any():
            best = int(np.argmax(np.where(there, held.values, -np.inf)))
            why = f"best held-out {name} before the failure, {held.values[best]:.3g}"
            return {"step": float(s.log.held_out_steps[best]), "why": why}
    steps, values = s.held(name)
    before = steps < first.since
    if not before.any():
        return None
    course = trends.smooth(values)[before]
    best = int(np.argmax(course))
    if steps[before][best] <= float(s.log.steps[0]) + 0.05 * s.steps:  # hardly trained: the base model will do
        return None
    return {"step": float(steps[before][best]), "why": f"best {name} before the failure, {course[best]:.3g}"}


def _missing(s: Signals) -> list[str]:
    lines = [f"{name}{since}: {what}" for name, since, what in WANTED if not s.has(name)]
    if not s.components:
        lines.append(
            "a second component: whether the reward is hacked; log what is wanted as a reward of weight 0 "
            "(reward_weights), which is shown and not trained on"
        )
    if not s.log.held_out:
        lines.append(
            "evaluations: whether what is learned holds on other prompts; 64 prompts or more every 20 to 50 steps"
        )
    return lines


def _notes(s: Signals) -> list[str]:
    notes = []
    if s.goal is not None and s.goal not in s.components:
        known = ", ".join(s.components) or "one component alone"
        notes.append(f"goal {s.goal} is no component of this log ({known}); it was left out")
    if s.weights_lack_names:
        notes.append(
            "reward_weights were not used: the log has its components in alphabetical order; name what is wanted with "
            "--goal, or give `--option reward_weights={NAME: WEIGHT}`"
        )
    if s.components and not s.wanted:
        notes.append("no component's name says what is wanted; name it with --goal")
    elif s.components and s.goal is None:
        how = "its weight 0" if s.weights.get(s.wanted[0]) == 0 else "its name"
        notes.append(f"taken as what is wanted, by {how}: {', '.join(s.wanted)}; say otherwise with --goal")
    if s.reward_moves == "up" and not s.log.held_out:
        notes.append(
            "a training reward that rises is no proof of skill: on some model families random rewards do the same"
        )
    return notes
