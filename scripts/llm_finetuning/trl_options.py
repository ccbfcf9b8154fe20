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
    "save_only_model": "a run resumes from its last checkpoint, which needs the optimiser's state; leave it out",
    "resume_from_checkpoint": "a run resumes from its last checkpoint by itself; leave it out",
    "ignore_data_skip": "a resumed run goes on at the row where it stopped; leave it out",
    "logging_nan_inf_filter": "it hides a loss that is not a number from the guard that stops on one; leave it out",
    "use_cpu": "the machine decides it; write `hardware: cpu`",
    "accelerator_config": "accelerate.yaml, which the shape of the run decides, has its place; leave it out",
    "parallelism_config": "accelerate.yaml, which the shape of the run decides, has its place; leave it out",
    "auto_find_batch_size": "a batch that shrinks by itself is another objective; set `per_device_train_batch_size`",
    "do_train": "the run trains; leave it out",
    "do_eval": "name held-out rows, `dataset: {evaluation: FILE}`",
    "do_predict": "`finetune evaluate` does that; leave it out",
    "local_rank": "the launcher sets it; leave it out",
    "hub_token": "no key belongs in a brief; set the environment variable HF_TOKEN",
}
"""Options that TRL takes but that have another place, or that would break what a run promises."""

OWNED_BY_GRPO: Mapping[str, str] = {
    "logging_strategy": "the guards look at every step; leave it out",
    "logging_steps": "the guards look at every step; leave it out",
    "log_completions": "completions are always kept, so that a run can be read like the gate's samples; leave it out",
    "num_completions_to_print": "completions are kept in files, not printed; leave it out",
    "vllm_server_base_url": "launch.sh starts the server and knows its address; leave it out",
    "use_liger_kernel": "deprecated and gone in TRL 2; write `model_init_kwargs: {use_kernels: true}`",
    "liger_kernel_config": "deprecated and gone in TRL 2; write `model_init_kwargs: {use_kernels: true}`",
    "vllm_importance_sampling_cap": "deprecated; use `vllm_importance_sampling_clip_max`",
    "use_transformers_paged": "deprecated; use `use_transformers_continuous_batching`",
}
"""The same, for GRPO alone."""

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


def adapter_names() -> list[str]:
    """Return the names of the brief's `training` that describe the adapter and its weights, not the trainer."""
    return ["adapter", *_listed()["lora"]]


def own_names(method: str) -> list[str]:
    """Return the options of a method's config that not all methods have."""
    return list(_listed()["methods"][method])
