"""What the forward pass keeps for the backward pass, layer by layer, in bytes.

For a layer of eager RMSNorm, SDPA and a gated MLP in 16 bits: `16h + 8i + 2(2 nq d + 2 k d) + 4 nq` a token, where `k`
is the number of key heads, or of query heads where a mask makes transformers repeat them. The same count by
Korthikanti et al. (2022), 34h, stands for fused norms and a GELU of 4h, and is half of this.
"""

from dataclasses import dataclass

from llm_finetuning.planning.job import BYTES, Job
from llm_finetuning.planning.shapes import Architecture, Layer, Linear, Mixer
from llm_finetuning.planning.states import adapted, beside

_NORMS_BEFORE_MAPS = 2  # the others, of Gemma and GLM, stand after a map: no map keeps their output
_NORM_OF_AN_OUTPUT = 6.0  # bytes a channel: the fp32 input and the normalised copy
_SPLIT_TOKENS = 16384  # of TRL's guide to long contexts (pull request 6846); Arctic's stretch is a row's width


@dataclass(frozen=True, slots=True)
class LayerNeeds:
    """Bytes of one layer on one device."""

    kept: float  # for the backward pass
    forward: float  # at most at once beside it, while the layer runs forward
    backward: float  # at most at once beside it, while its gradient is computed
    casts: float  # 16-bit copies of its 32-bit weights


def layer_needs(model: Architecture, layer: Layer, job: Job) -> LayerNeeds:
    """Return what one layer takes."""
    tokens, unit = job.tokens, job.compute_bytes
    stretch = _stretch(model, job)
    kept_mlp = (stretch if job.tiles == "recomputed" else tokens) * (
        _mlp(model, layer, job) + _adapters(layer.mlp.linears, job)
    )
    kept = tokens * (_norms(model, layer, job) + _mixer(layer.mixer, job) + _adapters(layer.mixer.linears, job))
    kept += kept_mlp + _square(layer.mixer, job)
    width = stretch * (layer.mlp.width + layer.mlp.active * layer.mlp.expert_width)
    width = max(width, tokens * layer.mixer.inner)
    mixing = _gathered(layer.mixer, job), tokens * _mixed(layer.mixer, job)
    backward = 2.0 * unit * width
    if job.adapter is not None and job.autocast and adapted(layer, job.adapter):
        backward += 2.0 * unit * width  # LoRA's own products, in float32 before they are added
    # Where the MLP is not at its widest, attention may be: what the MLP kept is gone by then.
    backward = max(backward, sum(mixing) - kept_mlp) + 2.0 * tokens * unit * model.hidden
    if job.casts:
        backward += tokens * 4 * model.hidden
    if job.attention == "eager" and layer.mixer.kind in ("attention", "latent"):
        square = 4.5 * layer.mixer.heads * job.rows * job.length**2 / job.sequence_shards
        backward = max(backward, square)
    largest = max((linear.weights for linear in layer.linears()), default=0)
    casts = 2.0 * sum(linear.weights for linear in layer.linears()) + 2.0 * layer.mlp.experts * layer.mlp.expert_weights
    if job.tuning == "qlora":
        backward += largest * job.compute_bytes  # the map that is being multiplied with, back in 16 or 32 bits
    elif job.tuning == "full":
        backward += largest * unit
    forward = max(3.0 * unit * width, sum(mixing)) + 2.0 * tokens * unit * model.hidden
    return LayerNeeds(kept, forward, backward, casts if job.casts and job.tuning != "qlora" else 0.0)


def _stretch(model: Architecture, job: Job) -> int:
    """Return the tokens that the MLP works on at once."""
    longest = {"none": job.tokens, "split": _SPLIT_TOKENS, "recomputed": model.hidden}
    return min(longest[job.tiles], job.tokens)


def _gathered(mixer: Mixer, job: Job) -> float:
    """Return the keys and values of the whole sequence, which ring attention gathers before it turns round them.

    torch's `_AllGatherRotater`, the default of its context parallelism and of Accelerate's `cp_comm_strategy`.
    """
    if job.sequence_shards == 1 or mixer.kind not in ("attention", "latent"):
        return 0.0
    return float(job.compute_bytes * job.rows * job.length * mixer.kv_heads * (mixer.key_dim + mixer.value_dim))


def _mixed(mixer: Mixer, job: Job) -> float:
    """Return the bytes a token of attention's gradients; a ring sums them in float32 beside the newest part."""
    if mixer.kind not in ("attention", "latent"):
        return 0.0
    widths = (mixer.heads + mixer.kv_heads) * mixer.key_dim + (mixer.heads + mixer.kv_heads) * mixer.value_dim
    return float(widths * (job.compute_bytes + (4 if job.sequence_shards > 1 else 0)))


def checkpoint(model: Architecture, job: Job) -> float:
    """Return the input of one layer, which is all that checkpointing keeps of it."""
    return job.tokens * model.hidden * job.stream_bytes


def final_norm(model: Architecture, job: Job) -> float:
    """Return what the norm before the head keeps, with the hidden states themselves."""
    trained = job.tuning in ("full", "norms")
    each = (12 if trained or job.autocast else 8) if job.wide else 8 if trained else 6
    return float(job.tokens * model.hidden * (4 if job.fused_kernels else each))


def _norms(model: Architecture, layer: Layer, job: Job) -> float:
    """Return the bytes a token of the norms, with the inputs of the maps that follow."""
    if job.fused_kernels or layer.native_norm:
        saved = job.stream_bytes * (2.0 if job.tuning in ("full", "norms") else 1.0)
    elif not job.wide:
        # a frozen map keeps no input (2 bytes), a frozen weight no normalised copy (2 bytes)
        saved = {"full": 8.0, "norms": 6.0}.get(job.tuning, 4.0)
    elif job.autocast:
        saved = 6.0 if job.frozen else 13.0  # 10h more over two norms: each of five maps casts its input for itself
    else:
        saved = 4.0 if job.frozen else 12.0  # a frozen weight keeps no normalised copy, a frozen map no input
    before_maps = min(layer.norms, _NORMS_BEFORE_MAPS)
    return (before_maps * saved + (layer.norms - before_maps) * _NORM_OF_AN_OUTPUT) * model.hidden


def _mixer(mixer: Mixer, job: Job) -> float:
    unit = job.compute_bytes
    if mixer.kind == "none":
        return 0.0
    if mixer.kind in ("delta", "mamba", "conv"):
        return unit * (3.0 * mixer.inner) + (8.0 * mixer.heads * mixer.value_dim if mixer.kind != "conv" else 0)
    repeated = (job.masked or job.attention == "eager") and mixer.kv_heads > 1  # one head is repeated as a view
    key_heads = mixer.heads if repeated else mixer.kv_heads
    queries, keys = mixer.heads * mixer.key_dim, key_heads * mixer.key_dim
    values, out = key_heads * mixer.value_dim, mixer.heads * mixer.value_dim
    kept = unit * (queries + keys + values + out) + 4.0 * mixer.heads
    if mixer.qk_norm and mixer.kind == "attention":
        eager = 8.0 if job.wide and not job.autocast else 6.0
        if job.frozen:
            eager -= 2.0
        kept += (eager * mixer.key_dim + 4) * (mixer.heads + mixer.kv_heads) * (0.5 if job.fused_kernels else 1)
    return kept + 8.0 * mixer.latent


def _mlp(model: Architecture, layer: Layer, job: Job) -> float:
    mlp, unit = layer.mlp, job.compute_bytes
    factor = (4 if mlp.gated else 2) - (1 if job.fused_kernels and mlp.gated else 0)
    frozen = 1 if job.frozen else 0  # a frozen map back keeps no input
    kept = float(unit * (factor - frozen) * mlp.width)
    if mlp.experts:
        kept += mlp.active * unit * (factor * mlp.expert_width + (2 - frozen) * model.hidden) + 8.0 * mlp.experts
    if job.saves_4bit_inputs:
        attention_out = layer.mixer.heads * layer.mixer.value_dim
        kept += unit * (2 * model.hidden + attention_out + mlp.width)
    return kept


def _adapters(linears: tuple[Linear, ...], job: Job) -> float:
    """Return the bytes a token that LoRA keeps beside maps: their inputs and its narrow products."""
    if job.adapter is None:
        return 0.0
    maps = beside(linears, job.adapter)
    inputs = sum(linear.inputs for linear in maps)
    width = BYTES[job.adapter.dtype]
    narrow = float((2 if job.autocast else width) * job.adapter.rank * len(maps))
    dropped = job.adapter.dropout > 0
    if job.autocast:
        kept = 2.0 * inputs
    elif job.adapter.dtype == "float32":
        alike = job.wide and not dropped  # 32 bits need no copy of their own
        kept = 4.0 * (_distinct(maps) - _kept_by_attention(maps) if alike else inputs)
    else:
        kept = 2.0 * (inputs if dropped else _distinct(maps))
    if dropped:
        kept += inputs * (1.0 if job.device == "cuda" else width)  # a mask, or on the CPU the noise itself
    return kept + narrow


def _distinct(maps: tuple[Linear, ...]) -> int:
    """Return the widths of the inputs, one input that several maps share counted once."""
    shared = {"q_proj": "in", "k_proj": "in", "v_proj": "in", "gate_proj": "mlp", "up_proj": "mlp"}
    return sum({shared.get(linear.name, linear.name): linear.inputs for linear in maps}.values())


def _kept_by_attention(maps: tuple[Linear, ...]) -> int:
    """Return the width of what attention gives on to its map back, and keeps itself."""
    return next((linear.inputs for linear in maps if linear.name == "o_proj"), 0)


def _square(mixer: Mixer, job: Job) -> float:
    """Return what grows with the square of the length: the mask as a bias, and eager attention's own matrix."""
    if mixer.kind not in ("attention", "latent"):
        return 0.0
    size = job.rows * job.length**2 / job.sequence_shards
    if job.attention == "eager":
        return 5.9 * mixer.heads * size
    return job.compute_bytes * size if job.masked else 0.0
