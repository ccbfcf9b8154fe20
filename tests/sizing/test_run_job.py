"""A brief's run becomes the planner's job: every setting that memory depends on arrives."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning.planning.job import Adapter
from llm_finetuning.sizing.row_lengths import TEMPLATE
from llm_finetuning.sizing.unknown import Unknown
from planned_runs import planned, write

RECIPE = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 4}

CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("full", {}, {"tuning": "full", "weights": "float32", "autocast": True, "reference": True, "adapter": None}),
    ("no KL", {"training": {"beta": 0.0}}, {"reference": False}),
    (
        "lora",
        {"training": {"adapter": "lora"}},
        {
            "tuning": "lora",
            "weights": "bfloat16",
            "reference": False,
            "adapter": Adapter(rank=16, targets=None, dropout=0.0, dtype="float32"),
        },
    ),
    (
        "lora on some maps, with dropout",
        {
            "training": {
                "adapter": "lora",
                "lora_r": 64,
                "lora_target_modules": ["q_proj", "model.layers.0.self_attn.v_proj"],
                "lora_dropout": 0.1,
                "disable_dropout": False,
            }
        },
        {"adapter": Adapter(rank=64, targets=("q_proj", "v_proj"), dropout=0.1, dtype="float32")},
    ),
    (
        "dropout that is switched off",
        {"training": {"adapter": "lora", "lora_dropout": 0.1, "disable_dropout": True}},
        {"adapter": Adapter(rank=16, targets=None, dropout=0.0, dtype="float32")},
    ),
    (
        "lora on a pattern",
        {"training": {"adapter": "lora", "lora_target_modules": r".*\.mlp\.(up|down)_proj"}},
        {"adapter": Adapter(rank=16, targets=("down_proj", "up_proj"), dropout=0.0, dtype="float32")},
    ),
    (
        "qlora",
        {"training": {"adapter": "qlora"}},
        {
            "tuning": "qlora",
            "double_quantization": True,
            "adapter": Adapter(rank=16, targets=None, dropout=0.0, dtype="bfloat16"),
        },
    ),
    ("dtype of the brief", {"training": {"model_init_kwargs": {"dtype": "bfloat16"}}}, {"weights": "bfloat16"}),
    ("dtype of the checkpoint", {"training": {"model_init_kwargs": {"dtype": "auto"}}}, {"weights": "bfloat16"}),
    ("batch", {"training": RECIPE}, {"batch": 8, "accumulation": 4, "prompt": 512, "completion": 512, "sequences": 1}),
    (
        "switches",
        {"training": {"gradient_checkpointing": False, "optim": "adamw_bnb_8bit", "torch_compile": True}},
        {"checkpointing": False, "optimizer": "adamw_bnb_8bit", "loss": "fused", "fused_kernels": True},
    ),
    (
        "flash",
        {"training": {"model_init_kwargs": {"attn_implementation": "flash_attention_2"}}},
        {"attention": "flash"},
    ),
    ("t4", {"hardware": "t4", "training": {"adapter": "lora"}}, {"weights": "float16", "autocast": True}),
    ("cpu", {"hardware": "cpu"}, {"device": "cpu", "autocast": False, "weights": "float32"}),
    ("zero-3", {"hardware": "8xh100"}, {"sharding": "zero3", "shards": 4, "casts": False}),
    ("fsdp2", {"hardware": "4xh100", "training": {"fsdp": "full_shard"}}, {"sharding": "fsdp2", "shards": 2}),
    ("lora on four", {"hardware": "4xh100", "training": {"adapter": "lora"}}, {"sharding": "none", "shards": 1}),
    ("sft", {"method": "sft"}, {"method": "sft", "prompt": 0, "completion": 2048, "loss": "fused", "reference": False}),
    ("dpo", {"method": "dpo"}, {"sequences": 2, "reference": True, "loss": "fused"}),
    (
        "dpo, reference in advance",
        {"method": "dpo", "training": {"precompute_ref_log_probs": True}},
        {"reference": False},
    ),
    ("kto", {"method": "kto"}, {"sequences": 1, "reference": True}),
    ("orpo", {"method": "orpo"}, {"sequences": 2, "reference": False, "loss": "selected"}),
    ("simpo", {"method": "simpo"}, {"sequences": 2, "reference": False, "loss": "selected"}),
]


@pytest.mark.parametrize(("run", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_settings_arrive(tmp_path: Path, run: dict[str, Any], expected: dict[str, Any]) -> None:
    """What the recipe and the brief decide is what is computed."""
    job = planned(write(tmp_path, **run)).job
    assert {name: getattr(job, name) for name in expected} == expected


def test_rollouts_by_engine(tmp_path: Path) -> None:
    """Colocated vLLM holds its share on the trainer's GPU; a server holds nothing there; the trainer's own a cache."""
    colocated = planned(
        write(
            tmp_path / "a",
            training={"adapter": "qlora", "vllm_gpu_memory_utilization": 0.5, "vllm_max_model_length": 1024},
        )
    )
    rollout = colocated.job.rollout
    assert (rollout.engine, rollout.utilization, rollout.context) == ("colocate", 0.5, 1024)
    assert (rollout.batch, rollout.quantized, rollout.weights) == (32, True, "bfloat16")
    served = planned(write(tmp_path / "b", hardware="8xh100", cap=1024))
    assert served.job.rollout.engine == "server"
    assert served.server is not None
    assert served.server.starts
    assert not any(part.name == "vLLM" for phase in served.memory.phases for part in phase.parts)
    own = planned(write(tmp_path / "c", training={"adapter": "lora", "use_vllm": False}))
    assert own.job.rollout.engine == "transformers"
    assert own.job.rollout.batch == 32
    assert own.share is None


def test_without_a_window_vllm_makes_room_for_the_whole_context(tmp_path: Path) -> None:
    """The engine's longest sequence is the model's; a counted prompt gives it one as long as needed."""
    run = write(tmp_path, training={"adapter": "lora"}, max_position_embeddings=131072)
    whole, counted = planned(run), planned(run, longest_prompt=300)
    assert whole.job.rollout.context == 131072
    assert any("no prompt was counted" in note for note in whole.notes)
    assert counted.job.rollout.context == counted.job.length == 812
    assert not any("no prompt was counted" in note for note in counted.notes)
    assert whole.share is not None
    assert counted.share is not None
    assert whole.share.least > counted.share.least + 0.05


def test_what_is_not_counted_is_said(tmp_path: Path) -> None:
    """8-bit weights, and rows whose longest one is not known, have no number; DoRA's share is a note."""
    with pytest.raises(Unknown, match="load_in_8bit"):
        planned(write(tmp_path / "a", training={"adapter": "qlora", "load_in_8bit": True, "use_vllm": False}))
    unread = write(tmp_path / "b", method="sft", training={"max_length": None})
    (unread / "data.jsonl").unlink()
    with pytest.raises(Unknown, match="max_length"):
        planned(unread)
    dora = planned(write(tmp_path / "c", training={"adapter": "lora", "use_dora": True}))
    assert any("use_dora" in note for note in dora.notes)


@pytest.mark.parametrize("method", ["sft", "dpo", "kto"])
def test_short_rows_take_less_than_max_length(tmp_path: Path, method: str) -> None:
    """No row has more tokens than bytes and what a template adds; packed rows are filled up all the same."""
    run = write(tmp_path / "short", method=method)
    row = {"prompt": "é" * 100, "answer": "b" * 50, "chosen": "c" * 80, "rejected": "d" * 20, "label": True}
    (run / "data.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    answer = 80 if method == "dpo" else 50
    found = planned(run)
    assert found.job.length == 200 + answer + TEMPLATE
    assert any("by the bytes of the longest row" in note for note in found.notes)
    if method == "sft":
        flash = {"packing": True, "model_init_kwargs": {"attn_implementation": "flash_attention_2"}}
        packed = planned(write(tmp_path / "packed", method=method, training=flash))
        assert packed.job.length == packed.config.trainer["max_length"].value


def test_shards_need_no_copies_in_sixteen_bits(tmp_path: Path) -> None:
    """ZeRO-3 holds 16-bit weights and FSDP2 gathers them so: autocast has nothing to copy."""
    job = planned(write(tmp_path, hardware="8xh100")).job
    assert not job.casts
    assert replace(job, sharding="none", shards=1).casts


def test_the_ample_share_holds_a_whole_generation(tmp_path: Path) -> None:
    """Twice the completions drawn at once need twice the cache above what vLLM needs anyway."""
    training = {"adapter": "lora", "vllm_max_model_length": 2048}
    runs = [
        planned(write(tmp_path / str(size), cap=1024, training={**training, "per_device_train_batch_size": size}))
        for size in (32, 64)
    ]
    shares = [run.share for run in runs if run.share is not None]
    cache = [run.job.rollout.batch * 57344 * run.job.length / 1024**3 / 79.18 for run in runs]
    assert shares[0].least == shares[1].least
    assert shares[1].ample - shares[0].ample == pytest.approx(cache[1] - cache[0], abs=0.011)
    assert shares[0].ample > shares[0].least


def test_a_server_that_does_not_start_breaks_the_plan(tmp_path: Path) -> None:
    """The trainer may fit where the GPUs that serve hold no whole model."""
    training = {"adapter": "qlora", "vllm_tensor_parallel_size": 1}
    run = planned(write(tmp_path, model="Qwen2.5-32B", hardware="4xl40s", training=training))
    assert run.memory.verdict(run.device.free_gib) != "does not fit"
    assert (run.verdict, run.breaking, run.is_impossible) == ("does not fit", ("server",), True)
