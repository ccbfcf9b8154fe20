"""`finetune build` as a person calls it: what it writes, what it refuses, and what it never loses."""

import json
import os
import re
import shutil
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import built_runs
import runs
import stub_interpreter
import weights
from llm_finetuning import artifact, brief, lineage
from llm_finetuning.building import freeze
from llm_finetuning.commands import build
from llm_finetuning.errors import Refusal
from llm_finetuning.training_run import TrainingRun
from llm_finetuning.types import Build

Finetune = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with an open gate, copied by each test."""
    return built_runs.write_opened(tmp_path_factory.mktemp("gated")).parent


@pytest.fixture
def opened(original: Path, tmp_path: Path) -> Path:
    """The same in a folder of its own; the model stays where the brief names it."""
    return shutil.copytree(original / "run", tmp_path / "run")


def record(folder: Path) -> Build:
    return artifact.read_json(folder / "train" / "build.json", Build).records[0]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def all_files(folder: Path) -> dict[str, str]:
    return {name: digest for name, digest in freeze.digests(folder).items() if name != "build.json"}


def test_it_writes_a_folder_and_says_what(opened: Path, finetune: Finetune) -> None:
    """Every file of the folder stands in its record; the answer gives devices, steps, prompts a step, what is next."""
    code, out, _ = finetune("build", opened, "--no-check", "--json")
    facts = json.loads(out)
    assert code == 0
    assert (facts["method"], facts["rows"], facts["steps"], facts["rows_a_step"]) == ("grpo", 15, 7, 2.0)
    assert facts["devices"] == ["trainer: the CPU, one process"]
    assert facts["next"].startswith(("finetune train ", "bash "))
    assert any("not checked under an installed TRL" in note for note in facts["notes"])
    built = record(opened)
    assert {**built.files, **built.launch} == all_files(opened / "train")
    assert set(built.launch) == {"launch.sh", "requirements.txt"}
    assert os.access(opened / "train" / "launch.sh", os.X_OK)
    for name in ("brief.yaml", "gate.json"):
        assert (opened / "train" / name).read_bytes() == (opened / name).read_bytes()
    assert (opened / "train" / "train.py").read_bytes() == (freeze.PROGRAMS / "grpo.py").read_bytes()
    rows = [json.loads(line) for line in (opened / "train/data/train.jsonl").read_text().splitlines()]
    assert rows == [json.loads(line) for line in (opened / "data.jsonl").read_text().splitlines()]
    assert not list(opened.glob(".train*"))


def test_the_answer_in_text(opened: Path, finetune: Finetune) -> None:
    """A person reads method, rows, devices, notes and the next command."""
    code, out, _ = finetune("build", opened, "--no-check")
    assert code == 0
    assert out.startswith("build: grpo on 15 rows, 2 prompts a step; steps: 7\n  trainer: the CPU, one process\n")
    assert f"wrote: {opened / 'train'}\nnext: " in out


def test_status_leads_to_it_and_on(opened: Path, finetune: Finetune) -> None:
    """After the gate and a look at the machine comes the build; a changed reward takes it back."""
    assert "next: finetune plan" in finetune("status", opened)[1]
    weights.write(Path(brief.load(opened).model_source()))
    python = stub_interpreter.write(opened.parent / "stub")
    assert finetune("preflight", opened, "--python", python)[0] == 0
    assert f"next: finetune build {opened}" in finetune("status", opened)[1]
    built_runs.build_unchecked(opened)
    out = finetune("status", opened)[1]
    assert "train/build.json done        grpo, 15 rows, cpu" in out
    assert "finetune build" not in out
    edit(opened / "brief.yaml", "accumulation_steps: 2", "accumulation_steps: 2, learning_rate: 1.0e-06")
    out = finetune("status", opened)[1]
    assert "train/build.json stale" in out
    assert f"next: finetune build {opened}" in out


def refused(folder: Path, **options: Any) -> str:
    with pytest.raises(Refusal) as refusal:
        built_runs.build_unchecked(folder, **options)
    (line,) = refusal.value.lines
    return line


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("mine.py", "value", "valu", "mine.py changed since it was made; run `finetune audit "),
        ("bonus.py", "value", "Value", "bonus.py (imported by mine.py) changed since it was made"),
        ("data.jsonl", "What", "Whet", "data.jsonl changed since it was made"),
        ("brief.yaml", "prompts: 15", "prompts: 14", "gate.json: sampling of brief.yaml changed"),
        ("gate.json", '"verdict": "open"', '"verdict": "blocked"', "the gate is not open (blocked)"),
        ("gate.json", '"audit.json": "', '"audit.json": "0', "audit.json changed since it was made"),
    ],
)
def test_no_open_gate_no_build(opened: Path, file: str, old: str, new: str, words: str) -> None:
    """A stale or closed gate is refused with the verb to run, and nothing is written."""
    edit(opened / file, old, new)
    assert words in refused(opened)
    assert not (opened / "train").exists()


def test_a_run_without_a_gate_is_refused(run_dir: Path) -> None:
    """The first thing that is missing is named with its verb."""
    assert "gate.json: not there yet; run `finetune gate" in refused(run_dir)


def test_a_demos_gate_builds_the_demo_alone(opened: Path) -> None:
    """Its build is marked, and no training of anything else starts from it."""
    from llm_finetuning.commands import gate
    from llm_finetuning.types import GateReport

    gate.run(opened, program_labels_count=True)
    assert artifact.read_json(opened / "gate.json", GateReport).header.parents["readers"] == lineage.DEMO_READER
    assert "counts for the demo alone" in refused(opened)
    built_runs.build_unchecked(opened, demo=True)
    assert record(opened).demo
    assert lineage.current_build(brief.load(opened), demo=True).demo
    with pytest.raises(Refusal, match="counts for the demo alone"):
        lineage.current_build(brief.load(opened))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("(Path(__file__).parent / 'more.txt').read_text()", "FileNotFoundError"),
        ("__import__('import' + 'lib').import_module('hid' + 'den')", "ModuleNotFoundError"),
    ],
    ids=["a file that is not named", "a module by a computed name"],
)
def test_a_reward_that_needs_more_than_is_frozen_is_refused(tmp_path: Path, body: str, words: str) -> None:
    """It would die on another machine; here it says so, and how to name what it reads."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "more.txt").write_text("")
    (run / "hidden.py").write_text("")
    built_runs.write_opened(tmp_path, more=body + "\n")
    line = refused(run)
    assert words in line
    assert f"{run}/train/rewards/files/mine.py:" in line
    assert "names them under `files:`" in line


def test_what_a_config_cannot_be_is_refused_before_anything_is_written(opened: Path) -> None:
    """The recipe's faults come through; an earlier build stays."""
    built_runs.build_unchecked(opened)
    before = all_files(opened / "train")
    edit(opened / "brief.yaml", "hardware: cpu", "hardware: cpu\ntraining_: 1")
    with pytest.raises(Refusal):
        built_runs.build_unchecked(opened)
    assert all_files(opened / "train") == before


def test_a_check_needs_an_interpreter_with_trl(opened: Path, tmp_path: Path) -> None:
    """One that is named and has none is refused with what would mend it; nothing is built."""
    venv.create(tmp_path / "bare", with_pip=False)
    with pytest.raises(Refusal, match="has no torch, trl; name another with --python, or install into it: "):
        build.run(opened, python=str(tmp_path / "bare"))
    assert not (opened / "train").exists()


def trained(folder: Path) -> None:
    """Leave what a run leaves."""
    for name in ("logs/progress.jsonl", "checkpoints/checkpoint-1/model.bin", "completions/completions_1.parquet"):
        (folder / "train" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "train" / name).write_text("kept")


def test_a_run_stays_where_nothing_that_it_depends_on_changed(opened: Path) -> None:
    """A comment in the brief and a gate asked again leave checkpoints and logs in place, and the files up to date."""
    built_runs.build_unchecked(opened)
    trained(opened)
    (opened / "train" / "launch.sh").write_text("# a module to load\n")
    edit(opened / "brief.yaml", "name: sums", "name: sums  # a comment")
    facts = built_runs.build_unchecked(opened)
    assert "nothing that training depends on changed" in facts["notes"][-1]
    assert "launch.sh: edited by hand and kept" in facts["notes"][-1]
    assert (opened / "train/checkpoints/checkpoint-1/model.bin").read_text() == "kept"
    assert "# a comment" in (opened / "train/brief.yaml").read_text()
    assert (opened / "train/launch.sh").read_text() == "# a module to load\n"
    assert not (opened / "train.1").exists()
    assert lineage.current_build(brief.load(opened)) == record(opened)


def test_a_run_of_another_config_is_set_aside(opened: Path) -> None:
    """Under a number, whole, and it is said; the new folder begins empty."""
    for number, rate in enumerate(("1.0e-06", "2.0e-06", "3.0e-06")):
        text = (opened / "brief.yaml").read_text()
        line = f"training: {{learning_rate: {rate}, per_device_train_batch_size: 4, gradient_accumulation_steps: 2}}\n"
        text = "".join(line if part.startswith("training:") else part for part in text.splitlines(keepends=True))
        (opened / "brief.yaml").write_text(text)
        notes = built_runs.build_unchecked(opened)["notes"]
        assert f"learning_rate: {rate}" in (opened / "train/config.yaml").read_text()
        assert not (opened / "train/logs").exists()
        assert number == 0 or f"is now {opened}/train.{number}" in notes[-1]
        trained(opened)
    assert (opened / "train.2/checkpoints/checkpoint-1/model.bin").read_text() == "kept"
    assert "learning_rate: 1.0e-06" in (opened / "train.1/config.yaml").read_text()


@pytest.mark.parametrize("name", ["notes.txt", "config.yaml", "rewards/files/mine.py", "build.json"])
def test_a_folder_that_a_person_touched_is_set_aside(opened: Path, name: str) -> None:
    """An edit, a file of one's own or a broken record is no rubbish, also where nothing was trained."""
    built_runs.build_unchecked(opened)
    edited = opened / "train" / name
    edited.write_text("mine")
    edit(opened / "brief.yaml", "accumulation_steps: 2", "accumulation_steps: 2, learning_rate: 1.0e-06")
    built_runs.build_unchecked(opened)
    assert (opened / "train.1" / name).read_text() == "mine"
    assert lineage.current_build(brief.load(opened))


def test_a_folder_that_was_only_built_goes(opened: Path) -> None:
    """Bytecode and an empty log folder count for nothing."""
    built_runs.build_unchecked(opened)
    (opened / "train/logs").mkdir()
    (opened / "train/logs/run.lock").write_text("")
    (opened / "train/guards/__pycache__").mkdir()
    (opened / "train/guards/__pycache__/x.pyc").write_text("")
    edit(opened / "brief.yaml", "accumulation_steps: 2", "accumulation_steps: 2, learning_rate: 1.0e-06")
    built_runs.build_unchecked(opened)
    assert not (opened / "train.1").exists()
    assert not (opened / "train/logs").exists()


def test_a_run_that_trains_is_left_alone(opened: Path) -> None:
    """Its folder is not moved below it."""
    import fcntl

    built_runs.build_unchecked(opened)
    (opened / "train/logs").mkdir()
    with (opened / "train/logs/run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert TrainingRun(opened / "train").is_running()
        assert "it trains at this moment" in refused(opened)


def test_what_a_killed_build_left_is_taken_away(opened: Path) -> None:
    """The next build begins anew; two at a time there are none."""
    import fcntl

    (opened / ".train.building-x" / "deep").mkdir(parents=True)
    built_runs.build_unchecked(opened)
    assert not list(opened.glob(".train*"))
    held = os.open(opened, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "another `build` is at work" in refused(opened)
    finally:
        os.close(held)


OFFLINE = {
    "sft": ("completion: completion", {"completion": "4"}),
    "dpo": ("chosen: chosen, rejected: rejected", {"chosen": "4", "rejected": "5"}),
    "kto": ("completion: completion, label: label", {"completion": "4", "label": True}),
}


@pytest.mark.parametrize(("method", "columns", "row"), [(name, *rest) for name, rest in OFFLINE.items()], ids=OFFLINE)
def test_methods_without_a_gate(
    tmp_path: Path, finetune: Finetune, method: str, columns: str, row: dict[str, Any]
) -> None:
    """They are built from brief and data alone, with held-out rows of the same form."""
    if not (freeze.PROGRAMS / freeze.PROGRAM_OF[method]).exists():
        pytest.fail(f"templates/run/{freeze.PROGRAM_OF[method]} is not there")
    text = (
        f"name: x\nmethod: {method}\nmodel: some/model\nhardware: cpu\n"
        f"dataset: {{path: data.jsonl, evaluation: held.jsonl, {columns}}}\n"
    )
    folder = runs.write_run(tmp_path / "run", text=text)
    for name, count in (("data.jsonl", 20), ("held.jsonl", 3)):
        lines = [json.dumps({"prompt": f"{i}", "other": i, **row}) + "\n" for i in range(count)]
        (folder / name).write_text("".join(lines))
    code, out, err = finetune("build", folder, "--no-check")
    assert code == 0, err
    assert f"build: {method} on 20 rows, " in out
    assert "note: the data set was not audited" in out
    found = [json.loads(line) for line in (folder / "train/data/held_out.jsonl").read_text().splitlines()]
    assert sorted(found, key=lambda line: line["prompt"]) == [{"prompt": f"{i}", **row} for i in range(3)]
    assert not (folder / "train" / "gate.json").exists()
    assert not (folder / "train" / "rewards/llm_finetuning/sandbox").exists()
    assert "gate.json" not in finetune("status", folder)[1]
    finetune("audit", folder)
    assert "note: the audit found " in finetune("build", folder, "--no-check")[1]
    edit(folder / "held.jsonl", "1", "2")
    with pytest.raises(Refusal, match="held-out rows changed since it was made; run `finetune build"):
        lineage.current_build(brief.load(folder))


def test_a_run_is_named_as_it_was_given(
    opened: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In notes, in what was written, in refusals and in the commands of both: nowhere its absolute path."""
    monkeypatch.chdir(opened.parent)

    def said(code: int) -> str:
        capsys.readouterr()
        found, out, err = finetune("build", "run", "--no-check")
        assert found == code, err
        named = re.findall(r"finetune (?:gate|train|plan|score|sample|audit) (\S+?)[`\s]", out + err)
        assert set(named) == {"run"}
        return (out + err).replace(str(opened.parent / "model"), "MODEL")

    texts = [said(0)]
    (opened / "train" / "logs").mkdir()
    (opened / "train" / "logs" / "train.log").write_text("a step")
    edit(opened / "brief.yaml", "gradient_accumulation_steps: 2", "gradient_accumulation_steps: 4")
    built_runs.open_gate(opened)
    texts.append(said(0))
    assert "with what its run left, is now run/train.1" in texts[-1]
    edit(opened / "brief.yaml", "gradient_accumulation_steps: 4", "gradient_accumulation_steps: 2")
    texts.append(said(2))
    (opened / "gate.json").unlink()
    texts.append(said(2))
    assert texts[-1].startswith("finetune: run/gate.json: not there yet")
    assert not [text for text in texts if str(opened.parent) in text]
