"""Variants of GRPO that a brief may ask for, with a reason: DAPO, Dr. GRPO and GSPO, as options of TRL 1.16.0.

Plain GRPO is the recipe; a variant answers a symptom that a run has shown. Sources: DAPO (Yu et al., 2025,
arXiv:2503.14476), Dr. GRPO (Liu et al., 2025, arXiv:2503.20783), GSPO (Zheng et al., 2025, arXiv:2507.18071, version 2,
section 5.1), and TRL's paper index (docs/source/paper_index.md at v1.14.1, read on 29 November 2026).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llm_finetuning.brief import Brief

SHOWN_PROMPTS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What a variant changes of plain GRPO."""

    options: Mapping[str, tuple[Any, str]]  # TRL's name -> value and why
    off_policy: int = 1  # optimizer steps that one generation serves
    inert_on_policy: bool = False  # whether it is plain GRPO where a generation serves one step


_MINI_BATCHES = 4  # optimizer steps a generation; GSPO, section 5.1

VARIANTS: Mapping[str, Variant] = {
    "dapo": Variant(
        options={
            "loss_type": ("dapo", "every token of the batch counts the same"),
            "epsilon": (0.2, "as plain GRPO"),
            "epsilon_high": (0.28, "clip-higher: unlikely tokens may grow more"),
            "beta": (0.0, "no KL term, and no reference model"),
            "mask_truncated_completions": (True, "overlong filtering: a cut completion teaches nothing"),
        },
        off_policy=_MINI_BATCHES,
    ),
    "dr_grpo": Variant(
        options={
            "loss_type": ("dr_grpo", "divides by max_completion_length, not by each completion's own length"),
            "scale_rewards": ("none", "no division by the group's deviation, which favours easy and hard prompts"),
            "beta": (0.0, "no KL term, and no reference model"),
        },
    ),
    "gspo": Variant(
        options={
            "importance_sampling_level": ("sequence", "one ratio a completion, its tokens' geometric mean"),
            "loss_type": ("grpo", "its mean over sequences; the others weigh sequences by length"),
            "epsilon": (3e-4, "ratios of sequences lie closer to 1 than those of tokens"),
            "epsilon_high": (4e-4, "likewise"),
            "beta": (0.0, "no KL term, and no reference model"),
        },
        off_policy=_MINI_BATCHES,
        inert_on_policy=True,
    ),
}
"""By the name that a brief writes under `variant: {use: ...}`."""

ACTS = "on-policy every ratio is 1 and nothing is clipped, so that a generation serves four optimizer steps"


def options_of(use: str | None) -> Mapping[str, tuple[Any, str]]:
    """Return the options that a variant sets, with why; none for plain GRPO."""
    return VARIANTS[use].options if use is not None and use in VARIANTS else {}


def off_policy_of(use: str | None) -> int:
    """Return how many optimizer steps one generation serves; 1 is on-policy."""
    return VARIANTS[use].off_policy if use is not None and use in VARIANTS else 1


def use_of(brief: "Brief") -> str | None:
    """Return the name of the brief's variant; None for plain GRPO."""
    return brief.variant.use if brief.variant is not None else None


def training_of(brief: "Brief") -> dict[str, Any]:
    """Return the brief's `training` with what its variant sets beside; for a brief without one, `training` itself."""
    return {**{name: value for name, (value, _) in options_of(use_of(brief)).items()}, **brief.training}


def notes(brief: "Brief", constant_prompts: Sequence[str] = ()) -> list[str]:
    """Return what a person should know of the variant: what TRL lacks of it, and what the brief leaves out.

    `constant_prompts` are the ids of sampled prompts all of whose completions were paid the same.
    """
    if brief.variant is None:
        return []
    lines = [f"variant {brief.variant.use}, because: {brief.variant.because}"]
    if brief.variant.use == "dapo":
        lines += [_dynamic_sampling(constant_prompts), *_soft_overlong(brief)]
    if brief.variant.use == "gspo":
        lines.append(
            "GSPO changes something where clip_ratio/region_mean is above 0; it does not mend a sampler that computes "
            "other probabilities than the trainer, as on a mixture of experts"
        )
    return lines


def _dynamic_sampling(constant_prompts: Sequence[str]) -> str:
    lacks = "TRL has no dynamic sampling, DAPO's largest gain: prompts that always or never succeed are not drawn again"
    if not constant_prompts:
        return f"{lacks}; sample all prompts (`sampling: {{prompts: N}}`) and take those of constant groups out"
    shown = ", ".join(constant_prompts[:SHOWN_PROMPTS])
    rest = len(constant_prompts) - SHOWN_PROMPTS
    more = f" and {rest} more" if rest > 0 else ""
    return f"{lacks}; take out of the data set those whose sampled completions were all paid the same: {shown}{more}"


def _soft_overlong(brief: "Brief") -> list[str]:
    if any(reward.use == "soft_overlong" for reward in brief.rewards):
        return []
    stretch = max(1, brief.sampling.max_completion_length // 5)  # the paper's 4096 of 20480 tokens
    entry = f"`- {{use: soft_overlong, options: {{soft_punish_cache: {stretch}}}}}`"
    return [f"DAPO also punishes completions near the limit; add {entry} to `rewards` and run the gate again"]
