"""Whether the files of a model are there and whole: configs, index, shards and their headers; no weights are read."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llm_finetuning.machine.facts import DataFile, ModelFiles
from llm_finetuning.planning.job import GIB
from llm_finetuning.sizing import model_config

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tekken.json", "spiece.model")
LFS = b"version https://git-lfs"
ADAPTER = "adapter_config.json"
PARQUET = b"PAR1"
MOST_HEADER = 100_000_000  # bytes; the limit of the safetensors format

_ABSENT = "has no weights (*.safetensors); copy the model's folder again"


def read(source: str, revision: str | None = None) -> ModelFiles:
    """Return the files of a model.

    Args:
        source: An absolute folder, or a hub id, whose files are looked for in the hub's cache.
        revision: Of a hub id.
    """
    config = model_config.config_path(source, revision)
    if config is None:
        return ModelFiles(source=source, folder=None)
    folder = config.parent
    if not folder.is_dir():
        return ModelFiles(source=source, folder=str(folder), faults=(f"{folder}: no such folder",), tokenizer=False)
    if (folder / ADAPTER).is_file() and not config.is_file():
        words = f"{folder}: holds an adapter, no model; `finetune merge RUN` makes a model of it, or name its base"
        return ModelFiles(source=source, folder=str(folder), faults=(words,))
    weights = sorted({path for pattern in WEIGHTS for path in folder.glob(pattern)})
    sizes = [path.stat().st_size for path in weights if path.exists()]
    return ModelFiles(
        source=source,
        folder=str(folder),
        faults=(*_config_faults(config), *_broken(folder, weights)),
        missing=tuple(_absent(folder, weights)),
        tokenizer=any((folder / name).is_file() for name in TOKENIZERS),
        weights_gib=sum(sizes) / GIB,
        largest_gib=max(sizes, default=0) / GIB,
    )


def data_file(name: str, path: Path) -> DataFile:
    """Return whether a file of rows can be read: it is there, is no pointer, and a Parquet file has both its ends."""
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            start = stream.read(len(LFS))
            stream.seek(max(0, size - len(PARQUET)))
            end = stream.read()
    except OSError as error:
        return DataFile(name=name, fault=f"{path}: {(error.strerror or str(error)).lower()}")
    if start.startswith(LFS):
        return DataFile(name=name, fault=f"{path}: is a Git LFS pointer, not the file; run `git lfs pull`")
    if not size:
        return DataFile(name=name, fault=f"{path}: is empty")
    if path.suffix.lower() == ".parquet" and not (start.startswith(PARQUET) and end == PARQUET):
        return DataFile(name=name, fault=f"{path}: is no whole Parquet file; copy it again")
    return DataFile(name=name)


def hub_data(name: str) -> DataFile:
    """Return whether the hub's cache holds a data set."""
    folder = model_config.hub_cache() / f"datasets--{name.replace('/', '--')}"
    return DataFile(name=name, hub=True, cached=folder.is_dir())


def _config_faults(config: Path) -> Iterator[str]:
    try:
        values = json.loads(config.read_text("utf-8"))
    except FileNotFoundError:
        yield f"{config.parent}: has no config.json; copy the model's folder again"
        return
    except (OSError, ValueError) as error:
        yield f"{config}: cannot be read as JSON ({error}); copy it again"
        return
    if not isinstance(values, dict):
        yield f"{config}: holds no JSON object; copy it again"


def _absent(folder: Path, weights: list[Path]) -> Iterator[str]:
    """Yield what is not there: all weights, or the shards that an index names."""
    named = sorted({name for index in folder.glob("*.index.json") for name in _shards(index) or ()})
    if not weights and not named:
        yield f"{folder}: {_ABSENT}"
    for name in named:
        if not (folder / name).is_file():
            yield f"{folder / name}: is missing, and the index names it; copy or download it again"


def _broken(folder: Path, weights: list[Path]) -> Iterator[str]:
    for index in sorted(folder.glob("*.index.json")):
        if _shards(index) is None:
            yield f"{index}: cannot be read; copy or download it again"
    for path in weights:
        if fault := _file_fault(path):
            yield f"{path}: {fault}"


def _shards(index: Path) -> set[str] | None:
    """Return the files that an index names; None where it cannot be read."""
    try:
        return {str(name) for name in json.loads(index.read_text("utf-8"))["weight_map"].values()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _file_fault(path: Path) -> str | None:
    """Return what is wrong with one file of weights; of a safetensors file header and length are held together."""
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            start = stream.read(len(LFS))
            if start == LFS:
                return "is a Git LFS pointer, not the weights; run `git lfs pull` in that folder"
            if path.suffix != ".safetensors":
                return None if size else "is empty; copy or download it again"
            stream.seek(0)
            length = int.from_bytes(stream.read(8), "little")
            if size < 8 or not 0 < length <= min(MOST_HEADER, size - 8):  # noqa: PLR2004  the length's own bytes
                return "has no whole safetensors header; copy or download it again"
            header: dict[str, Any] = json.loads(stream.read(length))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        return f"cannot be read ({type(error).__name__}); copy or download it again"
    wanted = 8 + length + max(ends, default=0)
    if size != wanted:
        return f"has {size} bytes, and its header speaks of {wanted}; copy or download it again"
    return None
