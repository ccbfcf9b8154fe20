"""What memory needs to know of a model: its layers, and the linear maps in them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Part = Literal[
    "embedding", "head", "attention", "mlp", "experts", "router", "norms", "qk_norm", "biases", "other", "vision"
]
"""Where a parameter lives; `other` holds convolutions, state-space constants, attention sinks and gates."""

MixerKind = Literal["attention", "latent", "delta", "mamba", "conv", "none"]
"""What mixes tokens: softmax attention, multi-head latent attention, a gated delta rule, a state-space scan, a short
convolution; `none` for a layer that only has an MLP."""


class UnknownShape(ValueError):  # noqa: N818  it says what is not known, as a refusal does
    """The config.json describes something that is not known here; one line says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """One `nn.Linear` under its name in transformers, which is what LoRA targets and 4-bit loading act on."""

    name: str
    inputs: int
    outputs: int
    bias: bool = False

    @property
    def weights(self) -> int:
        """Parameters without the bias."""
        return self.inputs * self.outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixer:
    """The part of a layer that mixes tokens."""

    kind: MixerKind
    linears: tuple[Linear, ...] = ()
    heads: int = 0
    kv_heads: int = 0
    key_dim: int = 0  # of one head
    value_dim: int = 0  # of one head
    window: int | None = None  # tokens that a sliding window keeps; None for all
    qk_norm: int = 0  # parameters of the norms of queries and keys
    other: int = 0
    latent: int = 0  # width of the low-rank bottlenecks of latent attention
    inner: int = 0  # width of what a scan, a delta rule or a convolution works on
    cache: int = 0  # elements a token leaves in the KV cache
    state: int = 0  # elements of a state that does not grow with the sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp:
    """The part of a layer that works on each token alone."""

    linears: tuple[Linear, ...] = ()  # the dense MLP, or the shared expert
    width: int = 0  # of the dense MLP, or the shared expert
    gated: bool = True
    experts: int = 0
    active: int = 0  # experts a token goes through
    expert_width: int = 0
    expert_weights: int = 0  # parameters of one expert, biases left out
    expert_biases: int = 0
    router: int = 0
    other: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One decoder layer."""

    mixer: Mixer
    mlp: Mlp
    norms: int  # how many, over the hidden size
    norm_parameters: int
    native_norm: bool = False  # `nn.LayerNorm`, one kernel, where an RMSNorm is several eager ones

    def linears(self) -> tuple[Linear, ...]:
        """Return every `nn.Linear` of the layer."""
        return self.mixer.linears + self.mlp.linears

    def parameters(self) -> Iterator[tuple[Part, int]]:
        """Yield the parameter counts of the layer."""
        yield "attention", sum(linear.weights for linear in self.mixer.linears)
        yield "mlp", sum(linear.weights for linear in self.mlp.linears)
        yield "biases", sum(linear.outputs for linear in self.linears() if linear.bias)
        yield "biases", self.mlp.experts * self.mlp.expert_biases
        yield "experts", self.mlp.experts * self.mlp.expert_weights
        yield "router", self.mlp.router
        yield "norms", self.norm_parameters
        yield "qk_norm", self.mixer.qk_norm
        yield "other", self.mixer.other + self.mlp.other


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A causal language model, as far as memory and arithmetic go."""

    model_type: str
    hidden: int
    vocabulary: int
    layers: tuple[Layer, ...]
    tied: bool  # the head is the embedding
    embedding: int  # parameters of token and position embeddings and their projections
    head_bias: bool
    final_norm: int
    context: int | None  # positions the model was made for
    vision: int = 0  # parameters beside the text model, estimated
    notes: tuple[str, ...] = ()  # what is known less well

    def parameters(self) -> dict[Part, int]:
        """Return the number of parameters by part."""
        counts: dict[Part, int] = {"embedding": self.embedding, "head": 0 if self.tied else self.head}
        counts["norms"] = self.final_norm
        counts["biases"] = self.vocabulary if self.head_bias else 0
        counts["vision"] = self.vision
        for layer in self.layers:
            for part, count in layer.parameters():
                counts[part] = counts.get(part, 0) + count
        return {part: count for part, count in counts.items() if count}

    @property
    def total(self) -> int:
        """Every parameter, of all experts too."""
        return sum(self.parameters().values())

    @property
    def active(self) -> int:
        """Parameters one token is multiplied with: the active experts alone, and no lookup in an embedding."""
        idle = sum(
            (layer.mlp.experts - layer.mlp.active) * (layer.mlp.expert_weights + layer.mlp.expert_biases)
            for layer in self.layers
        )
        return self.total - idle - self.vision - (0 if self.tied else self.embedding)

    @property
    def head(self) -> int:
        """Weights of the language-model head, tied or not."""
        return self.vocabulary * self.hidden

    @property
    def linear_weights(self) -> int:
        """Weights of every `nn.Linear` inside the layers: what 4-bit loading quantises and autocast casts."""
        return sum(linear.weights for layer in self.layers for linear in layer.linears())

    @property
    def expert_weights(self) -> int:
        """Weights of all routed experts."""
        return sum(layer.mlp.experts * layer.mlp.expert_weights for layer in self.layers)

    def cache(self, tokens: int) -> int:
        """Return the elements in the KV cache of one sequence, with windows and constant states."""
        return sum(
            layer.mixer.cache * min(tokens, layer.mixer.window or tokens) + layer.mixer.state for layer in self.layers
        )
