"""The config.json of a model: in its folder, or in the hub's cache; nothing is downloaded here."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_finetuning.errors import Refusal
from llm_finetuning.sizing.unknown import Unknown

MAIN = "main"


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A config.json that was read."""

    path: Path
    values: dict[str, Any]

    @property
    def dtype(self) -> str | None:
        """What the checkpoint's weights are stored in, where the file says it; vLLM loads them so."""
        inner = self.values.get("text_config")
        for part in (self.values, inner if isinstance(inner, dict) else {}):
            said = part.get("dtype") or part.get("torch_dtype")
            if said:
                return str(said).removeprefix("torch.")
        return None


def read(source: str, revision: str | None = None) -> ModelConfig:
    """Return the config.json of a model; refuses one that is no JSON object.

    Args:
        source: An absolute folder, or a hub id.
        revision: Of a hub id; its main branch where it is None.

    Raises:
        Unknown: The folder has none, or the hub's cache does not hold the model.
    """
    path = config_path(source, revision)
    if path is None or not path.is_file():
        raise Unknown(_absent_words(source))
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise Refusal(f"{path}: cannot be read as JSON ({error}); copy the model's own config.json there") from None
    if not isinstance(values, dict):
        raise Refusal(f"{path}: holds no JSON object; copy the model's own config.json there")
    return ModelConfig(path, values)


def config_path(source: str, revision: str | None = None) -> Path | None:
    """Return where the config.json of a model is to be; None for a hub id that the cache does not hold."""
    if source.startswith("/"):
        return Path(source) / "config.json"
    folder = hub_cache() / f"models--{source.replace('/', '--')}"
    wanted = revision or MAIN
    reference = folder / "refs" / wanted
    try:
        commit = reference.read_text("utf-8").strip()
    except OSError:
        commit = wanted  # a revision may be a commit itself
    found = folder / "snapshots" / commit / "config.json"
    return found if found.is_file() else None


def hub_cache() -> Path:
    """Return the folder of the hub client's cache: HF_HUB_CACHE, else `hub` under HF_HOME, else under the user's."""
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if named:
        return Path(named).expanduser()
    general = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{general}/huggingface"
    return Path(home).expanduser() / "hub"


def _absent_words(source: str) -> str:
    if source.startswith("/"):
        return f"model: {source} has no config.json; name the folder that holds the model"
    return (
        f"model: the config.json of {source} is not on this machine; `finetune sample` downloads the model, or name a "
        "folder that holds it"
    )
