"""The building blocks of layers: attention in its kinds, scans, MLPs, experts; as transformers 5.17 builds them."""

from llm_finetuning.planning.fields import Bias, Fields
from llm_finetuning.planning.shapes import Linear, Mixer, Mlp


def attention(
    f: Fields,
    *,
    qkv: Bias = False,
    out: Bias = False,
    qk_norm: str = "none",
    gated: bool = False,
    fused: str | None = None,
    window: int | None = None,
    sinks: bool = False,
) -> Mixer:
    """Build grouped-query softmax attention.

    Args:
        f: The model's config.
        qkv: Whether the maps to queries, keys and values have a bias.
        out: Whether the map back has one.
        qk_norm: `none`; `head`, one weight a channel of a head; or `full`, one a channel of all heads.
        gated: Whether the query map also makes a gate of the output (Qwen3-Next).
        fused: The name of one map that makes queries, keys and values; None for three.
        window: Tokens of a sliding window.
        sinks: Whether each head has a learned sink (gpt-oss).
    """
    hidden, heads, dim = f.hidden, f.number("num_attention_heads"), f.head_dim
    kv = f.number("num_key_value_heads", heads)
    queries, keys = heads * dim * (2 if gated else 1), kv * dim
    bias = f.bias(qkv)
    inward: tuple[Linear, ...]
    if fused:
        inward = (Linear(name=fused, inputs=hidden, outputs=queries + 2 * keys, bias=bias),)
    else:
        inward = tuple(
            Linear(name=name, inputs=hidden, outputs=outputs, bias=bias)
            for name, outputs in (("q_proj", queries), ("k_proj", keys), ("v_proj", keys))
        )
    norm = {"none": 0, "head": 2 * dim, "full": (heads + kv) * dim}[qk_norm]
    return Mixer(
        kind="attention",
        linears=(*inward, Linear(name="o_proj", inputs=heads * dim, outputs=hidden, bias=f.bias(out))),
        heads=heads,
        kv_heads=kv,
        key_dim=dim,
        value_dim=dim,
        window=window,
        qk_norm=norm,
        other=heads if sinks else 0,
        cache=2 * keys,
    )


def latent_attention(f: Fields) -> Mixer:
    """Build multi-head latent attention (DeepSeek-V2, section 2.1): the cache holds one compressed vector a token."""
    hidden, heads = f.hidden, f.number("num_attention_heads")
    rope, nope, value = f.number("qk_rope_head_dim"), f.number("qk_nope_head_dim"), f.number("v_head_dim")
    rank, query_rank = f.number("kv_lora_rank"), f.number("q_lora_rank", 0)
    bias, key = f.flag("attention_bias"), rope + nope
    if query_rank:
        queries: tuple[Linear, ...] = (
            Linear(name="q_a_proj", inputs=hidden, outputs=query_rank, bias=bias),
            Linear(name="q_b_proj", inputs=query_rank, outputs=heads * key),
        )
    else:
        queries = (Linear(name="q_proj", inputs=hidden, outputs=heads * key),)
    return Mixer(
        kind="latent",
        linears=(
            *queries,
            Linear(name="kv_a_proj_with_mqa", inputs=hidden, outputs=rank + rope, bias=bias),
            Linear(name="kv_b_proj", inputs=rank, outputs=heads * (nope + value)),
            Linear(name="o_proj", inputs=heads * value, outputs=hidden, bias=bias),
        ),
        heads=heads,
        kv_heads=heads,
        key_dim=key,
        value_dim=value,
        qk_norm=query_rank + rank,  # the norms sit between the low-rank maps
        latent=query_rank + rank + rope,
        cache=rank + rope,
    )


def delta(f: Fields, *, fused: bool) -> Mixer:
    """Build a gated delta rule (Qwen3-Next fuses its four inward maps into two, Qwen3.5 does not)."""
    hidden, kernel = f.hidden, f.number("linear_conv_kernel_dim")
    key_heads, value_heads = f.number("linear_num_key_heads"), f.number("linear_num_value_heads")
    key_dim, value_dim = f.number("linear_key_head_dim"), f.number("linear_value_head_dim")
    keys, values = key_heads * key_dim, value_heads * value_dim
    convolved = 2 * keys + values
    inward: tuple[tuple[str, int], ...]
    if fused:
        inward = (("in_proj_qkvz", convolved + values), ("in_proj_ba", 2 * value_heads))
    else:
        split = (("in_proj_qkv", convolved), ("in_proj_z", values))
        inward = (*split, ("in_proj_b", value_heads), ("in_proj_a", value_heads))
    return Mixer(
        kind="delta",
        linears=(
            *(Linear(name=name, inputs=hidden, outputs=outputs) for name, outputs in inward),
            Linear(name="out_proj", inputs=values, outputs=hidden),
        ),
        heads=value_heads,
        kv_heads=key_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        other=convolved * kernel + 2 * value_heads + value_dim,  # convolution, A and its step, the gated norm
        inner=convolved + values,
        state=convolved * (kernel - 1) + 2 * value_heads * key_dim * value_dim,  # the second is kept in fp32
    )


def mamba2(f: Fields, *, heads: int, head_dim: int, groups: int, state: int, kernel: int, bias: Bias) -> Mixer:
    """Build a Mamba-2 mixer (Bamba, Granite 4, Nemotron-H)."""
    hidden, inner = f.hidden, heads * head_dim
    convolved = inner + 2 * groups * state
    with_bias = f.bias(bias)
    conv_bias = convolved if f.flag("use_conv_bias", default=f.flag("mamba_conv_bias", default=True)) else 0
    return Mixer(
        kind="mamba",
        linears=(
            Linear(name="in_proj", inputs=hidden, outputs=inner + convolved + heads, bias=with_bias),
            Linear(name="out_proj", inputs=inner, outputs=hidden, bias=with_bias),
        ),
        heads=heads,
        key_dim=state,
        value_dim=head_dim,
        other=convolved * kernel + conv_bias + 3 * heads + inner,  # convolution; A, D and the step; the gated norm
        inner=inner + convolved,
        state=convolved * (kernel - 1) + 2 * inner * state,
    )


def mamba1(f: Fields) -> Mixer:
    """Build Jamba's Mamba mixer, with its norms of the step and of B and C."""
    hidden, state, kernel = f.hidden, f.number("mamba_d_state"), f.number("mamba_d_conv")
    inner = f.number("mamba_expand") * hidden
    rank = f.get("mamba_dt_rank")
    rank = -(-hidden // 16) if rank in (None, "auto") else int(rank)
    bias = f.flag("mamba_proj_bias")
    return Mixer(
        kind="mamba",
        linears=(
            Linear(name="in_proj", inputs=hidden, outputs=2 * inner, bias=bias),
            Linear(name="x_proj", inputs=inner, outputs=rank + 2 * state),
            Linear(name="dt_proj", inputs=rank, outputs=inner, bias=True),
            Linear(name="out_proj", inputs=inner, outputs=hidden, bias=bias),
        ),
        heads=1,
        key_dim=state,
        value_dim=inner,
        other=inner * (kernel + (1 if f.flag("mamba_conv_bias", default=True) else 0))
        + inner * (state + 1)
        + rank
        + 2 * state,
        inner=2 * inner,
        state=inner * (kernel - 1) + 2 * inner * state,
    )


def short_convolution(f: Fields) -> Mixer:
    """Build LFM2's gated short convolution."""
    hidden, kernel, bias = f.hidden, f.number("conv_L_cache"), f.flag("conv_bias")
    return Mixer(
        kind="conv",
        linears=(
            Linear(name="in_proj", inputs=hidden, outputs=3 * hidden, bias=bias),
            Linear(name="out_proj", inputs=hidden, outputs=hidden, bias=bias),
        ),
        other=hidden * kernel + (hidden if bias else 0),
        inner=3 * hidden,
        state=hidden * (kernel - 1),
    )


def mlp(hidden: int, width: int, *, bias: bool = False, gated: bool = True, fused: bool = False) -> Mlp:
    """Build a dense MLP: gate and up (one map where fused) and down, or up and down."""
    return Mlp(linears=mlp_linears(hidden, width, bias=bias, gated=gated, fused=fused), width=width, gated=gated)


def mlp_linears(hidden: int, width: int, *, bias: bool, gated: bool, fused: bool = False) -> tuple[Linear, ...]:
    """Return the maps of a dense MLP."""
    if gated and fused:
        inward: tuple[tuple[str, int], ...] = (("gate_up_proj", 2 * width),)
    elif gated:
        inward = (("gate_proj", width), ("up_proj", width))
    else:
        inward = (("up_proj", width),)
    return (
        *(Linear(name=name, inputs=hidden, outputs=outputs, bias=bias) for name, outputs in inward),
        Linear(name="down_proj", inputs=width, outputs=hidden, bias=bias),
    )


def experts(
    f: Fields,
    *,
    width: int,
    shared_width: int = 0,
    gated: bool = True,
    biases: bool = False,
    shared_bias: bool = False,
    router_extra: int = 0,
    shared_gate: bool = False,
    latent: int = 0,
) -> Mlp:
    """Build a mixture of experts, whose weights transformers 5 holds as one tensor a layer, not as `nn.Linear`s.

    Args:
        f: The model's config.
        width: Of one expert.
        shared_width: Of the expert every token goes through; 0 for none.
        gated: Whether an expert has a gate beside its up map.
        biases: Whether the experts have biases.
        shared_bias: Whether the shared expert has.
        router_extra: Parameters of the router beside its matrix.
        shared_gate: Whether a learned gate weighs the shared expert (Qwen2-MoE).
        latent: Width that tokens are projected to before the experts; 0 for none (Nemotron 3).
    """
    hidden, count, active = f.hidden, f.number("num_experts"), f.number("num_experts_per_tok")
    inputs, maps = latent or hidden, 3 if gated else 2
    linears = mlp_linears(hidden, shared_width, bias=shared_bias, gated=gated) if shared_width else ()
    if latent:
        linears += (
            Linear(name="fc1_latent_proj", inputs=hidden, outputs=latent, bias=shared_bias),
            Linear(name="fc2_latent_proj", inputs=latent, outputs=hidden, bias=shared_bias),
        )
    return Mlp(
        linears=linears,
        width=shared_width,
        gated=gated,
        experts=count,
        active=active,
        expert_width=width,
        expert_weights=maps * inputs * width,
        expert_biases=(maps - 1) * width + inputs if biases else 0,
        router=count * hidden + router_extra,
        other=hidden if shared_gate else 0,
    )
