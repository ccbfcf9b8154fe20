"""The smallest changes of a brief with which its run fits, in the order of what they cost in quality and speed.

Each change is one that the brief takes, and each set of them goes through the recipe and the planner anew. They are
added one by one, the cheapest first, until the run fits; then those that it also fits without are taken back, the
dearest first. What is left is the answer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llm_finetuning.brief import Brief, LoadedBrief
from llm_finetuning.errors import Refusal
from llm_finetuning.planning.memory import Verdict
from llm_finetuning.recipes import shapes, shared
from llm_finetuning.sizing.forecast import Forecast, Situation, forecast
from llm_finetuning.sizing.unknown import Unknown

GPUS = (2, 4, 8)
EIGHT_BIT = "adamw_bnb_8bit"

Change = Mapping[str, Any]
"""Options of the brief's `training`, or `hardware`, with their new values; None takes an option out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change that may make a run smaller."""

    name: str
    cost: str  # in quality or speed, for a person
    change: Callable[[Forecast, Brief], Change | None]  # None where it changes nothing or cannot be made
    derived: bool = False  # from what all other changes leave, so that it comes after them


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What a set of changes comes to."""

    added: str  # the change that the set before did not have
    names: tuple[str, ...]
    costs: tuple[str, ...]
    change: Change
    gib: float
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedies:
    """The smallest set of changes that fits, and all sets that were tried; each has the changes before it too."""

    found: Attempt | None
    tried: tuple[Attempt, ...]


def search(loaded: LoadedBrief, situation: Situation, now: Forecast) -> Remedies:
    """Return the smallest changes with which a run fits, or has room to spare where it only just fits.

    Args:
        loaded: The brief of the run.
        situation: Its model and machine.
        now: Its forecast as it stands.
    """
    wanted: Sequence[Verdict] = ("fits",) if now.verdict == "tight" else ("fits", "tight")
    steps = [*_steps(now)]
    tried: list[Attempt] = []
    for count in range(1, len(steps) + 1):
        attempt = _attempt(loaded, situation, now, steps[:count])
        if attempt is None or (tried and attempt.change == tried[-1].change):
            continue
        tried.append(attempt)
        if attempt.verdict in wanted:
            return Remedies(found=_pruned(loaded, situation, now, steps[:count], attempt, wanted), tried=tuple(tried))
    return Remedies(found=None, tried=tuple(tried))


def _pruned(
    loaded: LoadedBrief,
    situation: Situation,
    now: Forecast,
    steps: Sequence[Step],
    whole: Attempt,
    wanted: Sequence[Verdict],
) -> Attempt:
    """Return the set without what it also fits without."""
    kept, best = list(steps), whole
    for step in reversed(steps):
        without = [one for one in kept if one is not step]
        attempt = _attempt(loaded, situation, now, without)
        if attempt is not None and attempt.verdict in wanted:
            kept, best = without, attempt
    return best


def _attempt(loaded: LoadedBrief, situation: Situation, now: Forecast, steps: Sequence[Step]) -> Attempt | None:
    """Return what the steps come to; None where none of them changes anything, or the brief refuses them."""
    changed, where, outcome = loaded, situation, now
    change: dict[str, Any] = {}
    costs: dict[str, str] = {}
    try:
        for step in sorted(steps, key=lambda one: one.derived):
            if step.derived and change:
                outcome = forecast(changed, where)
            made = step.change(outcome, changed.brief)
            if made:
                changed, where = with_change(changed, where, made)
                change.update(made)
                costs[step.name] = step.cost
        outcome = forecast(changed, where)
    except (Refusal, Unknown):
        return None
    before = loaded.brief.training
    change = {name: value for name, value in change.items() if value is not None or name in before}
    if not change:
        return None
    return Attempt(
        added=steps[-1].name if steps else "",
        names=tuple(costs),
        costs=tuple(costs.values()),
        change=change,
        gib=outcome.memory.device.gib,
        verdict=outcome.verdict,
    )


def with_change(loaded: LoadedBrief, situation: Situation, change: Change) -> tuple[LoadedBrief, Situation]:
    """Return brief and situation with a change made."""
    training = {name: value for name, value in loaded.brief.training.items() if name not in change}
    training |= {name: value for name, value in change.items() if value is not None and name != "hardware"}
    update: dict[str, Any] = {"training": training}
    if "hardware" in change:
        update["hardware"] = change["hardware"]
        machine = replace(shapes.machine_of(change["hardware"]), memory_gb=situation.machine.memory_gb)
        situation = replace(situation, machine=machine)
    return replace(loaded, brief=loaded.brief.model_copy(update=update)), situation


def words_of(change: Change) -> str:
    """Return a change as a person writes it into the brief."""
    training = ", ".join(
        f"{name}: {_text(value)}" for name, value in change.items() if value is not None and name != "hardware"
    )
    parts = [f"`training: {{{training}}}`"] if training else []
    if "hardware" in change:
        parts.append(f"`hardware: {change['hardware']}`")
    taken = [name for name, value in change.items() if value is None]
    if taken:
        parts.append(f"without {', '.join(taken)}")
    return ", ".join(parts)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_text(one)}" for key, one in value.items()) + "}"
    return str(value)


def _steps(now: Forecast) -> Iterator[Step]:
    """Yield every change, the cheapest first."""
    yield Step(name="vLLM's window", cost="none", change=_window, derived=True)
    yield Step(name="reference's log-probabilities in advance", cost="none", change=_precompute)
    yield Step(name="frozen weights in 16 bits", cost="none", change=_frozen_dtype)
    yield Step(name="the share that vLLM needs", cost="none", change=_ample_share, derived=True)
    for size in _smaller_batches(now):
        yield Step(
            name="smaller batches, more of them",
            cost="speed: smaller matrices",
            change=lambda _, brief, size=size: _batch(now, brief, size),  # type: ignore[misc]
        )
    yield Step(name="gradient checkpointing", cost="speed: a forward pass more", change=_checkpointing)
    yield Step(name="vLLM asleep while training", cost="speed: its weights are sent anew each time", change=_sleep)
    yield Step(name="the least share of vLLM", cost="speed: completions wait", change=_least_share, derived=True)
    yield Step(name="8-bit optimizer", cost="quality: states rounded in blocks", change=_eight_bit)
    yield Step(name="LoRA", cost="quality: few weights are trained", change=_lora)
    yield Step(name="QLoRA", cost="quality and speed: frozen weights in 4 bits", change=_qlora)
    words = "quality: weights trained in 16 bits hardly move at small learning rates"
    yield Step(name="trained weights in 16 bits", cost=words, change=_trained_dtype)
    for gpus in GPUS:
        yield Step(
            name="more GPUs",
            cost="money",
            change=lambda forecast_now, _, gpus=gpus: _more_gpus(forecast_now, gpus),  # type: ignore[misc]
        )


def _window(now: Forecast, _: Brief) -> Change | None:
    if now.share is None:
        return None
    said = now.config.trainer["vllm_max_model_length"].value
    needed = now.job.length
    return {"vllm_max_model_length": needed} if said is None or said > needed else None


def _ample_share(now: Forecast, _: Brief) -> Change | None:
    return _share(now, now.share.ample) if now.share is not None else None


def _least_share(now: Forecast, _: Brief) -> Change | None:
    return _share(now, now.share.least) if now.share is not None else None


def _share(now: Forecast, share: float) -> Change | None:
    """Return the share where it is less than the run's, or where vLLM would not start with the run's."""
    if now.memory.pool is None or share > 1:
        return None
    said = now.job.rollout.utilization
    if share < said or now.memory.pool.starts is False:
        return {"vllm_gpu_memory_utilization": share}
    return None


def _precompute(now: Forecast, brief: Brief) -> Change | None:
    return {"precompute_ref_log_probs": True} if brief.method in ("dpo", "kto") and now.job.reference else None


def _frozen_dtype(now: Forecast, brief: Brief) -> Change | None:
    half = shared.half_precision(now.machine)
    if now.config.adapter is None or half is None or now.job.weights != "float32":
        return None
    return {"model_init_kwargs": {**(brief.training.get("model_init_kwargs") or {}), "dtype": half}}


def _trained_dtype(now: Forecast, brief: Brief) -> Change | None:
    half = shared.half_precision(now.machine)
    if brief.training.get("adapter") in ("lora", "qlora") or half is None or now.job.weights != "float32":
        return None
    return {"model_init_kwargs": {**(brief.training.get("model_init_kwargs") or {}), "dtype": half}}


def _smaller_batches(now: Forecast) -> list[int]:
    """Return the sizes that hold as many rows a step, half as many at once each time; KTO refuses one."""
    least = 2 if now.config.method == "kto" else 1
    size, found = now.job.batch, []
    while size % 2 == 0 and size // 2 >= least:
        size //= 2
        found.append(size)
    if size > least and now.job.batch % least == 0:
        found.append(least)  # an odd number cannot be halved
    return found


def _batch(now: Forecast, brief: Brief, size: int) -> Change:
    factor = now.job.batch // size
    change = {
        "per_device_train_batch_size": size,
        "gradient_accumulation_steps": now.job.accumulation * factor,
    }
    if "steps_per_generation" in brief.training:
        steps = now.config.trainer["steps_per_generation"].value
        change["steps_per_generation"] = steps * factor
    return change


def _checkpointing(now: Forecast, _: Brief) -> Change | None:
    return None if now.job.checkpointing else {"gradient_checkpointing": True}


def _sleep(now: Forecast, _: Brief) -> Change | None:
    if now.memory.pool is None or now.job.rollout.sleep or not shapes.allows_sleep(now.machine):
        return None
    return {"vllm_enable_sleep_mode": True}


def _eight_bit(now: Forecast, brief: Brief) -> Change | None:
    full = brief.training.get("adapter", "none") in (None, "none")
    if not full or now.job.sharding != "none" or "8bit" in now.job.optimizer or now.job.device == "cpu":
        return None
    return {"optim": EIGHT_BIT}


def _lora(now: Forecast, brief: Brief) -> Change | None:
    if now.config.adapter is not None:
        return None
    return {"adapter": "lora", **_of_adapter(now, brief)}


def _qlora(now: Forecast, brief: Brief) -> Change | None:
    if now.quantized or now.job.device == "cpu":
        return None
    sharded: dict[str, Any] = {name: None for name in ("deepspeed", "fsdp", "fsdp_config") if name in brief.training}
    return {"adapter": "qlora", **_of_adapter(now, brief), **sharded}


def _of_adapter(now: Forecast, brief: Brief) -> dict[str, Any]:
    """Return what else changes with full fine-tuning given up: its rate, its 32-bit weights, its optimizer."""
    change: dict[str, Any] = {}
    if now.config.adapter is None:
        change |= {name: None for name in ("learning_rate", "optim") if name in brief.training}
    kwargs = dict(brief.training.get("model_init_kwargs") or {})
    if kwargs.get("dtype") == "float32":
        change["model_init_kwargs"] = {name: value for name, value in kwargs.items() if name != "dtype"} or None
    return change


def _more_gpus(now: Forecast, gpus: int) -> Change | None:
    """Return the same card more often: full fine-tuning is then sharded, and vLLM serves from GPUs of its own."""
    machine = now.machine
    if machine.gpus < 1 or gpus <= machine.gpus or machine.machines > 1 or machine.name in (shapes.SPARK, "gpu"):
        return None
    return {"hardware": f"{gpus}x{machine.name}"}
