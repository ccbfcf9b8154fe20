"""The option names of TRL's trainer configs, so that a brief is checked without loading TRL.

`trl_options.json` is written by `engines/trl_options_reader.py` from the installed TRL; a test compares the two.
"""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TRL_VERSION = "1.16.0"

ADAPTERS = ("none", "lora", "qlora")

CHOICES: Mapping[str, tuple[Any, ...]] = {
    "adapter": ADAPTERS,
    "scale_rewards": ("group", "batch", "none", True, False),
    "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
}
"""What TRL 1.16.0 takes for options that it checks in the first step alone."""

BATCH_OPTIONS = (
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "steps_per_generation",
    "generation_batch_size",
)
"""Options that decide how many completions a reward is called with: whole numbers from 1 on."""

OWNED: Mapping[str, str] = {
    "output_dir": "the run directory decides it; leave it out",
    "reward_weights": "weights stand beside the rewards; write `weight:` under `rewards`",
    "model_name_or_path": "write the top-level key `model`",
    "num_generations": "belongs under `sampling`",
}
"""Options that TRL takes but that have another place in the brief."""

REMOVED: Mapping[str, str] = {
    "max_prompt_length": "prompts are never cut any more: filter long rows out of the data set",
    "use_liger_loss": "leave it out, the fused head is always on",
    "vllm_guided_decoding_regex": "use `vllm_structured_outputs_regex`",
    "wandb_log_unique_prompts": "use `log_unique_prompts`",
    "vllm_device": "use `vllm_mode`",
    "vllm_dtype": "leave it out",
    "vllm_max_model_len": "use `vllm_max_model_length`",
    "vllm_enable_prefix_caching": "leave it out",
    "evaluation_strategy": "use `eval_strategy`",
    "warmup_ratio": "use `warmup_steps`; below 1 it is a share of all steps",
    "logging_dir": "set the environment variable TENSORBOARD_LOGGING_DIR",
    "overwrite_output_dir": "leave it out",
    "save_safetensors": "leave it out",
    "group_by_length": "use `train_sampling_strategy`",
    "no_cuda": "use `use_cpu`",
    "use_mps_device": "leave it out",
    "half_precision_backend": "leave it out",
    "fp16_backend": "leave it out",
    "push_to_hub_model_id": "use `hub_model_id`",
    "max_seq_length": "use `max_length`",
    "dataset_batch_size": "leave it out",
    "rpo_alpha": "list `sft` in `loss_type` and weigh it with `loss_weights`",
    "tokenizer": "it is read from the model",
    "torch_dtype": "it is silently ignored; write `dtype` under `model_init_kwargs`",
}
"""Options that tutorials still show and TRL 1.16.0 or transformers 5 refuses or ignores, with what to write instead."""


@functools.cache
def _listed() -> dict[str, Any]:
    listed: dict[str, Any] = json.loads(Path(__file__).with_name("trl_options.json").read_text("utf-8"))
    return listed


def names(method: str) -> list[str]:
    """Return the option names that the brief's `training` takes for a method."""
    listed = _listed()
    return ["adapter", *listed["lora"], *listed["shared"], *listed["methods"][method]]
