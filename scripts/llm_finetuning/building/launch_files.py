"""The files that start a run: launch.sh, and for several processes accelerate's, vLLM's and Slurm's.

The shell itself lies in `templates/launch/` and is the same for every run; what differs stands as variables above it.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_finetuning.errors import Refusal
from llm_finetuning.recipes import shapes
from llm_finetuning.recipes.config import RunConfig, Shape

PARTS = Path(__file__).resolve().parents[1] / "templates" / "launch"

SERVER_START_S = 600
"""How long a vLLM server may take to answer: loading a 70B model from a cold disk takes about ten minutes."""

SERVER_PORT, GROUP_PORT, RENDEZVOUS_PORT = 8000, 51216, 29500  # TRL's and torch's own
SERVER_MEMORY = 0.9  # of its GPUs, which serve and do nothing else

TOO_FEW = {
    "server": "a vLLM server and a trainer that share one GPU wait for each other for ever",
}

ZERO3: Mapping[str, Any] = {
    "zero_optimization": {
        "stage": 3,
        "overlap_comm": True,
        "contiguous_gradients": True,
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
        "stage3_param_persistence_threshold": "auto",
        "stage3_gather_16bit_weights_on_model_save": True,
    },
    "bf16": {"enabled": "auto"},
    "fp16": {"enabled": "auto"},
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
}
"""DeepSpeed ZeRO-3 without offloading; `auto` is filled by transformers from the trainer's own options."""

FSDP2: Mapping[str, Any] = {
    "fsdp_version": 2,
    "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "fsdp_reshard_after_forward": True,
    "fsdp_offload_params": False,
    "fsdp_cpu_ram_efficient_loading": True,
    "fsdp_activation_checkpointing": False,  # the trainer's gradient_checkpointing does it
    "fsdp_state_dict_type": "FULL_STATE_DICT",
}
"""Fully sharded data parallelism, second version (torch.distributed.fsdp.fully_shard), in accelerate's names."""


def files_for(config: RunConfig) -> dict[str, str]:
    """Return the launch files of a run by name; refuses a device plan with a device in two places."""
    shape = config.shape
    faults = shapes.device_faults(shape)
    if faults:
        raise Refusal(*faults)
    files = {"launch.sh": _launch(config)}
    if _is_launched(shape):
        files["accelerate.yaml"] = _yaml(_accelerate(config))
    if shape.sharding == "zero3":
        files["deepspeed.json"] = json.dumps(ZERO3, indent=2) + "\n"
    if shape.engine == "server":
        files["serve.sh"] = _serve(config)
    if shape.kind == "cluster":
        files["run.slurm"] = _slurm(config)
    return files


def _is_launched(shape: Shape) -> bool:
    """Tell whether accelerate starts the trainer: several processes, or machines that need a rendezvous."""
    return shape.processes > 1 or shape.kind == "cluster"


def _launch(config: RunConfig) -> str:
    shape = config.shape
    head = _head("Starts this run; started again, it goes on from its last checkpoint.", shapes.device_plan(shape))
    if shape.kind == "cluster":
        return head + _part("cluster.sh")
    gpus = len({*shape.trainer_devices, *shape.engine_devices})
    lines = [f"GPUS={gpus}"]
    parts = ["devices.sh"] if gpus else []
    if gpus:
        lines.append(f"TOO_FEW={shlex.quote(TOO_FEW.get(shape.kind, ''))}")
    if shape.processes == 1 and shape.engine != "server":
        one = (
            f"\nCUDA_VISIBLE_DEVICES=$(gpus {shape.trainer_devices[0]})\nexport CUDA_VISIBLE_DEVICES\n" if gpus else ""
        )
        lines = lines if gpus else []
        return head + _variables(lines) + "".join(map(_part, parts)) + one + _part("one_process.sh")
    lines += [f"TRAINER_DEVICES=({' '.join(map(str, shape.trainer_devices))})", *_trainer(shape)]
    parts.append("processes.sh")
    if shape.engine == "server":
        lines += [f"ENGINE_DEVICES=({' '.join(map(str, shape.engine_devices))})", *_server_variables(config)]
        parts += ["health.sh", "server.sh"]
    else:
        parts.append("several_processes.sh")
    return head + _variables(lines) + "".join(map(_part, parts))


def _trainer(shape: Shape) -> list[str]:
    if _is_launched(shape):
        return [
            "LAUNCHED=yes",
            'TRAINER=("$PYTHON" -m accelerate.commands.launch --config_file accelerate.yaml train.py)',
        ]
    return ["LAUNCHED=", 'TRAINER=("$PYTHON" train.py)']


def _server_variables(config: RunConfig) -> list[str]:
    return [
        f"SERVER_PORT={_value(config, 'vllm_server_port', SERVER_PORT)}",
        f"GROUP_PORT={_value(config, 'vllm_group_port', GROUP_PORT)}",
        f"SERVER_START_S=${{SERVER_START_S:-{SERVER_START_S}}} # a large model from a slow disk needs longer",
    ]


def _serve(config: RunConfig) -> str:
    """Return the script that serves the policy as TRL 1.16.0 wants it: `trl vllm-serve` is deprecated and runs this."""
    shape = config.shape
    head = _head("Serves the policy with vLLM; launch.sh starts and ends it.", ())
    options = [
        f"--tensor-parallel-size {len(shape.engine_devices)}",
        f"--dtype {_dtype(config)}",
        f"--gpu-memory-utilization {SERVER_MEMORY}",
    ]
    if _value(config, "vllm_max_model_length", None):
        options.append(f"--max-model-len {config.trainer['vllm_max_model_length'].value}")
    if _value(config, "vllm_model_impl", "vllm") != "vllm":
        options.append(f"--model-impl {shlex.quote(str(config.trainer['vllm_model_impl'].value))}")
    if config.model.get("revision"):
        options.append(f"--revision {shlex.quote(str(config.model['revision']))}")
    if _value(config, "trust_remote_code", default=False):
        options.append("--trust-remote-code")
    lines = [
        f"MODEL={shlex.quote(str(config.model['source']))}",
        f"SERVER_PORT={_value(config, 'vllm_server_port', SERVER_PORT)}",
        f"OPTIONS=({' '.join(options)})",
    ]
    return head + _variables(lines) + _part("serve.sh")


def _slurm(config: RunConfig) -> str:
    """Return the batch script: what to adapt to a cluster stands on top of it."""
    shape = config.shape
    serving = int(shape.engine == "server")
    gpus = max(len(shape.trainer_devices), len(shape.engine_devices))
    directives = [
        "--job-name=finetune",
        f"--nodes={shape.machines}",
        "--ntasks-per-node=1",
        f"--gpus-per-node={gpus}",
        "--exclusive",
        "--time=24:00:00",
        "--signal=B:TERM@600",
        "--output=logs/slurm-%j.log",
    ]
    top = ["#!/usr/bin/env bash", "# What to adapt to your cluster: partition and account, the time, the ports."]
    top += [
        "# The folder must be on a disk that all machines see; --signal leaves time to finish the step and save.",
        *(f"# {line}" for line in _plan(shape)),
    ]
    top += [f"#SBATCH {directive}" for directive in directives]
    top += ["##SBATCH --partition=NAME", "##SBATCH --account=NAME", "set -euo pipefail", *_environment(), ""]
    lines = [
        f"MACHINES={shape.machines}",
        f"SERVING={serving} # machines that serve; the first ones",
        f"export RENDEZVOUS_PORT=${{RENDEZVOUS_PORT:-{RENDEZVOUS_PORT}}} # where the training machines meet",
    ]
    if serving:
        lines += [line for line in _server_variables(config) if not line.startswith("GROUP_PORT")]
        lines.append(f"# Weights go over port {_value(config, 'vllm_group_port', GROUP_PORT)} of the first trainer.")
    parts = ["health.sh", "run.slurm"] if serving else ["run.slurm"]
    return "\n".join(top) + _variables(lines) + "".join(map(_part, parts))


def _accelerate(config: RunConfig) -> dict[str, Any]:
    """Return accelerate's config; machine rank and rendezvous come from the command line where there are several."""
    shape = config.shape
    training_machines = shape.machines - (shape.kind == "cluster" and shape.engine == "server")
    answer: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": _distributed_type(shape),
        "num_machines": training_machines,
        "num_processes": shape.processes,
        "machine_rank": 0,
        "rdzv_backend": "static",
        "same_network": True,
        "main_training_function": "main",
        "use_cpu": False,
    }
    if shape.sharding == "zero3":
        # Precision stands in deepspeed.json alone: accelerate refuses it in both places.
        answer["deepspeed_config"] = {
            "deepspeed_config_file": "deepspeed.json",
            "deepspeed_multinode_launcher": "standard",
            "zero3_init_flag": True,
        }
        return answer
    answer["mixed_precision"] = {"bfloat16": "bf16", "float16": "fp16"}.get(_dtype(config), "no")
    if shape.sharding == "fsdp2":
        answer["fsdp_config"] = FSDP2
    return answer


def _distributed_type(shape: Shape) -> str:
    if shape.processes == 1:
        return "NO"
    # MULTI_GPU also on the CPU: accelerate starts several processes under this name alone, without mpirun, and
    # `use_cpu` of the trainer decides where they compute.
    return {"none": "MULTI_GPU", "zero3": "DEEPSPEED", "fsdp2": "FSDP"}[shape.sharding]


def _dtype(config: RunConfig) -> str:
    """Return what the trainer computes in, which the server must not differ from; in vLLM's spelling."""
    if _value(config, "bf16", default=False):
        return "bfloat16"
    return "float16" if _value(config, "fp16", default=False) else "float32"


def _value(config: RunConfig, option: str, default: Any) -> Any:
    chosen = config.trainer.get(option)
    return default if chosen is None or chosen.value is None else chosen.value


def _plan(shape: Shape) -> tuple[str, ...]:
    return shapes.device_plan(shape)


def _head(purpose: str, plan: Sequence[str]) -> str:
    lines = ["#!/usr/bin/env bash", f"# {purpose}", *(f"# {line}" for line in plan), "set -euo pipefail"]
    lines += ['cd "$(dirname "${BASH_SOURCE[0]}")"', *_environment(), ""]
    return "\n".join(lines)


def _environment() -> list[str]:
    return [
        "export PYTHON=${PYTHON:-python} # the interpreter with requirements.txt installed",
        "# Threads that wait give up their core: spinning ones slow a trainer with several processes tenfold.",
        "export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE} GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-0}",
    ]


def _variables(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in ["", *lines]) if lines else ""


def _part(name: str) -> str:
    return (PARTS / name).read_text("utf-8")


def _yaml(tree: Mapping[str, Any], indent: str = "") -> str:
    """Return a mapping of mappings and plain values as YAML; texts are quoted, so that `no` stays a text."""
    text = ""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            text += f"{indent}{key}:\n{_yaml(value, indent + '  ')}"
        else:
            text += f"{indent}{key}: {json.dumps(value)}\n"
    return text
