"""The rules as a table, in the order of cause before symptom; what stands higher wins where two begin together."""

from collections.abc import Callable, Mapping

from llm_finetuning.diagnosis.rules import (
    divergence,
    entropy,
    hacking,
    length,
    mismatch,
    progress,
    signal,
    truncation,
)
from llm_finetuning.diagnosis.rules.ruling import Ruling
from llm_finetuning.diagnosis.signals import Signals

Rule = Callable[[Signals], Ruling]

RULES: Mapping[str, Rule] = {  # family -> rule
    "numbers": divergence.nan,  # rewards and gradients that are none
    "kl": divergence.kl,  # far from the reference
    "mismatch": mismatch.mismatch,  # sampler and trainer compute different models
    "hacking": hacking.hacking,  # the reward is earned by something else
    "collapse": divergence.collapse,  # the reward is gone; what follows (cuts, silence, low entropy) follows from it
    "truncation": truncation.truncation,  # the cap decides what is paid
    "signal": signal.signal,  # groups of one reward
    "entropy": entropy.entropy,  # exploration spent, or run away
    "length": length.length,  # longer without being better
    "spikes": divergence.spikes,  # gradients far above their usual size
    "decline": divergence.decline,  # the reward falls
    "movement": progress.movement,  # nothing is changed
    "progress": progress.progress,  # it learns, or the log cannot show it
}

ORDER = (
    "nan",
    "kl_blowup",
    "sampler_mismatch",
    "truncated_sampling_bias",
    "sampler_drift",
    "proxy_only",
    "policy_collapse",
    "entropy_collapse",  # one text is left: groups agree, and where it has no end all are cut
    "truncation",
    "zero_signal",
    "entropy_explosion",
    "length_growth",
    "reward_decline",
    "grad_spikes",
    "no_movement",
    "format_first_phase",
    "too_short",
    "inconclusive",
    "healthy",
)
"""Codes of a verdict, cause before symptom."""
