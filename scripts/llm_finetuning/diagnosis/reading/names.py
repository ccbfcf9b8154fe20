"""The names of metrics: those of every TRL release and export, and what TRL 1.16 calls them.

Sources: TRL's release tags from 0.14 on, transformers' `rewrite_logs` (train/, eval/), and logs that Unsloth and
ms-swift wrote.
"""

import functools
from collections.abc import Collection, Mapping
from typing import NamedTuple

RENAMED: Mapping[str, str] = {
    "completion_length": "completions/mean_length",  # TRL 0.14 to 0.16; Unsloth writes it beside the new name
    "completion_tokens": "completions/mean_length",
    "clip_ratio": "clip_ratio/region_mean",  # TRL 0.16
    "response_clip_ratio": "completions/clipped_ratio",  # ms-swift 3
    "entropy/mean": "entropy",  # ms-swift
    "train_reward": "reward",
    "train_reward_std": "reward_std",
    "Training Loss": "loss",  # the table of a notebook
    "Validation Loss": "eval_loss",
}

STEPS = (  # the first that a row has a number under names its step
    "global_step",
    "step",
    "Step",
    "global_step/max_steps",  # ms-swift: "10/200"
    "current_steps",  # LLaMA-Factory
    "iteration",
    "_step",  # wandb's count of its own calls
)

SUMMARY = "train_runtime"  # the row that transformers writes once, at the end
_OF_THE_SUMMARY = (
    *(SUMMARY, "train_loss", "train_samples_per_second", "train_steps_per_second", "train_tokens_per_second"),
    "total_flos",
)
_OF_THE_TOOL = ("_runtime", "_timestamp", "_wandb", "max_steps", "total_steps", "at", "wall_time", "")
_NO_METRICS = frozenset({*STEPS, *_OF_THE_SUMMARY, *_OF_THE_TOOL})
_OF_AN_EVALUATION = frozenset({"runtime", "samples_per_second", "steps_per_second", "model_preparation_time"})
_PREFIXES_OF_THE_TOOL = ("system/", "system.", "profiling/", "gradients/", "parameters/")

COMPANIONS = frozenset({"epoch"})
"""Names that stand in a row of an evaluation too, and make no row of training by themselves."""

_TRAINER = frozenset({"loss", "reward", "reward_std", "grad_norm", "learning_rate", "kl", "entropy"})

_ERAS = (  # the first name that a log has decides; a log may leave names out, so that most say "or later"
    ("1.9+", ("policy_loss", "entropy_coef")),
    ("1.0+", ("vespo/",)),
    ("0.26+", ("step_time", "tools/", "cispo_clip_ratio")),
    ("0.23+", ("sampling/",)),
    ("0.20+", ("entropy",)),
    ("0.18+", ("frac_reward_zero_std",)),
    ("0.17+", ("completions/", "clip_ratio/")),
    ("0.16", ("clip_ratio",)),
    ("0.14-0.16", ("completion_length",)),
)


class Place(NamedTuple):
    """Where a metric belongs."""

    held_out: bool  # of an evaluation
    name: str  # in TRL 1.16, without `eval_`
    own: bool  # the log has it under this name


def is_of_a_trainer(name: str) -> bool:
    """Tell whether a metric under TRL's name is one that a trainer logs, so that a table with it is a log."""
    return name in _TRAINER or name.startswith(("rewards/", "completions/", "clip_ratio/", "sampling/"))


@functools.lru_cache(maxsize=1 << 14)
def is_step(name: str) -> int | None:
    """Return the rank of a name that may hold the row's step, the best is 0; None for any other name."""
    bare = _bare(name)
    return STEPS.index(bare) if bare in STEPS else None


@functools.lru_cache(maxsize=1 << 14)
def is_summary(name: str) -> bool:
    """Tell whether a row with this name is the trainer's last one, about the whole run."""
    return _bare(name) == SUMMARY


@functools.lru_cache(maxsize=1 << 14)
def placed(name: str) -> Place | None:
    """Return where a name of a log belongs; None for what is no metric of training or of an evaluation."""
    bare = _bare(name)
    current = RENAMED.get(bare, bare)
    if current in _NO_METRICS or current.startswith(_PREFIXES_OF_THE_TOOL):
        return None
    if not current.startswith(("eval_", "eval/")):
        current = _current(current)
        return Place(held_out=False, name=current, own=current == bare)
    inner = current[len("eval_") :]
    current = _current(inner)
    if current in _OF_AN_EVALUATION or not current:
        return None
    return Place(held_out=True, name=current, own=current == inner)


def era(names: Collection[str]) -> str:
    """Return the TRL releases that write these names, as they stand in the log."""
    bare = {_bare(name) for name in names}
    for releases, signs in _ERAS:
        for sign in signs:
            if any(name == sign or (sign.endswith("/") and name.startswith(sign)) for name in bare):
                return releases
    return "unknown"


def _bare(name: str) -> str:
    """Return a name without the prefix of the tool that logged it, with plain slashes."""
    bare = name.strip().replace(" / ", "/")
    return bare.removeprefix("train/")


def _current(name: str) -> str:
    name = RENAMED.get(name, name)
    if name.startswith("rewards/") and not name.endswith(("/mean", "/std")):
        return f"{name}/mean"
    return name
