"""How long training takes on one device: the products of its passes, the memory that they move, their launches.

Products are 2 operations a weight and token forward and 4 backward (Kaplan et al., 2020); frozen weights need 2
backward, checkpointing 2 more forward. Between the products lie norms, gates and casts, which read and write what
`activations` counts; few tokens leave the host behind, which launches every operation.
"""

from dataclasses import dataclass

from llm_finetuning.planning import activations, decode
from llm_finetuning.planning.decode import attention_flops, expert_parameters
from llm_finetuning.planning.job import BYTES, Job
from llm_finetuning.planning.shapes import Architecture
from llm_finetuning.planning.states import NF4, quantized_weights, trained, weight_bytes
from llm_finetuning.planning.time_rates import EXPERTS_SHARE, Rates

TRAFFIC = 2.0
"""How often what the forward pass keeps of a layer is moved by each pass: written and read. Fitted."""

LOGIT_BYTES = 12.0
"""Bytes moved for one kept token and entry of the vocabulary, forward and backward."""

ADAPTER_LAUNCHES, QUANTIZED_LAUNCHES = 2.0, 1.5
"""Launches of a layer with adapters beside all its maps, and with 4-bit maps, in those of a plain one: LitGPT's times
of 7B and 13B models with LoRA, and of 7B in 4 bits, at a hundred tokens. Fitted."""

BACKWARD_LAUNCHES = 2.0
ADAMW_MOVES = 7.0  # weight, gradient and two moments read, all but the gradient written
FOREACH_MOVES = 2.5  # times as many where each operation of the update passes over all weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """Seconds of one micro-batch on one device."""

    scoring: float  # forward alone, without gradients
    training: float  # forward, recomputed where checkpointed, and backward
    host: float  # of `training`, what the host needs for its launches
    products: float  # of `training`, the arithmetic


def products(model: Architecture, job: Job) -> float:
    """Return the operations of one forward pass over a micro-batch, experts at the rate of dense products."""
    experts = expert_parameters(model, active=True)
    body = model.active - experts - model.head + experts / EXPERTS_SHARE
    sequences = job.tokens * (2.0 * body + attention_flops(model, job.length) * (2 if job.masked else 1))
    return sequences + 2.0 * model.head * _head_rows(job)


def _head_rows(job: Job) -> float:
    return 0.0 if job.loss == "hidden" else float(job.logit_rows)


def passes(model: Architecture, job: Job, rates: Rates) -> Passes:
    """Return what the passes over one micro-batch take."""
    forward = products(model, job)
    head = 2.0 * model.head * _head_rows(job)
    again = forward - head if job.checkpointing else 0.0
    backward = (2.0 if job.tuning == "full" else 1.0) * forward
    _, adapter = trained(model, job)
    backward += 6.0 * adapter * job.tokens
    arithmetic = (forward + again + backward) / rates.arithmetic
    runs = 3.0 if job.checkpointing else 2.0
    reads = runs + (1.0 if job.tuning == "full" else 0.0)  # a gradient is written where a frozen weight is read alone
    moved = kept_bytes(model, job) * TRAFFIC
    logits = LOGIT_BYTES * _head_rows(job) * model.vocabulary
    weights = weight_traffic(model, job)
    memory = (reads * weights + runs * moved + logits) / rates.bandwidth
    gathered = 2.0 * model.total / rates.link_bytes_s if job.sharding in ("zero3", "fsdp2") else 0.0
    launched = launches(model, job) * rates.launch_s
    host = launched * (runs - 1 + BACKWARD_LAUNCHES)
    device = arithmetic + memory + gathered * runs
    scoring = forward / rates.arithmetic + (weights + moved + logits / 3) / rates.bandwidth + gathered
    return Passes(
        scoring=max(scoring, launched),
        training=max(device, host),
        host=host,
        products=arithmetic,
    )


def kept_bytes(model: Architecture, job: Job) -> float:
    """Return the bytes of what the layers' operations hand on to each other, as for an unfrozen model."""
    return sum(activations.layer_needs(model, layer, job).kept for layer in model.layers)


def weight_traffic(model: Architecture, job: Job) -> float:
    """Return the bytes that one pass moves of the weights; what is cast or unpacked goes to memory and back."""
    dense = model.total - (model.embedding if not model.tied else 0)
    if job.tuning == "qlora":
        packed = quantized_weights(model, experts=job.quantized_experts)
        return packed * (NF4 + 2.0 * job.compute_bytes) + (dense - packed) * job.weight_bytes
    each = job.weight_bytes + (4.0 if job.casts else 0.0)
    return float(dense * each)


def launches(model: Architecture, job: Job) -> float:
    """Return the launches of one forward pass, in those of a plain layer."""
    factor = 1.0
    if job.adapter is not None and job.tuning in ("lora", "qlora"):
        maps = [linear for layer in model.layers for linear in layer.linears()]
        wanted = job.adapter.targets
        beside = len(maps) if wanted is None else sum(linear.name in wanted for linear in maps)
        factor += (ADAPTER_LAUNCHES - 1) * beside / max(len(maps), 1)
    if job.tuning == "qlora":
        factor *= QUANTIZED_LAUNCHES
    return factor * decode.launches(model) * (0.5 if job.fused_kernels else 1.0)


def optimizer_step(model: Architecture, job: Job, rates: Rates) -> float:
    """Return the seconds of one optimizer step, which reads and writes the trained weights' states, on one shard."""
    base, added = trained(model, job)
    wide = BYTES[job.adapter.dtype] if job.adapter else 0
    each = 4.0 if job.sharding == "zero3" else float(job.weight_bytes)
    size = base * each + added * wide
    name = job.optimizer.lower()
    moves = ADAMW_MOVES
    if "8bit" in name:
        size, moves = base * job.weight_bytes + added * wide, 4.0
    elif "adam" in name and "fused" not in name:
        moves *= FOREACH_MOVES
    elif "sgd" in name or "adafactor" in name:
        moves = 3.0
    clipped = size  # the norm of all gradients reads them once more
    return (size * moves + clipped) / job.shards / rates.bandwidth


def policy_bytes(model: Architecture, job: Job) -> float:
    """Return the bytes of the policy as loaded, on all devices."""
    return weight_bytes(model, job)
