"""What every record of a public measurement says in the same words: its model, its card, its settings."""

import re
from dataclasses import dataclass, replace
from typing import Any

from llm_finetuning.planning.job import Adapter, Job, Sharding, Tuning

MODELS: tuple[tuple[str, str], ...] = (
    (r"llama-2-7b", "Llama-2-7B"),
    (r"llama-2-13b", "Llama-2-13B"),
    (r"llama-3\.2-3b", "Llama-3.2-3B"),
    (r"llama-3\.2-1b", "Llama-3.2-1B"),
    (r"llama-3(\.1)?-8b", "Llama-3.1-8B"),
    (r"llama-3\.[13]-70b", "Llama-3.3-70B"),
    (r"qwen2\.5(-coder|-math)?-0\.5b", "Qwen2.5-0.5B"),
    (r"qwen2\.5(-coder|-math)?-1\.5b", "Qwen2.5-1.5B"),
    (r"qwen2\.5(-coder|-math)?-3b", "Qwen2.5-3B"),
    (r"qwen2(\.5)?(-coder|-math)?-7b", "Qwen2.5-7B"),
    (r"qwen2\.5(-coder|-math)?-14b", "Qwen2.5-14B"),
    (r"qwen2\.5(-coder|-math)?-32b", "Qwen2.5-32B"),
    (r"qwen2\.5(-math)?-72b", "Qwen2.5-72B"),
    (r"qwen3-0\.6b", "Qwen3-0.6B"),
    (r"qwen3-1\.7b", "Qwen3-1.7B"),
    (r"qwen3-4b", "Qwen3-4B"),
    (r"qwen3-8b", "Qwen3-8B"),
    (r"qwen3-14b", "Qwen3-14B"),
    (r"qwen3-32b", "Qwen3-32B"),
    (r"qwen3-30b-a3b", "Qwen3-30B-A3B"),
    (r"qwen3\.5-27b", "Qwen3.5-27B"),
    (r"phi-1\.5", "phi-1.5"),
    (r"phi-4$", "Phi-4"),
    (r"phi-3(\.5)?-mini", "Phi-3-mini"),
    (r"stablelm-alpha-3b", "StableLM-Alpha-3B"),
    (r"nemotron-3-nano-30b", "Nemotron-3-Nano-30B-A3B"),
    (r"tiny-aya", "tiny-aya"),
    (r"ministral-3-3b", "Ministral-3-3B"),
    (r"mistral-nemo", "Mistral-Nemo-2407"),
    (r"mistral-7b", "Mistral-7B-v0.3"),
    (r"tinyllama", "TinyLlama-1.1B"),
    (r"smollm3-3b", "SmolLM3-3B"),
    (r"(mistral|magistral|devstral)-small", "Mistral-Small-24B"),
    (r"gemma-2-2b", "Gemma-2-2B"),
    (r"gemma-3-1b", "Gemma-3-1B"),
    (r"gemma-3-12b", "Gemma-3-12B"),
    (r"gpt-oss-120b", "gpt-oss-120b"),
    (r"falcon-40b", "Falcon-40B"),
    (r"falcon-7b", "Falcon-7B"),
    (r"gemma-2-9b", "Gemma-2-9B"),
    (r"gemma-3-270m", "Gemma-3-270M"),
    (r"gemma-3-4b", "Gemma-3-4B"),
    (r"gemma-3-27b", "Gemma-3-27B"),
    (r"lfm2(\.5)?-1\.2b", "LFM2-1.2B"),
    (r"gpt-oss-20b", "gpt-oss-20b"),
    (r"glm-4\.7-flash", "GLM-4.7-Flash"),
    (r"ernie-4\.5-21b", "ERNIE-4.5-21B-A3B"),
)

_CARDS: tuple[tuple[str, float], ...] = (
    (r"T4", 14.74),
    (r"L4(?!0)", 22.16),
    (r"L40S", 44.4),
    (r"4090", 23.6),
    (r"A6000", 47.5),
    (r"H20", 95.1),
    (r"GB10", 121.7),
    (r"A100.*40|A100-SXM4-40", 39.5),
    (r"A100|A800|H100", 79.2),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A record as jobs: the likeliest, and the ends of what it leaves open."""

    model: str
    job: Job
    low: Job
    high: Job
    metric: str  # allocated, reserved or device
    card: float | None
    start: float = 0.0  # GiB that were held before the first step, where the record gives what came on top


def model_of(record: dict[str, Any]) -> str | None:
    """Return the published shape that a record's model name stands for."""
    name = record["model"].lower().split("/")[-1]
    return next((shape for pattern, shape in MODELS if re.search(pattern, name)), None)


def card_of(record: dict[str, Any]) -> float | None:
    """Return the memory of the record's device, GiB."""
    if record.get("gpu_total_gib"):
        return float(record["gpu_total_gib"])
    text = record.get("gpu") or ""
    for pattern, size in _CARDS:
        if re.search(pattern, text):
            return size
    plain = re.search(r"(\d+(?:\.\d+)?)\s*G(i?)B", text)
    return float(plain[1]) * (1.0 if plain[2] else 0.985) if plain else None


def tuning_of(record: dict[str, Any]) -> Tuning:
    """Return what of the model is trained."""
    said = record.get("tuning", "full")
    named: dict[str, Tuning] = {"ln_tuning": "norms", "beft": "bias", "lora": "lora", "qlora": "qlora"}
    return named.get(said, "full")


def adapter_of(record: dict[str, Any], **more: Any) -> Adapter | None:
    """Return the record's adapter, of rank 16 where none is stated."""
    if tuning_of(record) not in ("lora", "qlora"):
        return None
    names = {"q": "q_proj", "v": "v_proj", "k": "k_proj", "o": "o_proj"}
    said = record.get("lora_targets") or "all"
    listed = tuple(names.get(name.strip(), name.strip()) for name in said.split(","))
    targets = None if said in ("all", "all-linear", "layernorms") else listed
    return Adapter(rank=int(record.get("lora_rank") or 16), targets=targets, **more)


def base_job(record: dict[str, Any], **more: Any) -> Job:
    """Return what every framework's record says in the same words."""
    dtype = record.get("dtype") or ""
    length = record.get("seq_len") or (record.get("prompt_len") or 512) + (record.get("completion_len") or 512)
    completion = record.get("completion_len") or length
    checkpointing = record.get("grad_ckpt")
    wide = dtype.startswith("fp32") or "rest fp32" in dtype
    job = Job(
        method=record["method"],
        tuning=tuning_of(record),
        weights="float32" if wide else "float16" if dtype.startswith("fp16") else "bfloat16",
        autocast="fp32 compute" not in dtype,
        batch=int(record.get("batch") or 1),
        prompt=max(length - completion, 0),
        completion=min(completion, length),
        padded=not record.get("packed"),
        checkpointing=True if checkpointing is None else bool(checkpointing),
        optimizer=record.get("optimizer") or "adamw_torch_fused",
        adapter=adapter_of(record),
        double_quantization="dq" in dtype,
        sequences=2 if record["method"] == "dpo" else 1,
        reference=record["method"] == "dpo" and tuning_of(record) == "full",
        **_sharding(record),
    )
    return replace(job, **more)


def _sharding(record: dict[str, Any]) -> dict[str, Any]:
    said = record.get("parallel") or ""
    devices = int(record.get("n_gpus") or 1)
    kinds: dict[str, Sharding] = {"zero3": "zero3", "fsdp": "fsdp2", "layer": "layers"}
    kind = next((kind for mark, kind in kinds.items() if mark in said.lower()), "none")
    context = devices if "context parallel" in said else 1
    return {"sharding": kind, "shards": devices if kind != "none" else 1, "sequence_shards": context}


def one_reading(record: dict[str, Any], shape: str, job: Job, metric: str) -> Reading:
    """Return a reading that leaves nothing open."""
    return Reading(model=shape, job=job, low=job, high=job, metric=metric, card=card_of(record))
