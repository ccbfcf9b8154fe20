"""Train small models for two steps on the CPU and print what the allocator held at most in each phase of the second.

A program for the training interpreter: `python memory_step.py JOBS.json`, an object of name and job; prints an object
of name and phases in bytes. What the allocator gives and takes is read from the profiler's memory events.
"""

import json
import os
import sys
from itertools import accumulate
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from peft import LoraConfig, get_peft_model
from torch.profiler import ProfilerActivity, profile, record_function
from transformers import AutoConfig, AutoModelForCausalLM

PHASES = ("forward", "backward", "optimizer step")


def built(job: dict[str, Any]) -> Any:
    """Return the model of a job as a trainer has it: loaded in its dtype, with adapter and checkpointing."""
    config = dict(job["config"])
    kind = config.pop("model_type")
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(kind, **config), dtype=getattr(torch, job["weights"]), attn_implementation="sdpa"
    )
    if job["checkpointing"]:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    if job["rank"]:
        adapter = LoraConfig(r=job["rank"], target_modules="all-linear", lora_dropout=0.0, task_type="CAUSAL_LM")
        model = get_peft_model(model, adapter)
    return model.train()


def step(model: Any, optimizer: Any, tokens: Any, mask: Any, *, autocast: bool) -> None:
    """Train one step, each phase under its own name."""
    with record_function("forward"), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = model(input_ids=tokens, attention_mask=mask, labels=tokens, use_cache=False).loss
    with record_function("backward"):
        loss.backward()
    del loss  # as in a trainer's step: it would hold the inputs of the first layer
    with record_function("optimizer step"):
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def measured(job: dict[str, Any]) -> dict[str, float]:
    """Return the most bytes held in each phase of the second step, weights and optimizer states included."""
    torch.manual_seed(0)
    model = built(job)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    tokens = torch.randint(0, job["config"]["vocab_size"], (job["batch"], job["length"]))
    mask = torch.ones_like(tokens)
    mask[0, : job["length"] // 8] = 0  # padded on the left, as completions are: the mask is real
    step(model, optimizer, tokens, mask, autocast=job["autocast"])
    resting = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    resting += sum(
        state.numel() * state.element_size()
        for states in optimizer.state.values()
        for state in states.values()
        if torch.is_tensor(state)
    )
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step(model, optimizer, tokens, mask, autocast=job["autocast"])
    return {name: resting + most for name, most in most_held(seen).items()}


def most_held(seen: Any) -> dict[str, int]:
    """Return the most bytes above the start in each named phase."""
    events = sorted(seen.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    changes = [(event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"]
    held = list(accumulate(size for _, size in changes))
    spans = {event.name(): (event.start_ns(), event.end_ns()) for event in events if event.name() in PHASES}
    return {
        name: max(size for (at, _), size in zip(changes, held, strict=True) if begun <= at <= ended)
        for name, (begun, ended) in spans.items()
    }


def main() -> None:
    """Measure every job of the file."""
    jobs = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    print("\n" + json.dumps({name: measured(job) for name, job in jobs.items()}))  # noqa: T201  the answer


if __name__ == "__main__":
    main()
