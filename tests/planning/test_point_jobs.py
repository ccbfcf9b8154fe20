"""How a record of a public run is read, where it says less than a job needs or contradicts itself."""

from typing import Any

import pytest
from point_jobs import read
from point_records import Reading

from llm_finetuning.planning.job import Adapter

TORCHTUNE = {
    "model": "Llama-3.1-8B",
    "method": "sft",
    "tuning": "lora",
    "dtype": "bf16",
    "batch": 2,
    "seq_len": 2048,
    "packed": True,
    "framework": "torchtune",
    "gpu": "A6000",
}
UNSLOTH = {
    "model": "unsloth/gemma-3-270m-it",
    "method": "sft",
    "tuning": "lora",
    "lora_rank": 16,
    "batch": 8,
    "seq_len": 2048,
    "framework": "Unsloth notebook output",
    "gpu": "Tesla T4",
    "note": "seq_len is the cap",
    "metric": "max_memory_reserved (start 1.7)",
}
LONG = {
    "model": "Qwen3-32B",
    "method": "sft",
    "tuning": "full",
    "dtype": "bf16",
    "batch": 1,
    "seq_len": 1_048_576,
    "gpu": "H100-80GB",
    "n_gpus": 8,
    "parallel": "context parallel FSDP2",
    "framework": "TRL chunked_nll",
}
GRPO = {
    "model": "LiquidAI/LFM2-1.2B",
    "method": "grpo",
    "tuning": "qlora",
    "dtype": "nf4-dq, rest fp32",
    "batch": 8,
    "completion_len": 256,
    "grad_ckpt": True,
    "lora_rank": 32,
    "vllm_mode": "none (HF generate)",
    "gpu": "Tesla T4",
    "framework": "TRL + use_liger_kernel",
    "metric": "max_memory_reserved",
}


def reading(record: dict[str, Any], **more: Any) -> Reading:
    """Read a record, which has to be read."""
    found = read({**record, **more})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("note", "more", "checkpointing"),
    [
        ("compile on; 4699 tok/s", {}, False),  # 211 TFLOP/s on a card of 155 if it were recomputing
        ("compile on; 3083 tok/s", {"gpu": "RTX 4090"}, True),  # 139 of 165
        ("compile on; 3083 tok/s", {}, True),  # 139 of 155: nine tenths to a hair
        ("compile on; 3200 tok/s", {}, False),
        ("compile on; 4699 tok/s", {"gpu": "A100"}, True),
        ("compile on; 4699 tok/s", {"gpu": "a card unknown"}, True),
        ("compile on; 4699 tok/s", {"n_gpus": 2}, True),  # of two cards together
        ("compile on; 4699 tok/s", {"grad_ckpt": True}, True),
        ("compile on", {}, True),
        ("compile on; 2579 tok/s", {"tuning": "full"}, False),  # eight operations a weight where all is trained
        ("compile on; 2300 tok/s", {"tuning": "full"}, True),
    ],
)
def test_a_speed_tells_whether_anything_was_recomputed(note: str, more: dict[str, Any], *, checkpointing: bool) -> None:
    """No run is faster than its card: what would need over nine tenths of the peak was not checkpointed."""
    found = reading(TORCHTUNE, note=note, **more)
    assert found.job.checkpointing is checkpointing
    assert found.high.checkpointing is bool(more.get("grad_ckpt"))


@pytest.mark.parametrize(
    ("more", "adapter"),
    [
        ({}, Adapter(rank=8, targets=("q_proj", "v_proj"), dtype="bfloat16")),
        ({"tuning": "qlora"}, Adapter(rank=8, dtype="bfloat16")),
        ({"lora_rank": 64}, Adapter(rank=64, dtype="bfloat16")),
        ({"lora_targets": "all"}, Adapter(rank=8, dtype="bfloat16")),
        ({"tuning": "full"}, None),
    ],
)
def test_an_adapter_that_is_not_stated_is_torchtunes_own(more: dict[str, Any], adapter: Adapter | None) -> None:
    """Its configs of the time give rank 8, on two maps without 4 bits and on all with them."""
    assert reading(TORCHTUNE, **more).job.adapter == adapter


def test_torchtune_on_several_devices_is_fsdp() -> None:
    """Its recipes for several devices shard, and what a note says of CPU offload is heeded."""
    one, many = reading(TORCHTUNE).job, reading(TORCHTUNE, n_gpus=8).job
    assert (one.sharding, many.sharding, many.shards, many.hosted) == ("none", "fsdp2", 8, False)
    assert reading(TORCHTUNE, n_gpus=8, note="Uses CPU offload with fused optimizer").job.hosted
    assert not reading(TORCHTUNE, note="Uses CPU offload").job.hosted


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [("PagedAdamW8bit in bwd", "paged_adamw_8bit"), ("adamw 8bit", "adamw_8bit"), ("adamw", "adamw_torch_fused")],
)
def test_paging_is_read(optimizer: str, expected: str) -> None:
    """A paged optimizer's states are not in torch's figures."""
    assert reading(TORCHTUNE, optimizer=optimizer).job.optimizer == expected


@pytest.mark.parametrize(
    ("more", "tuning", "weights"),
    [
        ({}, "lora", "bfloat16"),
        ({"lora_rank": None}, "full", "float32"),
        ({"lora_rank": None, "metric": "max_memory_reserved (start 0.9)"}, "full", "bfloat16"),
        ({"lora_rank": None, "tuning": "qlora"}, "qlora", "bfloat16"),
    ],
)
def test_an_unsloth_adapter_without_rank_is_none(more: dict[str, Any], tuning: str, weights: str) -> None:
    """Its notebooks give every adapter a rank; how wide the weights are shows in what was held at the start."""
    job = reading(UNSLOTH, **more).job
    assert (job.tuning, job.weights) == (tuning, weights)


@pytest.mark.parametrize(
    ("source", "length", "tiles"),
    [
        ("nb/gpt_oss_(20B)_500K_Context_Fine_tuning.ipynb", 500_000, "recomputed"),
        ("nb/gpt-oss-(20B)-Fine-tuning.ipynb", 250, "none"),
        ("nb/a_0K_Context.ipynb", 250, "none"),
    ],
)
def test_a_length_that_was_cut_at_its_thousands(source: str, length: int, tiles: str) -> None:
    """A notebook of 500K tokens whose record says 500 is read by its name; otherwise half of the cap is typical."""
    job = reading(UNSLOTH, model="unsloth/gpt-oss-20b", seq_len=500, source=source).job
    assert (job.length, job.tiles) == (length, tiles)


@pytest.mark.parametrize(
    ("source", "whole"),
    [("Mistral_(7B)-Text_Completion", 2), ("Mistral_v0.3_(7B)-CPT", 2), ("Mistral_v0.3_(7B)-Alpaca", 0)],
)
def test_continued_pretraining_trains_embedding_and_head(source: str, whole: int) -> None:
    """Unsloth's notebooks for it adapt the blocks and train both ends whole."""
    adapter = reading(UNSLOTH, tuning="qlora", model="unsloth/mistral-7b-v0.3", source=source).job.adapter
    assert adapter is not None
    assert len(adapter.whole) == whole


@pytest.mark.parametrize(
    ("model", "length", "levers"),
    [
        ("Qwen3-0.6B", 1_048_576, (False, False, "none")),
        ("Qwen3-0.6B", 4_194_304, (True, False, "none")),
        ("Qwen3-8B", 1_048_576, (True, False, "none")),
        ("Qwen3-30B-A3B", 1_048_576, (True, True, "none")),
        ("Qwen3-32B", 1_048_576, (True, True, "split")),
    ],
)
def test_a_long_context_pulls_the_levers_of_its_guide(model: str, length: int, levers: tuple[bool, bool, str]) -> None:
    """In the guide's order, as many as it takes to fit; shards of 30B models and larger wait in host memory."""
    job = reading(LONG, model=model, seq_len=length).job
    assert (job.offloaded, job.hosted, job.tiles) == levers


@pytest.mark.parametrize(("measured", "grew"), [(1.1, True), (1.4, False), (None, False)])
def test_a_figure_below_the_weights_is_what_came_on_top(measured: float | None, *, grew: bool) -> None:
    """Weights, adapter and the inputs of every layer for the completions are the least that a peak can be."""
    found = reading(GRPO, measured_gib=measured)
    assert (found.start > 1) is grew
    assert reading(GRPO, method="sft", measured_gib=0.1).start == 0
