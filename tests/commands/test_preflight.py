"""`preflight` tries the machine: every check is run, and the answer is ready or not with one next action."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import runs
from llm_finetuning import artifact
from llm_finetuning.rewards import unit_tests
from llm_finetuning.sandbox import levels, shared
from llm_finetuning.types import EnvReport

Finetune = Callable[..., tuple[int, str, str]]
WITH_SANDBOX = runs.BRIEF.replace("sampling:", "  - use: unit_tests\n    options: {tests_column: level}\nsampling:")


@pytest.fixture(autouse=True, scope="module")
def no_pool_is_left() -> Iterator[None]:
    yield
    shared.close_all()


def states(facts: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["state"] for check in facts["checks"]}


def test_a_run_without_programs_is_ready(run_dir: Path, finetune: Finetune) -> None:
    """Rewards import and take the columns; the sandbox is not asked for; the report is an artifact."""
    code, out, _ = finetune("preflight", run_dir)
    assert code == 0
    assert "preflight: ready" in out
    report = artifact.read_json(run_dir / "env-report.json", EnvReport)
    assert report.records[0].verdict == "ready"
    assert [(check.name, check.state) for check in report.records[0].checks] == [
        ("rewards", "passed"),
        ("sandbox", "skipped"),
    ]
    assert "env-report.json done" in " ".join(finetune("status", run_dir)[1].split())


def test_the_sandbox_is_tried_with_the_rewards_own_options(tmp_path: Path, finetune: Finetune) -> None:
    """A known-good and a known-bad program go through the pool of the reward, and the level is named."""
    run_dir = runs.write_run(tmp_path / "run", text=WITH_SANDBOX)
    code, out, _ = finetune("preflight", run_dir, "--json")
    facts = json.loads(out)
    assert (code, states(facts)) == (0, {"rewards": "passed", "sandbox": "passed"})
    (check,) = [check for check in facts["checks"] if check["name"] == "sandbox"]
    assert any(level in check["text"] for level in levels.LEVELS)
    assert "known-good passed, known-bad failed" in check["text"]


def test_a_sandbox_that_pays_the_wrong_program_is_found(
    tmp_path: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not ready, exit 1: be it that the bad program passes or that the good one does not."""
    run_dir = runs.write_run(tmp_path / "run", text=WITH_SANDBOX)
    for name, program in (("BAD_PROGRAM", unit_tests.GOOD_PROGRAM), ("GOOD_PROGRAM", unit_tests.BAD_PROGRAM)):
        with monkeypatch.context() as patched:
            patched.setattr(unit_tests, name, program)
            code, out, _ = finetune("preflight", run_dir, "--json")
        assert code == 1
        assert json.loads(out)["verdict"] == "not-ready"
        assert states(json.loads(out))["sandbox"] == "failed"


def test_every_check_is_run_after_one_has_failed(
    tmp_path: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reward that does not import and a machine without a sandbox are told together, the first one's action first."""

    def none(*_: Any, **__: Any) -> Any:
        raise levels.NoLevel("namespaces: forbidden here")

    monkeypatch.setattr(unit_tests, "pool_for", none)
    run_dir = runs.write_run(tmp_path / "run", text=WITH_SANDBOX.replace("sampling:", "  - file: no.py:f\nsampling:"))
    code, out, _ = finetune("preflight", run_dir, "--json")
    facts = json.loads(out)
    assert code == 1
    assert states(facts) == {"rewards": "failed", "sandbox": "failed"}
    assert "no.py" in facts["next_action"]
    assert "forbidden here" in next(check["text"] for check in facts["checks"] if check["name"] == "sandbox")


def test_wrong_options_of_the_reward_fail_both_checks(tmp_path: Path, finetune: Finetune) -> None:
    """The option is named; nothing is tried with a guess in its place."""
    run_dir = runs.write_run(tmp_path / "run", text=WITH_SANDBOX.replace("tests_column: level", "level: none"))
    code, out, _ = finetune("preflight", run_dir, "--json")
    assert code == 1
    assert states(json.loads(out)) == {"rewards": "failed", "sandbox": "failed"}
    assert "'none' is not one of" in json.loads(out)["next_action"]


def test_a_changed_brief_makes_the_report_stale(tmp_path: Path, finetune: Finetune) -> None:
    """What was tried with other rewards says nothing of these."""
    run_dir = runs.write_run(tmp_path / "run")
    finetune("preflight", run_dir)
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
