"""The memory of a run on its machine: verdict, what breaks, and the share of the device that vLLM needs."""

import math
from dataclasses import dataclass, replace

from llm_finetuning import recipes
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.building.launch_files import SERVER_MEMORY
from llm_finetuning.planning import memory, rollout
from llm_finetuning.planning.job import GIB, Job, Rollout
from llm_finetuning.planning.memory import Memory, Verdict
from llm_finetuning.planning.rollout import Pool
from llm_finetuning.planning.shapes import Architecture
from llm_finetuning.recipes.config import Machine, Measured, Option, RunConfig
from llm_finetuning.sizing.devices import Device
from llm_finetuning.sizing.run_job import RunJob, job_of

SHARE = "vllm_gpu_memory_utilization"
MOST_SHARE = 0.95
ROWS = 1 << 20  # how many rows there are decides nothing of a run's memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a run's memory depends on beside its brief."""

    model: Architecture
    checkpoint_dtype: str | None
    machine: Machine
    device: Device
    longest_prompt: int | None = None
    longest_row: int | None = None  # a bound, of the methods that train on rows as they are


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The `vllm_gpu_memory_utilization` that a run needs, of the whole device."""

    least: float  # with which vLLM starts: its weights and one sequence of the longest length
    ample: float  # with which every completion of a generation is drawn at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The memory of one run on one device."""

    config: RunConfig
    machine: Machine
    device: Device
    job: Job
    memory: Memory
    notes: tuple[str, ...]
    share: Share | None = None  # where vLLM runs, on the trainer's device or on its own
    server: Pool | None = None  # of one of the devices that serve

    @property
    def verdict(self) -> Verdict:
        """Whether it fits."""
        if self.server is not None and self.server.starts is False:
            return "does not fit"
        return self.memory.verdict(self.device.free_gib)

    @property
    def quantized(self) -> bool:
        """Whether the frozen weights are in 4 bits."""
        return self.config.quantization is not None

    @property
    def is_impossible(self) -> bool:
        """Tell whether not even the lowest likely need fits."""
        starts = self.server is None or self.server.starts is not False
        return not starts or self.memory.impossible(self.device.free_gib)

    @property
    def breaking(self) -> tuple[str, ...]:
        """Return the names of the phases that do not fit, the worst first."""
        if self.server is not None and self.server.starts is False:
            return ("server",)
        return tuple(phase.name for phase in self.memory.breaking(self.device.free_gib))


def forecast(loaded: LoadedBrief, situation: Situation) -> Forecast:
    """Return the memory of the run of a brief; refuses a brief that makes no config.

    Raises:
        Unknown: The run has a setting whose memory is not known.
    """
    machine = situation.machine
    found = Measured(longest_prompt=situation.longest_prompt)
    config = recipes.config_for(loaded, machine, ROWS, measured=found)
    return of_config(with_share(config, situation, machine), situation, machine)


def of_config(config: RunConfig, situation: Situation, machine: Machine) -> Forecast:
    """Return the memory of a run that has its config."""
    model, device = situation.model, situation.device
    run = job_of(
        config,
        model,
        checkpoint_dtype=situation.checkpoint_dtype,
        longest_prompt=situation.longest_prompt,
        longest_row=situation.longest_row,
        server_share=SERVER_MEMORY,
    )
    if device.unified:  # paged states move to the host, which is the same memory here
        run = replace(run, job=replace(run.job, optimizer=run.job.optimizer.removeprefix("paged_")))
    estimated = memory.estimate(model, run.job, device.total_gib)
    server = _server(model, run, device)
    pool = server or estimated.pool
    served = run.server or run.job.rollout
    share = share_of(model, run.job, served, pool, device.total_gib) if pool is not None else None
    return Forecast(
        config=config,
        machine=machine,
        device=device,
        job=run.job,
        memory=estimated,
        notes=(*run.notes, *estimated.notes, *device.notes, *_engine_notes(run.job, device)),
        share=share,
        server=server,
    )


def with_share(config: RunConfig, situation: Situation, machine: Machine) -> RunConfig:
    """Return the config with the share of the card that a colocated vLLM gets, where the brief leaves it open.

    It is the recipe's or, where that is more, the one that holds all completions of a generation at once. Where the run
    does not fit with it, the largest of those below with which it does, down to the least with which vLLM starts; where
    none of them helps, the recipe's stays.

    Raises:
        Unknown: The run has a setting whose memory is not known.
    """
    option = config.trainer.get(SHARE)
    if option is None or option.source != "recipe":
        return config
    now = of_config(config, situation, machine)
    if now.share is None or now.memory.pool is None:
        return config
    tried = {option.value, now.share.ample, now.share.least}
    changed = {
        share: _with(config, share, _why(share, now))
        for share in sorted(tried, reverse=True)
        if now.share.least <= share <= MOST_SHARE
    }
    verdicts = {share: of_config(found, situation, machine).verdict for share, found in changed.items()}
    for wanted in ("fits", "tight"):
        for share, verdict in verdicts.items():
            if verdict == wanted:
                return config if share == option.value else changed[share]
    return config


def _with(config: RunConfig, share: float, why: str) -> RunConfig:
    return replace(config, trainer={**config.trainer, SHARE: Option(share, "machine", why)})


def _why(share: float, now: Forecast) -> str:
    if now.share is not None and share >= now.share.ample:
        return f"holds all completions of a generation on {now.device.name} at once"
    return f"vLLM starts with it on {now.device.name} and the run fits; completions wait for each other"


def share_of(model: Architecture, job: Job, served: Rollout, pool: Pool, total_gib: float) -> Share:
    """Return the share of a device that vLLM needs, rounded up to hundredths.

    The upper ends of its weights, of its largest forward pass and of its graphs count; then the cache of one sequence
    as long as its window, and for the ample share that of all completions of a generation at their longest.
    """
    *fixed, window = pool.needs
    base = sum(need.high for need in fixed)
    each = rollout.cache_bytes(model, job.length, served.cache_bytes) / GIB  # a group's batch is shared by its devices
    drawn = max(window.gib, each * served.batch)

    def share(cache: float) -> float:
        return math.ceil(100 * (base + cache) / total_gib) / 100

    return Share(least=share(window.gib), ample=share(drawn))


def _server(model: Architecture, run: RunJob, device: Device) -> Pool | None:
    if run.server is None:
        return None
    return rollout.pool(model, replace(run.job, rollout=run.server), device.total_gib)


def _engine_notes(job: Job, device: Device) -> tuple[str, ...]:
    if job.rollout.engine != "colocate" or not device.unified:
        return ()
    notes = ["vLLM's share is of all memory, the host's included, and is no hard bound while it starts"]
    if job.rollout.sleep:
        notes.append(
            "vllm_enable_sleep_mode: off by default on DGX Spark, where users saw it crash at wake-up (2025); before a "
            "long run let one step pass and see that the canary's completions are those from before the sleep"
        )
    return tuple(notes)
