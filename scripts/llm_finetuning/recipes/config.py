"""What a run is trained with: every option with its value, where it comes from, and why it is so."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Source = Literal["recipe", "variant", "brief", "machine", "fixed"]
"""Who decided: the method's recipe, a variant asked for in the brief, the brief's own `training`, the machine that the
run is for, or this product, where another value would break what it promises."""

Engine = Literal["transformers", "colocate", "server"]
"""What generates the rollouts: transformers in the trainer's process, vLLM there too, or a vLLM server."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a TRL config."""

    value: Any
    source: Source
    why: str  # one line, shown as a comment in config.yaml; empty where the name says all


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the brief's `hardware` names."""

    name: str  # cpu, or a card as in h100, dgx-spark; "gpu" where the driver says no known name
    gpus: int  # on one machine
    machines: int = 1
    memory_gb: float | None = None  # of one GPU, where known


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Which processes run where."""

    kind: Literal["cpu", "one_gpu", "several_gpus", "server", "cluster"]
    engine: Engine
    processes: int  # of the trainer, over all machines
    machines: int = 1
    trainer_devices: tuple[int, ...] = ()  # of one machine, by index
    engine_devices: tuple[int, ...] = ()  # of the machine that serves; none where the engine is colocated
    sharding: Literal["none", "zero3", "fsdp2"] = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """The complete, explicit config of one run; `building` writes it as config.yaml."""

    method: str
    model: Mapping[str, Any]  # source, revision, init_kwargs
    adapter: Mapping[str, Any] | None  # kind lora or qlora, then LoraConfig's own names; None for full fine-tuning
    quantization: Mapping[str, Any] | None  # BitsAndBytesConfig's own names; qlora alone
    trainer: Mapping[str, Option]
    rewards: tuple[Mapping[str, Any], ...]  # name and weight, in the trainer's order
    data: Mapping[str, str | None]  # train, held_out: paths within the run folder
    guards: Mapping[str, Option]
    shape: Shape
    versions: Mapping[str, str]
    notes: tuple[str, ...] = field(default=())  # what a person should know before launching


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the run has shown before it is built; whatever was not measured is empty."""

    longest_prompt: int | None = None  # tokens, by the audit
    passed: tuple[float, float, float] | None = None  # pass rate of the samples and its 95% interval
    constant_prompts: tuple[str, ...] = ()  # ids of sampled prompts whose completions were all paid the same
