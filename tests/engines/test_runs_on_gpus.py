"""The generated GRPO script on NVIDIA GPUs, as `launch.sh` starts it, with the real model."""

import os
import subprocess
from pathlib import Path
from typing import Any

import grpo_runs
import pytest

from llm_finetuning.recipes import shapes

pytestmark = [pytest.mark.gpu, pytest.mark.model]

MANY = 2  # GPUs; one serves where the engine is a server

RUNS: dict[str, tuple[int, dict[str, Any]]] = {
    "colocate, full": (1, {}),
    "colocate, lora": (1, {"adapter": "lora"}),
    "colocate, qlora": (1, {"adapter": "qlora"}),
    "colocate, sleep mode": (1, {"vllm_enable_sleep_mode": True}),
    "transformers": (1, {"use_vllm": False}),
    "server": (MANY, {"adapter": "lora"}),
    "colocate, zero3": (MANY, {"vllm_mode": "colocate", "deepspeed": True}),
    "colocate, fsdp2": (MANY, {"vllm_mode": "colocate", "fsdp": True}),
}
"""By name: the GPUs that it takes, and what the brief's `training` says."""


def gpus() -> int:
    """Return how many GPUs the driver names."""
    return shapes.machine_of("auto").gpus


@pytest.mark.parametrize("name", RUNS)
def test_two_steps_follow_what_is_trained(name: str, engine_python: str, model_folder: str, tmp_path: Path) -> None:
    """Both canaries pass, two steps are done, and the model is saved; then a restart has nothing left to do."""
    needed, training = RUNS[name]
    if gpus() < needed:
        pytest.skip(f"needs {needed} NVIDIA GPU(s), and the driver names {gpus()}")
    visible = ",".join(map(str, range(needed)))
    hardware = "gpu" if needed == 1 else f"{needed}xgpu"
    options = {**grpo_runs.QUICK, "vllm_max_model_length": 256, **training}
    run = grpo_runs.built(tmp_path / "run", model_folder, options, chat=True, rows=16, hardware=hardware)
    environment = {**os.environ, "PYTHON": engine_python, "CUDA_VISIBLE_DEVICES": visible}
    for _ in range(2):
        done = subprocess.run(
            ["bash", run / "launch.sh"], env=environment, capture_output=True, text=True, timeout=550, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        assert grpo_runs.outcome_of(run)["global_step"] == 2
        assert "rollouts follow what is trained" in done.stdout
    assert any((run / "model").iterdir())
