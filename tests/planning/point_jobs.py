"""What a public measurement's record says of its run, as a job of the planner; rules by framework, never by id.

A record says less than a job needs. What it leaves out is what the framework does by default; where that is not known
either, the interval spans both answers.
"""

import re
from dataclasses import replace
from typing import Any

from point_records import Reading, adapter_of, base_job, card_of, model_of, one_reading, tuning_of

from llm_finetuning.planning import architecture, hardware
from llm_finetuning.planning.job import GIB, Adapter, Dtype, Job, Rollout
from llm_finetuning.planning.memory import estimate
from llm_finetuning.planning.states import states, weight_bytes
from public_configs import CONFIGS

_TORCHTUNE_FLAGS = ("packed", "compile", "chunked", "activation ckpt", "optimizer-in-bwd", "act offload", "8-bit")


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


def _open_checkpointing(reading: Reading, record: dict[str, Any]) -> Reading:
    if record.get("grad_ckpt") is not None:
        return reading
    low = replace(reading.low, offloaded=reading.low.offloaded or "offload" in (record.get("note") or ""))
    return replace(reading, low=low, high=replace(reading.high, checkpointing=False))


def _too_fast(record: dict[str, Any], shape: str, job: Job) -> bool:
    """Tell whether the stated speed would take more than nine tenths of the card's peak if it were recomputing.

    Passes forward, again forward and back take 2, 2 and 4 operations a weight and token, 2 back where it is frozen.
    """
    speed = re.search(r"([\d.]+) tok/s", record.get("note") or "")
    card = hardware.card_named((record.get("gpu") or "").replace(" ", "").casefold())
    if not speed or card is None or card.bf16_tflops is None or job.shards > 1:
        return False
    model = architecture.read(CONFIGS[shape])
    operations = (6 if job.frozen else 8) * (model.linear_weights + model.head)
    return float(speed[1]) * operations > 0.9e12 * card.bf16_tflops


def _peft(record: dict[str, Any], shape: str) -> Reading:
    job = base_job(
        record, autocast=False, loss="causal_lm", optimizer="adamw_torch", varying=False
    )  # it empties the cache
    return one_reading(record, shape, job, "reserved")


def _litgpt(record: dict[str, Any], shape: str) -> Reading:
    """LitGPT trains in pure bf16, adapters and all, with dropout 0.05 and the bitsandbytes of its day."""
    job = base_job(
        record,
        autocast=False,
        padded=False,
        loss="causal_lm",
        adapter=adapter_of(record, dropout=0.05, dtype="bfloat16"),
        saves_4bit_inputs=tuning_of(record) == "qlora",
    )
    return one_reading(record, shape, job, "allocated")


def _torchtune(record: dict[str, Any], shape: str) -> Reading:
    """Torchtune's tables add one flag a row; the rows below 4,096 tokens have all but checkpointing stated."""
    note = record.get("note") or ""
    at = next((place for place, flag in enumerate(_TORCHTUNE_FLAGS) if f"+{flag}" in note), None)
    every = "all flags" in note
    compiled = every or "compile on" in note or (at is not None and at >= _TORCHTUNE_FLAGS.index("compile"))
    chunked = every or "compile on" in note or (at is not None and at >= _TORCHTUNE_FLAGS.index("chunked"))
    optimizer = record.get("optimizer") or ""
    job = base_job(
        record,
        autocast=False,
        padded=False,
        fused_kernels=compiled,
        loss="eighths" if chunked else "causal_lm",
        adapter=_torchtune_adapter(record),
        optimizer="adamw_torch_fused"
        if "8bit" not in optimizer
        else "paged_adamw_8bit"
        if "Paged" in optimizer
        else "adamw_8bit",
        optimizer_in_backward="bwd" in optimizer
        or (at is not None and at >= _TORCHTUNE_FLAGS.index("optimizer-in-bwd")),
        offloaded=every or (at is not None and at >= _TORCHTUNE_FLAGS.index("act offload")),
    )
    if record.get("seq_len") is None:
        job = replace(job, prompt=0, completion=512)  # Alpaca, padded to the longest of a batch of two
    devices = int(record.get("n_gpus") or 1)
    if devices > 1 and job.sharding == "none":  # its recipes for several devices are FSDP2
        job = replace(job, sharding="fsdp2", shards=devices)
    job = replace(job, hosted=job.sharding == "fsdp2" and "cpu offload" in note.casefold())
    metric = "allocated" if "active" in record.get("metric", "") else "reserved"
    if record.get("grad_ckpt") is None and _too_fast(record, shape, job):
        return one_reading(record, shape, replace(job, checkpointing=False), metric)
    return _open_checkpointing(one_reading(record, shape, job, metric), record)


def _torchtune_adapter(record: dict[str, Any]) -> Adapter | None:
    """Return the adapter of torchtune's own configs, where a record leaves it out: rank 8, on q and v without 4 bits.

    As `8B_lora_single_device` and `8B_qlora_single_device` were when the table of its README was made (its pull request
    1664 of September 2024).
    """
    stated = {**record, "lora_rank": record.get("lora_rank") or 8}
    if record.get("lora_rank") is None and record.get("lora_targets") is None and record["tuning"] == "lora":
        stated["lora_targets"] = "q,v"
    return adapter_of(stated, dtype="bfloat16")


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
    job = base_job(record, autocast=True, loss="liger" if liger else "causal_lm", fused_kernels=liger, rollout=rollout)
    job = replace(job, attention="flash" if packed else "sdpa")
    teacher = re.search(r"\+(\d+)B teacher", record["model"])
    if teacher:
        job = replace(job, others=int(teacher[1]) * 1e9 * 2 / GIB / job.shards)
    if record.get("seq_len") is None:
        job = replace(job, prompt=0, completion=512)
    if "short samples" in note:
        job = replace(job, prompt=0, completion=256)
    reading = one_reading(record, shape, job, "device")
    if "padding_free" in note or record["method"] in ("dpo", "gkd"):
        short = replace(job, prompt=job.prompt // 8, completion=max(job.completion // 8, 1))
        reading = replace(reading, job=short, low=short)  # the length is a cap that preference pairs do not reach
    return reading


def _unsloth(record: dict[str, Any], shape: str) -> Reading:
    """Unsloth's notebooks: own kernels, checkpoints in host memory, chunked losses; the length is only a cap."""
    source = record.get("source") or ""
    if record.get("tuning") == "lora" and record.get("lora_rank") is None:
        record = {**record, "tuning": "full"}  # its notebooks give every adapter a rank: this one has none
    tuning = tuning_of(record)
    job = base_job(
        record,
        weights=_unsloth_dtype(record, shape),
        autocast=True,
        checkpointing=True,
        offloaded=True,
        fused_kernels=True,
        loss="in_place",
        double_quantization=tuning == "qlora",
        quantized_experts=True,
        accumulation=4,
    )
    if job.adapter and re.search(r"Text_Completion|CPT", source):  # continued pretraining: embedding and head as well
        job = replace(job, adapter=replace(job.adapter, whole=("embed_tokens", "lm_head")))
    named = re.search(r"_(\d+)K_Context", source)
    if named and job.length < 1000 * int(named[1]):  # a length cut at the mark of its thousands
        return _long_context(record, shape, job, 1000 * int(named[1]))
    cap = job.length
    model = architecture.read(CONFIGS[shape])
    # Its dynamic 4-bit checkpoints leave some maps in 16 bits: "less than 10%" more, by its makers.
    wide = weight_bytes(model, job) / GIB if tuning == "qlora" else 0.0
    job = replace(job, prompt=0, completion=cap, others=0.25 * wide)
    typical = replace(job, completion=max(cap // 2, 64), others=0.08 * wide)
    least = replace(job, completion=max(cap // 16, 32), others=0.0)
    shared = Reading(model=shape, job=typical, low=least, high=job, metric="reserved", card=card_of(record))
    return shared if "cap" in (record.get("note") or "") else one_reading(record, shape, job, "reserved")


def _unsloth_dtype(record: dict[str, Any], shape: str) -> Dtype:
    """Return what full tuning loads in, by what was reserved before it began: at least the weights themselves."""
    start = re.search(r"start ([\d.]+)", record.get("metric") or "")
    wide = architecture.read(CONFIGS[shape]).total * 4 / GIB
    return "float32" if record.get("tuning") == "full" and start and float(start[1]) >= wide else "bfloat16"


def _long_context(record: dict[str, Any], shape: str, job: Job, length: int) -> Reading:
    """Unsloth's long contexts are one text of that length, with `unsloth_tiled_mlp` and a loss in stretches."""
    job = replace(job, prompt=0, completion=length, padded=False, tiles="recomputed", loss="chunked", accumulation=1)
    return one_reading(record, shape, job, "reserved")


def _verl(record: dict[str, Any], shape: str) -> Reading:
    """Verl searches the largest batch; what it computes at once is a micro-batch, the rest is host memory."""
    util = float(record.get("vllm_util") or 0.3)
    job = base_job(record, autocast=True, batch=2, padded=False, attention="flash", loss="causal_lm", optimizer="sgd")
    return one_reading(record, shape, replace(job, rollout=Rollout(engine="colocate", utilization=util)), "device")


def _spark(record: dict[str, Any], shape: str) -> Reading:
    return _unsloth({**record, "note": "cap"}, shape)


def _context_table(record: dict[str, Any], shape: str) -> Reading:
    job = base_job(record, autocast=True, padded=False, attention="flash", loss="eager_ce", double_quantization=True)
    return one_reading(record, shape, job, "device")


def _trl(record: dict[str, Any], shape: str) -> Reading:
    """TRL before 1.15 on published notebooks and issues; a model named by a string loads in float32."""
    framework, note = record["framework"].lower(), record.get("note") or ""
    dtype, method = record.get("dtype") or "", record["method"]
    tuning = tuning_of(record)
    old = any(mark in framework for mark in ("0.1", "0.2", "quickstart"))
    checkpointing = record.get("grad_ckpt")
    if checkpointing is None:
        checkpointing = not old  # off by default until about 0.20
    liger = "liger" in framework
    engine = "transformers" if method == "grpo" and record.get("vllm_mode") in (None, "none (HF generate)") else "none"
    job = base_job(
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
    reading = one_reading(record, shape, job, metric)
    if method == "grpo" and record.get("prompt_len") is None:
        reading = replace(reading, low=replace(job, prompt=32), high=replace(job, prompt=512))
    if record.get("seq_len") is None and "VLM" in framework.upper():
        lengths = (replace(job, prompt=0, completion=length) for length in (2048, 1024, 4096))  # images take most
        likely, least, most = lengths
        reading = replace(reading, job=likely, low=least, high=most)
    return _long_guide(reading) if job.sequence_shards > 1 else _grown(record, reading)


def _grown(record: dict[str, Any], reading: Reading) -> Reading:
    """Return the reading of what came on top of the start, where the figure cannot have been a peak.

    The notebooks print both, one below the other. A peak holds at least the weights, the adapter, and of every layer
    the inputs of the completions of a batch.
    """
    job, model, measured = reading.job, architecture.read(CONFIGS[reading.model]), record.get("measured_gib")
    if measured is None or record["method"] != "grpo" or job.offloaded or not job.adapter:
        return reading
    inputs = len(model.layers) * job.batch * job.completion * model.hidden * job.stream_bytes
    held = states(model, job)
    start = held.weights + held.adapter
    return replace(reading, start=start / GIB) if measured * GIB < start + inputs else reading


def _long_guide(reading: Reading) -> Reading:
    """Return the reading with as many of the levers as it took to fit, in the order of TRL's guide to long contexts.

    Its pull requests 6845 and 6846: checkpoints offloaded, then from 30B on shards in host memory, and the MLP in
    stretches for the largest dense models.
    """
    model, card = architecture.read(CONFIGS[reading.model]), reading.card
    offloaded = replace(reading.job, offloaded=True)
    hosted = replace(offloaded, hosted=True)
    levers = (hosted, replace(hosted, tiles="split")) if model.total >= 30e9 else (reading.job, offloaded)
    fits = (job for job in levers if card is None or estimate(model, job).verdict(card) == "fits")
    likely = next(fits, levers[-1])
    return replace(reading, job=likely, low=levers[-1], high=likely)


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
