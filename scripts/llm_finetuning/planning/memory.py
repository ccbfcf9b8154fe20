"""The peak memory of a run on one device, by phase and by part, each with its formula and its interval."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from llm_finetuning.planning import activations, rollout
from llm_finetuning.planning.activations import LayerNeeds
from llm_finetuning.planning.head import Head, head
from llm_finetuning.planning.job import GIB, Job, Quantity
from llm_finetuning.planning.shapes import Architecture, Layer
from llm_finetuning.planning.states import States, adapted, states

PhaseName = Literal["rollout", "log-probabilities", "forward", "backward", "optimizer step", "weight sync"]
Verdict = Literal["fits", "tight", "does not fit", "unknown"]

TIGHT = 0.85
"""From this share of the device on, a run is called tight: fragmentation may take the rest."""

_FORMULAE: Mapping[str, str] = {
    "weights": "parameters x bytes as loaded; 4-bit maps 0.5625 B (0.516 doubly quantised), the rest as loaded",
    "adapter": "rank x (inputs + outputs) of every adapted map x bytes",
    "reference": "a second copy in the policy's own dtype",
    "other models": "as stated for the run",
    "gradients": "trained parameters x bytes of a parameter",
    "optimizer": "two moments in the parameter's dtype; 8-bit: 2.03 B, embeddings 8 B",
    "optimizer step": "foreach AdamW: one copy of the second moments",
    "activations": "tokens x (16h + 8i + 4(nq + k) d + 4 nq) a layer; checkpointed: 2h each and one layer whole",
    "layer": "the operation at work in one layer: gradients of its widest products",
    "autocast": "2 B x weights of the layers' maps, until the forward pass ends",
    "head": "by the path of the loss",
    "gathered shards": "two layers and the embeddings whole, in the dtype of the arithmetic",
    "vLLM": "gpu_memory_utilization x the device's memory; asleep 0.5 to 2 GiB",
    "generation": "KV cache of the whole generation batch, and its logits",
}
_ERRORS: Mapping[str, float] = {
    "weights": 0.01,
    "adapter": 0.01,
    "reference": 0.01,
    "other models": 0.02,
    "gradients": 0.01,
    "optimizer": 0.02,
    "optimizer step": 0.05,
    "autocast": 0.05,
    "activations": 0.18,
    "layer": 0.35,
    "head": 0.15,
    "gathered shards": 0.5,
    "vLLM": 0.03,
    "generation": 0.1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The most that one phase of a step holds at once."""

    name: PhaseName
    parts: tuple[Quantity, ...]

    @property
    def gib(self) -> float:
        """Allocated at the peak, GiB."""
        return sum(part.gib for part in self.parts)

    @property
    def low(self) -> float:
        """The least that is likely."""
        return sum(part.low for part in self.parts)

    @property
    def high(self) -> float:
        """The most that is likely."""
        return sum(part.high for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A run's memory on one device."""

    phases: tuple[Phase, ...]
    allocated: Quantity  # tensors alone, as torch.cuda.max_memory_allocated says
    reserved: Quantity  # with what the allocator cannot use, as max_memory_reserved says
    device: Quantity  # with the CUDA context, as nvidia-smi says
    notes: tuple[str, ...]
    pool: rollout.Pool | None = None  # where vLLM is colocated
    blocked: str = ""  # why it cannot start at all, whatever the sums say

    @property
    def peak(self) -> Phase:
        """The phase with the highest peak."""
        return max(self.phases, key=lambda phase: phase.gib)

    def verdict(self, device_gib: float) -> Verdict:
        """Say whether the run fits a device with so much free memory."""
        if self.blocked or self.device.gib > device_gib:
            return "does not fit"
        return "tight" if self.device.gib > TIGHT * device_gib else "fits"

    def impossible(self, device_gib: float) -> bool:
        """Return whether not even the lowest likely peak fits."""
        return bool(self.blocked) or self.device.low > device_gib

    def breaking(self, device_gib: float) -> tuple[Phase, ...]:
        """Return the phases that do not fit, the worst first."""
        spare = self.device.gib - self.allocated.gib
        beyond = [phase for phase in self.phases if phase.gib + spare > device_gib]
        return tuple(sorted(beyond, key=lambda phase: -phase.gib))


def estimate(model: Architecture, job: Job, device_gib: float | None = None) -> Memory:
    """Return the memory of a run.

    Args:
        model: What `architecture.read` says of the model.
        job: The run's settings.
        device_gib: All memory of the device, GiB; a colocated vLLM takes its share of it.
    """
    held = states(model, job)
    paged = held.optimizer if job.paged else 0.0
    held = replace(held, optimizer=held.optimizer - paged)
    pool = rollout.pool(model, job, device_gib) if job.rollout.engine == "colocate" else None
    walk = _walk(model, job, held, head(model, job))
    beside = {} if pool is None else {"vLLM": pool.asleep}
    phases = [_phase(name, {**parts, **beside}, model) for name, parts in walk]
    if job.method == "grpo" or job.rollout.engine != "none":
        phases = [*_rollout_phases(model, job, held, pool), *phases]
    top = max(phases, key=lambda phase: phase.gib)
    allocated = Quantity(
        name="allocated",
        gib=top.gib,
        low=max(p.low for p in phases),
        high=max(p.high for p in phases),
        formula=top.name,
    )
    engine = sum(one.gib for one in top.parts if one.name == "vLLM")  # its pool has its slack within
    loading = model.head * job.weight_bytes / GIB if job.tuning == "qlora" else 0.0
    blocked = ""
    if pool is not None and pool.starts is False:
        needed = sum(need.gib for need in pool.needs)
        blocked = f"vLLM needs {needed:.1f} GiB and its share of the device is {pool.size / GIB:.1f} GiB"
    return Memory(
        phases=tuple(phases),
        allocated=allocated,
        reserved=_reserved(allocated, job, engine, loading),
        device=_with_paged(_device(allocated, job, engine, loading), paged),
        notes=model.notes,
        pool=pool,
        blocked=blocked,
    )


def _reserved(allocated: Quantity, job: Job, engine: float, loading: float) -> Quantity:
    """Return what the allocator holds for so much allocated.

    Public runs show 2 to 10% more with one shape of batch, to 20% with lengths that vary; what 4-bit loading needed for
    one tensor may stay reserved too.
    """
    if job.device == "cpu":
        return allocated
    share = 1.08 if job.varying else 1.04
    return Quantity(
        name="reserved",
        gib=(allocated.gib - engine) * share + engine,
        low=allocated.low,
        high=(allocated.high - engine) * 1.2 + engine + loading,
        formula=f"allocated x {share:.2f}",
    )


def _device(allocated: Quantity, job: Job, engine: float, loading: float) -> Quantity:
    """Return what the driver shows for so much allocated.

    Public runs show 5 to 20% above the tensors, and more where a second allocator is at work in the process.
    """
    if job.device == "cpu":
        return allocated
    return Quantity(
        name="device",
        gib=(allocated.gib - engine) * 1.12 + engine + 0.8,
        low=allocated.low + 0.3,
        high=(allocated.high - engine) * 1.3 + engine + 1.9 + loading,
        formula="allocated x 1.12 + 0.8 GiB of CUDA context, libraries and workspaces",
    )


def _with_paged(device: Quantity, paged: float) -> Quantity:
    """Return what the driver shows with paged optimizer states, which torch's allocator does not know of.

    bitsandbytes takes them as CUDA managed memory (`functional.get_paged`, 0.49): they lie on the device while there is
    room and on the host where there is none, so that a run fits without them.
    """
    if not paged:
        return device
    size = paged / GIB
    formula = f"{device.formula}; {size:.2f} GiB of paged optimizer states lie there too while there is room"
    return replace(device, high=device.high + size, formula=formula)


def _resting(job: Job, held: States) -> dict[str, float]:
    """Return what a trainer holds whatever it does, with the optimizer's states of step two on."""
    return {
        "weights": held.weights,
        "adapter": held.adapter,
        "reference": held.reference,
        "other models": job.others * GIB,
        "optimizer": held.optimizer,
    }


def _walk(model: Architecture, job: Job, held: States, loss: Head) -> list[tuple[PhaseName, dict[str, float]]]:
    """Walk a training step and return the fullest moment of its forward pass, backward pass and optimizer step."""
    resting = {**_resting(job, held), "gathered shards": held.gathered}
    each = [activations.layer_needs(model, layer, job) for layer in model.layers]
    whole = activations.checkpoint(model, job)
    kept = [0.0 if job.checkpointing and job.offloaded else whole if job.checkpointing else n.kept for n in each]
    cast = _casts(model, job, sum(n.casts for n in each), keeps=not job.checkpointing)
    head_cast = 2.0 * model.head if job.casts and loss.weight_gradient and job.loss in _THROUGH_LINEAR else 0.0
    norm = activations.final_norm(model, job)
    everything = sum(kept) + norm
    carried = held.gradients if job.accumulation > 1 else 0.0
    forward = [
        {"activations": sum(kept), "layer": max((n.forward for n in each), default=0.0), "autocast": cast},
        {"activations": everything, "head": loss.forward, "autocast": cast + head_cast},
    ]
    stays = 0.0 if job.checkpointing else cast
    backward = [{"activations": everything, "head": loss.backward, "autocast": stays + head_cast, "gradients": carried}]
    backward += _backward_layers(model, job, held, loss, list(zip(each, kept, strict=True)))
    resting_forward = {**resting, "gradients": carried}
    fullest = max(forward, key=lambda parts: sum(parts.values()))
    fullest_back = max(backward, key=lambda parts: sum(parts.values()))
    gradients = 0.0 if job.optimizer_in_backward else held.gradients
    return [
        ("forward", {**resting_forward, **fullest}),
        ("backward", {**resting, **fullest_back}),
        ("optimizer step", {**resting, "gradients": gradients, "optimizer step": held.transient}),
    ]


def _casts(model: Architecture, job: Job, every: float, *, keeps: bool) -> float:
    """Return the 16-bit copies of 32-bit weights that a forward pass leaves: of those in training all, until it ends.

    Autocast remembers the copy of a weight that is trained alone. One of a frozen weight lives as long as its product,
    and where nothing is checkpointed until the backward pass.
    """
    if keeps or not job.frozen or not every:
        return every
    return 2.0 * max((linear.weights for layer in model.layers for linear in layer.linears()), default=0)


_THROUGH_LINEAR = ("causal_lm", "selected", "float_logits", "eager_ce")


def _backward_layers(
    model: Architecture, job: Job, held: States, loss: Head, each: list[tuple[LayerNeeds, float]]
) -> list[dict[str, float]]:
    """Return what the backward pass holds at every layer, and at its end.

    Gradients grow from the last layer on while what was kept shrinks.

    Args:
        model: The architecture.
        job: The settings.
        held: The states of the device.
        loss: The loss head.
        each: What each layer needs, with the bytes that wait for its backward pass.
    """
    moments = []
    carried = job.accumulation > 1
    share = job.shards
    stays = 0.0 if job.hosted else 1.0 / share  # of a gradient, once it is made
    wide = job.weight_bytes if job.tuning == "full" else 4
    embedding = model.head * wide * stays if loss.weight_gradient else 0.0
    gathered_up = held.gradients if carried else embedding
    remaining = sum(waiting for _, waiting in each)
    for layer, (needs, below) in zip(reversed(model.layers), reversed(each), strict=True):
        own = needs.kept if job.checkpointing else below
        moments.append(
            {
                "activations": remaining - below + own + (below if job.checkpointing else 0.0),
                "layer": needs.backward,
                "gradients": gathered_up,
                "autocast": needs.casts if job.checkpointing else needs.casts * len(each),
            }
        )
        remaining -= below
        gradient = layer_gradient(layer, job) * stays
        if not carried and not job.optimizer_in_backward:
            gathered_up += gradient
    copies = 2.0 * model.head * job.weight_bytes / share if model.tied and loss.weight_gradient else 0.0
    gradients = embedding if job.optimizer_in_backward else held.gradients
    moments.append({"gradients": gradients, "layer": copies + activations.checkpoint(model, job)})
    return moments


def layer_gradient(layer: Layer, job: Job) -> float:
    """Return the bytes of the gradients of one layer's trained parameters, not sharded."""
    if job.tuning == "full":
        return float(sum(count for _, count in layer.parameters()) * job.weight_bytes)
    if job.tuning == "norms":
        return float((layer.norm_parameters + layer.mixer.qk_norm) * job.weight_bytes)
    if job.adapter is None:
        return 0.0
    width = 4 if job.adapter.dtype == "float32" else 2
    return float(sum(job.adapter.rank * (m.inputs + m.outputs) for m in adapted(layer, job.adapter)) * width)


def _rollout_phases(model: Architecture, job: Job, held: States, pool: rollout.Pool | None) -> list[Phase]:
    """Return what generation, scoring and the hand-over of weights hold, with the optimizer's states of step two on."""
    resting = _resting(job, held)
    generating = dict(resting)
    phases = []
    beside: dict[str, float] = {}
    if pool is not None:
        generating["vLLM"] = pool.size
        beside["vLLM"] = pool.asleep
    elif job.rollout.engine == "transformers":
        generating["generation"] = rollout.generate_bytes(model, job)
    phases.append(_phase("rollout", generating, model))
    phases.append(_phase("log-probabilities", {**resting, **beside, **_scoring(model, job)}, model))
    if pool is not None:
        largest = max((linear.weights for layer in model.layers for linear in layer.linears()), default=0)
        tensor = max(largest, model.head) * job.weight_bytes
        awake = pool.weights + pool.asleep if job.rollout.sleep else pool.size
        phases.append(_phase("weight sync", {**resting, "vLLM": awake, "layer": float(tensor)}, model))
    return phases


def _scoring(model: Architecture, job: Job) -> dict[str, float]:
    """Return what a pass without gradients holds: two layers at work, and the head's forward side."""
    loss = head(model, job)
    working = max((activations.layer_needs(model, layer, job).forward for layer in model.layers), default=0.0)
    forward = loss.forward
    if job.loss == "selected":
        forward = 5.9 * job.logit_rows * model.vocabulary  # measured for TRL before 1.15, a pass without gradients
    hidden = 2 * activations.checkpoint(model, job)
    every = 2.0 * model.linear_weights if job.casts and job.tuning != "qlora" else 0.0
    cast = _casts(model, job, every, keeps=False)
    return {"activations": hidden, "layer": working, "head": forward, "autocast": cast}


def _phase(name: PhaseName, parts: Mapping[str, float], model: Architecture) -> Phase:
    return Phase(name=name, parts=tuple(_part(key, size, model) for key, size in parts.items() if size))


def _part(name: str, size: float, model: Architecture) -> Quantity:
    error = _ERRORS[name]
    if name == "activations":
        kinds = {layer.mixer.kind for layer in model.layers}
        error = 0.35 if kinds & {"delta", "mamba", "conv"} else 0.25 if "latent" in kinds else error
    gib = size / GIB
    return Quantity(name=name, gib=gib, low=gib * (1 - error), high=gib * (1 + error), formula=_FORMULAE[name])
