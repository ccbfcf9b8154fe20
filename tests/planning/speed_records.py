"""What a public measurement of speed says of its model, its cards and the formats of its weights.

A model whose shape was not published here is taken for the nearest one in size, and its time grows with the ratio of
their parameters.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

from point_records import MODELS

from llm_finetuning.planning import architecture, hardware
from llm_finetuning.planning.decode import Serving
from llm_finetuning.planning.hardware import Card
from llm_finetuning.planning.job import GIB
from llm_finetuning.planning.shapes import Architecture
from llm_finetuning.planning.time_rates import Rates, rates_of
from public_configs import CONFIGS, llama

NETWORK_S = 60e-6  # of an all-reduce between two machines

_MORE_SHAPES: dict[str, dict[str, Any]] = {
    "Qwen3-235B-A22B": llama(
        4096,
        12288,
        94,
        64,
        4,
        151936,
        model_type="qwen3_moe",
        head_dim=128,
        num_experts=128,
        num_experts_per_tok=8,
        moe_intermediate_size=1536,
        decoder_sparse_step=1,
        mlp_only_layers=[],
    ),
    "Qwen1.5-7B": llama(4096, 11008, 32, 32, 32, 151936, model_type="qwen2"),
}
_MORE_NAMES = (
    (r"qwen3-235b-a22b", "Qwen3-235B-A22B"),
    (r"qwen1\.5-7b", "Qwen1.5-7B"),
    (r"qwen3-next-80b", "Qwen3-Next-80B-A3B"),
    (r"deepseek-v3|deepseek-r1\b", "DeepSeek-V3"),
    (r"glm-4\.5-air", "GLM-4.5-Air"),
    (r"phi-4", "Phi-4"),
    (r"mistral.*7b", "Mistral-7B-v0.3"),
    (r"tiny", "SmolLM2-135M"),
)
_SIZES = ((r"qwen3\.8-flash-next", 177e9, 6e9),)  # models that some records name without their size
_MORE_CARDS = {
    # figures of github.com/citsjtu2020/LLM-Prof, hardware_spec.md; GB200's of NVIDIA's GB200 NVL72 page, half a pair
    "l20": Card(name="l20", memory_gib=44.5, bandwidth_gb_s=864, bf16_tflops=119.5, capability=(8, 9)),
    "h800": Card(name="h800", memory_gib=79.2, bandwidth_gb_s=3350, bf16_tflops=989, capability=(9, 0)),
    "gb200": Card(name="gb200", memory_gib=184.0, bandwidth_gb_s=8000, bf16_tflops=2500, capability=(10, 0)),
    "gh200": Card(name="gh200", memory_gib=95.0, bandwidth_gb_s=4000, bf16_tflops=989, capability=(9, 0)),
}
_CARDS = (
    (r"GB10|Spark", "dgx-spark"),
    (r"GB200", "gb200"),
    (r"GH200", "gh200"),
    (r"B200", "b200"),
    (r"H200", "h200"),
    (r"H800", "h800"),
    (r"H100", "h100"),
    (r"H20", "h20"),
    (r"A100.*40", "a100-40"),
    (r"A100|A800", "a100"),
    (r"PRO 6000", "rtxpro6000"),
    (r"A6000", "a6000"),
    (r"L40S", "l40s"),
    (r"L40", "l40"),
    (r"L20", "l20"),
    (r"\bL4\b", "l4"),
    (r"\bA10G?\b", "a10"),
    (r"4090", "rtx4090"),
    (r"5090", "rtx5090"),
    (r"3090", "rtx3090"),
    (r"\bT4\b", "t4"),
    (r"V100", "v100"),
    (r"1 GPU", "a100"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A record's model: a published shape, and by how much it is larger."""

    shape: Architecture
    scale: float  # of the record's parameters over the shape's


def cards_of(record: dict[str, Any]) -> list[Rates]:
    text = record["gpu"]
    named = [name for pattern, name in _CARDS if re.search(pattern, text)]
    both = named if "/" in text else named[:1]
    found = (rates_of(_MORE_CARDS.get(name) or hardware.CARDS[name]) for name in both)
    return [rates for rates in found if rates is not None]


def memory_of(rates: Rates) -> float:
    return (_MORE_CARDS.get(rates.name) or hardware.CARDS[rates.name]).memory_gib * GIB


def devices_of(record: dict[str, Any]) -> int:
    count = re.search(r"(\d+)x ", record["gpu"]) or re.search(r" x(\d+)", record["gpu"])
    return int(count[1]) if count else 1


def model_of(record: dict[str, Any]) -> Model | None:
    if "not named" in (record.get("note") or ""):
        return None
    name = record["model"].lower()
    shapes = {**CONFIGS, **_MORE_SHAPES}
    for pattern, shape in (*_MORE_NAMES, *MODELS):
        if re.search(pattern, name):
            return Model(shape=architecture.read(shapes[shape]), scale=1.0)
    for pattern, total, active in _SIZES:
        if re.search(pattern, name):
            return _nearest(total, active)
    mixture = re.search(r"(\d+(?:\.\d+)?)b-a(\d+(?:\.\d+)?)b", name)
    said = re.search(r"(\d+(?:\.\d+)?)b\b", name)
    if mixture:
        return _nearest(float(mixture[1]) * 1e9, float(mixture[2]) * 1e9)
    return _nearest(float(said[1]) * 1e9, None) if said else None


def _nearest(total: float, active: float | None) -> Model:
    """Return the published shape that is nearest in size: plain decoders for a plain size, mixtures for two sizes."""
    best, distance = None, math.inf
    for config in {**CONFIGS, **_MORE_SHAPES}.values():
        shape = architecture.read(config)
        mixes = any(layer.mlp.experts for layer in shape.layers)
        if mixes != (active is not None):
            continue
        away = abs(math.log(total / shape.total)) + (abs(math.log(active / shape.active)) if active else 0.0)
        if away < distance:
            best, distance = shape, away
    assert best is not None
    return Model(shape=best, scale=(active / best.active) if active else total / best.total)


def serving_of(record: dict[str, Any], devices: int) -> Serving:
    """Return how a record's model is kept: bytes of a weight by the format that its name or engine says."""
    name, engine = record["model"].lower(), (record.get("engine") or "").lower()
    formats = {"maps": 2.0, "experts": 2.0, "head": 2.0}
    arithmetic = 1.0
    if "mxfp4" in name or "gpt-oss" in name:
        formats["experts"] = 0.53  # 4 bits and a byte for 32 weights; attention and head stay in 16 bits
        if "ollama" in engine or "llama.cpp" in engine:
            formats |= {"maps": 1.06, "head": 1.06}
    elif "nvfp4" in name:
        formats = {"maps": 0.5625, "experts": 0.5625, "head": 2.0}
        arithmetic = 4.0 if "trt" in engine or "tensorrt" in engine else 1.0
    elif "fp8" in name:
        formats = {"maps": 1.0, "experts": 1.0, "head": 2.0}
        arithmetic = 2.0
    elif "int4" in name or "gptq" in name or "awq" in name:
        formats = {"maps": 0.56, "experts": 0.56, "head": 2.0}
    elif "gguf" in name or "quant" in name or "q4" in name:
        formats = (
            {"maps": 1.06, "experts": 0.44, "head": 1.06}
            if re.search(r"-a\d", name)
            else {
                "maps": 0.6,
                "experts": 0.6,
                "head": 0.8,
            }
        )
    plain = "transformers" in engine or engine.startswith("hf")
    spark = "GB10" in record["gpu"]
    return Serving(
        engine="transformers" if plain else "vllm",
        graphs="eager" not in engine,
        tensor_parallel=devices,
        link_s=NETWORK_S if spark else None,
        arithmetic=arithmetic,
        **formats,
    )


def number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None
