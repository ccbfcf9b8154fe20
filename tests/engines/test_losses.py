"""The loss that TRL computes by our recipes is the one of the papers, as a function and in its gradient."""

import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning import recipes
from llm_finetuning.brief import LoadedBrief, parse
from llm_finetuning.recipes import shapes

PROGRAM = Path(__file__).parent / "loss_step.py"
BUDGET = 8  # tokens of a completion
ROWS = 64  # of the program's data set
RELATIVE_ERROR = 1e-5  # of the sum of the absolute terms: terms of both signs nearly cancel

PLAIN = {"level": "token", "low": 0.2, "high": 0.2, "beta": 0.01, "mean_over": "sequences"}

OBJECTIVES: dict[str, dict[str, Any]] = {
    "plain": PLAIN,
    "dapo": {**PLAIN, "high": 0.28, "beta": 0.0, "mean_over": "tokens"},
    "dr_grpo": {**PLAIN, "beta": 0.0, "mean_over": "budget"},
    "gspo": {**PLAIN, "level": "sequence", "low": 3e-4, "high": 4e-4, "beta": 0.0},
}
"""What each paper has, written here a second time and not taken from the recipe."""

BRIEF = """
name: sums
method: grpo
model: some/model
dataset: {path: some/data, prompt: prompt, answer: answer}
rewards: [{use: exact_answer}]
sampling: {num_generations: 8, max_completion_length: 8}
hardware: cpu
"""


def options_of(variant: str) -> dict[str, Any]:
    """Return the trainer's options of a run by the variant, of one step and without files."""
    asked = "" if variant == "plain" else f"variant: {{use: {variant}, because: a test}}\n"
    loaded = LoadedBrief(parse(BRIEF + asked, Path("brief.yaml")), Path("/nowhere"))
    config = recipes.config_for(loaded, shapes.machine_of("cpu"), ROWS)
    options = {name: option.value for name, option in config.trainer.items()}
    return {**options, "max_steps": 1, "save_strategy": "no", "log_completions": False, "eval_strategy": "no"}


@pytest.fixture(scope="module")
def steps(engine_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """One real step by each variant."""
    configs = [
        {"options": options_of(variant), "objective": {**objective, "budget": BUDGET}}
        for variant, objective in OBJECTIVES.items()
    ]
    path = tmp_path_factory.mktemp("losses") / "configs.json"
    path.write_text(json.dumps(configs), "utf-8")
    done = subprocess.run([engine_python, PROGRAM, path], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(OBJECTIVES, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("variant", OBJECTIVES)
def test_the_loss_of_a_step_is_the_papers(steps: dict[str, dict[str, Any]], variant: str) -> None:
    """Off-policy, over completions of different lengths and all micro-batches of a step, loss and gradient agree."""
    step = steps[variant]
    assert 0.05 < step["clipped"] < 0.95  # else clipping is not looked at
    assert len(set(step["lengths"])) > 3  # else all ways to take the mean are one
    assert step["has_reference"] == (OBJECTIVES[variant]["beta"] > 0)

    assert step["theirs"] == pytest.approx(step["ours"], abs=RELATIVE_ERROR * step["scale"])
    assert step["gradient_error"] < RELATIVE_ERROR


@pytest.mark.parametrize("variant", OBJECTIVES)
def test_the_advantages_of_a_step_are_the_papers(steps: dict[str, dict[str, Any]], variant: str) -> None:
    """The rewards of a group, less their mean, over their deviation; Dr. GRPO leaves the deviation out."""
    step = steps[variant]
    expected: list[float] = []
    for first in range(0, len(step["advantages"]), step["group"]):
        group = step["rewards"][first : first + step["group"]]
        mean, spread = statistics.mean(group), statistics.stdev(group)
        expected += [(reward - mean) / (1.0 if variant == "dr_grpo" else spread + 1e-4) for reward in group]

    assert step["group"] == 8
    assert step["advantages"] == pytest.approx(expected, rel=1e-4, abs=1e-5)
