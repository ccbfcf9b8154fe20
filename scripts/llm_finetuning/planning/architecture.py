"""From a model's config.json to what memory and arithmetic need of it; no weights, no torch.

The counts equal those of the model that transformers 5.17 builds from the same config; a test builds them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from llm_finetuning.planning import dense, hybrids
from llm_finetuning.planning.dense import Family
from llm_finetuning.planning.fields import Fields
from llm_finetuning.planning.hybrids import Hybrid
from llm_finetuning.planning.shapes import Architecture, Layer, UnknownShape

_TEXT_OF = {
    "gemma3": "gemma3_text",
    "mistral3": "mistral",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen2_5_vl": "qwen2",
    "qwen2_vl": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "llava": "llama",
    "lfm2_vl": "lfm2",
}
"""What the text model of a vision-language model is, where its text_config names no family known here."""

_SCANS = ("delta", "mamba", "conv")


def read(config: Mapping[str, Any]) -> Architecture:
    """Return the architecture that a config.json describes.

    Args:
        config: The parsed config.json; a vision-language model's has the language model under `text_config`.

    Raises:
        UnknownShape: The family is not known, or keys are missing; one line says which.
    """
    nested = config.get("text_config")
    if isinstance(nested, Mapping):
        return _with_vision(config, nested)
    model_type = config.get("model_type")
    family = known(model_type)
    if family is None:
        said = f"model_type {model_type!r}" if model_type else "no model_type"
        raise UnknownShape(
            f"config.json: {said}: how its layers are built is not known here; "
            "state the run's memory from a short run of it instead, or add its family to planning/"
        )
    return _build(str(model_type), family, config)


def known(model_type: object) -> Family | Hybrid | None:
    """Return the family of a `model_type`, or None."""
    if not isinstance(model_type, str):
        return None
    return dense.FAMILIES.get(model_type) or hybrids.HYBRIDS.get(model_type)


def _build(model_type: str, family: Family | Hybrid, config: Mapping[str, Any]) -> Architecture:
    fields = Fields(config, family.defaults)
    hidden, vocabulary = fields.hidden, fields.number("vocab_size")
    layers = family.layers(fields) if isinstance(family, Hybrid) else dense.layers(family, fields)
    layers = _particulars(model_type, fields, layers)
    positions = fields.number("max_position_embeddings") if model_type == "gpt2" else 0
    context = fields.get("max_position_embeddings")
    fields.check(model_type)
    tied = config.get("tie_word_embeddings", config.get("tie_embedding"))
    return Architecture(
        model_type=model_type,
        hidden=hidden,
        vocabulary=vocabulary,
        layers=layers,
        tied=family.tied if tied is None else bool(tied),
        embedding=(vocabulary + positions) * hidden,
        head_bias=isinstance(family, Family) and family.head_bias,
        final_norm=family.norm_width * hidden,
        context=None if context is None else int(context),
        notes=_notes(layers),
    )


def _particulars(model_type: str, fields: Fields, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Return the layers with what a switch of this family's config changes in them."""
    hidden = fields.hidden
    if model_type == "stablelm" and fields.flag("use_parallel_residual"):
        layers = tuple(replace(layer, norms=1, norm_parameters=2 * hidden) for layer in layers)
    norms_all_heads = (model_type == "stablelm" and fields.flag("qk_layernorm")) or (
        model_type == "cohere" and fields.flag("use_qk_norm")
    )
    if norms_all_heads or (model_type == "glm4_moe" and fields.flag("use_qk_norm")):
        layers = tuple(
            replace(
                layer,
                mixer=replace(
                    layer.mixer,
                    qk_norm=layer.mixer.key_dim
                    * ((layer.mixer.heads + layer.mixer.kv_heads) if norms_all_heads else 2),
                ),
            )
            for layer in layers
        )
    return layers


def _with_vision(config: Mapping[str, Any], nested: Mapping[str, Any]) -> Architecture:
    """Return the text model of a vision-language model, with an estimate of what stands beside it."""
    outer = str(config.get("model_type"))
    inner = nested.get("model_type")
    model_type = inner if known(inner) else _TEXT_OF.get(outer)
    family = known(model_type)
    if family is None:
        raise UnknownShape(
            f"config.json: text_config of a {outer} with model_type {inner!r}: how its layers are built is not known "
            "here; state the run's memory from a short run of it instead, or add its family to planning/"
        )
    merged = dict(nested)
    for key in ("vocab_size", "tie_word_embeddings"):
        if key not in merged and key in config:
            merged[key] = config[key]
    text = _build(str(model_type), family, merged)
    vision = config.get("vision_config")
    tower = _tower(vision, text.hidden) if isinstance(vision, Mapping) else 0
    note = "the vision tower is counted from its width and depth, to about 10%" if tower else ""
    return replace(text, vision=tower, notes=(*text.notes, *filter(None, [note])))


def _tower(vision: Mapping[str, Any], hidden: int) -> int:
    width = int(vision.get("hidden_size") or 1152)
    depth = int(vision.get("num_hidden_layers") or vision.get("depth") or 27)
    inner = int(vision.get("intermediate_size") or 4304)
    patch = vision.get("patch_size") or 14
    side = int(patch if isinstance(patch, (int, float)) else patch[0])
    maps = 3 if vision.get("model_type") == "pixtral" else 2
    return depth * (4 * width * width + maps * width * inner) + 3 * side * side * width + width * hidden + hidden**2


def _notes(layers: tuple[Layer, ...]) -> tuple[str, ...]:
    notes = []
    scans = sum(layer.mixer.kind in _SCANS for layer in layers)
    if scans:
        notes.append(f"{scans} of {len(layers)} layers are scans; what they keep for backward is known to about 35%")
    if any(layer.mixer.kind == "latent" for layer in layers):
        notes.append("what latent attention keeps for backward is known to about 25%")
    if any(layer.mlp.experts for layer in layers):
        notes.append("experts are counted with tokens spread evenly over them")
    return tuple(notes)
