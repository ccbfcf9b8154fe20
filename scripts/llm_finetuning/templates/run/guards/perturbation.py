"""A change of what is trained that cannot be missed, elementwise so that shards can be changed, undone bit by bit.

With LoRA the last block's B matrices are filled with a constant; they start as zeros, so that an engine which never
gets the adapter goes on as before. Otherwise the last norm before the output is turned round.
"""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

LORA_STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
NORM_STRENGTHS = (1.0, 4.0, 16.0, 64.0)

LORA_B = "lora_B"


class Perturbation:
    """What is changed, and what has to be put back."""

    def __init__(self, trainer: Any) -> None:
        """Find the parameters and keep a copy of what this process holds of them; raises LookupError if none are."""
        self._trainer = trainer
        model = trainer.model
        self.of_adapter = bool(getattr(model, "peft_config", None))
        if self.of_adapter:
            self._layers = _last_adapted_layers(model)
            self._parameters = [p for layer in self._layers for n, p in layer.named_parameters() if LORA_B in n]
        else:
            self._layers = []
            self._parameters = list(_last_norm(model).parameters(recurse=False))
        self.strengths = LORA_STRENGTHS if self.of_adapter else NORM_STRENGTHS
        # Merging an adapter into weights of low precision and taking it out again does not give them back.
        self._bases = [(layer, _base_of(layer)) for layer in self._layers]
        with self._whole():
            self._saved = [parameter.detach().clone() for parameter in self._parameters]
            self._saved_bases = [None if _is_packed(base) else base.detach().clone() for _, base in self._bases]

    def apply(self, strength: float) -> None:
        """Change the parameters, from what they were saved as."""
        with torch.no_grad(), self._whole():
            for place, (parameter, saved) in enumerate(zip(self._parameters, self._saved, strict=True)):
                if self.of_adapter:
                    parameter.fill_(strength)
                elif place == 0:  # the weight: -(w + 2) turns round both forms in use, x * w and x * (1 + w)
                    parameter.copy_(saved)
                    parameter.add_(2.0).mul_(-strength)
                else:
                    parameter.copy_(saved)
                    parameter.mul_(-strength)

    def restore(self) -> None:
        """Put everything back as it was."""
        with torch.no_grad(), self._whole():
            for parameter, saved in zip(self._parameters, self._saved, strict=True):
                parameter.copy_(saved)
            for (layer, base), saved in zip(self._bases, self._saved_bases, strict=True):
                if saved is None:
                    layer.get_base_layer().weight = base  # a merge had put a new object of packed weights there
                else:
                    base.copy_(saved)

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """Under ZeRO-3 gather the parameters, and hand what changed back to their shards."""
        held = [*self._parameters, *(base for _, base in self._bases)]
        if not any(hasattr(parameter, "ds_id") for parameter in held):
            yield
            return
        import deepspeed

        with deepspeed.zero.GatheredParameters(held, modifier_rank=0):
            yield


def _last_adapted_layers(model: nn.Module) -> list[Any]:
    """Return the adapted modules of the last block; raises LookupError where no LoRA matrix is trained."""
    found = [
        (name, module)
        for name, module in model.named_modules()
        if any(LORA_B in part and p.requires_grad for part, p in module.named_parameters(recurse=True))
        and hasattr(module, LORA_B)
        and hasattr(module, "get_base_layer")
    ]
    if not found:
        raise LookupError("no LoRA matrix is trained")
    block = _block(found[-1][0])
    return [module for name, module in found if _block(name) == block]


def _block(name: str) -> str:
    """Return a module's name up to the number of its block."""
    match = re.match(r".*\.\d+(?=\.)", name)
    return match.group() if match else ""


def _last_norm(model: nn.Module) -> nn.Module:
    """Return the norm before the output: the last one that stands in no block."""
    found = [
        module
        for name, module in model.named_modules()
        if "norm" in type(module).__name__.lower()
        and not re.search(r"(^|\.)\d+(\.|$)", name)
        and any(p.requires_grad for p in module.parameters(recurse=False))
    ]
    if not found:
        raise LookupError("no norm of the model stands outside its blocks")
    return found[-1]


def _base_of(layer: Any) -> Any:
    return layer.get_base_layer().weight


def _is_packed(parameter: Any) -> bool:
    """Tell whether these are weights of bitsandbytes, which a merge replaces instead of changing."""
    return type(parameter).__name__ in ("Params4bit", "Int8Params")
