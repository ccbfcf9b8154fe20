"""What is trained: every weight, a LoRA adapter, or a LoRA adapter on a model in 4 bits (QLoRA).

A brief says it in the spelling of TRL's ModelConfig (`lora_r`, `load_in_4bit` ...); a run holds the names of PEFT's
LoraConfig and of transformers' BitsAndBytesConfig.

Rank and targets follow "LoRA Without Regret" (Schulman et al., Thinking Machines Lab, 29 September 2025,
thinkingmachines.ai/blog/lora): adapters on all linear layers, MLPs included, do as well as full fine-tuning where those
on attention alone do not, alpha is 32 at any rank, and reinforcement learning, which teaches about one bit an episode,
needs small ranks alone. NF4 and double quantisation: QLoRA (Dettmers et al., 2023, arXiv:2305.14314).
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from llm_finetuning.brief import LoadedBrief
    from llm_finetuning.recipes.config import Machine

Kind = Literal["lora", "qlora"]

LORA_NAMES: Mapping[str, str] = {
    "lora_r": "r",
    "lora_alpha": "lora_alpha",
    "lora_dropout": "lora_dropout",
    "lora_target_modules": "target_modules",
    "lora_target_parameters": "target_parameters",
    "lora_modules_to_save": "modules_to_save",
    "lora_task_type": "task_type",
    "use_dora": "use_dora",
    "use_rslora": "use_rslora",
}
"""TRL's names in a brief, LoraConfig's in a run."""

QUANTIZATION_NAMES: Mapping[str, str] = {
    "load_in_4bit": "load_in_4bit",
    "load_in_8bit": "load_in_8bit",
    "bnb_4bit_quant_type": "bnb_4bit_quant_type",
    "bnb_4bit_quant_storage": "bnb_4bit_quant_storage",
    "use_bnb_nested_quant": "bnb_4bit_use_double_quant",
}
"""TRL's names in a brief, BitsAndBytesConfig's in a run."""

_LORA: Mapping[str, Any] = {
    "r": 16,
    "lora_alpha": 32,
    "lora_dropout": 0.0,  # the policy that is trained is the one that was sampled
    "target_modules": "all-linear",  # every linear layer but the output head
    "bias": "none",
    "task_type": "CAUSAL_LM",
}

_READS_THE_HEAD = ("grpo", "sft", "dpo", "kto")
"""Methods whose trainers in TRL 1.16.0 multiply hidden states by the output head's own weight."""

_HEADS = ("lm_head", "embed_out", "output_layer")  # what model families call their output head


def adapter_for(loaded: "LoadedBrief", machine: "Machine") -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return the adapter and the quantisation of a run; the brief was refused where they contradict each other."""
    from llm_finetuning.recipes import shared  # it reads briefs, which are checked by `faults`

    training = loaded.brief.training
    compute = shared.half_precision(machine) or "float32"
    return adapter_of(training), quantization_of(training, compute_dtype=compute)


def kind_of(training: Mapping[str, Any]) -> Kind | None:
    """Return the adapter that the brief's `training` asks for; None for full fine-tuning."""
    kind = training.get("adapter", "none")
    return kind if kind in ("lora", "qlora") else None


def adapter_of(training: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the adapter in LoraConfig's names, with its kind first; None for full fine-tuning."""
    kind = kind_of(training)
    if kind is None:
        return None
    given = {LORA_NAMES[name]: value for name, value in training.items() if name in LORA_NAMES}
    if given.get("target_parameters") and "target_modules" not in given:
        given["target_modules"] = None  # an expert's weights are parameters, not modules
    return {"kind": kind, **_LORA, **given}


def quantization_of(training: Mapping[str, Any], *, compute_dtype: str) -> dict[str, Any] | None:
    """Return how the frozen weights are quantised, in BitsAndBytesConfig's names; None where they are not.

    `compute_dtype` is what matrices are multiplied in: bfloat16, float16 or float32.
    """
    if kind_of(training) != "qlora":
        return None
    given = {QUANTIZATION_NAMES[name]: value for name, value in training.items() if name in QUANTIZATION_NAMES}
    if given.get("load_in_8bit"):
        return {"load_in_8bit": True}
    recipe = {
        "load_in_4bit": True,
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": True,
        "bnb_4bit_compute_dtype": compute_dtype,
    }
    return {**recipe, **{name: value for name, value in given.items() if name != "load_in_8bit"}}


def faults(training: Mapping[str, Any], method: str) -> Iterator[tuple[str, str]]:
    """Yield option and words for each thing that contradicts the adapter, or that PEFT and TRL would refuse."""
    kind = kind_of(training)
    for name in training:
        if name in LORA_NAMES and kind is None:
            yield name, "does nothing in full fine-tuning; write `adapter: lora`, or leave it out"
        if name in QUANTIZATION_NAMES and kind != "qlora" and training[name]:
            yield name, "weights are quantised under an adapter alone; write `adapter: qlora`, or leave it out"
    if kind == "qlora":
        yield from _quantization_faults(training)
    if kind is not None and training.get("lora_task_type", "CAUSAL_LM") != "CAUSAL_LM":
        yield "lora_task_type", f"{training['lora_task_type']!r} is another task; leave it out"
    if kind is not None and method in _READS_THE_HEAD:
        yield from _head_faults(training)


def _quantization_faults(training: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    four, eight = training.get("load_in_4bit"), training.get("load_in_8bit")
    if four and eight:
        yield "load_in_8bit", "contradicts `load_in_4bit: true`; keep one of them"
    elif four is False and not eight:
        yield "load_in_4bit", "false contradicts `adapter: qlora`; write `adapter: lora`"
    if training.get("bnb_4bit_quant_type", "nf4") not in ("nf4", "fp4"):
        yield "bnb_4bit_quant_type", f"{training['bnb_4bit_quant_type']!r} is not one of nf4, fp4"


def _head_faults(training: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Find adapters on the output head: TRL multiplies hidden states by its weight directly and refuses them."""
    why = "the trainer reads the output head's own weight, so that an adapter on it is never trained; TRL refuses it"
    for name in ("lora_target_modules", "lora_modules_to_save"):
        wanted = training.get(name)
        if any(_names(wanted, head) for head in _HEADS):
            yield name, f"{why}: take it out, or write `all-linear`, which leaves it out"


def _names(wanted: Any, module: str) -> bool:
    """Tell whether PEFT would take the module: a text is a pattern for its whole name, a list holds names' ends.

    `all-linear`, which PEFT takes for every linear layer but the output head, is no pattern of a head's name.
    """
    if isinstance(wanted, str):
        try:
            return re.fullmatch(wanted, module) is not None
        except re.error:
            return wanted == module
    return isinstance(wanted, list | tuple) and any(str(name).rpartition(".")[2] == module for name in wanted)
