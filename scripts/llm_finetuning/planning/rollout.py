"""What generation takes on the trainer's device: vLLM's pool and its residue asleep, or the cache of `generate`."""

from dataclasses import dataclass

from llm_finetuning.planning.job import BYTES, GIB, Job, Quantity, quantity
from llm_finetuning.planning.shapes import Architecture
from llm_finetuning.planning.states import NF4, quantized_weights

BATCHED_TOKENS = 4096  # what TRL 1.16 hands vLLM as max_num_batched_tokens


@dataclass(frozen=True, slots=True)
class Pool:
    """vLLM beside the trainer."""

    size: float  # bytes it holds while awake: a share of the whole device, whatever is free
    asleep: float  # bytes it holds while the trainer trains
    weights: float  # bytes of its own copy
    needs: tuple[Quantity, ...]  # what has to fit into it
    starts: bool | None  # whether all of that fits; None where the device's memory is not known
    sequences: int  # of the longest length that its cache holds at once


def engine_weights(model: Architecture, job: Job) -> float:
    """Return the bytes of vLLM's copy of the weights, on one device of its tensor-parallel group."""
    each = BYTES[job.rollout.weights]
    if job.rollout.quantized:
        quantized = quantized_weights(model, experts=True)
        size = quantized * NF4 + (model.total - quantized) * each
    else:
        size = float(model.total * each)
    return size / job.rollout.tensor_parallel


def cache_bytes(model: Architecture, tokens: int, element: int = 2) -> float:
    """Return the KV cache of one sequence, in bytes."""
    return float(model.cache(tokens) * element)


def pool(model: Architecture, job: Job, device_gib: float | None) -> Pool:
    """Return what a colocated vLLM holds and needs."""
    rollout = job.rollout
    weights = engine_weights(model, job)
    per_sequence = cache_bytes(model, rollout.context or job.length, rollout.cache_bytes) / rollout.tensor_parallel
    needs = _needs(model, weights, per_sequence)
    asleep = 1.2 * GIB
    if device_gib is None:
        size = sum(need.gib for need in needs) * GIB
        return Pool(size, asleep, weights, needs, None, 0)
    size = rollout.utilization * device_gib * GIB
    room = size - sum(need.gib for need in needs[:-1]) * GIB
    least = sum(need.low for need in needs) * GIB
    return Pool(
        size, asleep if rollout.sleep else size, weights, needs, least <= size, max(int(room // per_sequence), 0)
    )


def _needs(model: Architecture, weights: float, per_sequence: float) -> tuple[Quantity, ...]:
    """Return what has to fit into the pool, the cache of one sequence last.

    The engine measures the peak of a forward pass over `max_num_batched_tokens`; its own logs show 0.3 to 1.5 GiB for
    dense models. The graphs show 0.2 to 1.1 GiB; what lies outside torch, 0.03 to 0.1 GiB.
    """
    rows = min(BATCHED_TOKENS, 256)
    width = max((layer.mlp.width + layer.mlp.active * layer.mlp.expert_width for layer in model.layers), default=0)
    profile = (
        BATCHED_TOKENS * (4.0 * width + 8.0 * model.hidden) + 16.0 * rows * model.vocabulary
    )  # logits, softmax, a sort
    return (
        quantity("vLLM weights", weights, "parameters x bytes / tensor-parallel devices", 0.02),
        quantity("vLLM activations", profile, "4,096 tokens x (4 i + 8 h) and 16 B x 256 rows x vocabulary", 0.6),
        quantity("vLLM graphs", 0.5 * GIB, "0.2 to 1.1 GiB in vLLM's own logs", 0.8),
        quantity("vLLM outside torch", 0.07 * GIB, "0.03 to 0.1 GiB in vLLM's own logs", 0.6),
        quantity("KV cache, one sequence", per_sequence, "2 x KV heads x head width x bytes x layers x tokens", 0.01),
    )


def generate_bytes(model: Architecture, job: Job) -> float:
    """Return what transformers' `generate` takes beside the weights: the cache, and logits with a sorted copy."""
    batch = job.rollout.batch or job.batch
    cache = batch * cache_bytes(model, job.length, job.compute_bytes)
    return (
        cache
        + 12.0 * batch * model.vocabulary
        + (model.linear_weights * 2.0 if job.casts and job.tuning != "qlora" else 0.0)
    )
