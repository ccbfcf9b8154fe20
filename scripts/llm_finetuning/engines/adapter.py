"""A LoRA adapter on its base model: whether its folder is whole, which bytes it is, and how an engine takes it.

An adapter that is named and not used would be an evaluation of the base model under another name, so whatever does not
load as a whole is a failure.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from llm_finetuning.engines import checkpoint, protocol

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"

VLLM_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # vLLM 0.31.0 takes these as `max_lora_rank` and no other above 1


def check_folder(folder: str | None) -> None:
    """Raise a failure for an adapter folder that is not whole, or not LoRA; None passes."""
    if folder is None:
        return
    if not (Path(folder) / WEIGHTS).is_file():
        raise protocol.bad_input(f"{folder}: has no {WEIGHTS}; save the adapter there with save_pretrained")
    kind = _config(folder).get("peft_type")
    if kind != "LORA":
        raise protocol.bad_input(f"{folder}: an adapter of kind {kind}; only LoRA is read, merge it and name the model")


def _config(folder: str) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads((Path(folder) / CONFIG).read_text("utf-8"))
    except (OSError, ValueError) as fault:
        raise protocol.bad_input(f"{folder}: {CONFIG} cannot be read ({fault}); save the adapter again") from fault
    return config


def tokenizer_source(folder: str | None) -> str | None:
    """Return the adapter's folder where a tokenizer lies in it, as the trainer saves one; else None."""
    if folder is None or not any((Path(folder) / name).is_file() for name in checkpoint.TOKENIZER_FILES):
        return None
    return folder


def facts(of_base: dict[str, Any], folder: str | None) -> dict[str, Any]:
    """Return the facts of the base model with the adapter as a part of which model it is."""
    if folder is None:
        return of_base
    digest = hashlib.sha256()
    for name in (CONFIG, WEIGHTS):
        digest.update((Path(folder) / name).read_bytes())
    adapter = {"folder": folder, "sha256": digest.hexdigest(), "covers": f"bytes of {CONFIG} and {WEIGHTS}"}
    return {**of_base, "model": {**of_base["model"], "adapter": adapter}}


def loaded(model: Any, folder: str) -> Any:
    """Return the model with the adapter's layers in it; fails for an adapter that does not fill all of them."""
    # The base model's own class, with the adapter's layers inside: its cache and its positions are known.
    return wrapped(model, folder).get_base_model().eval()


def wrapped(model: Any, folder: str) -> Any:
    """Return PEFT's model of both, which can merge them; fails for an adapter that does not fill all its layers."""
    from peft import LoraConfig, PeftModel, load_peft_weights, set_peft_model_state_dict

    try:
        with_adapter = PeftModel(model, LoraConfig.from_pretrained(folder))
        result = set_peft_model_state_dict(with_adapter, load_peft_weights(folder, device=str(model.device)))
    except Exception as fault:  # peft, safetensors and torch each raise their own kind
        raise checkpoint.unloadable(folder, "adapter", fault) from fault
    missing = [name for name in result.missing_keys if "lora_" in name or "modules_to_save" in name]
    strange = [*missing, *result.unexpected_keys]
    if strange:
        raise protocol.bad_input(
            f"{folder}: {len(strange)} tensors do not match the base model, the first is {strange[0]}; "
            "name the adapter with the model that it was trained on"
        )
    return with_adapter


def vllm_options(folder: str) -> dict[str, Any]:
    """Return vLLM's engine options for this adapter; fails for one that vLLM does not take."""
    config = _config(folder)
    if config.get("modules_to_save") or config.get("use_dora"):
        raise protocol.bad_input(
            f"{folder}: vLLM takes no adapter with modules_to_save or DoRA; merge it (`finetune merge RUN`), or sample "
            "with `engine: transformers`"
        )
    ranks = [int(config["r"]), *config.get("rank_pattern", {}).values()]
    fitting = next((rank for rank in VLLM_RANKS if rank >= max(ranks)), max(ranks))
    return {"enable_lora": True, "max_loras": 1, "max_lora_rank": fitting}


def vllm_request(folder: str) -> Any:
    """Return what tells vLLM to use this adapter."""
    from vllm.lora.request import LoRARequest

    return LoRARequest("adapter", 1, folder)
