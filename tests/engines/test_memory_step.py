"""The planner beside real training steps on the CPU: what the allocator held, phase by phase."""

import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning.planning import architecture
from llm_finetuning.planning.job import GIB, Adapter, Job
from llm_finetuning.planning.memory import Memory, estimate

HERE = Path(__file__).parent
SMALL = {"intermediate_size": 1024, "num_hidden_layers": 6, "vocab_size": 4096, "max_position_embeddings": 2048}
MODELS: dict[str, dict[str, Any]] = {
    "llama": {**SMALL, "model_type": "llama", "hidden_size": 384, "num_attention_heads": 6, "num_key_value_heads": 2},
    "qwen3": {
        **SMALL,
        "model_type": "qwen3",
        "hidden_size": 320,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "tie_word_embeddings": True,
    },
    "qwen2": {**SMALL, "model_type": "qwen2", "hidden_size": 448, "num_attention_heads": 7, "num_key_value_heads": 1},
}
BATCH, LENGTH, RANK = 2, 768, 16
NUMBERS = {"float32": ("float32", False), "autocast": ("float32", True)}
RUNS = {
    f"{model}-{tuning}-{numbers}-{'checkpointing' if checkpointing else 'kept'}": (
        model,
        tuning,
        numbers,
        checkpointing,
    )
    for model, tuning, numbers, checkpointing in itertools.product(MODELS, ("full", "lora"), NUMBERS, (True, False))
}


@pytest.fixture(scope="module")
def measured(engine_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """Bytes held at most in each phase of each run."""
    jobs = {}
    for name, (model, tuning, numbers, checkpointing) in RUNS.items():
        weights, autocast = NUMBERS[numbers]
        jobs[name] = {
            "config": MODELS[model],
            "weights": weights,
            "autocast": autocast,
            "checkpointing": checkpointing,
            "rank": RANK if tuning == "lora" else 0,
            "batch": BATCH,
            "length": LENGTH,
        }
    file = tmp_path_factory.mktemp("jobs") / "jobs.json"
    file.write_text(json.dumps(jobs), "utf-8")
    command = [engine_python, str(HERE / "memory_step.py"), str(file)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def estimated(name: str) -> Memory:
    model, tuning, numbers, checkpointing = RUNS[name]
    weights, autocast = NUMBERS[numbers]
    job = Job(
        method="sft",
        tuning="full" if tuning == "full" else "lora",
        weights=weights,  # type: ignore[arg-type]
        autocast=autocast,
        batch=BATCH,
        prompt=0,
        completion=LENGTH,
        checkpointing=checkpointing,
        adapter=Adapter(rank=RANK) if tuning == "lora" else None,
        loss="causal_lm",
        device="cpu",
    )
    return estimate(architecture.read(MODELS[model]), job)


@pytest.mark.parametrize("name", RUNS)
def test_a_step_holds_what_was_planned(name: str, measured: dict[str, dict[str, float]]) -> None:
    """Forward pass, backward pass and optimizer step each lie within the interval that the planner states."""
    said = {phase.name: phase for phase in estimated(name).phases}
    outside = {
        phase: (said[phase].low, held / GIB, said[phase].high)
        for phase, held in measured[name].items()
        if not said[phase].low <= held / GIB <= said[phase].high
    }
    assert not outside
