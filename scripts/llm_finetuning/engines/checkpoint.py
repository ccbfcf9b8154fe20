"""What a model folder or hub id is: whether it is whole, which bytes it is, how its completions end.

Shared by the engines that load weights; it names transformers, and loads it only when asked.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from llm_finetuning.engines import hub, protocol

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tekken.json", "spiece.model")
IDENTIFYING = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "merges.txt",
    *TOKENIZER_FILES,
)


def check_folder(model: str) -> None:
    """Raise one failure with every fault of a model folder; a hub id passes."""
    if not model.startswith("/"):
        return
    folder = Path(model)
    if not folder.is_dir():
        raise protocol.bad_input(f"{model}: no such model folder; name an existing one or a hub id")
    faults = []
    if (folder / "adapter_config.json").is_file() and not (folder / "config.json").is_file():
        raise protocol.bad_input(
            f"{model}: holds a LoRA adapter, not a model; `finetune merge RUN` makes one of it, in RUN/train/merged"
        )
    if not (folder / "config.json").is_file():
        faults.append(f"{model}: has no config.json; save the model there with save_pretrained")
    if not any(found for pattern in WEIGHTS for found in folder.glob(pattern)):
        faults.append(f"{model}: has no weights (*.safetensors); save the model there with save_pretrained")
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        faults.append(f"{model}: has no tokenizer; save it there with tokenizer.save_pretrained")
    faults += [f"{model}: shard {name} is missing; copy the folder again" for name in _missing_shards(folder)]
    if faults:
        raise protocol.bad_input(*faults)


def _missing_shards(folder: Path) -> list[str]:
    """Return the weight files that the folder's index names and that are not there."""
    missing: set[str] = set()
    for index in folder.glob("*.safetensors.index.json"):
        try:
            named = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
        except (ValueError, KeyError, AttributeError):
            missing.add(index.name)
            continue
        missing |= {name for name in named if not (folder / name).is_file()}
    return sorted(missing)


def identity(model: str, config: Any) -> dict[str, Any]:
    """Return which model this is: the hub's commit, or a SHA-256 and what it covers for a folder.

    The weights count with name and size only: reading them would take longer than the sampling of a small batch.
    """
    if not model.startswith("/"):
        return {"hub_id": model, "commit": getattr(config, "_commit_hash", None)}
    folder = Path(model)
    digest = hashlib.sha256()
    for name in IDENTIFYING:
        path = folder / name
        if path.is_file():
            digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    weights = sorted({found for pattern in WEIGHTS for found in folder.glob(pattern)})
    for path in weights:
        digest.update(f"{path.name}\0{path.stat().st_size}\n".encode())
    covers = "bytes of config and tokenizer files; names and sizes of weight files"
    return {"folder": model, "sha256": digest.hexdigest(), "covers": covers}


def load_config(model: str) -> Any:
    """Return the model's config; fails for a hub id that cannot be reached and a config nobody can read."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(model)
    except (OSError, ValueError) as fault:
        raise unloadable(model, "config", fault) from fault


def load_tokenizer(model: str) -> Any:
    """Return the tokenizer as TRL loads it, with the end token as pad token where there is none."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(model, truncation_side="left", padding_side="left")
    except Exception as fault:  # the reader of each tokenizer format raises its own kind
        raise unloadable(model, "tokenizer", fault) from fault
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_generation_config(model: str) -> Any:
    """Return the model's generation config; where the model has none, the one its config stands for."""
    from transformers import GenerationConfig

    try:
        return GenerationConfig.from_pretrained(model)
    except OSError:
        return GenerationConfig.from_model_config(load_config(model))


def unloadable(model: str, part: str, fault: Exception) -> protocol.Failure:
    """Return the failure for a part of a model that did not load, in one line."""
    said = protocol.words_of(fault)
    if model.startswith("/"):
        return protocol.bad_input(f"{model}: the {part} cannot be loaded ({said}); save it again or name another model")
    return protocol.bad_input(f"{model}: the {part} cannot be had from the hub ({said}); {hub.way_out()}")


def end_token_ids(tokenizer: Any, generation_config: Any) -> list[int]:
    """Return every id that ends a completion: the generation config's and the tokenizer's, as TRL unites them."""
    ends = listed(generation_config.eos_token_id)
    if tokenizer.eos_token_id is not None and tokenizer.eos_token_id not in ends:
        ends = [tokenizer.eos_token_id, *ends]
    return ends


def listed(ids: int | list[int] | None) -> list[int]:
    """Return a config's end tokens as a list; configs write none, one or several."""
    if ids is None:
        return []
    return [ids] if isinstance(ids, int) else list(ids)


def context_length(config: Any) -> int | None:
    """Return how many tokens prompt and completion may have together; None where the config does not say."""
    text = config.get_text_config()
    return next(
        (
            int(getattr(text, name))
            for name in ("max_position_embeddings", "n_positions", "max_seq_len")
            if _has(text, name)
        ),
        None,
    )


def kept_dtype(config: Any) -> str:
    """Return the format that a model's weights are saved in, as its config says; empty where it does not."""
    named = getattr(config, "dtype", None)
    return "" if named is None else str(named).removeprefix("torch.")


def rounding_note(config: Any, dtype: str) -> str | None:
    """Return a warning where weights that are saved in 32 bits are sampled in 16; None where nothing is rounded.

    bfloat16 keeps 8 bits of a number: a change of a weight by less than a part in 256 is gone. A short training at a
    small rate changes most weights by less than that, and its whole gain may go with it.
    """
    if kept_dtype(config) != "float32" or dtype == "float32":
        return None
    return (
        f"the weights are saved in float32 and sampled in {dtype}, which may round away what a gentle training "
        "changed; so will serving or saving them in it"
    )


def _has(config: Any, name: str) -> bool:
    return isinstance(getattr(config, name, None), int)


def facts(model: str, config: Any, tokenizer: Any, generation_config: Any) -> dict[str, Any]:
    """Return what a later stage compares about the model: end tokens, pad token, context, identity."""
    return {
        "model": identity(model, config),
        "tokenizer_end_ids": listed(tokenizer.eos_token_id),
        "generation_config_end_ids": listed(generation_config.eos_token_id),
        "end_ids": end_token_ids(tokenizer, generation_config),
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "context_length": context_length(config),
        # With one of these TRL parses a chat completion into content and thought before a reward sees it.
        "parses_responses": any(
            getattr(tokenizer, name, None) is not None for name in ("response_template", "response_schema")
        ),
    }
