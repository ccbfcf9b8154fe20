"""A run's config as the job that `planning` computes: what one device of the trainer holds, and one that serves."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from llm_finetuning.planning.head import loss_path
from llm_finetuning.planning.job import BYTES, Adapter, Attention, Dtype, Job, LossPath, Rollout, Tuning
from llm_finetuning.planning.shapes import Architecture
from llm_finetuning.recipes.config import RunConfig
from llm_finetuning.sizing.unknown import Unknown

ASSUMED_PROMPT = 512  # tokens, where nobody counted the prompts
PAIRED = ("dpo", "orpo", "simpo")
"""Methods whose rows are two completions that pass through the model together."""

WHOLE_LOGITS = ("orpo", "simpo")
"""Methods whose trainers in TRL 1.16.0 are experimental and still make the logits of every token."""

WITH_REFERENCE = ("grpo", "dpo", "kto")
_PARENTS = ("self_attn", "mlp", "linear_attn", "mixer", "conv")


@dataclass(frozen=True, slots=True)
class RunJob:
    """The trainer's job, what was taken for granted, and the engine on devices of its own where there is one."""

    job: Job
    notes: tuple[str, ...]
    server: Rollout | None = None


def job_of(
    config: RunConfig,
    model: Architecture,
    *,
    checkpoint_dtype: str | None,
    longest_prompt: int | None,
    server_share: float,
    longest_row: int | None = None,
) -> RunJob:
    """Return the job of a run.

    Args:
        config: Every option of the run.
        model: Its model's architecture.
        checkpoint_dtype: What the weights are stored in, which vLLM takes; bfloat16 where it is not said.
        longest_prompt: In tokens, where the audit counted them.
        server_share: The share of its GPUs that a vLLM server of the run takes.
        longest_row: A bound in tokens on what the other methods train on, where the rows were at hand.

    Raises:
        Unknown: Weights in 8 bits, or rows whose longest one is not known.
    """
    if config.quantization is not None and config.quantization.get("load_in_8bit"):
        raise Unknown("training.load_in_8bit: the memory of 8-bit weights is not known here; leave it out for 4 bits")
    stored = _dtype(checkpoint_dtype) or "bfloat16"
    options = {name: option.value for name, option in config.trainer.items()}
    tuning = cast("Tuning", config.adapter["kind"] if config.adapter else "full")
    prompt, completion = _lengths(config, options, longest_prompt, longest_row)
    rollout = _rollout(config, options, model, stored)
    job = Job(
        method=config.method,
        tuning=tuning,
        weights=_dtype(config.model["init_kwargs"].get("dtype")) or stored,
        autocast=bool(options.get("bf16") or options.get("fp16")),
        batch=options["per_device_train_batch_size"],
        prompt=prompt,
        completion=completion,
        padded=not (options.get("padding_free") or options.get("packing")),
        attention=_attention(config.model["init_kwargs"]),
        checkpointing=bool(options.get("gradient_checkpointing", True)),
        offloaded=bool(options.get("activation_offloading")),
        optimizer=str(options["optim"]),
        accumulation=options["gradient_accumulation_steps"],
        adapter=_adapter(config, options, model, tuning),
        double_quantization=bool((config.quantization or {}).get("bnb_4bit_use_double_quant")),
        loss=_loss(config),
        fused_kernels=bool(options.get("torch_compile")),
        reference=_has_reference(config, options),
        sequences=2 if config.method in PAIRED else 1,
        sharding=config.shape.sharding,
        shards=config.shape.processes if config.shape.sharding != "none" else 1,
        device="cpu" if config.shape.kind == "cpu" else "cuda",
        rollout=rollout,
    )
    server = None
    if config.shape.engine == "server":
        server = _served(config, options, model, stored, server_share)
    notes = [*_notes(config, options, longest_prompt, longest_row)]
    if tuning == "qlora" and model.expert_weights:
        notes.append(
            "the experts stay as loaded: 4-bit loading takes `nn.Linear`s, and transformers keeps them as tensors"
        )
    return RunJob(job, tuple(notes), server)


def _dtype(said: Any) -> Dtype | None:
    """Return a dtype that is counted; None for `auto` and what the file does not say."""
    return cast("Dtype", said) if said in BYTES else None


def _lengths(
    config: RunConfig, options: Mapping[str, Any], longest_prompt: int | None, longest_row: int | None
) -> tuple[int, int]:
    """Return the longest prompt and completion, tokens; a row of the other methods counts as a completion."""
    if config.method == "grpo":
        window, cap = options.get("vllm_max_model_length"), int(options["max_completion_length"])
        if longest_prompt is None:
            longest_prompt = min(ASSUMED_PROMPT, window - cap) if window else ASSUMED_PROMPT
        return longest_prompt, cap
    longest = options.get("max_length")
    if longest is None and longest_row is None:
        raise Unknown(
            "training.max_length: null lets the longest row decide, whose tokens were not counted; write a number"
        )
    packed = options.get("packing") and longest is not None
    bounds = [int(bound) for bound in (longest, None if packed else longest_row) if bound is not None]
    return 0, min(bounds)


def _rollout(config: RunConfig, options: Mapping[str, Any], model: Architecture, stored: Dtype) -> Rollout:
    if config.method != "grpo":
        return Rollout()
    batch = options["per_device_train_batch_size"] * options["steps_per_generation"]
    if config.shape.engine != "colocate":
        return Rollout(engine=config.shape.engine, batch=batch)
    return Rollout(
        engine="colocate",
        batch=batch,
        utilization=float(options["vllm_gpu_memory_utilization"]),
        sleep=bool(options["vllm_enable_sleep_mode"]),
        weights=stored,
        quantized=config.quantization is not None,
        tensor_parallel=int(options.get("vllm_tensor_parallel_size") or 1),
        context=_window(options, model),
    )


def _served(config: RunConfig, options: Mapping[str, Any], model: Architecture, stored: Dtype, share: float) -> Rollout:
    """Return the engine that a server runs on its own devices; it serves every process of the trainer."""
    each = options["per_device_train_batch_size"] * options["steps_per_generation"]
    return Rollout(
        engine="colocate",
        batch=each * config.shape.processes,
        utilization=share,
        weights=stored,
        tensor_parallel=len(config.shape.engine_devices),
        context=_window(options, model),
    )


def _window(options: Mapping[str, Any], model: Architecture) -> int:
    """Return vLLM's longest sequence, without which it makes room for the model's whole context; 0 where unknown."""
    return int(options.get("vllm_max_model_length") or model.context or 0)


def _attention(kwargs: Mapping[str, Any]) -> Attention:
    said = str(kwargs.get("attn_implementation") or "sdpa")
    if "flash" in said:
        return "flash"
    return "eager" if said == "eager" else "sdpa"


def _adapter(config: RunConfig, options: Mapping[str, Any], model: Architecture, tuning: Tuning) -> Adapter | None:
    if config.adapter is None:
        return None
    dropout = 0.0 if options.get("disable_dropout") else float(config.adapter.get("lora_dropout") or 0.0)
    return Adapter(
        rank=int(config.adapter["r"]),
        targets=_targets(config.adapter.get("target_modules"), model),
        dropout=dropout,
        dtype="bfloat16" if tuning == "qlora" else "float32",
    )


def _targets(wanted: Any, model: Architecture) -> tuple[str, ...] | None:
    """Return the names of the maps that an adapter stands beside; None for all. A text is a pattern of whole names."""
    if wanted in (None, "all-linear"):
        return None if wanted else ()
    if not isinstance(wanted, str):
        return tuple(str(name).rpartition(".")[2] for name in wanted)
    names = {linear.name for layer in model.layers for linear in layer.linears()}
    places = {name: [f"model.layers.0.{parent}.{name}" for parent in _PARENTS] for name in sorted(names)}
    return tuple(name for name, full in places.items() if any(_fits(wanted, one) for one in full))


def _fits(pattern: str, name: str) -> bool:
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error:
        return name.endswith(f".{pattern}")


def _loss(config: RunConfig) -> LossPath:
    if config.method in WHOLE_LOGITS:
        return "selected"
    trl = tuple(int(part) for part in config.versions["trl"].split(".")[:2])
    return loss_path(config.method, trl)


def _has_reference(config: RunConfig, options: Mapping[str, Any]) -> bool:
    """Tell whether a second model stands beside the policy; under an adapter the policy without it is the reference."""
    if config.method not in WITH_REFERENCE or config.adapter is not None:
        return False
    if options.get("precompute_ref_log_probs"):
        return False
    return config.method != "grpo" or float(options.get("beta") or 0.0) > 0


def _notes(
    config: RunConfig, options: Mapping[str, Any], longest_prompt: int | None, longest_row: int | None
) -> Iterator[str]:
    if config.method == "grpo" and longest_prompt is None:
        yield (
            f"no prompt was counted: {ASSUMED_PROMPT} tokens are taken for the longest; `finetune audit` counts them "
            "where the tokenizer is at hand"
        )
    if config.method != "grpo":
        _, longest = _lengths(config, options, longest_prompt, longest_row)
        by = "max_length" if longest == options["max_length"] else "the bytes of the longest row"
        yield f"rows count with {longest} tokens, by {by}; shorter ones take less"
    adapter = config.adapter or {}
    for name in ("use_dora", "modules_to_save", "target_parameters"):
        if adapter.get(name):
            yield f"{name}: what it adds to an adapter is not counted"
