"""Time a few decoding steps and a training step of a model on this machine.

The job is {"model", "engine", "tuning", "train_dtype", "decode_dtype", "autocast", "checkpointing", "batch", "prompt",
"tokens", "steps", "gpu"}: `engine` is transformers, which decodes in the dtype that is trained in, or vllm, which takes
`decode_dtype` or where that is None the checkpoint's; `batch` is how many sequences are decoded together, `tokens` how
many a training step has, `gpu` whether the figures are to be a GPU's. One record comes back: {"kind": "measured",
"device", "name", "engine", "decode_dtype", "decode": [{"batch", "context", "seconds"}, ...], "train": {"batch",
"tokens", "seconds", "checkpointing"}, "versions"}; each figure is the median of its repetitions, the first of which,
with what it compiles, is left out.

The paths of CUDA and of vLLM follow the two libraries' documentation and were not tried on a GPU yet.
"""

import inspect
import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

from llm_finetuning.engines import checkpoint, hub, protocol

REPETITIONS = 3  # of a training step
VLLM_SETTINGS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
SHARE = 0.5  # of the device that vLLM may take while it alone is measured


def calibrate(job: protocol.Job, send: protocol.Send) -> None:
    """Send the one record; fails in one line for a model or a memory that does not do."""
    for name, value in {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", **VLLM_SETTINGS}.items():
        os.environ.setdefault(name, value)
    checkpoint.check_folder(job["model"])
    hub.go_offline_when_silent(job["model"])
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if job["gpu"] and device == "cpu":
        raise protocol.bad_input(
            "hardware: names a GPU, and torch shows none on this machine; "
            "run `finetune plan RUN --calibrate` on the one that trains"
        )
    try:
        if job["engine"] == "vllm":
            decoded, dtype = _with_vllm(job)
            model = _loaded(job, device, job["train_dtype"])
        else:
            model = _loaded(job, device, job["train_dtype"])
            decoded, dtype = _with_transformers(model, job, device), str(model.dtype).removeprefix("torch.")
        trained = _training(model, job, device)
    except RuntimeError as fault:
        if isinstance(fault, torch.OutOfMemoryError) or "allocate memory" in str(fault):
            raise protocol.machinery(
                f"{job['model']}: out of memory on {device} while measuring; plan without --calibrate, or measure with "
                "a smaller model of the same machine"
            ) from fault
        raise
    send(
        {
            "kind": "measured",
            "device": device,
            "name": torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine(),
            "engine": job["engine"],
            "decode_dtype": dtype,
            "decode": decoded,
            "train": trained,
            "versions": {"torch": torch.__version__, "python": platform.python_version()},
        }
    )


def _loaded(job: protocol.Job, device: str, named: str | None) -> Any:
    """Return the model on its device, trained where the run trains all of it and frozen where it has an adapter."""
    import torch
    from transformers import AutoModelForCausalLM

    dtype = getattr(torch, named) if named else torch.float32
    try:
        model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=dtype).to(device)
    except torch.OutOfMemoryError:
        raise
    except Exception as fault:  # safetensors, torch and transformers each raise their own kind
        raise checkpoint.unloadable(job["model"], "model", fault) from fault
    if job["tuning"] != "full":
        model.requires_grad_(requires_grad=False)
        model.enable_input_require_grads()  # gradients pass through the frozen layers, as they do to an adapter
    return model


def _with_transformers(model: Any, job: protocol.Job, device: str) -> list[dict[str, Any]]:
    """Return the seconds of one decoding step of one sequence, and of a batch."""
    import torch

    model.eval()
    found = []
    # a prompt's logits that nobody asks for would be most of its memory
    last = {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}
    # not in inference mode: what a model caches there could not take part in the training step that follows
    with torch.no_grad(), _autocast(job, device):
        for batch in sorted({1, int(job["batch"])}):
            ids = torch.randint(
                0, model.config.get_text_config().vocab_size, (batch, int(job["prompt"])), device=device
            )
            cache = model(input_ids=ids, use_cache=True, **last).past_key_values
            seconds = []
            for _ in range(int(job["steps"]) + 1):
                begun = _now(device)
                out = model(input_ids=ids[:, -1:], past_key_values=cache, use_cache=True, **last)
                cache = out.past_key_values
                seconds.append(_now(device) - begun)
            middle = int(job["prompt"]) + int(job["steps"]) // 2
            found.append({"batch": batch, "context": middle, "seconds": statistics.median(seconds[1:])})
    return found


def _with_vllm(job: protocol.Job) -> tuple[list[dict[str, Any]], str]:
    """Return the same of vLLM: the slope between a short and a longer draw, which leaves out its prompts."""
    import gc

    import torch
    from vllm import LLM

    steps, prompt = int(job["steps"]), int(job["prompt"])
    engine = LLM(
        model=job["model"],
        max_model_len=prompt + 4 * steps,
        gpu_memory_utilization=SHARE,
        dtype=job["decode_dtype"] or "auto",
        enable_prefix_caching=False,
    )
    dtype = str(engine.llm_engine.model_config.dtype).removeprefix("torch.")
    found = []
    for batch in sorted({1, int(job["batch"])}):
        prompts = [{"prompt_token_ids": [7 + place] * prompt} for place in range(batch)]

        _drawn(engine, prompts, steps)
        slope = (_drawn(engine, prompts, 3 * steps) - _drawn(engine, prompts, steps)) / (2 * steps)
        found.append({"batch": batch, "context": prompt + 2 * steps, "seconds": max(slope, 1e-6)})
    del engine
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return found, dtype


def _drawn(engine: Any, prompts: list[dict[str, list[int]]], tokens: int) -> float:
    """Return the seconds in which vLLM draws so many tokens for every prompt."""
    from vllm import SamplingParams

    options = SamplingParams(max_tokens=tokens, ignore_eos=True, temperature=1.0)
    begun = time.perf_counter()
    engine.generate(prompts, options, use_tqdm=False)
    return time.perf_counter() - begun


def _training(model: Any, job: protocol.Job, device: str) -> dict[str, Any]:
    """Return the seconds of one forward and backward pass over so many tokens, in rows of at most 512."""
    import torch

    model.train()
    if job["checkpointing"]:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    tokens = int(job["tokens"])
    batch = max(tokens // 512, 1)
    ids = torch.randint(0, model.config.get_text_config().vocab_size, (batch, tokens // batch), device=device)

    def step() -> None:
        with _autocast(job, device):
            model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        model.zero_grad(set_to_none=True)

    seconds = [_timed(step, device) for _ in range(REPETITIONS + 1)]
    return {
        "batch": batch,
        "tokens": batch * (tokens // batch),
        "seconds": statistics.median(seconds[1:]),
        "checkpointing": bool(job["checkpointing"]),
    }


def _autocast(job: protocol.Job, device: str) -> Any:
    """Return the arithmetic of the run: 16 bits where it asks for them, in the format that the card multiplies."""
    import torch

    half = torch.bfloat16 if device == "cpu" or torch.cuda.is_bf16_supported() else torch.float16
    return torch.autocast(device, half, enabled=bool(job["autocast"]))


def _timed(work: Callable[[], None], device: str) -> float:
    begun = _now(device)
    work()
    return _now(device) - begun


def _now(device: str) -> float:
    """Return the time once the device has done all that it was given."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    protocol.serve(calibrate)
