"""What the value of a GRPO option may be: TRL takes any, and fails after the first rollout or trains something else.

Tried on TRL 1.16.0: a misspelt loss fails in the first step, after generation; `num_iterations: 0` trains zero steps
and exits 0; `top_p: 2.0` and `top_entropy_quantile: 3.0` run without a word.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LOSSES = ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo")
CORRECTIONS = ("sequence_mask", "sequence_truncate", "token_mask", "token_truncate")

CHOICES: Mapping[str, tuple[str, ...]] = {
    "loss_type": LOSSES,
    "importance_sampling_level": ("token", "sequence"),
    "vllm_mode": ("colocate", "server"),
    "vllm_model_impl": ("vllm", "transformers"),
    "vllm_importance_sampling_mode": CORRECTIONS,
    "save_strategy": ("steps", "epoch"),
    "eval_strategy": ("no", "steps", "epoch"),
    "logging_strategy": ("steps",),
}
"""Options that are one of some words. Without checkpoints (`save_strategy: no`) a run could not be resumed."""

FLAGS = (
    "bf16",
    "cast_lm_head_to_fp32",
    "disable_dropout",
    "ds3_gather_for_generation",
    "fp16",
    "full_determinism",
    "gradient_checkpointing",
    "log_unique_prompts",
    "mask_truncated_completions",
    "push_to_hub",
    "remove_unused_columns",
    "shuffle_dataset",
    "sync_ref_model",
    "torch_compile",
    "trust_remote_code",
    "use_adaptive_entropy",
    "use_bias_correction_kl",
    "use_transformers_continuous_batching",
    "use_vllm",
    "vllm_enable_sleep_mode",
    "vllm_importance_sampling_correction",
)
"""Options that are true or false; TRL takes a text such as "no" for true."""


@dataclass(frozen=True, slots=True)
class Span:
    """The numbers that an option may be."""

    low: float
    high: float = math.inf
    open_low: bool = False  # the lowest itself is not one
    open_high: bool = False
    whole: bool = False
    empty: bool = False  # null is a value

    def takes(self, value: Any) -> bool:
        """Tell whether the value is one of these numbers."""
        if value is None:
            return self.empty
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            return False
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below and math.isfinite(value)

    def words(self) -> str:
        """Return which numbers these are, for a person."""
        kind = "a whole number" if self.whole else "a number"
        start = f"above {self.low:g}" if self.open_low else f"from {self.low:g}"
        if math.isinf(self.high):
            end = "" if self.open_low else " on"
        else:
            end = f" to below {self.high:g}" if self.open_high else f" to {self.high:g}"
        return f"{kind} {start}{end}{' or null' if self.empty else ''}"


_POSITIVE = Span(0, open_low=True)
_POSITIVE_OR_NULL = Span(0, open_low=True, empty=True)
_COUNT = Span(1, whole=True)
_COUNT_OR_NULL = Span(1, whole=True, empty=True)
_FROM_ZERO = Span(0)
_SHARE = Span(0, 1)
_DECAY = Span(0, 1, open_high=True)

SPANS: Mapping[str, Span] = {
    "learning_rate": Span(0, 1, open_low=True, open_high=True),
    "num_train_epochs": _POSITIVE,
    "warmup_steps": _FROM_ZERO,
    "weight_decay": _FROM_ZERO,
    "max_grad_norm": _POSITIVE,
    "adam_beta1": _DECAY,
    "adam_beta2": _DECAY,
    "adam_epsilon": _POSITIVE,
    "seed": Span(0, 2**32 - 1, whole=True),
    "data_seed": Span(0, 2**32 - 1, whole=True, empty=True),
    "save_steps": _POSITIVE,
    "save_total_limit": _COUNT_OR_NULL,
    "eval_steps": _POSITIVE_OR_NULL,
    "eval_delay": _FROM_ZERO,
    "per_device_eval_batch_size": _COUNT,
    "dataloader_num_workers": Span(0, whole=True),
    "beta": _FROM_ZERO,
    "epsilon": _POSITIVE,
    "epsilon_high": _POSITIVE_OR_NULL,
    "delta": _POSITIVE_OR_NULL,
    "num_iterations": _COUNT,
    "top_entropy_quantile": Span(0, 1, open_low=True),
    "off_policy_mask_threshold": _POSITIVE_OR_NULL,
    "entropy_coef": _FROM_ZERO,
    "entropy_coef_min": _FROM_ZERO,
    "entropy_coef_max": _FROM_ZERO,
    "entropy_coef_delta": _FROM_ZERO,
    "entropy_target": _FROM_ZERO,
    "sapo_temperature_pos": _POSITIVE,
    "sapo_temperature_neg": _POSITIVE,
    "vespo_k_pos": _POSITIVE,
    "vespo_k_neg": _POSITIVE,
    "vespo_lambda_pos": _POSITIVE,
    "vespo_lambda_neg": _POSITIVE,
    "ref_model_mixup_alpha": _SHARE,
    "ref_model_sync_steps": _COUNT,
    "router_aux_loss_coef": Span(0, empty=True),
    "num_generations_eval": _COUNT_OR_NULL,
    "vllm_gpu_memory_utilization": Span(0, 1, open_low=True),
    "vllm_max_model_length": _COUNT_OR_NULL,
    "vllm_tensor_parallel_size": _COUNT,
    "vllm_server_port": Span(1, 65535, whole=True),
    "vllm_group_port": Span(1, 65535, whole=True),
    "vllm_server_timeout": _POSITIVE,
    "vllm_importance_sampling_clip_max": _POSITIVE_OR_NULL,
    "vllm_importance_sampling_clip_min": _POSITIVE_OR_NULL,
    "lora_r": _COUNT,
    "lora_alpha": _POSITIVE,
    "lora_dropout": _DECAY,
}
"""Options that are a number."""


def fault(option: str, value: Any) -> str | None:
    """Return what is wrong with the value of an option, with what it may be; None where nothing is known against it."""
    if option in CHOICES and (not isinstance(value, str) or value not in CHOICES[option]):
        from llm_finetuning.brief import nearest

        allowed = CHOICES[option]
        near = nearest(str(value), allowed) if str(value) not in ("None", "True", "False") else ""
        hint = f"; {near}" if near.startswith("did") else ""
        return f"{value!r} is not one of {', '.join(allowed)}{hint}"
    if option in FLAGS and not isinstance(value, bool):
        return f"{value!r} is neither true nor false"
    if option in SPANS and not SPANS[option].takes(value):
        return f"{value!r} is not {SPANS[option].words()}"
    if option == "max_steps" and not (value == -1 or _COUNT.takes(value)):
        return f"{value!r} is not a whole number from 1 on, or -1 for whole epochs"
    return None
