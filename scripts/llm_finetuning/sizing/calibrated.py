"""A calibration on the machine at hand: the engine that measures, and what its device reaches by those seconds."""

import platform
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from llm_finetuning import artifact, program
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.errors import MachineryFailure, Refusal
from llm_finetuning.planning import decode, training_time
from llm_finetuning.planning.decode import Serving
from llm_finetuning.planning.job import BYTES, Job
from llm_finetuning.planning.shapes import Architecture
from llm_finetuning.planning.time_rates import Rates
from llm_finetuning.sizing.forecast import Forecast
from llm_finetuning.types import Plan

PROMPT, STEPS = 64, 16  # tokens before the decoding steps that are timed, and how many of them
BATCH, TOKENS = 8, 512  # sequences decoded together at most, tokens of the training step

HERE = ("auto", "cpu")  # words for a machine that the brief does not name
LEAST_LEFT = 0.3
"""The share of a measured time that the part which is being solved for keeps, however much the other parts explain."""


def needs(now: Forecast) -> tuple[str, ...]:
    """Return the modules that the interpreter has to have which measures for a run."""
    return ("torch", "transformers", "vllm") if _engine(now) == "vllm" else ("torch", "transformers")


def _engine(now: Forecast) -> str:
    return "vllm" if now.config.shape.engine != "transformers" and now.machine.gpus else "transformers"


def measure(loaded: LoadedBrief, now: Forecast, python: str) -> dict[str, Any]:
    """Return what a short run of the brief's model on this machine measured; `python` has what `needs` names.

    It refuses where the brief plans for GPUs and this machine shows none: the figures would be another machine's.
    """
    job = now.job
    asked = {
        "model": loaded.model_source(),
        "engine": _engine(now),
        "tuning": job.tuning,
        "train_dtype": job.weights,
        "decode_dtype": None,
        "autocast": job.autocast,
        "checkpointing": job.checkpointing,
        "batch": min(max(job.rollout.batch, 1), BATCH),
        "prompt": PROMPT,
        "tokens": TOKENS,
        "steps": STEPS,
        "gpu": now.machine.gpus > 0,
    }
    records = list(program.run_program("calibration", asked, python=python))
    if not records:
        raise MachineryFailure("calibration: ended without a measurement; run it again")
    return {**records[-1], "of": _subject(loaded)}


def kept(loaded: LoadedBrief) -> dict[str, Any] | None:
    """Return what an earlier plan of the same model and hardware measured, if one did."""
    path = loaded.run_dir / "plan.json"
    if not path.exists():
        return None
    try:
        found = artifact.read_json(path, Plan).records[0].calibrated
    except Refusal:
        return None  # it is about to be written anew
    return found if found is not None and found.get("of") == _subject(loaded) else None


def _subject(loaded: LoadedBrief) -> str:
    """Return what a measurement speaks of: the model on a named card, or on this very machine."""
    named = loaded.brief.hardware.strip().lower() not in HERE
    return artifact.digest_value([loaded.part_digest("model", "hardware"), None if named else platform.node()])


def rates_from(measured: Mapping[str, Any], model: Architecture, job: Job, known: Rates | None) -> Rates:
    """Return what a device reaches, so that the formulae give back what was measured.

    Args:
        measured: The record of `engines/calibration.py`: seconds of decoding steps and of a training step.
        model: The model that it was measured with.
        job: The run's job; batch and lengths are those of the measurement.
        known: What the table says of the card, for what a calibration does not tell; None of a CPU.
    """
    weights = float(BYTES[measured["decode_dtype"]])
    serving = Serving(
        engine="vllm" if measured["engine"] == "vllm" else "transformers",
        maps=weights,
        experts=weights,
        head=weights,
    )
    single, several = measured["decode"][0], measured["decode"][-1]
    on_cpu = measured["device"] == "cpu"
    layers = len(model.layers)
    graph_s = 0.0 if on_cpu or known is None else known.graph_s
    read = decode.weights_read(model, serving, 1) + model.cache(int(single["context"])) * weights
    waits = layers * graph_s if serving.engine == "vllm" else 0.0
    reading = max(single["seconds"] - waits, LEAST_LEFT * single["seconds"])
    bandwidth = read / reading
    launch_s = 0.0
    if not on_cpu and serving.engine == "transformers":
        # On a GPU such a step waits for its launches, and its bandwidth does not show.
        launch_s = single["seconds"] / decode.launches(model)
        bandwidth = max(bandwidth, known.bandwidth if known is not None else 0.0)
    trained = replace(
        job,
        tuning="full" if job.tuning == "full" else "lora",
        adapter=None,
        loss="causal_lm",
        batch=int(measured["train"]["batch"]),
        prompt=0,
        completion=int(measured["train"]["tokens"]) // int(measured["train"]["batch"]),
        kept=None,
        padded=False,
        checkpointing=bool(measured["train"]["checkpointing"]),
        accumulation=1,
    )
    bare = Rates(name=str(measured["device"]), bandwidth=bandwidth, arithmetic=1e30, launch_s=0.0)
    seconds = float(measured["train"]["seconds"])
    left = max(seconds - training_time.passes(model, trained, bare).training, LEAST_LEFT * seconds)
    operations = training_time.passes(model, trained, replace(bare, bandwidth=1e30, arithmetic=1.0)).products
    arithmetic = operations / left
    grown = several["seconds"] - single["seconds"]
    work = several["batch"] * decode.flops(model) / arithmetic
    explained = max(work - single["seconds"], 0.0)
    sequence_s = max(grown - explained, 0.0) / max(several["batch"] - 1, 1)
    return Rates(
        name=str(measured["device"]),
        bandwidth=bandwidth,
        arithmetic=arithmetic,
        launch_s=launch_s,
        graph_s=graph_s,
        sequence_s=sequence_s,
        capability=known.capability if known is not None else None,
        unified=known.unified if known is not None else False,
        calibrated=True,
        source=f"measured here: {bandwidth / 1e9:.1f} GB/s, {arithmetic / 1e12:.2f} TFLOP/s",
    )
