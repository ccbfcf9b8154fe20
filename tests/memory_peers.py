"""Ask other memory estimators about the jobs on standard input, as the Python that has them installed.

PEERS/bin/python tests/memory_peers.py < jobs.json     `bench_memory.py --peers` starts it; its output is JSON.

A job comes with the model's config.json, its exact number of parameters and every setting. Each adapter tells its
estimator what that takes, by the names it has for it, and returns GiB; what an estimator cannot be told it does not
get. It raises `Unknown` where the run is of a kind that the estimator does not know (LoRA, shards, a second model):
an answer about another run would be no answer. An estimator that is not installed is left out.
"""

import contextlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from memory_asked import GIB, SHARDED, SHORT, Asked, Estimate, empty, everywhere, folder
from memory_shape_peers import (
    canifinetune,
    fitcheck,
    fitscout,
    ftuneai,
    llm_analysis,
    ml_memguard,
    torch_kitsune,
    vramcalc,
)

MB = 10**6 / GIB


def accelerate_estimate(asked: Asked) -> Estimate:
    """What `accelerate estimate-memory` prints under "Training using Adam": for 16 bits the mixed-precision figure."""
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils import calculate_maximum_sizes

    asked.demand("full")
    size, _ = calculate_maximum_sizes(empty(json.dumps(asked.config), "float32", "AutoModel"))
    wide = asked.weights == "float32" and not asked.job["autocast"]
    return everywhere(max(estimate_training_usage(size, "float32" if wide else "float16").values()) / GIB)


def deepspeed_zero2(asked: Asked) -> Estimate:
    """Weights, gradients and states under ZeRO-2 on one GPU without offloading."""
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    asked.demand("full")
    _, device = estimate_zero2_model_states_mem_needs(asked.parameters, cpu_offload=False)
    return everywhere(device / GIB)


def deepspeed_zero3(asked: Asked) -> Estimate:
    """Weights, gradients and states under ZeRO-3 without offloading, over the run's GPUs."""
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs

    asked.demand("full", sharding=SHARDED)
    _, device, _ = estimate_zero3_model_states_mem_needs(
        asked.parameters, asked.largest, num_gpus_per_node=asked.shards, cpu_offload=False, cpu_offload_params=False
    )
    return everywhere(device / GIB)


def alloc(asked: Asked) -> Estimate:
    """Its ghost scan from the number of parameters and the widths."""
    import alloc as peer

    named = {"adamw": "AdamW", "adam8bit": "AdamW8bit", "adafactor": "Adafactor"}
    asked.demand("full", optimizers=tuple(named))
    report = peer.ghost(
        param_count=asked.parameters,
        dtype=asked.weights,
        batch_size=asked.batch,
        seq_length=asked.length,
        hidden_dim=asked.hidden,
        optimizer_type=named[asked.optimizer]
        if asked.weights != "float32"
        else None,  # its table is for 16 bits; none is Adam's
    )
    return everywhere(report.total_gb)


def gpu_estimator(asked: Asked) -> Estimate:
    """All memory that it foresees, for one GPU."""
    from gpu_estimator import GPUEstimator

    asked.demand("full")
    found = GPUEstimator().estimate(
        model_params=asked.parameters,
        batch_size=asked.batch,
        sequence_length=asked.length,
        precision=SHORT[asked.weights],
        optimizer="adamw",
        gradient_checkpointing=asked.checkpointing,
    )
    return everywhere(found.total_memory_gb)


def qmemcalc(asked: Asked) -> Estimate:
    """Its estimate, told the exact numbers of all and of trained parameters."""
    from qmemcalc import estimate_memory

    asked.demand("full", "lora", "qlora", "norms", "bias")
    found = estimate_memory(
        folder(json.dumps(asked.config), asked.parameters),
        asked.batch,
        asked.length,
        lora_r=asked.rank,
        precision=SHORT[asked.weights],
        quantization="4bit" if asked.tuning == "qlora" else "none",
        optimizer="adamw",
        num_trainable_params=asked.trained,
        hidden_size=asked.hidden,
        num_layers=asked.layers,
        gradient_checkpointing=asked.checkpointing,
    )
    return everywhere(found["total_MB"] * MB)


def hf_vram_calc(asked: Asked) -> Estimate:
    """Its training and LoRA figures, which know the weights and the rank alone."""
    from hf_vram_calc.calculator import VRAMCalculator
    from hf_vram_calc.config import ConfigManager

    asked.demand("full", "lora", "qlora")
    peer = VRAMCalculator(ConfigManager())
    weights = peer.calculate_model_memory(asked.parameters, "int4" if asked.tuning == "qlora" else SHORT[asked.weights])
    if asked.tuning == "full":
        return everywhere(peer.calculate_training_memory(weights))
    return everywhere(peer.calculate_lora_memory(weights, asked.parameters, asked.rank))


def vram_check(asked: Asked) -> Estimate:
    """Its estimate from the number of parameters."""
    import vram_check as peer

    asked.demand("full")
    found = peer.estimate(asked.parameters, asked.batch, asked.weights, "adamw", training=True, seq_len=asked.length)
    return everywhere(found.total_gb)


def tinyforge(asked: Asked) -> Estimate:
    """The estimate that its planner of LoRA runs works with, in chunks of the loss where the run has such."""
    from tinyforge import finetune as peer

    asked.demand("lora", "qlora")
    shape = peer.model_shape(folder(json.dumps(asked.config), asked.parameters))
    settings = peer.FTConfig(
        max_len=asked.length,
        lora_r=asked.rank,
        chunked_ce=asked.job["loss"] in ("fused", "liger", "chunked", "eighths"),
    )
    quantization = "4bit" if asked.tuning == "qlora" else "none"
    return everywhere(peer.estimate_vram_gb(shape, settings, quantization, asked.checkpointing, asked.batch))


def trainkit(asked: Asked) -> Estimate:
    """The estimate that its planner of batch sizes works with."""
    from trainkit.memory import estimate_training_vram

    asked.demand("full")
    size = asked.parameters * (4 if asked.weights == "float32" else 2)
    found = estimate_training_vram(size, asked.batch, asked.length, asked.hidden, asked.layers, asked.checkpointing)
    return everywhere(found / GIB)


def train_in_silence(asked: Asked) -> Estimate:
    """The memory that its planner requires of a training workload."""
    from tis.planner.estimator import ResourceEstimator
    from tis.planner.models import ModelSpec, TrainingSpec, Workload

    asked.demand("full", "lora", "qlora")
    model = ModelSpec(
        name="model",
        params=asked.parameters,
        num_layers=asked.layers,
        num_heads=asked.heads,
        num_kv_heads=asked.kv_heads,
        hidden_dim=asked.hidden,
        vocab_size=asked.vocabulary,
        num_experts=asked.experts if asked.experts > 1 else 0,
        active_experts=asked.active if asked.experts > 1 else 0,
    )
    training = TrainingSpec(
        method=asked.tuning,
        precision=asked.narrow if asked.tuning == "qlora" else SHORT[asked.weights],
        batch_size=asked.batch,
        grad_accum=int(asked.job["accumulation"]),
        seq_len=asked.length,
    )
    return everywhere(ResourceEstimator().estimate(Workload(model=model, training=training)).required_vram_gb)


def llm_flops(asked: Asked) -> Estimate:
    """Its training memory, for the config as it reads one from the hub."""
    import llmflops as peer
    from llmflops.registry import _map_hf_config

    asked.demand("full", optimizers=("adamw", "sgd"))
    found = peer.estimate(
        _map_hf_config("model", dict(asked.text)),
        batch_size=asked.batch,
        sequence_length=asked.length,
        precision=SHORT[asked.weights],
        gpu=None,
        flash_attention=asked.job["attention"] != "eager",
        training=True,
        optimizer="adamw" if asked.optimizer == "adamw" else "none",
        gradient_checkpointing=asked.checkpointing,
        allow_hf_fetch=False,
    )
    return everywhere(found["memory"] / GIB)


PEERS: Mapping[str, tuple[str, Callable[[Asked], Estimate]]] = {
    "accelerate estimate-memory,": ("accelerate", accelerate_estimate),
    "DeepSpeed ZeRO-2 states,": ("deepspeed", deepspeed_zero2),
    "DeepSpeed ZeRO-3 states,": ("deepspeed", deepspeed_zero3),
    "llm-analysis": ("llm-analysis", llm_analysis),
    "fitcheck-llm": ("fitcheck-llm", fitcheck),
    "canifinetune": ("canifinetune", canifinetune),
    "vramcalc": ("vramcalc", vramcalc),
    "ftuneai": ("ftuneai", ftuneai),
    "ml-memguard": ("ml-memguard", ml_memguard),
    "torch-kitsune": ("torch-kitsune", torch_kitsune),
    "tinyforge": ("tinyforge", tinyforge),
    "qmemcalc": ("qmemcalc", qmemcalc),
    "hf-vram-calc": ("hf-vram-calc", hf_vram_calc),
    "fitscout": ("fitscout", fitscout),
    "train-in-silence": ("train-in-silence", train_in_silence),
    "alloc": ("alloc", alloc),
    "llm-flops": ("llm-flops", llm_flops),
    "gpu-estimator": ("gpu-estimator", gpu_estimator),
    "vram-check": ("vram-check", vram_check),
    "trainkit-vp": ("trainkit-vp", trainkit),
}


def answers(ask: Callable[[Asked], Estimate], jobs: list[Asked]) -> Iterator[dict[str, Any]]:
    """Yield each job's answer, or why there is none; an estimator that raises gives no answer to that job."""
    for asked in jobs:
        try:
            yield {"gib": dict(ask(asked))}
        except Exception as fault:  # noqa: BLE001  whatever a peer raises is its answer, and the bench prints it
            yield {"why": f"{type(fault).__name__}: {fault}".splitlines()[0]}


def main() -> None:
    """Answer every job with every estimator that is installed here."""
    jobs = [Asked(**stated) for stated in json.load(sys.stdin)]
    found: dict[str, Any] = {}
    os.environ["HF_HUB_OFFLINE"] = "1"
    with contextlib.ExitStack() as quiet:  # what estimators print and log is not for this program's reader
        nowhere = quiet.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
        quiet.enter_context(contextlib.redirect_stdout(nowhere))
        quiet.enter_context(contextlib.redirect_stderr(nowhere))
        for name, (package, ask) in PEERS.items():
            try:
                version = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                continue
            found[name] = {"version": version, "answers": list(answers(ask, jobs))}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
