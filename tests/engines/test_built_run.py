"""A built folder away from its run: it trains with the training interpreter alone, and refuses what was changed."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import grpo_runs

from llm_finetuning.commands import build


def launch(train: Path, python: str) -> tuple[int, str, dict[str, Any]]:
    """Start launch.sh as a shell on another machine does; return exit code, what it said last, and the outcome."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(train.parent), "PYTHON": python, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", train / "launch.sh"], capture_output=True, text=True, check=False, cwd="/", env=environ
    )
    outcome = json.loads((train / "logs" / "outcome.json").read_text())
    return done.returncode, (done.stdout + done.stderr)[-4000:], outcome


def test_a_folder_without_its_run_trains_and_refuses_a_change(engine_python: str, tmp_path: Path) -> None:
    """Copied to an empty place, the run gone and our package not on the path, it trains; one character more, it stops.

    The rewards are a file of the run's own with columns of its rows, and one of the library.
    """
    model = grpo_runs.save_tiny_model(engine_python, tmp_path / "model")
    built = grpo_runs.built(tmp_path / "run", model, grpo_runs.QUICK, held_out=2)
    train = shutil.copytree(built, tmp_path / "elsewhere" / "train")
    shutil.rmtree(tmp_path / "run")
    code, said, outcome = launch(train, engine_python)
    assert (code, outcome["state"], outcome["global_step"]) == (0, "finished", 2), said
    assert (train / "checkpoints" / "checkpoint-2").is_dir()
    source = train / "rewards" / "files" / "my_rewards.py"
    source.write_text(source.read_text() + "#")
    code, said, outcome = launch(train, engine_python)
    assert (code, outcome["exit_code"]) == (1, 1), said
    assert outcome["reason"].startswith(f"{source}: is not what was built; ")
    assert outcome["reason"] in said


def test_a_build_asks_the_installed_trl(engine_python: str, tmp_path: Path) -> None:
    """With an interpreter named it constructs the config there, and says so."""
    folder = grpo_runs.built(tmp_path / "run", "some/model", grpo_runs.QUICK).parent
    facts = build.run(folder, python=engine_python)
    assert f"checked under the TRL of {engine_python}" in facts["notes"]
