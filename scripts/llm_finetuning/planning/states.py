"""What stays on the device between the steps: weights, adapter, gradients, optimizer states, a reference model."""

from dataclasses import dataclass

from llm_finetuning.planning.job import BYTES, Adapter, Job
from llm_finetuning.planning.shapes import Architecture, Layer, Linear

NF4 = 0.5 + 4 / 64  # bytes a weight: 4 bits, and a float32 maximum for every 64 (QLoRA, section 3)
NF4_DOUBLE = 0.5 + 1 / 64 + 4 / 64 / 256  # the maxima in 8 bits, with a float32 of their own for every 256

_STATES = {"adamw": 2, "adam": 2, "lion": 1, "sgd": 0, "adafactor": 0}


@dataclass(frozen=True, slots=True)
class States:
    """Bytes of one device, before activations."""

    weights: float
    adapter: float
    reference: float
    gradients: float  # of every trained parameter
    optimizer: float
    transient: float  # what the optimizer's step takes beside its states
    gathered: float  # a layer whose shards are together, and the one fetched ahead


def adapted(layer: Layer, adapter: Adapter | None) -> tuple[Linear, ...]:
    """Return the maps of a layer that LoRA stands beside; a fused map counts for the ones it joins."""
    return () if adapter is None else beside(layer.linears(), adapter)


def beside(linears: tuple[Linear, ...], adapter: Adapter) -> tuple[Linear, ...]:
    """Return those of some maps that LoRA stands beside."""
    if adapter.targets is None:
        return linears
    joined = {"qkv_proj": "q_proj", "query_key_value": "q_proj", "c_attn": "q_proj", "gate_up_proj": "gate_proj"}
    return tuple(
        linear for linear in linears if linear.name in adapter.targets or joined.get(linear.name) in adapter.targets
    )


def adapter_parameters(model: Architecture, adapter: Adapter | None) -> int:
    """Return the parameters of LoRA: rank times inputs and outputs of every adapted map."""
    rank = adapter.rank if adapter else 0
    return sum(rank * (m.inputs + m.outputs) for layer in model.layers for m in adapted(layer, adapter))


def whole_parameters(model: Architecture, adapter: Adapter | None) -> int:
    """Return the parameters of embedding and head that are trained whole beside an adapter."""
    sizes = {"embed_tokens": model.embedding, "lm_head": model.head}
    return sum(sizes.get(name, 0) for name in adapter.whole) if adapter else 0


def quantized_weights(model: Architecture, *, experts: bool) -> int:
    """Return how many weights 4-bit loading takes: the maps in the layers, never embedding or head.

    Experts count where they are `nn.Linear`s, as in checkpoints of Unsloth and in transformers before 5.
    """
    return model.linear_weights + (model.expert_weights if experts else 0)


def weight_bytes(model: Architecture, job: Job) -> float:
    """Return the bytes of the loaded policy, not sharded."""
    if job.tuning != "qlora":
        return model.total * job.weight_bytes
    quantized = quantized_weights(model, experts=job.quantized_experts)
    each = NF4_DOUBLE if job.double_quantization else NF4
    return quantized * each + (model.total - quantized) * job.weight_bytes


def trained(model: Architecture, job: Job) -> tuple[int, int]:
    """Return how many parameters of the base and of the adapter are trained."""
    if job.tuning == "full":
        unused = 0 if model.tied or job.loss != "hidden" else model.head
        return model.total - model.vision - unused, 0
    if job.tuning == "norms":
        counts = model.parameters()
        return counts.get("norms", 0) + counts.get("qk_norm", 0), 0
    if job.tuning == "bias":
        return sum(layer.mixer.kv_heads * layer.mixer.value_dim for layer in model.layers), 0
    return 0, adapter_parameters(model, job.adapter) + whole_parameters(model, job.adapter)


def states(model: Architecture, job: Job) -> States:
    """Return the states of one device."""
    base, added = trained(model, job)
    adapter = _adapter_bytes(model, job)
    weights = weight_bytes(model, job)
    moments, transient = _optimizer(model, job, base, added)
    gradients = base * job.weight_bytes + adapter
    reference = weights if job.reference else 0.0
    share, gathered = job.shards, 0.0
    if job.sharding == "zero3" and (job.autocast or not job.wide) and job.tuning == "full":
        # DeepSpeed keeps 16-bit weights and gradients, and a 32-bit master with 32-bit moments in its optimizer.
        weights, gradients = model.total * 2.0, base * 2.0
        moments, transient = (0.0 if job.first_step else base * 8.0) + base * 4.0, 0.0
        reference = weights if job.reference else 0.0
    if job.sharding in ("zero3", "fsdp2"):
        largest = max((sum(count for _, count in layer.parameters()) for layer in model.layers), default=0)
        gathered = 2.0 * largest * job.compute_bytes + model.head * job.compute_bytes * (1 if model.tied else 2)
        if job.sharding == "zero3":
            gathered += 2 * 5e8 * 2  # a bucket to reduce gradients in and one in flight, 5e8 elements by default
    if job.hosted:
        weights = adapter = reference = gradients = moments = transient = 0.0
    return States(
        weights=weights / share,
        adapter=adapter / share,
        reference=reference / share,
        gradients=gradients / share,
        optimizer=moments / share,
        transient=transient / share,
        gathered=gathered,
    )


def _adapter_bytes(model: Architecture, job: Job) -> float:
    if job.adapter is None or job.tuning not in ("lora", "qlora"):
        return 0.0
    narrow, whole = adapter_parameters(model, job.adapter), whole_parameters(model, job.adapter)
    return float(narrow * BYTES[job.adapter.dtype] + whole * BYTES["float32"])


def _optimizer(model: Architecture, job: Job, base: int, added: int) -> tuple[float, float]:
    """Return the bytes of optimizer states, and of what its step takes beside them.

    The foreach AdamW makes one copy of every second moment for its square root; the fused one none. 8-bit states are
    two bytes a parameter and an absolute maximum a block, but the Trainer registers embeddings for 32 bits.
    """
    name = job.optimizer.lower()
    whole = base * job.weight_bytes + _adapter_bytes(model, job)
    moments = next((count for start, count in _STATES.items() if start in name), 2)
    if "8bit" in name:
        embeds = job.tuning == "full" or (job.adapter is not None and "embed_tokens" in job.adapter.whole)
        wide = model.embedding if embeds else 0
        states_bytes = (base - wide + added) * moments * 1.016 + wide * moments * 4
        transient = 0.0
    else:
        states_bytes = float(whole * moments)
        transient = float(whole) if "adam" in name and "fused" not in name else 0.0
    if job.optimizer_in_backward:
        transient = 0.0
    return (0.0 if job.first_step else states_bytes), transient
