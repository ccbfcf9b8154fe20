"""What a public measurement's record says of its run, as a job of the planner; rules by framework, never by id.

A record says less than a job needs. What it leaves out is what the framework does by default; where that is not known
either, the interval spans both answers.
"""

import re
from dataclasses import dataclass, replace
from typing import Any

from llm_finetuning.planning import architecture
from llm_finetuning.planning.job import GIB, Adapter, Job, Rollout, Sharding, Tuning
from llm_finetuning.planning.memory import estimate
from llm_finetuning.planning.states import weight_bytes
from public_configs import CONFIGS

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
_TORCHTUNE_FLAGS = ("packed", "compile", "chunked", "activation ckpt", "optimizer-in-bwd", "act offload", "8-bit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A record as jobs: the likeliest, and the ends of what it leaves open."""

    model: str
    job: Job
    low: Job
    high: Job
    metric: str  # allocated, reserved or device
    card: float | None


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


def read(record: dict[str, Any]) -> Reading | None:
    """Return the record as a job, or None where no published shape is known for its model."""
    shape = model_of(record)
    if shape is None:
        return None
    framework = record["framework"].lower()
    for mark, rule in _RULES:
        if mark in framework:
            return rule(record, shape)
    return _trl(record, shape)


def _tuning(record: dict[str, Any]) -> Tuning:
    said = record.get("tuning", "full")
    named: dict[str, Tuning] = {"ln_tuning": "norms", "beft": "bias", "lora": "lora", "qlora": "qlora"}
    return named.get(said, "full")


def _adapter(record: dict[str, Any], **more: Any) -> Adapter | None:
    if _tuning(record) not in ("lora", "qlora"):
        return None
    names = {"q": "q_proj", "v": "v_proj", "k": "k_proj", "o": "o_proj"}
    said = record.get("lora_targets") or "all"
    listed = tuple(names.get(name.strip(), name.strip()) for name in said.split(","))
    targets = None if said in ("all", "all-linear", "layernorms") else listed
    return Adapter(rank=int(record.get("lora_rank") or 16), targets=targets, **more)


def _base(record: dict[str, Any], **more: Any) -> Job:
    """Return what every framework's record says in the same words."""
    dtype = record.get("dtype") or ""
    length = record.get("seq_len") or (record.get("prompt_len") or 512) + (record.get("completion_len") or 512)
    completion = record.get("completion_len") or length
    checkpointing = record.get("grad_ckpt")
    wide = dtype.startswith("fp32") or "rest fp32" in dtype
    job = Job(
        method=record["method"],
        tuning=_tuning(record),
        weights="float32" if wide else "float16" if dtype.startswith("fp16") else "bfloat16",
        autocast="fp32 compute" not in dtype,
        batch=int(record.get("batch") or 1),
        prompt=max(length - completion, 0),
        completion=min(completion, length),
        padded=not record.get("packed"),
        checkpointing=True if checkpointing is None else bool(checkpointing),
        optimizer=record.get("optimizer") or "adamw_torch_fused",
        adapter=_adapter(record),
        double_quantization="dq" in dtype,
        sequences=2 if record["method"] == "dpo" else 1,
        reference=record["method"] == "dpo" and _tuning(record) == "full",
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


def _one(record: dict[str, Any], shape: str, job: Job, metric: str) -> Reading:
    return Reading(model=shape, job=job, low=job, high=job, metric=metric, card=card_of(record))


def _open_checkpointing(reading: Reading, record: dict[str, Any]) -> Reading:
    if record.get("grad_ckpt") is not None:
        return reading
    return replace(reading, high=replace(reading.high, checkpointing=False))


def _peft(record: dict[str, Any], shape: str) -> Reading:
    job = _base(
        record, autocast=False, loss="causal_lm", optimizer="adamw_torch", varying=False
    )  # it empties the cache
    return _one(record, shape, job, "reserved")


def _litgpt(record: dict[str, Any], shape: str) -> Reading:
    """LitGPT trains in pure bf16, adapters and all, with dropout 0.05 and the bitsandbytes of its day."""
    job = _base(
        record,
        autocast=False,
        padded=False,
        loss="causal_lm",
        adapter=_adapter(record, dropout=0.05, dtype="bfloat16"),
        saves_4bit_inputs=_tuning(record) == "qlora",
    )
    return _one(record, shape, job, "allocated")


def _torchtune(record: dict[str, Any], shape: str) -> Reading:
    """Torchtune's tables add one flag a row; the rows below 4,096 tokens have all but checkpointing stated."""
    note = record.get("note") or ""
    at = next((place for place, flag in enumerate(_TORCHTUNE_FLAGS) if f"+{flag}" in note), None)
    every = "all flags" in note
    compiled = every or "compile on" in note or (at is not None and at >= _TORCHTUNE_FLAGS.index("compile"))
    chunked = every or "compile on" in note or (at is not None and at >= _TORCHTUNE_FLAGS.index("chunked"))
    optimizer = record.get("optimizer") or ""
    job = _base(
        record,
        autocast=False,
        padded=False,
        fused_kernels=compiled,
        loss="eighths" if chunked else "in_place" if compiled else "causal_lm",
        adapter=_adapter(record, dtype="bfloat16"),
        optimizer="adamw_torch_fused" if "8bit" not in optimizer else "adamw_8bit",
        optimizer_in_backward="bwd" in optimizer
        or (at is not None and at >= _TORCHTUNE_FLAGS.index("optimizer-in-bwd")),
        offloaded=every or (at is not None and at >= _TORCHTUNE_FLAGS.index("act offload")),
    )
    if record.get("seq_len") is None:
        job = replace(job, prompt=0, completion=512)  # Alpaca, padded to the longest of a batch of two
    reading = _one(record, shape, job, "allocated" if "active" in record.get("metric", "") else "reserved")
    return _open_checkpointing(reading, record)


def _swift(record: dict[str, Any], shape: str) -> Reading:
    """ms-swift is the HF trainer; its headers give what nvidia-smi showed, rounded."""
    note, packed = record.get("note") or "", bool(record.get("packed"))
    engine = record.get("vllm_mode") or ""
    rollout = Rollout(
        engine="colocate" if "colocate" in engine else "transformers" if "HF generate" in engine else "none",
        utilization=float(record.get("vllm_util") or 0.3),
        sleep=bool(record.get("vllm_sleep")),
        tensor_parallel=4 if "tp4" in engine else 1,
    )
    liger = "liger" in note
    job = _base(record, autocast=True, loss="liger" if liger else "causal_lm", fused_kernels=liger, rollout=rollout)
    job = replace(job, attention="flash" if packed else "sdpa")
    teacher = re.search(r"\+(\d+)B teacher", record["model"])
    if teacher:
        job = replace(job, others=int(teacher[1]) * 1e9 * 2 / GIB / job.shards)
    if record.get("seq_len") is None:
        job = replace(job, prompt=0, completion=512)
    if "short samples" in note:
        job = replace(job, prompt=0, completion=256)
    reading = _one(record, shape, job, "device")
    if "padding_free" in note or record["method"] in ("dpo", "gkd"):
        short = replace(job, prompt=job.prompt // 8, completion=max(job.completion // 8, 1))
        reading = replace(reading, job=short, low=short)  # the length is a cap that preference pairs do not reach
    return reading


def _unsloth(record: dict[str, Any], shape: str) -> Reading:
    """Unsloth's notebooks: own kernels, checkpoints in host memory, chunked losses; the length is only a cap."""
    tuning = _tuning(record)
    job = _base(
        record,
        weights="bfloat16",
        autocast=True,
        checkpointing=True,
        offloaded=True,
        fused_kernels=True,
        loss="in_place",
        double_quantization=tuning == "qlora",
        quantized_experts=True,
        accumulation=4,
    )
    cap = job.length
    model = architecture.read(CONFIGS[shape])
    # Its dynamic 4-bit checkpoints leave some maps in 16 bits: "less than 10%" more, by its makers.
    wide = weight_bytes(model, job) / GIB if tuning == "qlora" else 0.0
    job = replace(job, prompt=0, completion=cap, others=0.25 * wide)
    typical = replace(job, completion=max(cap // 2, 64), others=0.08 * wide)
    least = replace(job, completion=max(cap // 16, 32), others=0.0)
    shared = Reading(model=shape, job=typical, low=least, high=job, metric="reserved", card=card_of(record))
    return shared if "cap" in (record.get("note") or "") else _one(record, shape, job, "reserved")


def _verl(record: dict[str, Any], shape: str) -> Reading:
    """Verl searches the largest batch; what it computes at once is a micro-batch, the rest is host memory."""
    util = float(record.get("vllm_util") or 0.3)
    job = _base(record, autocast=True, batch=2, padded=False, attention="flash", loss="causal_lm", optimizer="sgd")
    return _one(record, shape, replace(job, rollout=Rollout(engine="colocate", utilization=util)), "device")


def _spark(record: dict[str, Any], shape: str) -> Reading:
    return _unsloth({**record, "note": "cap"}, shape)


def _context_table(record: dict[str, Any], shape: str) -> Reading:
    job = _base(record, autocast=True, padded=False, attention="flash", loss="eager_ce", double_quantization=True)
    return _one(record, shape, job, "device")


def _trl(record: dict[str, Any], shape: str) -> Reading:
    """TRL before 1.15 on published notebooks and issues; a model named by a string loads in float32."""
    framework, note = record["framework"].lower(), record.get("note") or ""
    dtype, method = record.get("dtype") or "", record["method"]
    tuning = _tuning(record)
    old = any(mark in framework for mark in ("0.1", "0.2", "quickstart"))
    checkpointing = record.get("grad_ckpt")
    if checkpointing is None:
        checkpointing = not old  # off by default until about 0.20
    liger = "liger" in framework
    engine = "transformers" if method == "grpo" and record.get("vllm_mode") in (None, "none (HF generate)") else "none"
    job = _base(
        record,
        checkpointing=bool(checkpointing),
        loss="chunked"
        if "chunked" in framework
        else "liger"
        if liger
        else "selected"
        if method == "grpo"
        else "causal_lm",
        fused_kernels=liger,
        offloaded="activation_offloading" in framework,
        rollout=Rollout(engine=engine),
    )
    if tuning == "full" and dtype in ("", "fp32"):
        job = replace(job, weights="float32")
    if tuning == "qlora":
        made = "bnb-4bit" in record["model"]  # a checkpoint that is quantised already, doubly as all of its maker's
        job = replace(job, double_quantization=made or job.double_quantization)
        job = replace(job, weights="float32")  # PEFT's prepare_model_for_kbit_training casts what is not in 4 bits
    if method == "sft" and job.loss == "causal_lm" and job.autocast:
        job = replace(job, loss="eager_ce")  # Accelerate's fp32 copy of the logits, and the entropy of TRL's log
    if method == "grpo" and record.get("prompt_len") is None:
        job = replace(job, prompt=128, completion=record.get("completion_len") or 256)
    if method == "dpo" and record.get("batch") is None:
        job = replace(job, batch=8, prompt=0, completion=1024, loss="eager_ce")
    if "bs 8" in note:
        job = replace(job, batch=8)
    where = record.get("metric") or ""
    metric = "reserved" if "reserved" in where else "allocated" if "allocated" in where else "device"
    reading = _one(record, shape, job, metric)
    if method == "grpo" and record.get("prompt_len") is None:
        reading = replace(reading, low=replace(job, prompt=32), high=replace(job, prompt=512))
    if record.get("seq_len") is None and "VLM" in framework.upper():
        lengths = (replace(job, prompt=0, completion=length) for length in (2048, 1024, 4096))  # images take most
        likely, least, most = lengths
        reading = replace(reading, job=likely, low=least, high=most)
    return _unstated(reading) if job.sequence_shards > 1 else reading


def _unstated(reading: Reading) -> Reading:
    """Return the reading with offloading, and then fused kernels, where the run fitted and could not have otherwise."""
    shape, card = architecture.read(CONFIGS[reading.model]), reading.card
    variants = [
        reading.job,
        replace(reading.job, offloaded=True),
        replace(reading.job, offloaded=True, fused_kernels=True),
    ]
    fitting = [job for job in variants if card is None or not estimate(shape, job).impossible(card)]
    return replace(reading, job=(fitting or variants)[0], low=variants[-1], high=(fitting or variants)[0])


_RULES = (
    ("peft method_comparison", _peft),
    ("litgpt", _litgpt),
    ("torchtune", _torchtune),
    ("ms-swift", _swift),
    ("verl", _verl),
    ("unsloth spark", _spark),
    ("unsloth", _unsloth),
    ("flashattention-2 column", _context_table),
    ("trl", _trl),
)
