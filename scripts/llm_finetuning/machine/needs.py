"""What a run asks of the machine that trains it, from its brief and, where there is one, its plan."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llm_finetuning import recipes
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.building.launch_files import GROUP_PORT, RENDEZVOUS_PORT, SERVER_PORT
from llm_finetuning.errors import Refusal
from llm_finetuning.machine.facts import Gpu
from llm_finetuning.planning import architecture, hardware, states
from llm_finetuning.planning.job import GIB
from llm_finetuning.planning.shapes import Architecture, UnknownShape
from llm_finetuning.recipes import shapes, shared
from llm_finetuning.recipes.config import Engine, Machine, RunConfig, Shape
from llm_finetuning.sizing import run_job, situation
from llm_finetuning.sizing.forecast import ROWS
from llm_finetuning.sizing.unknown import Unknown

FAST_KERNELS = {"mamba": ("mamba-ssm", "causal-conv1d"), "delta": ("flash-linear-attention", "causal-conv1d")}
"""Packages without which transformers computes these layers on a slow path (its own warning names them)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What a current plan.json says of the device; GiB."""

    gib: float
    low: float
    high: float
    remedy: str | None = None  # the smallest change that fits, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """One run's demands. What is None is not known, and the check that needs it is skipped."""

    run: str  # the run directory, as a shell takes it
    hardware: str  # as the brief says it
    machine: Machine
    elsewhere: str | None = None  # why this is not the machine of the brief
    faults: tuple[str, ...] = ()  # why there is no config
    versions: Mapping[str, str] = field(default_factory=dict)  # that this product was tried with
    engine: Engine = "transformers"
    processes: int = 1  # of the trainer, on this machine
    sharding: str = "none"
    serving: bool = False  # whether this machine serves, too
    bf16: bool = False
    quantized: bool = False
    adapter: bool = False
    optimizer: str = ""
    attention: str = ""
    workers: int = 0  # of the data loader
    sleep: bool = False
    ports: tuple[int, ...] = ()
    kernels: tuple[str, ...] = ()  # packages without which layers of this model are slow
    load_gib: float | None = None  # of the host, while weights are loaded; the largest file counts beside it
    checkpoint_gib: float | None = None
    final_gib: float = 0.0  # the saved model at the end
    kept: int | None = None  # checkpoints that stay; None: all
    size_fault: str | None = None  # why the sizes are not known
    plan: Planned | None = None
    plan_fault: str | None = None  # why there is no plan to hold the memory against

    @property
    def on_gpu(self) -> bool:
        """Whether the run computes on a GPU of this machine."""
        return self.machine.gpus > 0 and self.elsewhere is None


def of(loaded: LoadedBrief, gpus: Sequence[Gpu], *, broken_driver: bool = False) -> Needs:
    """Return what the run asks of a machine with these GPUs.

    Args:
        loaded: The brief.
        gpus: What the driver names here.
        broken_driver: Whether there is a driver that does not answer; `auto` then means a GPU that is not known.
    """
    text = loaded.brief.hardware.strip().lower()
    if text == "auto":
        machine = Machine(name="gpu", gpus=1) if broken_driver else machine_of(gpus)
    else:
        machine = shapes.machine_of(text)
    elsewhere = None if broken_driver else _elsewhere(text, machine, gpus)
    needs = Needs(run=shlex.quote(str(loaded.run_dir)), hardware=text, machine=machine, elsewhere=elsewhere)
    try:
        config = recipes.config_for(loaded, machine, ROWS)
    except Refusal as refusal:
        bare = Shape(kind="cpu", engine="transformers", processes=1)
        words = "the brief makes no config"
        return replace(needs, faults=refusal.lines, size_fault=words, versions=shared.versions(bare))
    return _sized(loaded, config, _configured(needs, config))


def machine_of(gpus: Sequence[Gpu]) -> Machine:
    """Return the machine that these GPUs make, as `hardware: auto` names it."""
    if not gpus:
        return Machine(name="cpu", gpus=0)
    sizes = [gpu.total_gib for gpu in gpus if gpu.total_gib is not None]
    memory = round(min(sizes), 1) if len(sizes) == len(gpus) else None
    return Machine(name=shapes.card_of(gpus[0].name), gpus=len(gpus), memory_gb=memory)


def _elsewhere(text: str, machine: Machine, gpus: Sequence[Gpu]) -> str | None:
    """Return why a machine that the brief names is not this one."""
    if text in ("auto", "cpu"):
        return None
    alike = [gpu for gpu in gpus if _is_card(gpu, machine.name)]
    if len(alike) >= machine.gpus:
        return None
    here = ", ".join(dict.fromkeys(gpu.name for gpu in gpus)) or "no GPU"
    count = f"{len(gpus)} x " if len(gpus) > 1 else ""
    return f"the brief is for `{text}`, and this machine has {count}{here}"


def _is_card(gpu: Gpu, name: str) -> bool:
    if name == "gpu":
        return True
    short = shapes.card_of(gpu.name)
    wanted, found = hardware.card_named(name), hardware.card_named(short, gpu.total_gib)
    return short == name or (wanted is not None and found is not None and wanted.name == found.name)


def _configured(needs: Needs, config: RunConfig) -> Needs:
    options = {name: option.value for name, option in config.trainer.items()}
    shape = config.shape
    here = len(shape.trainer_devices) if shape.trainer_devices else 1
    return replace(
        needs,
        versions=config.versions,
        engine=shape.engine,
        processes=here,
        sharding=shape.sharding,
        serving=shape.engine == "server" and shape.machines == 1,
        bf16=bool(options.get("bf16")),
        quantized=config.quantization is not None,
        adapter=config.adapter is not None,
        optimizer=str(options.get("optim") or ""),
        attention=str(config.model["init_kwargs"].get("attn_implementation") or ""),
        workers=int(options.get("dataloader_num_workers") or 0),
        sleep=bool(options.get("vllm_enable_sleep_mode")),
        ports=_ports(options, server=shape.engine == "server", processes=shape.processes),
        kept=options.get("save_total_limit"),
    )


def _ports(options: dict[str, Any], *, server: bool, processes: int) -> tuple[int, ...]:
    found = []
    if server:
        found += [
            int(options.get("vllm_server_port") or SERVER_PORT),
            int(options.get("vllm_group_port") or GROUP_PORT),
        ]
    return tuple(found + ([RENDEZVOUS_PORT] if processes > 1 else []))


def _sized(loaded: LoadedBrief, config: RunConfig, needs: Needs) -> Needs:
    """Return the needs with the sizes of checkpoints and of loading, where the model's shape is known."""
    try:
        found = situation.config_of(loaded)
        model = architecture.read(found.values)
        job = run_job.job_of(config, model, checkpoint_dtype=found.dtype, longest_prompt=None, server_share=0.0).job
    except (Unknown, UnknownShape) as unknown:
        return replace(needs, size_fault=str(unknown))
    except Refusal as refusal:
        return replace(needs, size_fault=refusal.lines[0])
    kept = states.states(model, job)
    saved = (kept.adapter if job.tuning in ("lora", "qlora") else kept.weights) * job.shards
    copies = needs.processes if needs.machine.gpus and needs.processes > 1 else 0
    return replace(
        needs,
        kernels=_kernels(model),
        checkpoint_gib=(saved + kept.optimizer * job.shards) / GIB,
        final_gib=saved / GIB,
        load_gib=copies * states.weight_bytes(model, job) / GIB if needs.sharding == "none" else 0.0,
    )


def _kernels(model: Architecture) -> tuple[str, ...]:
    kinds = {layer.mixer.kind for layer in model.layers}
    return tuple(dict.fromkeys(name for kind in sorted(kinds) for name in FAST_KERNELS.get(kind, ())))
