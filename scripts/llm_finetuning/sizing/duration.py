"""How long a run takes on its machine: its forecast, what was observed of it, and what the device reaches."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from llm_finetuning.building.steps import steps_of
from llm_finetuning.planning import decode, hardware, time, time_rates
from llm_finetuning.planning.decode import Serving
from llm_finetuning.planning.job import BYTES, Job
from llm_finetuning.planning.shapes import Architecture
from llm_finetuning.planning.states import NF4
from llm_finetuning.planning.time import Duration, Round
from llm_finetuning.planning.time_rates import Rates
from llm_finetuning.planning.training_time import ADAPTER_LAUNCHES, QUANTIZED_LAUNCHES
from llm_finetuning.recipes.config import Machine, RunConfig
from llm_finetuning.sizing.forecast import Forecast
from llm_finetuning.sizing.observed import Observed
from llm_finetuning.sizing.run_job import ASSUMED_PROMPT
from llm_finetuning.sizing.unknown import Unknown

ASSUMED_SHARE = 0.5
"""Of the cap, or of `max_length`, that a completion or a row is taken to fill where nobody measured it."""

WITH_REFERENCE_PASS = ("dpo", "kto")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """The time of one run."""

    duration: Duration
    rates: Rates
    steps: int | None  # optimizer steps of the whole run; None where the rows were not counted
    notes: tuple[str, ...]


def rates_for(machine: Machine) -> Rates:
    """Return what a device of the machine reaches by the table of cards.

    Raises:
        Unknown: Nothing is known of its speed; nothing is guessed of it.
    """
    if machine.gpus == 0:
        raise Unknown("how fast this CPU is depends on its machine")
    card = hardware.card_named(machine.name, machine.memory_gb)
    rates = time_rates.rates_of(card) if card is not None else None
    if rates is None:
        raise Unknown(time_rates.unknown_words(machine.name))
    return rates


def timed(now: Forecast, model: Architecture, seen: Observed, rates: Rates) -> Timed:
    """Return how long a run takes that has its forecast."""
    config = now.config
    options = {name: option.value for name, option in config.trainer.items()}
    notes = list(seen.notes)
    steps = length_of(now, seen, notes)
    if config.method == "grpo":
        job, turn = _drawing(now, options, seen, notes)
    else:
        job, turn = _reading(now.job, config, options, notes)
    found = time.estimate(model, job, rates, turn)
    if "reward" in found.unknown:
        notes.append("what the rewards take is not in these times: `finetune sample` and `finetune score` measure it")
    return Timed(duration=found, rates=rates, steps=steps, notes=tuple(notes))


def length_of(now: Forecast, seen: Observed, notes: list[str]) -> int | None:
    """Return the optimizer steps of the run, which hang on its rows and its batch alone, and add what is to be noted.

    None where the rows were not counted.
    """
    steps = steps_of(now.config, seen.rows).total if seen.rows else None
    most = now.config.trainer.get("max_steps")
    if steps is None and most is not None and int(most.value or -1) > 0:
        steps = int(most.value)
    if steps is None:
        why = "the data set has no rows" if seen.rows == 0 else "an audit of the data set counts its rows"
        notes.append(f"the run's steps are not known: {why}")
    if steps == 0:
        notes.append(f"no step at all: {seen.rows} rows are fewer than a step takes")
    return steps


def _reading(job: Job, config: RunConfig, options: Mapping[str, Any], notes: list[str]) -> tuple[Job, Round]:
    """Return job and round of a method that trains on rows as they are."""
    if options.get("packing"):
        notes.append("packed rows make fewer steps than there are rows to fill: the run is shorter than it says")
    else:
        notes.append(
            f"rows are taken to be half as long as the longest may be, {job.length} tokens: times grow with them"
        )
        job = replace(job, completion=max(round(job.completion * ASSUMED_SHARE), 1))
    scored = config.method in WITH_REFERENCE_PASS and not options.get("precompute_ref_log_probs")
    return job, Round(processes=config.shape.processes, scorings=int(scored), trainer_s=time.ROWS_TRAINER_S)


def _drawing(now: Forecast, options: Mapping[str, Any], seen: Observed, notes: list[str]) -> tuple[Job, Round]:
    """Return job and round of a method that draws completions."""
    shape = now.config.shape
    per_device, drawn_at_once = int(options["per_device_train_batch_size"]), int(options["steps_per_generation"])
    accumulation, iterations = int(options["gradient_accumulation_steps"]), int(options.get("num_iterations") or 1)
    own = per_device * drawn_at_once
    completions = own * shape.processes
    cap = int(options["max_completion_length"])
    mean = seen.mean
    if mean is None:
        mean = ASSUMED_SHARE * cap
        notes.append(f"no completion was measured: {mean:.0f} tokens are taken for the mean, half of the cap")
    prompt = seen.prompt
    if prompt is None:
        prompt = float(min(now.job.prompt, ASSUMED_PROMPT) / 2)
    serving = _serving(now, prompt + mean)
    engines = shape.processes // serving.tensor_parallel if shape.engine != "server" else 1
    share = -(-completions // max(engines, 1))
    longest = seen.longest_of(share) or decode.longest_of(mean, share, cap)
    padded = seen.longest_of(own) or decode.longest_of(mean, own, cap)
    job = replace(now.job, prompt=max(round(prompt), 1), completion=max(round(padded), 1))
    every = drawn_at_once * iterations
    corrected = shape.engine != "transformers" and bool(options.get("vllm_importance_sampling_correction"))
    old = accumulation % every != 0 or corrected
    return job, Round(
        serving=serving,
        completions=completions,
        prompts=max(completions // int(options["num_generations"]), 1),
        engines=max(engines, 1),
        prompt=prompt,
        mean=mean,
        longest=float(longest),
        steps=every / accumulation,
        processes=shape.processes,
        scorings=int(old) + int(float(options.get("beta") or 0.0) > 0),
        reward_s=seen.reward_s,
        sync={"colocate": "colocate", "server": "server"}.get(shape.engine, "none"),  # type: ignore[arg-type]
        sleeps=now.job.rollout.sleep,
    )


def _serving(now: Forecast, length: float) -> Serving:
    """Return how the policy is kept and run while it generates."""
    job, shape = now.job, now.config.shape
    if shape.engine == "transformers":
        each = float(job.weight_bytes)
        maps, moved = (NF4, 2.0 * job.compute_bytes) if job.tuning == "qlora" else (each, 4.0 if job.casts else 0.0)
        beside = ADAPTER_LAUNCHES if job.adapter is not None else 1.0
        return Serving(
            engine="transformers",
            maps=maps,
            experts=maps if job.quantized_experts else each,
            head=each,
            moved=moved,
            launches=beside * (QUANTIZED_LAUNCHES if job.tuning == "qlora" else 1.0),
            cache=float(job.compute_bytes),
            shares_prompts=False,
        )
    each = float(BYTES[job.rollout.weights])
    packed = job.rollout.quantized
    pool = now.server or now.memory.pool
    window = job.rollout.context or job.length
    held = max(int(pool.sequences * window / max(length, 1.0)), 1) if pool is not None and pool.sequences else None
    return Serving(
        maps=NF4 if packed else each,
        experts=NF4 if packed else each,
        head=each,
        moved=4.0 if packed else 0.0,
        tensor_parallel=len(shape.engine_devices) if shape.engine == "server" else job.rollout.tensor_parallel,
        cache=float(job.rollout.cache_bytes),
        sequences=held,
    )


def facts(found: Timed) -> dict[str, Any]:
    """Return the time of a run as plan.json has it; every figure in seconds."""
    step = found.duration.step
    return {
        "phases": [asdict(stage) for stage in found.duration.stages],
        "step": _interval(step),
        "steps": found.steps,
        "run": _interval(found.duration.run(found.steps)) if found.steps is not None else None,
        "start": found.duration.start,
        "bottleneck": found.duration.bottleneck,
        "unknown": list(found.duration.unknown),
        "rates": {
            "bandwidth_gb_s": found.rates.bandwidth / 1e9,
            "tflops": found.rates.arithmetic / 1e12,
            "source": found.rates.source,
        },
    }


def _interval(values: tuple[float, float, float]) -> dict[str, float]:
    return dict(zip(("seconds", "low", "high"), values, strict=True))
