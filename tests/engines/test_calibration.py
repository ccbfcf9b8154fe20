"""`plan --calibrate` on this machine: what the engine measures of the real model, and what the plan makes of it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning import brief
from llm_finetuning.commands import plan
from llm_finetuning.errors import Refusal
from llm_finetuning.planning import decode, training_time
from llm_finetuning.planning.decode import Drawn, Serving
from llm_finetuning.program import run_program
from llm_finetuning.recipes import shapes
from llm_finetuning.sizing import calibrated
from llm_finetuning.sizing.forecast import forecast
from llm_finetuning.sizing.situation import situation_of

pytestmark = pytest.mark.model

Finetune = Callable[..., tuple[int, str, str]]
JOB = {
    "engine": "transformers",
    "tuning": "full",
    "train_dtype": "float32",
    "decode_dtype": None,
    "autocast": False,
    "checkpointing": False,
    "batch": 8,
    "prompt": 32,
    "tokens": 256,
    "steps": 8,
    "gpu": False,
}
BRIEF = """\
name: sums
method: grpo
model: {model}
dataset: {{path: data.jsonl, prompt: prompt, answer: answer}}
rewards: [{{use: exact_answer}}]
sampling: {{num_generations: 8, max_completion_length: 32}}
hardware: {hardware}
"""


def written(folder: Path, model: str, hardware: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "brief.yaml").write_text(BRIEF.format(model=model, hardware=hardware))
    (folder / "data.jsonl").write_text('{"prompt": "1 + 1 =", "answer": "2"}\n' * 32)
    return folder


@pytest.fixture(scope="module")
def measured(engine_python: str, model_folder: str) -> dict[str, Any]:
    """One calibration of the real model, all of it trained."""
    (record,) = run_program("calibration", {**JOB, "model": model_folder}, python=engine_python)
    return record


def test_a_calibration_times_decoding_and_training(measured: dict[str, Any]) -> None:
    """One sequence and the batch, each a step; a batch takes no less, and training longer than decoding."""
    single, batch = measured["decode"]
    assert (measured["kind"], measured["engine"], measured["decode_dtype"]) == ("measured", "transformers", "float32")
    assert (single["batch"], batch["batch"]) == (1, 8)
    assert single["context"] == 36
    assert 0 < single["seconds"] < batch["seconds"] * 1.5
    train = measured["train"]
    assert (train["batch"], train["tokens"], train["checkpointing"]) == (1, 256, False)
    assert train["seconds"] > single["seconds"]


def test_frozen_weights_train_faster(measured: dict[str, Any], engine_python: str, model_folder: str) -> None:
    """Gradients pass through them all the same, but none is made of them."""
    job = {**JOB, "model": model_folder, "tuning": "lora"}
    (frozen,) = run_program("calibration", job, python=engine_python)
    assert 0.3 * measured["train"]["seconds"] < frozen["train"]["seconds"] < measured["train"]["seconds"]


def test_the_rates_give_back_what_was_measured(measured: dict[str, Any], model_folder: str, tmp_path: Path) -> None:
    """By the formulae that plan the run, the steps that were timed take as long as they took."""
    loaded = brief.load(written(tmp_path / "run", model_folder, "cpu"))
    where = situation_of(loaded, shapes.machine_of("cpu"), available_gib=64.0)
    now = forecast(loaded, where)
    rates = calibrated.rates_from(measured, where.model, now.job, None)
    shape = {"batch": 1, "prompt": 0, "completion": 256, "padded": False, "checkpointing": False, "loss": "causal_lm"}
    again = training_time.passes(where.model, replace(now.job, **shape), rates).training
    assert again == pytest.approx(measured["train"]["seconds"], rel=0.05)
    served = Serving(engine="transformers", maps=4.0, experts=4.0, head=4.0, cache=4.0)
    single = decode.step(where.model, rates, served, 1, 36).seconds
    assert single == pytest.approx(measured["decode"][0]["seconds"], rel=0.05)


def test_sampling_takes_about_as_long_as_the_calibration_foretells(
    measured: dict[str, Any], engine_python: str, model_folder: str, tmp_path: Path
) -> None:
    """Eight completions of a prompt, drawn by the engine that samples: within four times, as other tests run beside."""
    loaded = brief.load(written(tmp_path / "run", model_folder, "cpu"))
    where = situation_of(loaded, shapes.machine_of("cpu"), available_gib=64.0)
    rates = calibrated.rates_from(measured, where.model, forecast(loaded, where).job, None)
    request = {"prompt_id": "p1", "row": 1, "prompt": "Once upon a time", "pass_name": "policy", "n": 8}
    sampling = {"max_completion_length": 48, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
    job = {
        "model": model_folder,
        "endpoint": None,
        "chat_template_kwargs": {},
        "dtype": "float32",
        "sampling": sampling,
        "batches": [[{**request, "temperature": 1.0, "seed": seed}] for seed in range(6)],
    }
    groups = list(run_program("transformers_sampler", job, python=engine_python))[1:]
    seconds = min(8 * group["seconds"] for group in groups)
    lengths = [completion["tokens"] for completion in groups[0]["completions"]]
    served = Serving(engine="transformers", maps=4.0, experts=4.0, head=4.0, cache=4.0, shares_prompts=True)
    wanted = Drawn(sequences=8, prompts=1, prompt=4, mean=sum(lengths) / 8, longest=max(lengths))
    foretold = decode.rollout(where.model, rates, served, wanted).seconds
    assert seconds / 4 < foretold < seconds * 4


def test_plan_calibrates_and_keeps_what_it_measured(
    engine_python: str, model_folder: str, tmp_path: Path, finetune: Finetune
) -> None:
    """The CPU's time is known from then on, also to a plan that does not measure again."""
    run = written(tmp_path / "run", model_folder, "cpu")
    code, out, _ = finetune("plan", run, "--calibrate", "--python", engine_python, "--json")
    facts = json.loads(out)
    assert code in (0, 1)
    assert facts["calibrated"]["device"] == "cpu"
    assert facts["time"]["rates"]["source"].startswith("measured here: ")
    assert facts["time"]["step"]["seconds"] > 0
    again = plan.run(run)
    assert again.calibrated == facts["calibrated"]
    assert again.time["step"] == facts["time"]["step"]


def test_a_machine_without_the_gpu_of_the_brief_is_refused(
    measured: dict[str, Any], engine_python: str, model_folder: str
) -> None:
    """Figures of this CPU would say nothing of the card that trains."""
    if measured["device"] == "cuda":
        pytest.skip("this machine has a GPU")
    with pytest.raises(Refusal, match="torch shows none on this machine"):
        list(run_program("calibration", {**JOB, "model": model_folder, "gpu": True}, python=engine_python))


def test_a_folder_without_a_model_is_refused(engine_python: str, tmp_path: Path) -> None:
    """One line names the folder and what to do."""
    with pytest.raises(Refusal, match="no such model folder"):
        list(run_program("calibration", {**JOB, "model": str(tmp_path / "none")}, python=engine_python))
