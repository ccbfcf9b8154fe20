"""What makes a run fit: the cheapest changes, each computed anew, written as the brief takes them."""

from pathlib import Path
from typing import Any

import pytest

from llm_finetuning.recipes import shapes
from llm_finetuning.sizing import remedies
from llm_finetuning.sizing.forecast import forecast
from llm_finetuning.sizing.remedies import Remedies
from planned_runs import planned, situated, write


def searched(run: Path, **asked: Any) -> Remedies:
    loaded, situation = situated(run, **asked)
    return remedies.search(loaded, situation, forecast(loaded, situation))


RUNS: list[tuple[str, dict[str, Any], set[str]]] = [
    (
        "too large a share",
        {"hardware": "h100", "training": {"adapter": "lora", "vllm_gpu_memory_utilization": 0.9}},
        {"vllm_gpu_memory_utilization"},
    ),
    (
        "too small a share",
        {"hardware": "h100", "training": {"adapter": "lora", "vllm_gpu_memory_utilization": 0.1}},
        {"vllm_gpu_memory_utilization"},
    ),
    (
        "too large a batch",
        {"method": "sft", "hardware": "l40s", "training": {"adapter": "lora", "per_device_train_batch_size": 64}},
        {"per_device_train_batch_size", "gradient_accumulation_steps"},
    ),
    (
        "frozen weights in 32 bits",
        {
            "method": "sft",
            "hardware": "l40s",
            "training": {"adapter": "lora", "model_init_kwargs": {"dtype": "float32"}},
        },
        {"model_init_kwargs"},
    ),
    (
        "a reference beside",
        {"method": "dpo", "model": "Qwen2.5-1.5B", "hardware": "l40s"},
        {"precompute_ref_log_probs"},
    ),
    ("all weights of a 7B", {"method": "sft", "hardware": "a100"}, {"adapter"}),
    (
        "no checkpointing",
        {
            "method": "sft",
            "hardware": "l40s",
            "training": {
                "adapter": "lora",
                "gradient_checkpointing": False,
                "per_device_train_batch_size": 1,
                "max_length": 8192,
            },
        },
        {"gradient_checkpointing"},
    ),
]


@pytest.mark.parametrize(("run", "options"), [case[1:] for case in RUNS], ids=[case[0] for case in RUNS])
def test_the_cheapest_change_is_found(tmp_path: Path, run: dict[str, Any], options: set[str]) -> None:
    """What is wrong with a run is what is changed, and nothing dearer beside it."""
    found = searched(write(tmp_path, **run)).found
    assert found is not None
    assert set(found.change) == options


def test_the_case_of_a_7b_beside_vllm(tmp_path: Path) -> None:
    """7B bf16 LoRA on 24 GB at 0.6, 2048 tokens, batch 8: vLLM does not start, every phase breaks, QLoRA fits (B49)."""
    training = {"adapter": "lora", "vllm_gpu_memory_utilization": 0.6, "per_device_train_batch_size": 8}
    run = write(tmp_path, hardware="rtx4090", cap=1536, training=training)
    now = planned(run)
    assert now.verdict == "does not fit"
    assert now.is_impossible
    assert "vLLM needs" in now.memory.blocked
    assert now.breaking[0] == "backward"
    assert {"rollout", "log-probabilities", "forward", "backward"} <= set(now.breaking)
    scoring = next(phase for phase in now.memory.phases if phase.name == "log-probabilities")
    assert any(part.name == "head" for part in scoring.parts)
    result = searched(run)
    assert result.found is not None
    assert set(result.found.change) == {
        "adapter",
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
        "vllm_gpu_memory_utilization",
    }
    assert (result.found.change["adapter"], result.found.verdict) == ("qlora", "tight")
    assert len(result.tried) > 3
    assert all(attempt.verdict == "does not fit" for attempt in result.tried[:-1])


@pytest.mark.parametrize("case", range(len(RUNS)), ids=[case[0] for case in RUNS])
def test_the_change_written_into_the_brief_fits(tmp_path: Path, case: int) -> None:
    """A brief that is written with the change is taken by the recipe, and its run needs what was promised."""
    run = RUNS[case][1]
    found = searched(write(tmp_path / "before", **run)).found
    assert found is not None
    training = {name: value for name, value in (run.get("training") or {}).items() if name not in found.change}
    training |= {name: value for name, value in found.change.items() if value is not None}
    after = planned(write(tmp_path / "after", **{**run, "training": training}))
    assert after.verdict == found.verdict != "does not fit"
    assert after.memory.device.gib == pytest.approx(found.gib)


def test_what_it_also_fits_without_is_taken_back(tmp_path: Path) -> None:
    """No change of the answer may be left out: without any one of them the run does not fit."""
    run = write(tmp_path, hardware="rtx4090", cap=1536, training={"adapter": "lora"})
    loaded, situation = situated(run)
    found = searched(run).found
    assert found is not None
    for name in set(found.change) - {"gradient_accumulation_steps"}:
        rest = {key: value for key, value in found.change.items() if key != name}
        less = forecast(*remedies.with_change(loaded, situation, rest))
        assert less.verdict == "does not fit", name


def test_smaller_batches_hold_as_many_rows(tmp_path: Path) -> None:
    """The step of the optimiser stays what it was."""
    training = {"adapter": "lora", "per_device_train_batch_size": 64, "gradient_accumulation_steps": 3}
    found = searched(write(tmp_path, method="sft", hardware="l40s", training=training)).found
    assert found is not None
    assert found.change["per_device_train_batch_size"] * found.change["gradient_accumulation_steps"] == 192


def test_sleep_is_never_advised_on_a_spark(tmp_path: Path) -> None:
    """A GB10 crashes at wake-up; the same plan on an 80 GB card may have it; forced, a note says why not (B64)."""
    for hardware, allowed in (("dgx-spark", False), ("h100", True)):
        assert shapes.allows_sleep(shapes.machine_of(hardware)) is allowed
        run = write(tmp_path / hardware, model="Qwen3-8B", hardware=hardware, cap=2048, training={"adapter": "lora"})
        asked = {"available_gib": 42.0} if hardware == "dgx-spark" else {"available_gib": 30.0}
        tried = searched(run, **asked).tried
        assert any("vllm_enable_sleep_mode" in attempt.change for attempt in tried) is allowed
    forced = write(
        tmp_path / "forced",
        model="Qwen3-8B",
        hardware="dgx-spark",
        training={"adapter": "lora", "vllm_enable_sleep_mode": True},
    )
    assert any("crash at wake-up (2025)" in note and "canary" in note for note in planned(forced).notes)


def test_a_plan_that_takes_a_spark_down_is_stopped(tmp_path: Path) -> None:
    """8B LoRA at 0.6 beside a shm of 64 GB of 97 available: it does not fit; the share follows from the need (B63)."""
    training = {"adapter": "lora", "vllm_gpu_memory_utilization": 0.6}
    run = write(tmp_path, model="Qwen3-8B", hardware="dgx-spark", training=training)
    now = planned(run, available_gib=97.0, host_gib=64.0)
    assert now.is_impossible
    assert now.share is not None
    assert 0.15 < now.share.least <= now.share.ample < 0.25
    alone = searched(run, available_gib=97.0)
    assert alone.found is not None
    assert alone.found.change == {"vllm_gpu_memory_utilization": now.share.ample}


def test_more_gpus_are_the_last_thing(tmp_path: Path) -> None:
    """What no option mends may still fit sharded; where nothing fits, nothing is said to."""
    training = {"adapter": "qlora", "use_vllm": False}
    none = searched(write(tmp_path / "a", model="Qwen2.5-72B", hardware="rtx4090", training=training))
    assert none.found is None
    assert none.tried
    full = write(tmp_path / "b", hardware="rtx4090", model="Qwen2.5-32B", training={"use_vllm": False})
    assert "hardware" in {name for attempt in searched(full).tried for name in attempt.change}


def test_an_option_that_is_given_up_is_named(tmp_path: Path) -> None:
    """A rate for all weights does not stay beside an adapter."""
    run = write(tmp_path, method="sft", hardware="a100", training={"learning_rate": 1e-5})
    found = searched(run).found
    assert found is not None
    assert remedies.words_of(found.change) == "`training: {adapter: lora}`, without learning_rate"


def test_nothing_is_taken_out_that_the_brief_does_not_have(tmp_path: Path) -> None:
    """An 8-bit optimizer that was tried before an adapter leaves no trace in what is said of the brief."""
    tried = searched(write(tmp_path, method="sft", hardware="a100")).tried
    assert any("optim" in attempt.change for attempt in tried)
    assert all(value is not None for attempt in tried for value in attempt.change.values())


def test_a_tight_run_is_shown_how_it_gets_room(tmp_path: Path) -> None:
    """Where a run only just fits, what is looked for fits with room to spare."""
    run = write(tmp_path, method="sft", hardware="rtx4090", training={"adapter": "lora"})
    assert planned(run).verdict == "tight"
    found = searched(run).found
    assert found is not None
    assert found.verdict == "fits"
