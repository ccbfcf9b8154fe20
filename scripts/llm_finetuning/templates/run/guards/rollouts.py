"""What the engine says to a prompt, and what the trained model thinks of that: the two sides that have to agree."""

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig

NEVER_LOADED = -2  # differs from every step, so that the trainer's own code syncs before it generates

GREEDY: dict[str, Any] = {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}


@dataclass(frozen=True, slots=True)
class Rollout:
    """One greedy completion of the engine."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...] | None  # the engine's own, in nats; None where it does not say them


@dataclass(frozen=True, slots=True)
class Agreement:
    """The trained model's view of a rollout, token by token."""

    share: float  # of tokens that are the model's own choice, or as good as it within the gap
    gap: float  # nats: mean distance of the engine's log-probabilities from the model's, or of the token from the best
    first: float  # nats that the first token lies below the model's best; 0 where it is the best


def greedy(trainer: Any, prompts: list[list[int]], length: int) -> list[Rollout]:
    """Sync as a step does, then let the engine complete the prompts greedily; every process takes part."""
    with _greedy_settings(trainer, length):
        completions, logprobs = trainer._generate_single_turn(prompts, None, {}, 1)  # noqa: SLF001  TRL's own step
    said = logprobs if logprobs is not None else [None] * len(prompts)
    return [
        Rollout(tuple(prompt), tuple(tokens), None if own is None else tuple(own))
        for prompt, tokens, own in zip(prompts, completions, said, strict=True)
    ]


@contextlib.contextmanager
def _greedy_settings(trainer: Any, length: int) -> Iterator[None]:
    """Let TRL's own generation be greedy and short, and forget after it that anything was synced."""
    if trainer.use_vllm:
        engine = trainer.vllm_generation
        changed: dict[str, Any] = {
            **GREEDY,
            "max_completion_length": length,
            "generation_kwargs": {},
            "structured_outputs_regex": None,
        }
        before = {name: getattr(engine, name) for name in changed}
        loaded = trainer._last_loaded_step  # noqa: SLF001  no public name
        _set(engine, changed)
        trainer._last_loaded_step = NEVER_LOADED  # noqa: SLF001
        try:
            yield
        finally:
            _set(engine, before)
            trainer._last_loaded_step = loaded  # noqa: SLF001
    else:
        config, given = trainer.generation_config, trainer.generation_kwargs
        kept = {name: given.get(name) for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
        trainer.generation_kwargs = {**kept, "max_new_tokens": length, "do_sample": False}
        trainer.generation_config = GenerationConfig(**trainer.generation_kwargs, disable_compile=True)
        try:
            yield
        finally:
            trainer.generation_config, trainer.generation_kwargs = config, given


def _set(engine: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(engine, name, value)


def agreement(trainer: Any, rollout: Rollout, allowed: float) -> Agreement:
    """Return how the trained model, fed the rollout's own tokens, would have chosen; every process takes part.

    Log-probabilities are at temperature 1, in float32 from the model's logits.
    """
    ids = torch.tensor([[*rollout.prompt, *rollout.tokens]], device=trainer.accelerator.device)
    with torch.no_grad(), trainer.accelerator.autocast():
        logits = trainer.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    scores = torch.log_softmax(logits[0, len(rollout.prompt) - 1 : -1].float(), dim=-1)
    own = scores.gather(1, torch.tensor(rollout.tokens, device=scores.device).unsqueeze(1)).squeeze(1)
    below = (scores.max(dim=1).values - own).nan_to_num(torch.inf)
    gap = below.mean()
    if rollout.logprobs is not None:
        gap = (own - torch.tensor(rollout.logprobs, device=own.device)).abs().nan_to_num(torch.inf).mean()
    return Agreement(
        share=float((below <= allowed).float().mean()),
        gap=float(gap),
        first=float(below[0]),
    )


@contextlib.contextmanager
def undisturbed(trainer: Any) -> Iterator[None]:
    """Look at the model without dropout, and leave its mode and every random number as they were."""
    training = trainer.model.training
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002  the one that TRL seeds
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
    trainer.model.eval()
    try:
        yield
    finally:
        trainer.model.train(training)
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])
        if devices is not None:
            torch.cuda.set_rng_state_all(devices)
