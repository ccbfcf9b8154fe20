"""`merge` on the real model: what it writes says what base and adapter say, and what would not is not kept."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import runs
from llm_finetuning.program import run_program

HERE = Path(__file__).resolve().parent
PROMPTS = ("What is 12 + 34?", "Name three rivers.")

Finetune = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def make(engine_python: str, model_folder: str) -> Callable[..., None]:
    """A maker of adapters of the real model: a folder, and what adapter_maker.py takes."""

    def made(folder: Path, *options: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        command = [engine_python, str(HERE / "adapter_maker.py"), model_folder, str(folder), *options]
        subprocess.run(command, check=True, timeout=300)

    return made


@pytest.fixture
def run(tmp_path: Path, model_folder: str, engine_python: str) -> Path:
    """A run of the real model, nothing trained."""
    text = runs.BRIEF.replace("some/model", json.dumps(model_folder)) + f"environment: {json.dumps(engine_python)}\n"
    return runs.write_run(tmp_path / "run", text=text)


def greedy(python: str, model: Path, adapter: Path | None = None) -> list[str]:
    """Return what a model answers at temperature 0, in float32, so that rounding decides nothing."""
    request = {"row": 1, "n": 1, "temperature": 0.0, "seed": 1, "pass_name": "low"}
    job = {
        "model": str(model),
        "adapter": adapter and str(adapter),
        "dtype": "float32",
        "sampling": {"max_completion_length": 12, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0},
        "chat_template_kwargs": {},
        "batches": [[{**request, "prompt_id": text, "prompt": text} for text in PROMPTS]],
    }
    records = run_program("transformers_sampler", job, python=python)
    return [one["text"] for record in records if record["kind"] == "group" for one in record["completions"]]


def test_a_merged_model_says_what_base_and_adapter_say(
    run: Path, make: Callable[..., None], finetune: Finetune, engine_python: str, model_folder: str
) -> None:
    """With its tokenizer and template; made once of the same adapter, and anew of another one."""
    make(run / "train" / "model")
    code, out, err = finetune("merge", run, "--dtype", "float32", "--json")
    assert code == 0, err
    facts = json.loads(out)
    merged = run / "train" / "merged"
    assert facts["dtype"] == "float32"
    assert facts["kl"] < 1e-6
    assert facts["moved"] > 1
    said = greedy(engine_python, merged)
    assert said == greedy(engine_python, Path(model_folder), run / "train" / "model")
    assert said != greedy(engine_python, Path(model_folder))
    assert (merged / "chat_template.jinja").is_file()
    assert facts["next"] == json.loads(finetune("status", run, "--json")[1])["next"]

    stamp = (merged / "model.safetensors").stat().st_mtime_ns
    assert finetune("merge", run, "--dtype", "float32")[0] == 0
    assert (merged / "model.safetensors").stat().st_mtime_ns == stamp
    make(run / "train" / "model", "8")
    code, out, _ = finetune("merge", run)  # in the base model's own format
    assert (code, f"{merged} (0.27 GB, bfloat16)" in out) == (0, True)
    assert (merged / "model.safetensors").stat().st_mtime_ns != stamp
    assert sorted(path.name for path in (run / "train").iterdir()) == ["merged", "model"]


def test_what_rounding_may_take_is_said(run: Path, make: Callable[..., None], finetune: Finetune) -> None:
    """An adapter that changes little: bfloat16 rounds about as much, float32 does not."""
    make(run / "train" / "model", "0.2")

    assert "rounding to bfloat16 may take the adapter's gain" in finetune("merge", run)[1]
    assert "rounding to" not in finetune("merge", run, "--dtype", "float32")[1]


@pytest.mark.parametrize("layer", ["lm_head", "embed_tokens"])
def test_weights_that_two_layers_share_are_not_merged(
    layer: str, run: Path, make: Callable[..., None], finetune: Finetune
) -> None:
    """The adapter changes one of them, the merge both: one line, and nothing is left of it."""
    make(run / "train" / "model", "16", layer)
    code, _, err = finetune("merge", run)

    assert code == 2
    assert f"nats a token apart; serve base and adapter as they are, or train without {layer}" in err
    assert [path.name for path in (run / "train").iterdir()] == ["model"]


def test_a_merge_that_fails_leaves_the_last_one(
    run: Path, make: Callable[..., None], finetune: Finetune, tmp_path: Path
) -> None:
    """One line, and no draft."""
    make(run / "train" / "model")
    assert finetune("merge", run)[0] == 0
    before = (run / "train" / "merged" / "merge.json").read_text("utf-8")
    (run / "train" / "model" / "adapter_model.safetensors").write_bytes(b"cut")
    code, _, err = finetune("merge", run)

    assert code == 2
    assert "the adapter cannot be loaded" in err
    assert (run / "train" / "merged" / "merge.json").read_text("utf-8") == before
    assert not list(tmp_path.rglob(".merged*"))
