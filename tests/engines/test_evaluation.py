"""`evaluate` on the real model: killed and gone on with, and a LoRA checkpoint that is told from its base."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import runs
from llm_finetuning import artifact, drift
from llm_finetuning.evaluating import general
from llm_finetuning.program import run_program
from llm_finetuning.types import Evaluation, Sample

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE.parents[1] / "scripts"
START = "import sys; sys.path[0] = sys.argv.pop(1); from llm_finetuning.cli import main; sys.exit(main())"
ROWS, K = 40, 4  # three batches, so that a kill finds a part

Finetune = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory, engine_python: str, model_folder: str) -> Path:
    """A LoRA adapter made on the spot."""
    out = tmp_path_factory.mktemp("adapter") / "adapter"
    subprocess.run([engine_python, str(HERE / "adapter_maker.py"), model_folder, str(out)], check=True, timeout=300)
    return out


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, model_folder: str, adapter: Path) -> Path:
    """A run with small sums held out, and the adapter as its checkpoint of step 7."""
    text = runs.BRIEF.replace("some/model", json.dumps(model_folder)).partition("sampling:")[0]
    text = text.replace("id: id}", "id: id, evaluation: held.jsonl}")
    text += f"sampling: {{num_generations: {K}, max_completion_length: 8, seed: 1}}\n"
    folder = runs.write_run(tmp_path_factory.mktemp("evaluation") / "run", text=text)
    sums = [(first, second) for first in range(2, 10) for second in range(2, 7)]
    rows = [
        {"id": f"{a}+{b}", "prompt": f"Question: What is {a} + {b}?\nAnswer:", "answer": str(a + b), "level": 0}
        for a, b in sums
    ]
    (folder / "held.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    checkpoint = folder / "train" / "checkpoints" / "checkpoint-7"
    shutil.copytree(adapter, checkpoint)
    (checkpoint / "trainer_state.json").write_text("{}")
    return folder


def transcripts(run: Path, name: str) -> dict[str, Sample]:
    records = artifact.read_lines(run / "eval" / f"{name}.samples.jsonl", Sample).records
    found = {sample.sample_id: sample for sample in records}
    assert len(found) == len(records)
    return found


def said(samples: dict[str, Sample]) -> dict[str, Any]:
    return {name: sample.completion for name, sample in samples.items()}


def killed_at(path: Path, command: list[str]) -> None:
    """Kill the command as soon as it has drawn something of a file."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < 2):
        time.sleep(0.01)
    assert process.poll() is None
    process.kill()
    process.wait()


def test_base_and_lora_checkpoint_are_evaluated_and_compared(run: Path, finetune: Finetune, engine_python: str) -> None:
    """A kill loses nothing and doubles nothing; the adapter is used, and its noise is found worse."""
    command = [sys.executable, "-c", START, str(SCRIPTS), "evaluate", str(run), "--python", engine_python]
    killed_at(run / "eval" / "base.samples.jsonl", command)
    kept = len(transcripts(run, "base"))
    assert kept < ROWS * K
    assert not (run / "eval" / "base.json").exists()
    goldens = ("--suite", "goldens", "--python", engine_python)
    assert finetune("evaluate", run, *goldens)[0] == 0
    whole = transcripts(run, "base")
    assert len(whole) == ROWS * K

    code, _, err = finetune("evaluate", run, "--checkpoint", "last", *goldens)
    assert code == 0, err
    tuned = artifact.read_json(run / "eval" / "checkpoint-7.json", Evaluation)
    assert tuned.records[0].model == str(run / "train" / "checkpoints" / "checkpoint-7")
    noise = said(transcripts(run, "checkpoint-7"))
    assert sum(noise[name] == text for name, text in said(whole).items()) < ROWS * K / 10

    code, out, _ = finetune("compare", run, "base", "checkpoint-7", "--json")
    facts = json.loads(out)
    assert (code, facts["verdict"], facts["goldens"]["verdict"]) == (1, "rejected", "worse")
    success = facts["goldens"]["success"]
    assert success["base"] > 0.05 > success["candidate"]

    # Never interrupted, the same evaluation draws the same.
    assert finetune("evaluate", run, "--name", "unbroken", *goldens)[0] == 0
    assert said(transcripts(run, "unbroken")) == said(whole)


def test_the_drift_suite_is_drawn_greedily_from_the_same_model(
    run: Path, finetune: Finetune, engine_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of its items, up to the suite's own cap though the brief's is shorter; the adapter answers otherwise."""
    every = drift.rows(chat=False)
    monkeypatch.setattr(drift, "rows", lambda *, chat: [row for row in every if row.row % 40 == 1])
    monkeypatch.setattr(drift, "MAX_TOKENS", 24)
    monkeypatch.setitem(general.PLAIN, "max_completion_length", 24)
    for options in ((), ("--checkpoint", "last")):
        code, _, err = finetune("evaluate", run, "--suite", "drift", *options, "--python", engine_python)
        assert code == 0, err
    drawn, noise = transcripts(run, "base.drift"), transcripts(run, "checkpoint-7.drift")
    assert set(drawn) == set(noise) == {f"{row.prompt_id}/low" for row in every if row.row % 40 == 1}
    assert {sample.temperature for sample in drawn.values()} == {0.0}
    assert 8 < max(sample.tokens for sample in drawn.values()) <= 24
    assert said(drawn) != said(noise)


def job(model: str, adapter: Path) -> dict[str, Any]:
    request = {"prompt_id": "p", "row": 1, "prompt": "The capital of France is", "pass_name": "low_temperature"}
    return {
        "model": model,
        "adapter": str(adapter),
        "endpoint": None,
        "sampling": {"max_completion_length": 3, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0},
        "chat_template_kwargs": {},
        "batches": [[{**request, "n": 1, "temperature": 0.0, "seed": 1}]],
    }


def test_vllm_takes_the_adapter_too(engine_python: str, vllm_python: str, model_folder: str, adapter: Path) -> None:
    """Greedily it begins as transformers does with the adapter, and not as the base model does."""
    ids = {}
    for name, engine, python, wanted in (
        ("vllm", "vllm_sampler", vllm_python, job(model_folder, adapter)),
        ("transformers", "transformers_sampler", engine_python, job(model_folder, adapter)),
        ("base", "transformers_sampler", engine_python, {**job(model_folder, adapter), "adapter": None}),
    ):
        records = list(run_program(engine, {**wanted, "dtype": "bfloat16"}, python=python))
        ids[name] = records[1]["completions"][0]["ids"]
        if name == "vllm":
            assert records[0]["facts"]["model"]["adapter"]["folder"] == str(adapter)
    assert ids["vllm"][0] == ids["transformers"][0] != ids["base"][0]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda folder: (folder / "adapter_model.safetensors").unlink(), "has no adapter_model.safetensors"),
        (lambda folder: _change(folder, peft_type="LOHA"), "an adapter of kind LOHA; only LoRA is read"),
        (lambda folder: _change(folder, target_modules=["q_proj", "v_proj", "k_proj"]), "do not match the base model"),
        (lambda folder: _change(folder, target_modules=["q_proj"]), "do not match the base model"),
    ],
    ids=["no weights", "not LoRA", "too few tensors", "too many tensors"],
)
def test_an_adapter_that_does_not_fit_is_refused(
    fault: Callable[[Path], object], words: str, adapter: Path, tmp_path: Path, engine_python: str, model_folder: str
) -> None:
    """In one line: a part of an adapter would be another model under its name."""
    folder = tmp_path / "adapter"
    shutil.copytree(adapter, folder)
    fault(folder)
    with pytest.raises(Exception, match=words) as found:
        list(run_program("transformers_sampler", job(model_folder, folder), python=engine_python))
    assert type(found.value).__name__ == "Refusal"
    assert len(str(found.value).splitlines()) == 1


def _change(folder: Path, **keys: Any) -> None:
    config = folder / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | keys))
