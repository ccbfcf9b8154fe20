"""What other memory estimators are asked: one job, in the words that most of them use, and what it takes to answer."""

import dataclasses
import json
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

GIB = 1024**3
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
SHARDED = ("none", "zero3", "fsdp2")
MEASURES = ("allocated", "reserved", "device")

Estimate = Mapping[str, float]
"""GiB by what they stand beside: tensors `allocated`, with the allocator's rest `reserved`, all on the `device`."""


class Unknown(ValueError):  # noqa: N818  it says what is not known, as a refusal does
    """The estimator does not know this kind of run; one line says why."""


def everywhere(gib: float) -> Estimate:
    """Return one figure for all three measures, for an estimator that has no more."""
    return dict.fromkeys(MEASURES, gib)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """One job, in the words that most estimators use."""

    config: Mapping[str, Any]
    parameters: int
    trained: int
    largest: int  # parameters of the largest single layer, which is the embedding in most models
    hidden: int
    layers: int
    vocabulary: int
    context: int
    tied: bool
    job: Mapping[str, Any]
    card_gib: float | None
    card: str

    @property
    def text(self) -> Mapping[str, Any]:
        """The language model's part of the config."""
        nested: Mapping[str, Any] = self.config.get("text_config", self.config)
        return nested

    def number(self, *names: str) -> int:
        """Return the first of these numbers that the config states."""
        for name in names:
            if self.text.get(name) is not None:
                return int(self.text[name])
        raise Unknown(f"the config states no {names[0]}")

    @property
    def heads(self) -> int:
        """Attention heads."""
        return self.number("num_attention_heads", "n_head")

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.number("num_key_value_heads", "num_kv_heads", "num_attention_heads", "n_head")

    @property
    def inner(self) -> int:
        """Width of the feed-forward part."""
        return self.number("intermediate_size", "block_ff_dim", "n_inner")

    @property
    def experts(self) -> int:
        """Routed experts of one layer; 1 in a dense model."""
        names = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
        return next((int(self.text[name]) for name in names if self.text.get(name)), 1)

    @property
    def active(self) -> int:
        """Experts that one token meets."""
        return next((int(self.text[name]) for name in ("num_experts_per_tok", "moe_k") if self.text.get(name)), 1)

    @property
    def tuning(self) -> str:
        """One of full, lora, qlora, norms and bias."""
        return str(self.job["tuning"])

    @property
    def weights(self) -> str:
        """Type of the weights as loaded."""
        return str(self.job["weights"])

    @property
    def narrow(self) -> str:
        """The 16-bit type that a quantised model computes in."""
        return "fp16" if self.weights == "float16" else "bf16"

    @property
    def batch(self) -> int:
        """Sequences of one micro-batch."""
        return int(self.job["batch"]) * int(self.job["sequences"])

    @property
    def length(self) -> int:
        """Tokens of one padded sequence."""
        return int(self.job["prompt"]) + int(self.job["completion"])

    @property
    def shards(self) -> int:
        """Devices that share weights, gradients and states."""
        return int(self.job["shards"])

    @property
    def checkpointing(self) -> bool:
        """Whether activations are computed again."""
        return bool(self.job["checkpointing"])

    @property
    def rank(self) -> int:
        """LoRA's rank, 0 without."""
        return int(self.job["adapter"]["rank"]) if self.job["adapter"] else 0

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the maps that LoRA stands beside."""
        said = self.job["adapter"]["targets"] if self.job["adapter"] else ()
        return PROJECTIONS if said is None else tuple(said)

    @property
    def optimizer(self) -> str:
        """One of adamw, adam8bit, sgd and adafactor."""
        name = str(self.job["optimizer"]).lower()
        kinds = {"8bit": "adam8bit", "sgd": "sgd", "adafactor": "adafactor"}
        return next((kind for mark, kind in kinds.items() if mark in name), "adamw")

    def demand(
        self, *tunings: str, sharding: tuple[str, ...] = ("none",), optimizers: tuple[str, ...] = ("adamw",)
    ) -> None:
        """Refuse a kind of run that an estimator does not know.

        Raises:
            Unknown: Not one of these tunings or kinds of sharding, states of another optimizer where all is trained,
                or other models beside the trained one.
        """
        if self.tuning not in tunings:
            raise Unknown(f"no {self.tuning}")
        if self.tuning == "full" and self.optimizer not in optimizers:
            raise Unknown(f"no {self.optimizer}")
        if self.job["sharding"] not in sharding or self.job["sequence_shards"] > 1:
            raise Unknown("no such sharding")
        if self.job["reference"] or self.job["method"] == "gkd":
            raise Unknown("no second model")
        if self.job["rollout"]["engine"] == "colocate":
            raise Unknown("no inference engine beside the trainer")


@cache
def empty(config: str, dtype: str, automatic: str) -> Any:
    """Return the model without memory for its weights."""
    import torch
    import transformers

    stated = json.loads(config)
    made = transformers.AutoConfig.for_model(**stated)
    with torch.device("meta"):
        return getattr(transformers, automatic).from_config(made, dtype=getattr(torch, dtype))


KEPT = tempfile.TemporaryDirectory(prefix="memory-peers-")
"""Where config files are, until this program ends."""


@cache
def folder(config: str, parameters: int) -> str:
    """Return a folder that holds config.json alone, as a checkpoint has it; qmemcalc looks for the number in it."""
    where = tempfile.mkdtemp(dir=KEPT.name)
    Path(where, "config.json").write_text(json.dumps({**json.loads(config), "num_parameters": parameters}), "utf-8")
    return where
