"""How the memory of a run answers to its settings."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_finetuning.planning import architecture
from llm_finetuning.planning.activations import checkpoint
from llm_finetuning.planning.head import loss_path
from llm_finetuning.planning.job import GIB, Adapter, Job, Rollout
from llm_finetuning.planning.memory import Memory, estimate
from llm_finetuning.planning.rollout import engine_weights
from llm_finetuning.planning.shapes import Architecture
from llm_finetuning.planning.states import states
from public_configs import CONFIGS

ROOT = Path(__file__).resolve().parents[2]
LORA = Adapter(rank=16)


def model(name: str = "Qwen2.5-7B") -> Architecture:
    return architecture.read(CONFIGS[name])


def part(memory: Memory, phase: str, name: str) -> float:
    found = next(one for one in memory.phases if one.name == phase)
    return sum(one.gib for one in found.parts if one.name == name)


@pytest.mark.parametrize(
    ("keys", "bytes_a_parameter"),
    [
        ({}, 16),  # a model named by a string is loaded in float32
        ({"weights": "bfloat16"}, 8),
        ({"weights": "bfloat16", "optimizer": "adamw_torch"}, 10),  # foreach takes one more copy in its step
        ({"weights": "bfloat16", "optimizer": "sgd"}, 4),
        ({"weights": "bfloat16", "optimizer": "lion_32bit"}, 6),
        ({"weights": "bfloat16", "optimizer_in_backward": True}, 6),
    ],
)
def test_states_of_full_fine_tuning(keys: dict[str, Any], bytes_a_parameter: float) -> None:
    """Weights, gradients and two moments in the dtype of the parameter."""
    described = model()
    step = next(phase for phase in estimate(described, Job(**keys)).phases if phase.name == "optimizer step")
    assert step.gib * GIB == pytest.approx(bytes_a_parameter * described.total, rel=1e-6)


def test_eight_bit_states_leave_embeddings_wide() -> None:
    """The Trainer registers embeddings for 32-bit states: a tied 1.5B has 4.2 GiB of states, not 2.9."""
    tied = states(model("Qwen2.5-1.5B"), Job(weights="bfloat16", optimizer="paged_adamw_8bit"))
    assert tied.optimizer / GIB == pytest.approx(4.2, rel=0.02)


def test_a_frozen_base_still_costs_its_load_dtype() -> None:
    """LoRA on a model that TRL loaded by name holds four bytes a parameter; autocast copies one map at a time.

    Autocast remembers the copies of weights that are trained, and a graph without checkpoints keeps those of others.
    """
    wide = estimate(model(), Job(tuning="lora", adapter=LORA, accumulation=4))
    narrow = estimate(model(), Job(tuning="lora", adapter=LORA, accumulation=4, weights="bfloat16"))
    assert wide.allocated.gib == pytest.approx(35.9, rel=0.05)
    assert narrow.allocated.gib == pytest.approx(18.6, rel=0.06)
    largest = max(linear.weights for layer in model().layers for linear in layer.linears())
    assert part(wide, "forward", "autocast") == pytest.approx(2 * largest / GIB, rel=1e-6)
    kept = estimate(model(), Job(tuning="lora", adapter=LORA, checkpointing=False))
    assert part(kept, "forward", "autocast") == pytest.approx(2 * model().linear_weights / GIB, rel=1e-6)
    trained = estimate(model(), Job(tuning="full"))
    assert part(trained, "forward", "autocast") >= 2 * model().linear_weights / GIB
    assert part(narrow, "forward", "autocast") == 0


def test_embeddings_are_not_in_four_bits() -> None:
    """A 7B loaded in float32 starts at about 7 GiB in 4 bits, since embedding and head stay as loaded."""
    job = Job(tuning="qlora", adapter=LORA, weights="float32", double_quantization=True)
    assert 6.7 < states(model(), job).weights / GIB < 7.3
    assert states(model(), replace(job, double_quantization=False)).weights > states(model(), job).weights


@pytest.mark.parametrize(
    ("method", "trl", "liger", "path"),
    [
        ("grpo", (1, 16), False, "fused"),
        ("grpo", (1, 15), False, "fused"),
        ("grpo", (1, 14), False, "selected"),
        ("sft", (1, 14), False, "causal_lm"),
        ("sft", (1, 16), True, "liger"),
        ("dpo", (0, 20), False, "selected"),
    ],
)
def test_the_loss_head_follows_the_trl_version(method: str, trl: tuple[int, int], liger: Any, path: str) -> None:
    """From 1.15 on the whole logits are never made."""
    assert loss_path(method, trl, liger=liger) == path


def test_the_logits_are_what_an_old_trl_pays() -> None:
    """The same run takes eight GiB more before 1.15, all of it in the head."""
    job = Job(weights="bfloat16", accumulation=4)
    new, old = (estimate(model("Qwen2.5-1.5B"), replace(job, loss=path)) for path in ("fused", "selected"))
    assert new.allocated.gib == pytest.approx(13.8, rel=0.05)
    assert old.allocated.gib == pytest.approx(21.5, rel=0.05)


def test_a_reference_is_a_second_model_in_the_policys_dtype() -> None:
    """A reference doubles the weights; other models come on top as stated."""
    plain, with_reference = (estimate(model(), Job(reference=flag)) for flag in (False, True))
    weights = model().total * 4 / GIB
    assert with_reference.allocated.gib - plain.allocated.gib == pytest.approx(weights, rel=1e-6)
    others = estimate(model(), Job(others=5.0))
    assert others.allocated.gib - plain.allocated.gib == pytest.approx(5.0)


def colocated(**keys: Any) -> Memory:
    rollout = Rollout(engine="colocate", **keys)
    return estimate(model("Qwen2.5-1.5B"), Job(weights="bfloat16", rollout=rollout), 80.0)


def test_vllm_takes_its_share_of_the_whole_device() -> None:
    """The pool is a share of all memory, held through training; asleep only a residue is."""
    awake, asleep = colocated(), colocated(sleep=True)
    assert part(awake, "rollout", "vLLM") == part(awake, "backward", "vLLM") == pytest.approx(24.0)
    assert part(asleep, "rollout", "vLLM") == pytest.approx(24.0)
    assert part(asleep, "backward", "vLLM") < 2.0
    assert part(asleep, "weight sync", "vLLM") < part(awake, "weight sync", "vLLM")
    assert awake.pool is not None
    assert awake.pool.starts
    cached = 1024 * 28 * 2 * 2 * 128 * 2 / GIB
    assert awake.pool.sequences == int((24.0 - sum(need.gib for need in awake.pool.needs[:-1])) / cached)


def test_the_engines_pool_has_its_slack_within() -> None:
    """What the allocator and the context take beside the tensors is reckoned on the trainer's part alone."""
    memory = colocated()
    own = memory.allocated.gib - 24.0
    assert memory.device.gib == pytest.approx(24.0 + own * 1.12 + 0.8)
    assert memory.reserved.gib == pytest.approx(24.0 + own * 1.08)


def test_the_first_step_has_no_optimizer_states_yet() -> None:
    """A run that passes its first step may break in its second."""
    first, later = (estimate(model(), Job(first_step=flag)) for flag in (True, False))
    assert part(first, "backward", "optimizer") == 0
    assert part(later, "backward", "optimizer") == pytest.approx(8 * model().total / GIB)


def test_an_engine_that_cannot_start_is_told() -> None:
    """A pool smaller than the weights, or than the cache of one sequence of the stated context, does not start."""
    small = colocated(utilization=0.03)
    assert "vLLM needs" in small.blocked
    assert small.verdict(80.0) == "does not fit"
    assert small.impossible(80.0)
    long = colocated(utilization=0.12, context=1_000_000)
    assert long.blocked
    assert not colocated(utilization=0.12).blocked


def test_the_hand_over_of_weights_needs_both_copies() -> None:
    """While weights are sent, a sleeping engine has its weights awake again, beside the trainer's and one tensor."""
    memory = colocated(sleep=True)
    described = model("Qwen2.5-1.5B")
    own, tensor = described.total * 2 / GIB, described.head * 2 / GIB
    assert memory.pool is not None
    assert part(memory, "weight sync", "vLLM") == pytest.approx(own + memory.pool.asleep / GIB)
    assert part(memory, "weight sync", "layer") == pytest.approx(tensor)


def test_an_engine_in_four_bits_has_smaller_weights() -> None:
    """Maps take 0.5625 bytes a weight; embedding and head stay wide; tensor parallelism divides all."""
    described = model()
    job = Job(rollout=Rollout(quantized=True))
    expected = described.linear_weights * 0.5625 + (described.total - described.linear_weights) * 2
    assert engine_weights(described, job) == pytest.approx(expected)
    assert engine_weights(described, Job(rollout=Rollout(tensor_parallel=4))) == described.total * 2 / 4


def test_scoring_makes_no_graph() -> None:
    """A pass without gradients holds two hidden states, one layer at work, the tile and what autocast casts."""
    memory = estimate(model("Qwen2.5-1.5B"), Job())
    described = model("Qwen2.5-1.5B")
    assert part(memory, "log-probabilities", "activations") * GIB == 2 * 8 * 1024 * 1536 * 4
    assert part(memory, "log-probabilities", "autocast") * GIB == 2 * described.linear_weights
    assert part(memory, "log-probabilities", "head") * GIB == 2 * 4096 * 32768
    old = estimate(described, Job(loss="selected", weights="bfloat16"))
    assert part(old, "log-probabilities", "head") * GIB == pytest.approx(5.9 * 8 * 512 * 151936)
    assert part(old, "log-probabilities", "autocast") == 0


def test_the_breaking_phase_is_named() -> None:
    """On a card that holds the weights but not the step, the phases that break are named, the worst first."""
    memory = estimate(model("Qwen2.5-1.5B"), Job())
    breaking = memory.breaking(24.0)
    assert breaking
    assert breaking[0] == memory.peak
    assert "rollout" not in {phase.name for phase in breaking}
    assert memory.breaking(40.0) == ()
    assert (memory.verdict(24.0), memory.verdict(33.0), memory.verdict(80.0)) == ("does not fit", "tight", "fits")


def test_generate_keeps_the_cache_of_the_whole_generation_batch() -> None:
    """The `generate` of transformers holds the KV cache of every sequence of the rollout, not of a micro-batch."""
    job = Job(weights="bfloat16", autocast=False, rollout=Rollout(engine="transformers", batch=64))
    memory = estimate(model(), job)
    one = 1024 * 28 * 2 * 4 * 128 * 2
    assert part(memory, "rollout", "generation") * GIB == pytest.approx(64 * (one + 12 * 152064))
    cast = estimate(model(), replace(job, weights="float32", autocast=True))
    more = part(cast, "rollout", "generation") - part(memory, "rollout", "generation")
    assert more * GIB == pytest.approx(2 * model().linear_weights)


@pytest.mark.parametrize("sharding", ["zero3", "fsdp2"])
def test_shards_divide_what_stays(sharding: Any) -> None:
    """Eight devices hold an eighth of the states each, and a layer or two whole."""
    alone = states(model(), Job(weights="bfloat16"))
    shared = states(model(), Job(weights="bfloat16", sharding=sharding, shards=8))
    assert shared.weights == pytest.approx(alone.weights / 8)
    assert shared.gathered > 0
    master = 12 if sharding == "zero3" else 4  # DeepSpeed keeps a 32-bit master and 32-bit moments
    assert shared.optimizer == pytest.approx(model().total * master / 8)


JOBS = st.builds(
    Job,
    tuning=st.sampled_from(["full", "lora", "qlora"]),
    weights=st.sampled_from(["float32", "bfloat16"]),
    autocast=st.booleans(),
    batch=st.integers(1, 16),
    prompt=st.integers(0, 2048),
    completion=st.integers(1, 4096),
    padded=st.booleans(),
    checkpointing=st.booleans(),
    accumulation=st.integers(1, 4),
    loss=st.sampled_from(["fused", "selected", "causal_lm", "liger"]),
    fused_kernels=st.booleans(),
    adapter=st.just(LORA),
    reference=st.booleans(),
)
NAMES = st.sampled_from(sorted(CONFIGS))


@settings(max_examples=60, deadline=None)
@given(name=NAMES, job=JOBS)
def test_more_work_never_takes_less_memory(name: str, job: Job) -> None:
    """A larger batch, longer text, a higher rank and a reference only add; checkpointing and kernels only save."""
    if job.tuning == "full":
        job = replace(job, adapter=None)
    described = model(name)
    base = estimate(described, job)
    assert base.allocated.low <= base.allocated.gib <= base.allocated.high
    assert base.allocated.gib <= base.reserved.gib <= base.device.gib
    assert base.allocated.gib >= states(described, job).weights / GIB
    more = [
        replace(job, batch=job.batch + 1),
        replace(job, completion=job.completion + 64),
        replace(job, reference=True),
    ]
    if job.adapter:
        more.append(replace(job, adapter=replace(LORA, rank=64)))
    more.append(replace(job, fused_kernels=False))
    whole = estimate(described, replace(job, checkpointing=False)).allocated.gib
    assert whole >= base.allocated.gib - checkpoint(described, job) / GIB  # the layer at work has its input twice
    for grown in more:
        assert estimate(described, grown).allocated.gib >= base.allocated.gib * (1 - 1e-9), grown


def test_an_estimate_is_quick_and_needs_no_torch() -> None:
    """Importing the planner takes under 0.1 s of CPU and no heavy library; a 72B is estimated in milliseconds."""
    program = (
        "import sys, time; began = time.process_time()\n"
        "from llm_finetuning.planning import architecture, memory\n"
        "from llm_finetuning.planning.job import Job\n"
        "took = time.process_time() - began\n"
        "from public_configs import CONFIGS\n"
        "memory.estimate(architecture.read(CONFIGS['Qwen2.5-72B']), Job())\n"
        "heavy = {'torch', 'transformers', 'numpy', 'pydantic', 'trl'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "print(took, time.process_time() - began)\n"
    )
    environment = {"PYTHONPATH": f"{ROOT / 'scripts'}:{ROOT / 'tests'}"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    imported, all_of_it = map(float, done.stdout.split())
    assert imported < 0.1
    assert all_of_it < 0.5
