"""`sample` on the real model: whole, repeatable, and unharmed by a kill at any moment."""

import dataclasses
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import runs
from llm_finetuning import artifact, lineage
from llm_finetuning.brief import load as load_brief
from llm_finetuning.sampling.drawing import IDENTITY
from llm_finetuning.types import Sample

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
START = "import sys; sys.path[0] = sys.argv.pop(1); from llm_finetuning.cli import main; sys.exit(main())"
KILLS = 10
PROMPTS, G = 24, 16

Finetune = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.model


def brief(model: str, sampling: str = "") -> str:
    head = runs.BRIEF.replace("some/model", json.dumps(model)).partition("sampling:")[0]
    return head + f"sampling: {{num_generations: {G}, prompts: {PROMPTS}, max_completion_length: 8{sampling}}}\n"


def samples(folder: Path) -> dict[str, Sample]:
    """Return the samples by id; a duplicate is a failure."""
    records = artifact.read_lines(folder / "samples.jsonl", Sample).records
    by_id = {sample.sample_id: sample for sample in records}
    assert len(by_id) == len(records)
    return by_id


def timeless(folder: Path) -> dict[str, Sample]:
    """Return the samples without what differs from run to run."""
    return {name: dataclasses.replace(sample, seconds=None) for name, sample in samples(folder).items()}


def await_growth(path: Path, process: "subprocess.Popen[bytes]") -> None:
    """Return once the file is longer than now, or the process has ended."""
    begun = path.stat().st_size if path.exists() else 0
    while process.poll() is None and (not path.exists() or path.stat().st_size <= begun):
        time.sleep(0.02)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, engine_python: str, model_folder: str) -> Path:
    """A run that was sampled without an interruption."""
    folder = runs.write_run(tmp_path_factory.mktemp("whole") / "run", rows=30, text=brief(model_folder))
    command = [sys.executable, "-c", START, str(SCRIPTS), "sample", str(folder), "--python", engine_python]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return folder


def test_every_sample_is_there_with_all_it_needs(whole: Path) -> None:
    """G completions of each prompt and one at low temperature, with ids, counts and the reason each ended."""
    found = samples(whole)
    header = artifact.read_lines(whole / "samples.jsonl", Sample).header

    prompts = {sample.prompt_id for sample in found.values()}
    assert len(prompts) == PROMPTS
    assert set(found) == {f"{name}/{index}" for name in prompts for index in [*range(G), "low"]}
    for sample in found.values():
        assert sample.completion_ids is not None
        assert len(sample.completion_ids) == sample.tokens <= 8
        assert sample.finish_reason == ("length" if sample.completion_ids[-1] != 2 else "stop")
        assert sample.columns["answer"] == str(2 * sample.columns["level"] + 1)
        assert sample.seconds is not None
        assert 0 < sample.seconds < 10
    assert len({str(sample.completion) for sample in found.values()}) > PROMPTS
    assert header.settings["engine"]["engine"] == "transformers"
    assert set(header.parents) == {
        "dataset of brief.yaml",
        "model of brief.yaml",
        "sampling of brief.yaml",
        "data.jsonl",
        "model(template, tokenizer)",
    }
    assert set(IDENTITY) <= set(header.settings["engine"])


def test_killed_at_ten_random_moments_it_ends_with_the_exact_set(
    whole: Path, tmp_path: Path, engine_python: str, model_folder: str
) -> None:
    """No sample is lost, none is doubled, and each is the one that an uninterrupted run draws."""
    folder = runs.write_run(tmp_path / "run", rows=30, text=brief(model_folder))
    command = [sys.executable, "-c", START, str(SCRIPTS), "sample", str(folder), "--python", engine_python]
    moments = random.Random(1)
    kept = [0]
    for kill in range(KILLS):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if kill % 2:  # while samples come in, however long this machine takes to load the model
            await_growth(folder / "samples.jsonl", process)
            time.sleep(moments.uniform(0.0, 1.0))
        else:
            time.sleep(moments.uniform(0.2, 7.0))
        process.kill()
        process.wait()
        if (folder / "samples.jsonl").exists():
            kept.append(len(samples(folder)))
    subprocess.run(command, check=True, capture_output=True, timeout=300)

    assert kept == sorted(kept)  # nothing that was written is ever lost
    assert len(set(kept)) > 2  # some kills met a file in the making
    assert timeless(whole) == timeless(folder)


def test_complete_run_starts_no_engine(whole: Path, finetune: Finetune) -> None:
    """Asked again, it says what is there and loads no model."""
    before = (whole / "samples.jsonl").read_bytes()
    code, out, err = finetune("sample", whole, "--python", sys.executable, "--json")

    assert code == 0, err
    assert json.loads(out)["samples"] == PROMPTS * (G + 1)
    assert "starting" not in err
    assert before == (whole / "samples.jsonl").read_bytes()


def test_other_settings_are_not_mixed_in(
    whole: Path, tmp_path: Path, finetune: Finetune, model_folder: str, engine_python: str
) -> None:
    """A changed brief is refused; --fresh sets the old samples aside and loses nothing."""
    folder = runs.write_run(tmp_path / "run", rows=30, text=brief(model_folder))
    (folder / "samples.jsonl").write_bytes((whole / "samples.jsonl").read_bytes())
    (folder / "brief.yaml").write_text(brief(model_folder, ", temperature: 0.5").replace("prompts: 24", "prompts: 1"))
    code, _, err = finetune("sample", folder, "--python", engine_python)
    assert code == 2
    assert "was drawn from another sampling of brief.yaml" in err
    assert finetune("sample", folder, "--python", "/no/such/python", "--fresh")[0] == 2
    assert (whole / "samples.jsonl").read_bytes() == (folder / "samples.jsonl").read_bytes()  # nothing replaces it yet
    assert finetune("sample", folder, "--python", engine_python, "--fresh")[0] == 0
    assert len(samples(folder)) == G + 1
    assert (whole / "samples.jsonl").read_bytes() == (folder / "samples.1.jsonl").read_bytes()


def test_other_weights_are_not_mixed_in(
    whole: Path, tmp_path: Path, finetune: Finetune, model_folder: str, engine_python: str
) -> None:
    """The same brief with other weights in the folder: half of the samples would be another model's."""
    folder = runs.write_run(tmp_path / "run", rows=30, text=brief(model_folder))
    lines = (whole / "samples.jsonl").read_text("utf-8").splitlines(keepends=True)
    head = json.loads(lines[0])
    head["header"]["settings"]["engine"]["model"]["sha256"] = "0" * 64
    (folder / "samples.jsonl").write_text(json.dumps(head) + "\n" + "".join(lines[1:-1]), "utf-8")
    code, _, err = finetune("sample", folder, "--python", engine_python)

    assert code == 2
    assert "was drawn with another model than is there now" in err


def test_changed_template_makes_the_samples_stale(whole: Path, tmp_path: Path, finetune: Finetune) -> None:
    """The template decides what the model was asked; another one is another question."""
    copy = tmp_path / "run"
    shutil.copytree(whole, copy)
    text = (copy / "brief.yaml").read_text("utf-8")
    model = Path(json.loads(text.partition("model: ")[2].splitlines()[0]))
    changed = tmp_path / "model"
    shutil.copytree(model, changed, ignore=shutil.ignore_patterns("*.safetensors"))
    lines = (copy / "samples.jsonl").read_text("utf-8").splitlines(keepends=True)
    (copy / "brief.yaml").write_text(text.replace(json.dumps(str(model)), json.dumps(str(changed))), "utf-8")
    loaded = load_brief(copy)
    head = json.loads(lines[0])
    head["header"]["parents"] = lineage.of_samples(loaded)
    (copy / "samples.jsonl").write_text(json.dumps(head) + "\n" + "".join(lines[1:]), "utf-8")
    assert finetune("score", copy)[0] == 0

    template = changed / "chat_template.jinja"
    template.write_text(template.read_text("utf-8") + " ", "utf-8")
    code, _, err = finetune("score", copy)
    assert code == 2
    assert "model(template, tokenizer) changed since it was made" in err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / "data.jsonl").unlink(), "no such file; correct `dataset.path`"),
        (lambda folder: (folder / "data.jsonl").write_text(""), "holds no rows"),
        (lambda folder: (folder / "brief.yaml").write_text(brief("./no-model")), "no-model"),
        (lambda folder: (folder / "brief.yaml").write_text(brief("./empty")), "empty"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    run_dir: Path, finetune: Finetune, engine_python: str, model_folder: str, change: Any, words: str
) -> None:
    """What, where, how to mend it; exit 2; no samples.jsonl."""
    (run_dir / "empty").mkdir()
    (run_dir / "brief.yaml").write_text(brief(model_folder))
    change(run_dir)
    code, out, err = finetune("sample", run_dir, "--python", engine_python)

    assert (2, "") == (code, out)
    faults = [line for line in err.splitlines() if line.startswith("finetune: ")]
    assert faults
    assert all(words in fault for fault in faults)
    assert not (run_dir / "samples.jsonl").exists()


def test_interpreter_without_torch_is_refused(run_dir: Path, finetune: Finetune, tmp_path: Path) -> None:
    """A training interpreter that lacks a module is named with what it lacks."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    code, _, err = finetune("sample", run_dir, "--python", tmp_path / "bare" / "bin" / "python")

    assert code == 2
    assert "torch" in err
    assert len(err.strip().splitlines()) == 1
