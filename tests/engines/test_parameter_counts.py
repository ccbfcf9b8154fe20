"""The planner's parameter counts beside the models that transformers builds from the same configs."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning.planning import architecture
from public_configs import CONFIGS

HERE = Path(__file__).parent


def text_of(config: dict[str, Any]) -> dict[str, Any]:
    """Return the language model's own config: the vision tower beside it is an estimate."""
    nested = config.get("text_config")
    return dict(nested) if nested else config


@pytest.fixture(scope="module")
def built(engine_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The counts of the models that transformers builds, on the meta device."""
    file = tmp_path_factory.mktemp("configs") / "configs.json"
    file.write_text(json.dumps({name: text_of(config) for name, config in CONFIGS.items()}), "utf-8")
    command = [engine_python, str(HERE / "count_parameters.py"), str(file)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    counts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return counts


@pytest.mark.parametrize("name", CONFIGS)
def test_the_count_is_that_of_the_built_model(name: str, built: dict[str, Any]) -> None:
    """Embedding, head, attention, experts, norms and biases: not one parameter more or less."""
    described = architecture.read(text_of(CONFIGS[name]))
    assert built[name] == described.total, described.parameters()


def test_enough_families_are_held_to_the_built_models() -> None:
    """The counts are compared for at least 25 architectures, hybrids and latent attention among them."""
    families = {text_of(config)["model_type"] for config in CONFIGS.values()}
    assert len(families) >= 25
    assert {"qwen3_next", "jamba", "deepseek_v3", "gpt_oss", "nemotron_h"} <= families
