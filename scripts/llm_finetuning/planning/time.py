"""How long a step and a run take, phase by phase, each with its interval and its formula, and what holds them up."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from llm_finetuning.planning.decode import Drawn, RolloutTime, Serving, rollout
from llm_finetuning.planning.job import GIB, Job
from llm_finetuning.planning.shapes import Architecture
from llm_finetuning.planning.time_rates import Rates
from llm_finetuning.planning.training_time import (
    Passes,
    optimizer_step,
    passes,
    policy_bytes,
)

StageName = Literal["rollout", "reward", "log-probabilities", "training", "optimizer step", "weight sync", "trainer"]

SLEEP_S = 1.5
"""To put vLLM to sleep and to wake it, 0.3 to 1 s each by its own logs."""

TENSOR_S = 0.3e-3
"""To hand one tensor over to the engine, beside moving its bytes."""

TRAINER_S = 1.0
"""A GRPO step's own work of the trainer: tokenizing, padding, metrics, logging. A tiny model's step of TRL takes 3.3 s
with vLLM's sleep in it (trl issue 5312)."""

ROWS_TRAINER_S = 0.05
"""Likewise of a step on rows that are tokenized already: PEFT's whole step of a 3B takes 0.19 s (L40S)."""

START_S, ENGINE_START_S = 30.0, 45.0
"""To import the libraries and build the trainer; and for vLLM to measure itself and capture its graphs."""

LOAD_BYTES_S, UNIFIED_LOAD_BYTES_S = 1e9, 0.16e9
"""Weights from disk to the device. On DGX Spark 98.6 GiB took 651 s (safetensors straight to the device)."""

KNOWN = 1.3  # by which a time that follows from one that was measured may be off
UNSURE = 3.0  # likewise of the small phases, of which little is published

_FORMULAE: dict[StageName, str] = {
    "rollout": "steps of the longest completion x (weights and caches read / bandwidth, or the batch's products / "
    "arithmetic, + {wait}) + prompts' products / arithmetic",
    "reward": "completions of one process x seconds a completion at the gate",
    "log-probabilities": "passes without gradients x (2 operations a weight and token / arithmetic + bytes moved / "
    "bandwidth)",
    "training": "micro-batches x ({count} operations a weight and token / arithmetic + bytes moved / bandwidth), or "
    "the host's launches where they take longer",
    "optimizer step": "bytes of weights, gradients and states read and written / bandwidth",
    "weight sync": "bytes of the policy read and written / bandwidth + 0.3 ms a tensor{sleep}",
    "trainer": "{own:g} s a step for tokenizing, padding, metrics and logs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one generation and the steps that it feeds consist of, beside the job."""

    serving: Serving | None = None  # None for a method without rollouts
    completions: int = 0  # drawn at once, by all engines together
    prompts: int = 0  # different ones among them
    engines: int = 1  # that draw side by side
    prompt: float = 0.0  # tokens in the mean
    mean: float = 0.0  # tokens of a completion in the mean
    longest: float = 0.0  # tokens of the longest one of a generation
    steps: float = 1.0  # optimizer steps that one generation feeds
    processes: int = 1  # of the trainer
    scorings: int = 0  # passes without gradients over every completion: old policy, reference
    reward_s: float | None = None  # of one completion; None where nobody measured it
    sync: Literal["none", "colocate", "server"] = "none"
    sleeps: bool = False
    offload_s: float = 0.0  # to move trainer and engine out of each other's way, where a framework does
    trainer_s: float = TRAINER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One phase of an optimizer step, in seconds."""

    name: StageName
    seconds: float
    low: float
    high: float
    formula: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """How long an optimizer step takes, and a whole run."""

    stages: tuple[Span, ...]
    bottleneck: str  # the longest phase, and what bounds it
    start: float  # seconds before the first step
    rollout: RolloutTime | None
    passes: Passes
    unknown: tuple[str, ...] = ()  # phases that are in no sum

    @property
    def step(self) -> tuple[float, float, float]:
        """Seconds of one optimizer step, and its interval."""
        return (
            sum(stage.seconds for stage in self.stages),
            sum(stage.low for stage in self.stages),
            sum(stage.high for stage in self.stages),
        )

    def run(self, steps: int) -> tuple[float, float, float]:
        """Return the seconds of so many steps with the start, and their interval."""
        likely, low, high = self.step
        return (
            self.start + steps * likely,
            self.start / KNOWN + steps * low,
            self.start * UNSURE + steps * high,
        )

    def seconds(self, name: StageName) -> float:
        """Return the seconds of a phase; 0 where there is none."""
        return next((stage.seconds for stage in self.stages if stage.name == name), 0.0)


def estimate(model: Architecture, job: Job, rates: Rates, turn: Round) -> Duration:
    """Return how long a step takes.

    Args:
        model: What `architecture.read` says of the model.
        job: The run's settings, its lengths those of a padded micro-batch in the mean.
        rates: What one device of the trainer and of the engine reaches.
        turn: What is drawn, scored and handed over for each step.
    """
    each = passes(model, job, rates)
    drawn = None
    if turn.serving is not None and turn.completions:
        share = math.ceil(turn.completions / turn.engines)
        wanted = Drawn(
            sequences=share,
            prompts=math.ceil(turn.prompts / turn.engines),
            prompt=turn.prompt,
            mean=turn.mean,
            longest=turn.longest,
        )
        drawn = rollout(model, rates, turn.serving, wanted)
    stages = tuple(_stages(model, job, rates, turn, each, drawn))
    longest = max(stages, key=lambda stage: stage.seconds)
    unknown = ("reward",) if drawn is not None and turn.reward_s is None else ()
    return Duration(
        stages=stages,
        bottleneck=_bound_words(longest, drawn, each),
        start=_start(model, job, rates, turn),
        rollout=drawn,
        passes=each,
        unknown=unknown,
    )


def _stages(
    model: Architecture, job: Job, rates: Rates, turn: Round, each: Passes, drawn: RolloutTime | None
) -> Iterator[Span]:
    rated = rates.error
    if drawn is not None:
        wait = "what its launches take" if turn.serving and turn.serving.graphs else "launches of every operation"
        yield _span("rollout", drawn.seconds / turn.steps, rated, wait=wait)
        if turn.reward_s is not None:
            yield _span("reward", turn.reward_s * turn.completions / turn.processes / turn.steps, KNOWN)
    if turn.scorings:
        batches = job.accumulation if drawn is None else turn.completions / turn.processes / job.rows / turn.steps
        yield _span("log-probabilities", turn.scorings * batches * each.scoring, rated)
    count = (6 if job.tuning == "full" else 4) + (2 if job.checkpointing else 0)
    yield _span("training", each.training * job.accumulation, rated, count=count)
    yield _span("optimizer step", optimizer_step(model, job, rates), UNSURE)
    if turn.sync != "none" or turn.offload_s:
        sleep = f" + {SLEEP_S:g} s asleep and awake" if turn.sleeps else ""
        yield _span("weight sync", _sync(model, job, rates, turn) / turn.steps, UNSURE, sleep=sleep)
    yield _span("trainer", turn.trainer_s, UNSURE, own=turn.trainer_s)


def _span(name: StageName, seconds: float, factor: float, **words: object) -> Span:
    return Span(
        name=name,
        seconds=seconds,
        low=seconds / factor,
        high=seconds * factor,
        formula=_FORMULAE[name].format(**words),
    )


def _sync(model: Architecture, job: Job, rates: Rates, turn: Round) -> float:
    """Return the seconds of handing the policy to the engine; an adapter is merged into it on the way."""
    if turn.sync == "none":
        return turn.offload_s
    size = policy_bytes(model, job)
    moved = size + 2.0 * model.total * (2 if job.adapter is not None else 1)
    seconds = moved / rates.bandwidth
    if turn.sync == "server":
        seconds += 2.0 * model.total / rates.link_bytes_s
    tensors = sum(len(layer.linears()) + layer.norms + 2 * layer.mlp.experts for layer in model.layers)
    return seconds + tensors * TENSOR_S + (SLEEP_S if turn.sleeps else 0.0) + turn.offload_s


def _start(model: Architecture, job: Job, rates: Rates, turn: Round) -> float:
    seconds = START_S + policy_bytes(model, job) / load_bytes_s(rates)
    if turn.serving is not None and turn.serving.engine == "vllm":
        seconds += ENGINE_START_S + 2.0 * model.total / load_bytes_s(rates)
    return seconds


def load_bytes_s(rates: Rates) -> float:
    """Return how many bytes of weights a second come from disk onto the device."""
    return UNIFIED_LOAD_BYTES_S if rates.unified else LOAD_BYTES_S


def load_seconds(gib: float, rates: Rates) -> float:
    """Return how long so many GiB of weights take from disk onto the device."""
    return gib * GIB / load_bytes_s(rates)


def _bound_words(longest: Span, drawn: RolloutTime | None, each: Passes) -> str:
    if longest.name == "rollout" and drawn is not None:
        kind = drawn.bound
        if drawn.prefill > drawn.decode:
            return "rollout: reading the prompts"
        said = {
            "bandwidth": "bound by memory bandwidth",
            "arithmetic": "bound by arithmetic",
            "launches": "bound by launches, not by the card",
        }
        return f"rollout: {said[kind]}"
    if longest.name == "training":
        if each.host >= each.training:
            return "training: bound by launches, not by the card"
        words = "bound by arithmetic" if 2 * each.products >= each.training else "bound by memory bandwidth"
        return f"training: {words}"
    return "trainer: its own work, not the card's" if longest.name == "trainer" else str(longest.name)
