"""`score` against TRL itself: the same keywords, the same sum, the same advantages, in a real training step."""

import importlib.util
import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning import trl_options
from llm_finetuning.stages import score as stage
from llm_finetuning.types import Component, Sample

HERE = Path(__file__).parent
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def rewards() -> Any:
    spec = importlib.util.spec_from_file_location("trl_step", HERE / "trl_step.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def samples_of(seen: dict[str, Any]) -> list[Sample]:
    """Return what TRL sampled as our samples, groups in TRL's order."""
    samples = []
    for place, completion in enumerate(seen["completions"]):
        prompt = seen["prompts"][place]
        samples.append(
            Sample(
                sample_id=str(place),
                prompt_id=json.dumps(prompt),
                row=place + 1,
                pass_name="policy",
                index=place % 4,
                prompt=prompt,
                columns={"answer": seen["answer"][place], "level": seen["level"][place]},
                completion=completion,
                completion_ids=seen["completion_ids"][place],
                tokens=len(seen["completion_ids"][place]),
                finish_reason="length",
                temperature=1.0,
            )
        )
    return samples


@pytest.fixture(scope="module", params=["text", "chat"])
def steps(request: pytest.FixtureRequest, engine_python: str, model_folder: str) -> list[dict[str, Any]]:
    """One real step in each mode, with text and with chat prompts."""
    command = [engine_python, str(HERE / "trl_step.py"), model_folder, request.param]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    answers: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return answers


@pytest.mark.model
@pytest.mark.parametrize("mode", range(4))
def test_a_real_step_gives_what_score_gives(steps: list[dict[str, Any]], mode: int) -> None:
    """Means, sums and advantages equal those of `GRPOTrainer` on the completions that it drew."""
    step, module = steps[mode], rewards()
    scale, aggregation = module.MODES[mode]
    options = stage.Aggregation(scale_rewards=scale, multi_objective_aggregation=aggregation)
    components = [
        Component(name=function.__name__, function=function, weight=weight, low=-100, high=100)
        for function, weight in zip((module.length, module.vowels), module.WEIGHTS, strict=True)
    ]
    samples = samples_of(step["seen"])
    scores = stage.score(samples, components, completions_per_call=8, aggregation=options)

    assert sorted([*stage.keyword_arguments(samples), "log_extra"]) == step["seen"]["keywords"]
    for place, component in enumerate(components):
        known = [score.values[place].value for score in scores if score.values[place].value is not None]
        assert place == 1 or len(known) < len(scores)  # the test means little if nobody abstained
        mean = sum(known) / len(known)
        assert step["logged"][f"rewards/{component.name}/mean"] == pytest.approx(mean, rel=1e-5)
    # The third reward of the step pays 0 with weight 0: it scores every row, so that no row is left out as unscorable.
    total = [0.0 if score.reward is None else score.reward for score in scores]
    assert step["logged"]["reward"] == pytest.approx(sum(total) / len(total), rel=1e-5)
    table = [[math.nan if value.value is None else value.value for value in score.values] + [0.0] for score in scores]
    expected = stage.advantages_of(table, [*module.WEIGHTS, 0.0], [4, 4], options)
    assert step["advantages"] == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_option_names_are_those_of_the_installed_trl(engine_python: str) -> None:
    """`trl_options.json` is what TRL says of itself, and every option called removed is refused by it."""
    command = [engine_python, "-m", "llm_finetuning.engines.trl_options_reader"]
    done = subprocess.run(command, cwd=SCRIPTS, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)

    assert said == json.loads((SCRIPTS / "llm_finetuning" / "trl_options.json").read_text("utf-8"))
    assert said["trl"] == trl_options.TRL_VERSION
    for option in trl_options.REMOVED:
        assert option not in said["shared"] + said["methods"]["grpo"], option
