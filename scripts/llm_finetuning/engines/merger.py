"""Write a LoRA adapter into the weights of its base model, and hold the result to what both said before.

Job: `{"model", "adapter", "dtype", "path"}`; `path` is the folder to make, `dtype` the format of the weights (None: the
base model's own). One record comes back: {"kind": "merged", "dtype", "kl", "moved", "agreeing", "tokens", "bytes"}.
`kl` is how far the saved model is from base and adapter, `moved` how far the adapter took the base, each the mean
divergence in nats a token; `agreeing` is the share of tokens after which both think the same one likeliest. All of it
happens on the CPU, so that a training beside it keeps its GPU.

An adapter on an embedding that the output layer shares (tied weights) is the known way to a merged model that is none:
each library takes the merge for done, and the model saved is another. So the folder is loaded again and asked.
"""

import gc
import json
import shutil
from pathlib import Path
from typing import Any

from llm_finetuning.engines import adapter, checkpoint, hub, protocol

FARTHEST = 0.05  # nats a token; rounding of 16 bits alone stays some ten times below, tied weights far above
TEXT = (
    "Question: a train leaves at 9:40 and arrives at 13:05; how long does it take? Think, then answer in JSON.\n"
    'Answer: {"hours": 3, "minutes": 25}\n\n'
    "def area(width: float, height: float) -> float:\n    return width * height\n\n"
    "The committee met on Tuesday, and nobody could say afterwards who had proposed the second motion."
)
"""What both are asked about: prose, numbers, JSON and code."""


def merge(job: protocol.Job, send: protocol.Send) -> None:
    """Write the folder and send the record; fails in one line, and leaves nothing, where it is another model."""
    import torch

    checkpoint.check_folder(job["model"])
    adapter.check_folder(job["adapter"])
    hub.go_offline_when_silent(job["model"])
    tokenizer = checkpoint.load_tokenizer(adapter.tokenizer_source(job["adapter"]) or job["model"])
    dtype = job["dtype"] or checkpoint.kept_dtype(checkpoint.load_config(job["model"])) or "float32"
    ids = tokenizer(TEXT, return_tensors="pt").input_ids
    both = adapter.wrapped(_loaded(job["model"], getattr(torch, dtype)), job["adapter"]).eval()
    before = _log_probabilities(both, ids)
    with both.disable_adapter():
        moved = _divergence(before, _log_probabilities(both, ids))
    size = _check_room(both, Path(job["path"]))
    try:
        _save(both.merge_and_unload(safe_merge=True), tokenizer, job)
        del both
        gc.collect()
        after = _log_probabilities(_loaded(job["path"], getattr(torch, dtype)), ids)
        kl = _divergence(before, after)
        if not kl <= FARTHEST:  # nan too
            raise protocol.bad_input(_another(job["adapter"], kl))
    except protocol.Failure:
        shutil.rmtree(job["path"], ignore_errors=True)
        raise
    agreeing = float((before.argmax(-1) == after.argmax(-1)).double().mean())
    found = {"dtype": dtype, "kl": kl, "moved": moved, "agreeing": agreeing, "tokens": ids.shape[1], "bytes": size}
    send({"kind": "merged", **found})


def _loaded(model: str, dtype: Any) -> Any:
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM.from_pretrained(model, dtype=dtype).eval()
    except Exception as fault:  # safetensors, torch and transformers each raise their own kind
        raise checkpoint.unloadable(model, "model", fault) from fault


def _log_probabilities(model: Any, ids: Any) -> Any:
    """Return the log-probabilities of every next token, in float64."""
    import torch

    with torch.inference_mode():
        return model(input_ids=ids).logits[0].double().log_softmax(-1)


def _divergence(of: Any, to: Any) -> float:
    """Return KL(of || to) in nats, the mean over the tokens; both are log-probabilities."""
    return float((of.exp() * (of - to)).sum(-1).mean())


def _check_room(model: Any, path: Path) -> int:
    """Return the bytes of the base model's weights; fails where the disk has no room for them."""
    own = [value for name, value in model.named_parameters() if "lora_" not in name]
    size = sum(int(value.numel()) * int(value.element_size()) for value in own)
    free = shutil.disk_usage(path.parent).free
    if free < size:
        raise protocol.machinery(
            f"{path.parent}: has {free / 1e9:.1f} GB free, and the merged model takes {size / 1e9:.1f} GB; free some"
        )
    return size


def _save(model: Any, tokenizer: Any, job: protocol.Job) -> None:
    """Save model and tokenizer; every token that ended a completion in training ends one here."""
    settings = checkpoint.load_generation_config(job["model"])
    ends = checkpoint.end_token_ids(tokenizer, settings)
    settings.eos_token_id = ends[0] if len(ends) == 1 else ends or None
    model.generation_config = settings
    try:
        model.save_pretrained(job["path"])
        tokenizer.save_pretrained(job["path"])
    except Exception as fault:  # a full disk, a sampling setting that is refused: each library raises its own kind
        said = protocol.words_of(fault)
        raise protocol.machinery(f"{job['path']}: cannot be written ({said})") from fault


def _another(folder: str, kl: float) -> str:
    """Return why a merged model is not kept, and the way out."""
    config = json.loads((Path(folder) / adapter.CONFIG).read_text("utf-8"))
    named = [*(config.get("target_modules") or ()), *(config.get("modules_to_save") or ())]
    shared = next((name for name in named if name in ("lm_head", "embed_tokens", "wte")), None)
    way_out = "serve base and adapter as they are, or " + (
        f"train without {shared}, whose weights the model shares with another layer" if shared else "--dtype float32"
    )
    return f"{folder}: what was saved is another model than base and adapter, {kl:.2g} nats a token apart; {way_out}"


if __name__ == "__main__":
    protocol.serve(merge)
