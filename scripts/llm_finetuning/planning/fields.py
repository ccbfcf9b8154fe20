"""Reading a config.json: several names for one thing, defaults that were left out, all gaps told at once."""

from collections.abc import Mapping
from typing import Any

from llm_finetuning.planning.shapes import UnknownShape

Bias = bool | str
"""Whether a map has a bias: always or never, or the key of config.json that says so."""

_NAMES: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("hidden_size", "n_embd", "d_model", "n_embed"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads"),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_dim", "block_ff_dim"),
    "num_experts": ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"),
    "num_experts_per_tok": ("num_experts_per_tok", "moe_k", "moe_top_k"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "seq_length"),
}


_NEVER_ZERO = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")


class Fields:
    """A config.json with the defaults of its family; `check` refuses with every key that was asked for in vain."""

    def __init__(self, config: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        """Take the config, and what transformers assumes of its family where a key was left out."""
        self._config = config
        self._defaults = defaults
        self._missing: list[str] = []
        self._wrong: list[str] = []

    def get(self, name: str) -> Any:
        """Return what stands under the name or another of its names, or the family's default, or None."""
        for source in (self._config, self._defaults):
            for key in _NAMES.get(name, (name,)):
                if source.get(key) is not None:
                    return source[key]
        return None

    def number(self, name: str, default: int | None = None) -> int:
        """Return a count; one that is missing and has no default is told by `check`."""
        value = self.get(name)
        if value is None:
            value = default
        if value is None:
            self._missing.append(name)
            return 1
        least = 1 if name in _NEVER_ZERO else 0
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1 or value < least:
            self._wrong.append(f"{name} is {value!r}, not a count")
            return 1
        return int(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a switch."""
        value = self.get(name)
        return default if value is None else bool(value)

    def bias(self, spec: Bias) -> bool:
        """Return whether a map has a bias."""
        return self.flag(spec) if isinstance(spec, str) else spec

    def check(self, model_type: str) -> None:
        """Refuse when a key that was asked for is missing or is not a count."""
        faults = list(dict.fromkeys(self._wrong))
        if self._missing:
            faults.insert(0, "no " + ", ".join(dict.fromkeys(self._missing)))
        if faults:
            raise UnknownShape(
                f"config.json of a {model_type}: {'; '.join(faults)}; give the model's whole config.json"
            )

    @property
    def hidden(self) -> int:
        """The width of the residual stream."""
        return self.number("hidden_size")

    @property
    def layers(self) -> int:
        """The number of decoder layers."""
        return self.number("num_hidden_layers")

    @property
    def head_dim(self) -> int:
        """The width of one attention head."""
        return self.number("head_dim", self.hidden // max(self.number("num_attention_heads"), 1))

    def layer_types(self) -> list[str]:
        """Return the kinds of the layers as the config lists them, in today's names; empty where it lists none."""
        today = {"mamba": "linear_attention", "mamba2": "linear_attention", "attention": "full_attention"}
        listed = self.get("layer_types") or self.get("layers_block_type") or []
        return [today.get(kind, kind) for kind in listed]
