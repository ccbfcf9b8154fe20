"""Families whose layers are softmax attention and one MLP, dense or of experts: what sets each apart, as a table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from llm_finetuning.planning import blocks
from llm_finetuning.planning.fields import Bias, Fields
from llm_finetuning.planning.shapes import Layer, Mixer, Mlp


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Where a family has experts instead of an MLP, and what they look like."""

    sparse: Callable[[Fields, int], bool] = lambda f, index: True
    width: str = "moe_intermediate_size"
    shared: Callable[[Fields], int] = lambda f: 0
    shared_gate: bool = False
    biases: bool = False
    router_extra: Callable[[Fields], int] = lambda f: 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How the models of one `model_type` are built."""

    qkv: Bias = False
    out: Bias = False
    mlp: Bias = False
    gated: bool = True
    fused_qkv: str | None = None
    fused_mlp: bool = False
    norms: int = 2  # over the hidden size, a layer
    norm_width: int = 1  # parameters a channel: 2 with a bias, 0 without weights
    native_norm: bool = False
    qk_norm: str = "none"
    gated_attention: bool = False
    sinks: bool = False
    latent: bool = False
    window_every: int = 0  # 0: none; 1: every layer; n: every layer but each n-th
    experts: Experts | None = None
    tied: bool = False
    head_bias: bool = False
    inner_factor: int = 0  # the MLP's width in hidden sizes, where a config leaves it out
    defaults: Mapping[str, Any] = field(default_factory=dict)


def layers(f: Family, config: Fields) -> tuple[Layer, ...]:
    """Build every layer of a model of the family."""
    return tuple(layer(f, config, index) for index in range(config.layers))


def layer(family: Family, config: Fields, index: int, mixer: Mixer | None = None) -> Layer:
    """Build one layer; a mixer that is handed in stands in the place of attention."""
    return Layer(
        mixer=mixer or _attention(family, config, index),
        mlp=_mlp(family, config, index),
        norms=family.norms,
        norm_parameters=family.norms * family.norm_width * config.hidden,
        native_norm=family.native_norm,
    )


def _attention(family: Family, config: Fields, index: int) -> Mixer:
    if family.latent:
        return blocks.latent_attention(config)
    return blocks.attention(
        config,
        qkv=family.qkv,
        out=family.out,
        qk_norm=family.qk_norm,
        gated=family.gated_attention,
        fused=family.fused_qkv,
        window=_window(family, config, index),
        sinks=family.sinks,
    )


def _mlp(family: Family, config: Fields, index: int) -> Mlp:
    kind = family.experts
    if kind is None or not kind.sparse(config, index):
        assumed = family.inner_factor * config.hidden or None
        width = config.number("intermediate_size", assumed)
        bias = config.bias(family.mlp)
        return blocks.mlp(config.hidden, width, bias=bias, gated=family.gated, fused=family.fused_mlp)
    return blocks.experts(
        config,
        width=config.number(kind.width),
        shared_width=kind.shared(config),
        biases=kind.biases,
        shared_bias=config.bias(family.mlp),
        router_extra=kind.router_extra(config),
        shared_gate=kind.shared_gate,
    )


def _window(family: Family, config: Fields, index: int) -> int | None:
    window = config.get("sliding_window")
    if not window or config.get("use_sliding_window") is False or index < (config.get("max_window_layers") or 0):
        return None
    kinds = config.layer_types()
    if index < len(kinds):
        return int(window) if "sliding" in kinds[index] else None
    every = config.get("sliding_window_pattern") or family.window_every
    if every in (0, 1):
        return int(window) if every else None
    return int(window) if (index + 1) % int(every) else None


def after_the_first_dense(config: Fields, index: int) -> bool:
    """Return whether a layer of DeepSeek's or GLM's kind has experts."""
    kinds = config.get("mlp_layer_types")
    if kinds:
        return index < len(kinds) and kinds[index] == "sparse"
    return index >= config.number("first_k_dense_replace", 1)


def every_sparse_step(config: Fields, index: int) -> bool:
    """Return whether a layer of Qwen's kind has experts."""
    listed = config.get("mlp_only_layers") or ()
    step = max(config.number("decoder_sparse_step", 1), 1)
    return index not in listed and config.number("num_experts") > 0 and (index + 1) % step == 0


def _ernie_sparse(config: Fields, index: int) -> bool:
    end = config.get("moe_layer_end_index")
    end = config.layers - 1 if end in (None, -1) else int(end)
    start = config.number("moe_layer_start_index", 1)
    return (index + 1) % max(config.number("moe_layer_interval", 1), 1) == 0 and start <= index <= end


def _shared_experts(config: Fields) -> int:
    return config.number("moe_intermediate_size") * config.number("n_shared_experts", 1)


def shared_expert(config: Fields) -> int:
    """Return the width of Qwen's shared expert."""
    return config.number("shared_expert_intermediate_size")


_DEEPSEEK = Experts(sparse=after_the_first_dense, shared=_shared_experts)
_GEMMA3 = {
    "vocab_size": 262208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 4096,
    "max_position_embeddings": 131072,
}

FAMILIES: Mapping[str, Family] = {
    "llama": Family(qkv="attention_bias", out="attention_bias", mlp="mlp_bias"),
    "mistral": Family(window_every=1),
    "ministral": Family(window_every=1),
    "ministral3": Family(window_every=1, defaults={"head_dim": 128}),
    "qwen2": Family(qkv=True, window_every=1, defaults={"use_sliding_window": False}),
    "qwen3": Family(
        qkv="attention_bias",
        out="attention_bias",
        qk_norm="head",
        window_every=1,
        defaults={"head_dim": 128, "use_sliding_window": False},
    ),
    "phi3": Family(fused_qkv="qkv_proj", fused_mlp=True, window_every=1),
    "phi": Family(
        qkv=True,
        out=True,
        mlp=True,
        gated=False,
        norms=1,
        norm_width=2,
        native_norm=True,
        head_bias=True,
    ),
    "gemma": Family(qkv="attention_bias", out="attention_bias", tied=True, defaults={"head_dim": 256}),
    "gemma2": Family(
        qkv="attention_bias",
        out="attention_bias",
        norms=4,
        tied=True,
        window_every=2,
        defaults={"head_dim": 256, "sliding_window": 4096},
    ),
    "gemma3_text": Family(
        qkv="attention_bias",
        out="attention_bias",
        norms=4,
        qk_norm="head",
        tied=True,
        window_every=6,
        defaults=_GEMMA3,
    ),
    "olmo": Family(qkv="attention_bias", out="attention_bias", norm_width=0, native_norm=True),
    "olmo2": Family(qkv="attention_bias", out="attention_bias", qk_norm="full"),
    "olmo3": Family(qkv="attention_bias", out="attention_bias", qk_norm="full", window_every=4),
    "granite": Family(qkv="attention_bias", out="attention_bias", mlp="mlp_bias"),
    "smollm3": Family(qkv="attention_bias", out="attention_bias", mlp="mlp_bias", tied=True),
    "cohere": Family(qkv="attention_bias", out="attention_bias", norms=1, tied=True),
    "cohere2": Family(qkv="attention_bias", out="attention_bias", norms=1, tied=True, window_every=4),
    "stablelm": Family(qkv="use_qkv_bias", norm_width=2, native_norm=True),
    "starcoder2": Family(
        qkv="use_bias",
        out="use_bias",
        mlp="use_bias",
        gated=False,
        norm_width=2,
        native_norm=True,
        tied=True,
        window_every=1,
        defaults={"use_bias": True},
    ),
    "gpt_neox": Family(
        qkv="attention_bias",
        out="attention_bias",
        mlp=True,
        gated=False,
        fused_qkv="query_key_value",
        norm_width=2,
        native_norm=True,
        defaults={"attention_bias": True},
    ),
    "gpt2": Family(
        qkv=True,
        out=True,
        mlp=True,
        gated=False,
        fused_qkv="c_attn",
        inner_factor=4,
        norm_width=2,
        native_norm=True,
        tied=True,
    ),
    "glm4": Family(qkv="attention_bias", norms=4, fused_mlp=True, defaults={"head_dim": 128}),
    "seed_oss": Family(
        qkv="attention_bias", out="attention_out_bias", mlp="mlp_bias", defaults={"attention_bias": True}
    ),
    "ernie4_5": Family(qkv="use_bias", out="use_bias", mlp="use_bias", tied=True, defaults={"head_dim": 128}),
    "exaone4": Family(qk_norm="head", window_every=4),
    "mixtral": Family(experts=Experts(width="intermediate_size"), window_every=1),
    "granitemoe": Family(qkv="attention_bias", out="attention_bias", experts=Experts(width="intermediate_size")),
    "olmoe": Family(
        qkv="attention_bias",
        out="attention_bias",
        qk_norm="full",
        experts=Experts(width="intermediate_size"),
    ),
    "qwen2_moe": Family(
        qkv="qkv_bias",
        window_every=1,
        experts=Experts(sparse=every_sparse_step, shared=shared_expert, shared_gate=True),
        defaults={"qkv_bias": True, "use_sliding_window": False},
    ),
    "qwen3_moe": Family(
        qkv="attention_bias",
        out="attention_bias",
        qk_norm="head",
        window_every=1,
        experts=Experts(sparse=every_sparse_step),
        defaults={"use_sliding_window": False},
    ),
    "gpt_oss": Family(
        qkv="attention_bias",
        out="attention_bias",
        sinks=True,
        experts=Experts(width="intermediate_size", biases=True, router_extra=lambda f: f.number("num_experts")),
        window_every=2,
        defaults={"attention_bias": True, "head_dim": 64},
    ),
    "deepseek_v2": Family(latent=True, experts=_DEEPSEEK, mlp="mlp_bias"),
    "deepseek_v3": Family(latent=True, experts=_DEEPSEEK),
    "glm4_moe_lite": Family(latent=True, experts=_DEEPSEEK),
    "glm4_moe": Family(qkv="attention_bias", experts=_DEEPSEEK, defaults={"head_dim": 128}),
    "ernie4_5_moe": Family(
        qkv="use_bias",
        out="use_bias",
        mlp="use_bias",
        tied=True,
        experts=Experts(
            sparse=_ernie_sparse,
            shared=lambda f: f.number("moe_intermediate_size") * f.number("moe_num_shared_experts", 2),
            router_extra=lambda f: f.number("num_experts"),
        ),
    ),
}
"""By `model_type`. Read from the modelling code of transformers 5.17; a test holds the counts to the built models."""
