"""`preflight` tries the machine: every check is run, and the answer has a verdict with one next action."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import built_runs
import planned_runs
import runs
import stub_interpreter
import weights
from llm_finetuning import artifact
from llm_finetuning.commands import preflight
from llm_finetuning.machine import checks
from llm_finetuning.rewards import unit_tests
from llm_finetuning.sandbox import levels, shared
from llm_finetuning.types import EnvReport, Plan

Finetune = Callable[..., tuple[int, str, str]]
ON_CPU = runs.BRIEF + "hardware: cpu\n"
WITH_SANDBOX = ON_CPU.replace("sampling:", "  - use: unit_tests\n    options: {tests_column: level}\nsampling:")


@pytest.fixture(autouse=True, scope="module")
def no_pool_is_left() -> Iterator[None]:
    yield
    shared.close_all()


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter with the verified packages, as far as their metadata goes."""
    return stub_interpreter.write(tmp_path / "stub")


def states(facts: dict[str, Any], *names: str) -> dict[str, str]:
    """Return the states of the checks that try the run's own rewards, and of those named."""
    wanted = (*preflight.TRIALS, *names)
    return {check["name"]: check["state"] for check in facts["checks"] if check["name"] in wanted}


def test_a_run_without_programs_is_ready(tmp_path: Path, python: Path, finetune: Finetune) -> None:
    """Every check is in the report, in its order; a model that is still to be fetched warns, and exits 0."""
    run_dir = runs.write_run(tmp_path / "run", text=ON_CPU)
    code, out, _ = finetune("preflight", run_dir, "--python", python)
    assert code == 0
    assert out.startswith("preflight: ready-with-warnings\n")
    assert "  WARNING  model: some/model is not in the hub's cache" in out
    assert f"-> fetch it before: `finetune sample {run_dir}`" in out
    report = artifact.read_json(run_dir / "env-report.json", EnvReport).records[0]
    assert report.verdict == "ready-with-warnings"
    assert [check.name for check in report.checks] == [*checks.CHECKS, *preflight.TRIALS]
    assert {check.name for check in report.checks if check.state == "warning"} == {"model"}
    assert report.machine["interpreter"]["packages"]["trl"]["version"] == stub_interpreter.VERIFIED["trl"]
    assert "env-report.json done" in " ".join(finetune("status", run_dir)[1].split())


def test_a_whole_model_leaves_nothing_to_warn_of(tmp_path: Path, python: Path, finetune: Finetune) -> None:
    """With the model on this machine and a plan that fits, memory and disk are held against it: ready."""
    run_dir = cpu_run(tmp_path)
    assert finetune("plan", run_dir)[0] == 0
    code, out, _ = finetune("preflight", run_dir, "--python", python, "--json")
    facts = json.loads(out)
    assert (code, facts["verdict"]) == (0, "ready"), [c for c in facts["checks"] if c["state"] == "warning"]
    assert states(facts, "device-memory", "disk", "model") == {
        "device-memory": "passed",
        "disk": "passed",
        "model": "passed",
        "rewards": "passed",
        "sandbox": "skipped",
    }
    needs = artifact.read_json(run_dir / "plan.json", Plan).records[0].needs
    assert needs is not None
    (memory,) = [check["text"] for check in facts["checks"] if check["name"] == "device-memory"]
    assert memory.startswith(f"the plan needs {needs['gib']:.1f} GiB")


def test_a_stale_plan_is_not_held_against_the_memory(tmp_path: Path, python: Path, finetune: Finetune) -> None:
    """The check says that the plan has to be made again."""
    run_dir = cpu_run(tmp_path)
    finetune("plan", run_dir)
    brief = run_dir / "brief.yaml"
    brief.write_text(brief.read_text("utf-8").replace("max_completion_length: 8", "max_completion_length: 9"), "utf-8")
    facts = json.loads(finetune("preflight", run_dir, "--python", python, "--json")[1])
    (memory,) = [check for check in facts["checks"] if check["name"] == "device-memory"]
    assert memory["state"] == "skipped"
    assert "plan.json" in memory["text"]


def cpu_run(folder: Path) -> Path:
    """Write a run of a tiny model that is whole, for the CPU."""
    tiny = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 64, "dtype": "float32"}
    run_dir = planned_runs.write(folder, model="SmolLM2-135M", hardware="cpu", cap=8, **tiny)
    weights.write(folder / "model")
    return run_dir


@pytest.mark.parametrize("named", ["/not/there", "empty"])
def test_an_interpreter_that_cannot_train_blocks(tmp_path: Path, finetune: Finetune, named: str) -> None:
    """One that is not there, and one without torch: checks that fail with their fix, and all others are made."""
    python = str(stub_interpreter.write(tmp_path / "stub", {})) if named == "empty" else named
    run_dir = runs.write_run(tmp_path / "run", text=ON_CPU)
    code, out, _ = finetune("preflight", run_dir, "--python", python, "--json")
    facts = json.loads(out)
    assert (code, facts["verdict"]) == (1, "blocked")
    expected = "pip install" if named == "empty" else "--python PATH"
    assert expected in facts["next_action"]
    assert len(facts["checks"]) == len(checks.CHECKS) + len(preflight.TRIALS)


def test_status_goes_on_unless_the_machine_blocks(tmp_path: Path, python: Path, finetune: Finetune) -> None:
    """After an open gate: a blocked machine's own action, or the build where it is ready, with warnings or without."""
    run_dir = built_runs.write_opened(tmp_path)
    assert f"next: finetune plan {run_dir}" in finetune("status", run_dir)[1]
    facts = json.loads(finetune("preflight", run_dir, "--python", "/not/there", "--json")[1])
    assert finetune("status", run_dir)[1].endswith(f"next: {facts['next_action']}\n")
    facts = json.loads(finetune("preflight", run_dir, "--python", python, "--json")[1])
    assert facts["next_action"].startswith("mend ")  # the model has no weights
    weights.write(tmp_path / "model")
    facts = json.loads(finetune("preflight", run_dir, "--python", python, "--json")[1])
    assert facts["verdict"] in ("ready", "ready-with-warnings")
    assert finetune("status", run_dir)[1].endswith(f"next: finetune build {run_dir}\n")


def test_another_machine_is_said_and_not_tried(tmp_path: Path, python: Path, finetune: Finetune) -> None:
    """Where the brief names a card that is not here, what concerns it is skipped, in one line."""
    run_dir = runs.write_run(tmp_path / "run", text=runs.BRIEF + "hardware: 8xb200\n")
    code, out, _ = finetune("preflight", run_dir, "--python", python)
    assert code == 0
    assert "WARNING  gpu: the brief is for `8xb200`" in out
    (line,) = [line for line in out.splitlines() if line.startswith("  skipped  driver, ")]
    assert "torch" in line


def test_the_sandbox_is_tried_with_the_rewards_own_options(tmp_path: Path, python: Path, finetune: Finetune) -> None:
    """A known-good and a known-bad program go through the pool of the reward, and the level is named."""
    run_dir = runs.write_run(tmp_path / "run", text=WITH_SANDBOX)
    code, out, _ = finetune("preflight", run_dir, "--python", python, "--json")
    facts = json.loads(out)
    assert (code, states(facts)) == (0, {"rewards": "passed", "sandbox": "passed"})
    (check,) = [check for check in facts["checks"] if check["name"] == "sandbox"]
    assert any(level in check["text"] for level in levels.LEVELS)
    assert "known-good passed, known-bad failed" in check["text"]


def test_a_sandbox_that_pays_the_wrong_program_is_found(
    tmp_path: Path, python: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocked, exit 1: be it that the bad program passes or that the good one does not."""
    run_dir = runs.write_run(tmp_path / "run", text=WITH_SANDBOX)
    for name, program in (("BAD_PROGRAM", unit_tests.GOOD_PROGRAM), ("GOOD_PROGRAM", unit_tests.BAD_PROGRAM)):
        with monkeypatch.context() as patched:
            patched.setattr(unit_tests, name, program)
            code, out, _ = finetune("preflight", run_dir, "--python", python, "--json")
        assert code == 1
        assert json.loads(out)["verdict"] == "blocked"
        assert states(json.loads(out))["sandbox"] == "failed"


def test_every_check_is_run_after_one_has_failed(
    tmp_path: Path, python: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reward that does not import and a machine without a sandbox are told together, the first one's action first."""

    def none(*_: Any, **__: Any) -> Any:
        raise levels.NoLevel("namespaces: forbidden here")

    monkeypatch.setattr(unit_tests, "pool_for", none)
    run_dir = runs.write_run(tmp_path / "run", text=WITH_SANDBOX.replace("sampling:", "  - file: no.py:f\nsampling:"))
    code, out, _ = finetune("preflight", run_dir, "--python", python, "--json")
    facts = json.loads(out)
    assert code == 1
    assert states(facts) == {"rewards": "failed", "sandbox": "failed"}
    assert "no.py" in facts["next_action"]
    assert "forbidden here" in next(check["text"] for check in facts["checks"] if check["name"] == "sandbox")


def test_wrong_options_of_the_reward_fail_both_checks(tmp_path: Path, python: Path, finetune: Finetune) -> None:
    """The option is named; nothing is tried with a guess in its place."""
    run_dir = runs.write_run(tmp_path / "run", text=WITH_SANDBOX.replace("tests_column: level", "level: none"))
    code, out, _ = finetune("preflight", run_dir, "--python", python, "--json")
    assert code == 1
    assert states(json.loads(out)) == {"rewards": "failed", "sandbox": "failed"}
    assert "'none' is not one of" in json.loads(out)["next_action"]


def test_a_changed_brief_makes_the_report_stale(tmp_path: Path, python: Path, finetune: Finetune) -> None:
    """What was tried with other rewards says nothing of these."""
    run_dir = runs.write_run(tmp_path / "run", text=ON_CPU)
    finetune("preflight", run_dir, "--python", python)
    brief = run_dir / "brief.yaml"
    brief.write_text(brief.read_text("utf-8").replace("last_number", "whole"), "utf-8")
    assert "env-report.json stale" in " ".join(finetune("status", run_dir)[1].split())


@pytest.mark.parametrize("wrapped", ["", "\n    length_penalty: {from_tokens: 4, to_tokens: 8, share: 0.5}"])
def test_score_stops_where_no_program_can_be_run(
    run_dir: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch, wrapped: str
) -> None:
    """A machine without isolation is no weak model: exit 4, and no scores are written."""
    brief = (run_dir / "brief.yaml").read_text("utf-8")
    entry = "  - use: unit_tests\n    options: {tests_column: level}" + wrapped + "\nsampling:"
    (run_dir / "brief.yaml").write_text(brief.replace("sampling:", entry), "utf-8")
    runs.write_samples(run_dir)

    def forbidden(*_: Any, **__: Any) -> None:
        raise levels.NoLevel("namespaces: forbidden here")

    monkeypatch.setattr(unit_tests, "pool_for", forbidden)
    code, _, err = finetune("score", run_dir)

    assert code == 4
    assert "namespaces: forbidden here" in err
    assert not (run_dir / "scores.jsonl").exists()
