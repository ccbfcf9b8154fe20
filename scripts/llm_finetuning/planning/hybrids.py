"""Families whose layers differ in what mixes tokens, and Falcon, whose configs say the same things otherwise."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from llm_finetuning.planning import blocks, dense
from llm_finetuning.planning.dense import Experts, Family
from llm_finetuning.planning.fields import Fields
from llm_finetuning.planning.shapes import Layer, Mixer, Mlp, UnknownShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid:
    """A family with its own way of laying out layers."""

    layers: Callable[[Fields], tuple[Layer, ...]]
    tied: bool = False
    native_norm: bool = False
    norm_width: int = 1
    defaults: Mapping[str, Any] = field(default_factory=dict)


_QWEN_NEXT = Family(
    qkv="attention_bias",
    out="attention_bias",
    qk_norm="head",
    gated_attention=True,
    experts=Experts(sparse=dense.every_sparse_step, shared=dense.shared_expert, shared_gate=True),
)
_QWEN_NEXT_DEFAULTS = {
    "head_dim": 256,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
}
_NEMOTRON = {"M": "linear_attention", "-": "mlp", "*": "full_attention", "E": "moe"}


def _every_fourth_attends(f: Fields) -> list[str]:
    every = max(f.number("full_attention_interval", 4), 1)
    return f.layer_types() or [
        "full_attention" if (index + 1) % every == 0 else "linear_attention" for index in range(f.layers)
    ]


def _qwen_next(family: Family, *, fused: bool) -> Callable[[Fields], tuple[Layer, ...]]:
    def build(f: Fields) -> tuple[Layer, ...]:
        return tuple(
            dense.layer(family, f, index, blocks.delta(f, fused=fused) if kind == "linear_attention" else None)
            for index, kind in enumerate(_every_fourth_attends(f))
        )

    return build


def _jamba(f: Fields) -> tuple[Layer, ...]:
    expert_period, attention_period = f.number("expert_layer_period", 2), f.number("attn_layer_period", 8)
    expert_offset, attention_offset = f.number("expert_layer_offset", 1), f.number("attn_layer_offset", 4)
    family = Family(
        experts=Experts(
            sparse=lambda f, index: f.number("num_experts") > 1 and index % expert_period == expert_offset,
            width="intermediate_size",
        )
    )
    return tuple(
        dense.layer(family, f, index, None if index % attention_period == attention_offset else blocks.mamba1(f))
        for index in range(f.layers)
    )


def _bamba_mixer(f: Fields) -> Mixer:
    heads = f.number("mamba_n_heads")
    inner = f.number("mamba_expand", 2) * f.hidden
    return blocks.mamba2(
        f,
        heads=heads,
        head_dim=inner // max(heads, 1),
        groups=f.number("mamba_n_groups", 1),
        state=f.number("mamba_d_state"),
        kernel=f.number("mamba_d_conv", 4),
        bias="mamba_proj_bias",
    )


def _bamba(f: Fields) -> tuple[Layer, ...]:
    attending = f.get("attn_layer_indices") or ()
    family = Family(qkv="attention_bias", out="attention_bias", mlp="mlp_bias")
    return tuple(
        dense.layer(family, f, index, None if index in attending else _bamba_mixer(f)) for index in range(f.layers)
    )


def _granite_hybrid(f: Fields) -> tuple[Layer, ...]:
    attention = Family(qkv="attention_bias", out="attention_bias")
    kinds = f.layer_types() or ["linear_attention"] * f.layers
    width, count = f.number("shared_intermediate_size", 1024), f.number("num_experts", 0)
    shared = blocks.mlp_linears(f.hidden, width, bias=False, gated=True, fused=True)
    mlp = Mlp(linears=shared, width=width)
    if count:
        mlp = replace(blocks.experts(f, width=f.number("intermediate_size")), linears=shared, width=width)
    return tuple(
        replace(
            dense.layer(attention, f, index, _bamba_mixer(f) if kind == "linear_attention" else None),
            mlp=mlp,
        )
        for index, kind in enumerate(kinds)
    )


def _lfm2(f: Fields) -> tuple[Layer, ...]:
    width = f.number("block_ff_dim", f.number("intermediate_size"))
    if f.flag("block_auto_adjust_ff_dim", default=True):
        multiple = max(f.number("block_multiple_of", 256), 1)
        width = int((f.get("block_ffn_dim_multiplier") or 1.0) * int(2 * width / 3))
        width = multiple * -(-width // multiple)
    kinds = f.layer_types()
    if not kinds:
        attending = f.get("full_attn_idxs")
        attending = range(f.layers) if attending is None else attending
        kinds = ["full_attention" if index in attending else "conv" for index in range(f.layers)]
    family = Family(qk_norm="head")
    mlp = blocks.mlp(f.hidden, width)
    return tuple(
        replace(
            dense.layer(family, f, index, None if kind == "full_attention" else blocks.short_convolution(f)), mlp=mlp
        )
        for index, kind in enumerate(kinds)
    )


def _nemotron(f: Fields) -> tuple[Layer, ...]:
    pattern = f.get("hybrid_override_pattern")
    kinds = f.layer_types() or [_NEMOTRON.get(letter, letter) for letter in pattern or ""]
    if not kinds:
        f.number("hybrid_override_pattern")  # told as missing
    return tuple(_nemotron_layer(f, kind) for kind in kinds)


def _nemotron_layer(f: Fields, kind: str) -> Layer:
    mixer, mlp = Mixer(kind="none"), Mlp()
    if kind == "full_attention":
        mixer = blocks.attention(f)
    elif kind == "linear_attention":
        mixer = blocks.mamba2(
            f,
            heads=f.number("mamba_num_heads"),
            head_dim=f.number("mamba_head_dim"),
            groups=f.number("n_groups"),
            state=f.number("ssm_state_size"),
            kernel=f.number("conv_kernel", 4),
            bias="use_bias",
        )
    elif kind == "mlp":
        mlp = blocks.mlp(f.hidden, f.number("intermediate_size"), bias=f.flag("mlp_bias"), gated=False)
    elif kind == "moe":
        mlp = blocks.experts(
            f,
            width=f.number("moe_intermediate_size"),
            shared_width=f.number("moe_shared_expert_intermediate_size"),
            gated=False,
            shared_bias=f.flag("mlp_bias"),
            latent=f.number("moe_latent_size", 0),
        )
    else:
        raise UnknownShape(f"config.json of a nemotron_h: a layer of the kind {kind!r} is not known here")
    return Layer(mixer=mixer, mlp=mlp, norms=1, norm_parameters=f.hidden)


def _falcon(f: Fields) -> tuple[Layer, ...]:
    new, multi_query = f.flag("new_decoder_architecture"), f.flag("multi_query", default=True)
    heads = f.number("num_attention_heads")
    kv = f.number("num_kv_heads", heads) if new else 1 if multi_query else heads
    parallel = f.flag("parallel_attn", default=True)
    norms = f.number("num_ln_in_parallel_attn", 2 if new else 1) if parallel else 2
    shape = Fields(
        {
            "hidden_size": f.hidden,
            "num_attention_heads": heads,
            "num_key_value_heads": kv,
            "bias": f.flag("bias"),
        },
        {},
    )
    mixer = blocks.attention(shape, qkv="bias", out="bias", fused="query_key_value")
    mlp = blocks.mlp(f.hidden, f.number("ffn_hidden_size", 4 * f.hidden), bias=f.flag("bias"), gated=False)
    one = Layer(mixer=mixer, mlp=mlp, norms=norms, norm_parameters=2 * norms * f.hidden, native_norm=True)
    return (one,) * f.layers


HYBRIDS: Mapping[str, Hybrid] = {
    "qwen3_next": Hybrid(layers=_qwen_next(_QWEN_NEXT, fused=True), defaults=_QWEN_NEXT_DEFAULTS),
    "qwen3_5_text": Hybrid(
        layers=_qwen_next(replace(_QWEN_NEXT, experts=None), fused=False),
        defaults={**_QWEN_NEXT_DEFAULTS, "vocab_size": 248320},
    ),
    "qwen3_5_moe_text": Hybrid(
        layers=_qwen_next(_QWEN_NEXT, fused=False), defaults={**_QWEN_NEXT_DEFAULTS, "vocab_size": 248320}
    ),
    "jamba": Hybrid(layers=_jamba),
    "bamba": Hybrid(layers=_bamba),
    "granitemoehybrid": Hybrid(layers=_granite_hybrid),
    "lfm2": Hybrid(layers=_lfm2, tied=True, defaults={"conv_L_cache": 3}),
    "nemotron_h": Hybrid(layers=_nemotron),
    "falcon": Hybrid(layers=_falcon, tied=True, native_norm=True, norm_width=2),
}
"""By `model_type`, as `dense.FAMILIES`."""
