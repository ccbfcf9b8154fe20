"""How long rollouts take: the weights and the cache that each step reads, the arithmetic of its batch, and its launch.

One step of decoding gives every sequence one token. It reads the weights once, whatever the batch, and the cache of
every sequence; of a mixture of experts it reads the experts that some sequence goes through. Below a hundred or so
sequences that decides, then the arithmetic does; a small model waits for its launches.
"""

import math
from dataclasses import dataclass
from typing import Literal

from llm_finetuning.planning.shapes import Architecture
from llm_finetuning.planning.time_rates import EXPERTS_SHARE, MIXTURE_LAUNCHES, Rates

Bound = Literal["bandwidth", "arithmetic", "launches"]

EXPERT_SPREAD = 0.6
"""How many sequences of a batch choose their experts for themselves: those of one batch are about similar things and
their choices overlap. gpt-oss-120b on DGX Spark at 4 to 256 sequences. Fitted."""

LENGTH_SPREAD = 0.4
"""Standard deviation of the lengths of a batch's completions, as a share of their mean, where none were measured."""

SLICES = 16  # of a rollout, over which the batch shrinks


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The model as it is kept and run while it generates; bytes are those of one weight."""

    engine: Literal["vllm", "transformers"] = "vllm"
    maps: float = 2.0  # of attention and MLP
    experts: float = 2.0
    head: float = 2.0
    moved: float = 0.0  # more that one weight moves on its way to the product: unpacked or cast, written and read again
    graphs: bool = True  # CUDA graphs replay a step
    launches: float = 1.0  # of one layer, in those of a plain one: adapters and 4-bit maps bring their own
    tensor_parallel: int = 1
    link_s: float | None = None  # of an all-reduce; None for what the card's own machine takes
    cache: float = 2.0  # bytes of an element
    shares_prompts: bool = True  # a prompt is computed once for all its completions
    arithmetic: float = 1.0  # of the 16-bit rate; 2 for FP8 and 4 for FP4 arithmetic
    sequences: int | None = None  # that the cache holds at once; None for as many as are drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of decoding."""

    seconds: float
    weights: float  # bytes read
    cache: float  # bytes read
    bound: Bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What one engine is to draw."""

    sequences: int
    prompts: int  # different ones
    prompt: float  # tokens of a prompt, in the mean
    mean: float  # tokens of a completion
    longest: float  # tokens of the longest completion, which decides when all are drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutTime:
    """How long one engine draws."""

    prefill: float
    decode: float
    bound: Bound  # of most of the decoding
    first: Step  # with the whole batch

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.prefill + self.decode


def expert_parameters(model: Architecture, *, active: bool) -> int:
    """Return the parameters of the experts that a token goes through, or of all of them."""
    return sum((layer.mlp.active if active else layer.mlp.experts) * layer.mlp.expert_weights for layer in model.layers)


def touched(experts: int, active: int, sequences: float) -> float:
    """Return how many of a layer's experts a batch goes through: of E, k a token, E (1 - (1 - k/E)^n)."""
    if not experts:
        return 0.0
    independent = 1 + EXPERT_SPREAD * (max(sequences, 1.0) - 1)
    return float(experts * (1 - (1 - active / experts) ** independent))


def weights_read(model: Architecture, served: Serving, sequences: float) -> float:
    """Return the bytes of weights that one step moves, on all devices of the engine together."""
    experts = sum(
        touched(layer.mlp.experts, layer.mlp.active, sequences) * layer.mlp.expert_weights for layer in model.layers
    )
    maps = max(model.active - expert_parameters(model, active=True) - model.head, 0)
    return maps * (served.maps + served.moved) + experts * (served.experts + served.moved) + model.head * served.head


def step(model: Architecture, rates: Rates, served: Serving, sequences: float, context: float) -> Step:
    """Return what one step of a batch takes.

    Args:
        model: The architecture.
        rates: What one device reaches.
        served: How it is kept and run.
        sequences: In the batch.
        context: Tokens of one sequence so far.
    """
    devices = served.tensor_parallel
    weights = weights_read(model, served, sequences) / devices
    cache = sequences * model.cache(int(context)) * served.cache / devices
    memory = (weights + cache) / rates.bandwidth
    arithmetic = sequences * flops(model) / devices / (rates.arithmetic * served.arithmetic)
    layers = len(model.layers)
    link_s = rates.link_s if served.link_s is None else served.link_s
    links = 2 * layers * link_s if devices > 1 else 0.0
    host = served.launches * launches(model) * rates.launch_s
    if served.engine == "vllm":
        waits = layers * rates.graph_s + links + sequences * rates.sequence_s
        device = max(memory, arithmetic) + waits
        seconds = device if served.graphs else max(device, host)
    else:
        waits = host
        device = max(memory, arithmetic) + links
        seconds = max(device, host)
    bound: Bound = "bandwidth" if memory >= arithmetic else "arithmetic"
    if waits > max(memory, arithmetic) or seconds > device:
        bound = "launches"
    return Step(seconds=seconds, weights=weights, cache=cache, bound=bound)


def launches(model: Architecture) -> float:
    """Return the launches of one forward pass, in those of a plain layer."""
    return sum(MIXTURE_LAUNCHES if layer.mlp.experts else 1.0 for layer in model.layers)


def flops(model: Architecture) -> float:
    """Return the operations of one token's products, those of a mixture of experts at the rate of dense ones."""
    experts = expert_parameters(model, active=True)
    return 2.0 * (model.active - experts) + 2.0 * experts / EXPERTS_SHARE


def prefill(model: Architecture, rates: Rates, served: Serving, tokens: float, length: float) -> float:
    """Return the seconds of computing prompts: their products, or the weights read where they are few."""
    if tokens <= 0:
        return 0.0
    body = flops(model) - 2.0 * model.head  # only the last token of a prompt meets the head
    work = tokens * (body + attention_flops(model, length))
    read = weights_read(model, served, tokens)
    arithmetic = rates.arithmetic * served.arithmetic
    return max(work / arithmetic, read / rates.bandwidth) / served.tensor_parallel


def attention_flops(model: Architecture, length: float) -> float:
    """Return the operations of one token's attention among `length` others, half of them behind the causal mask."""
    seen = 0.0
    for layer in model.layers:
        mixer = layer.mixer
        if mixer.kind in ("attention", "latent"):
            reach = min(length / 2, mixer.window or length)
            seen += 2.0 * mixer.heads * (mixer.key_dim + mixer.value_dim) * reach
    return seen


def longest_of(mean: float, sequences: int, cap: float | None) -> float:
    """Return the longest of so many completions where their mean alone is known.

    The expected maximum of n lengths lies sqrt(2 ln n) standard deviations above their mean, and never above the cap.
    """
    longest = mean * (1 + LENGTH_SPREAD * math.sqrt(2 * math.log(max(sequences, 1))))
    return max(mean, min(longest, cap)) if cap else longest


def rollout(model: Architecture, rates: Rates, served: Serving, drawn: Drawn) -> RolloutTime:
    """Return how long one engine draws a batch of completions of differing lengths.

    The longest decides how many steps there are; the batch shrinks as (1 - t/longest)^(longest/mean - 1), whose mean is
    right. Sequences that the cache does not hold wait for a place.
    """
    computed = drawn.prompts if served.shares_prompts else drawn.sequences
    first = prefill(model, rates, served, computed * drawn.prompt, drawn.prompt)
    room = max(1, min(drawn.sequences, served.sequences or drawn.sequences))
    middle = drawn.prompt + drawn.mean / 2
    full = step(model, rates, served, room, middle)
    waiting = (drawn.sequences - room) * drawn.mean / room * full.seconds
    longest = max(drawn.longest, drawn.mean, 1.0)
    power = longest / max(drawn.mean, 1e-9) - 1
    decode, bounds = waiting, {full.bound: waiting}
    for index in range(SLICES):
        share = (index + 0.5) / SLICES
        left = max(room * (1 - share) ** power, 1.0)
        # a transformers batch keeps its finished sequences, padded, until the last one ends
        now = step(
            model,
            rates,
            served,
            room if served.engine == "transformers" else left,
            drawn.prompt + share * longest,
        )
        decode += now.seconds * longest / SLICES
        bounds[now.bound] = bounds.get(now.bound, 0.0) + now.seconds * longest / SLICES
    return RolloutTime(prefill=first, decode=decode, bound=max(bounds, key=lambda name: bounds[name]), first=full)
