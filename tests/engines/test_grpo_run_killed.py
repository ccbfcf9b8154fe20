"""kill -9 in the middle of a step, then a second start: the run that comes of it is the unbroken one."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import grpo_runs
import pytest

OWN = '''
import json
import os
import signal
from pathlib import Path

HERE = Path(__file__).parent


def watched(completions, prompts, trainer_state, **kwargs):
    """Pay for place; write down what each step was given, and end the process where the test asks for it."""
    with (HERE / "seen.jsonl").open("a") as stream:
        stream.write(json.dumps([trainer_state.global_step, prompts, completions]) + "\\n")
    kill = HERE / "kill"
    if kill.exists() and int(kill.read_text()) == trainer_state.global_step:
        kill.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return [(i % 4) / 4 + len(completion) / 100 for i, completion in enumerate(completions)]
'''

HERE = Path(__file__).parent

STEPS = 8  # two epochs of four


def seen(train: Path) -> dict[int, Any]:
    """Return prompts and completions of each step; where a step was begun twice, those that were trained on."""
    lines = (train / "rewards" / "files" / "seen.jsonl").read_text("utf-8").splitlines()
    return {step: (prompts, completions) for step, prompts, completions in map(json.loads, lines)}


KINDS: dict[str, dict[str, str]] = {"full": {}, "lora": {"adapter": "lora"}}


@pytest.fixture(scope="module")
def runs(engine_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path, str]]:
    """An unbroken run and one that was killed and started again, and what the second start said, by kind."""
    base = tmp_path_factory.mktemp("killed")
    model = grpo_runs.save_tiny_model(engine_python, base / "model")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 400, "env": environment}
    made: dict[str, tuple[Path, Path]] = {}
    for kind, adapter in KINDS.items():
        training = {**grpo_runs.QUICK, "max_steps": STEPS, "save_steps": 5, **adapter}
        rewards = "  - {file: my_rewards.py:watched}\n"
        whole, broken = (
            grpo_runs.built(base / f"{name} {kind}", model, training, rewards=rewards, own=OWN)
            for name in ("unbroken", "killed")
        )
        (broken / "rewards" / "files" / "kill").write_text("6", "utf-8")
        first = subprocess.run([engine_python, "train.py"], cwd=broken, check=False, **options)
        assert first.returncode == -9, first.stderr[-2000:]
        half = broken / "checkpoints" / "checkpoint-7"
        half.mkdir()
        (half / "model.safetensors").write_bytes(b"half")
        made[kind] = (whole, broken)
    jobs = [{"run": str(run)} for pair in made.values() for run in pair]
    (base / "jobs.json").write_text(json.dumps(jobs), "utf-8")
    done = subprocess.run([engine_python, HERE / "trainings.py", base / "jobs.json"], check=False, **options)
    assert done.returncode == 0, done.stderr[-2000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    assert [0, 0, 0, 0] == [answer["code"] for answer in answers], [answer["complained"] for answer in answers]
    return {kind: (*made[kind], answers[2 * place + 1]["said"]) for place, kind in enumerate(KINDS)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_run_goes_on_as_if_it_had_not_been(runs: dict[str, tuple[Path, Path, str]], kind: str) -> None:
    """Same steps, same prompts in the same order across an epoch's end, same completions, same rewards and losses."""
    whole, broken, said = runs[kind]
    assert "checkpoint-7 is passed over: it was being written when the run was killed" in said
    assert "going on from checkpoint-5" in said
    assert grpo_runs.outcome_of(broken)["global_step"] == STEPS
    assert list(range(STEPS)) == sorted(seen(whole))
    assert seen(whole) == seen(broken)
    logs = [{log["step"]: log for log in grpo_runs.logged(train)} for train in (whole, broken)]
    for step in range(1, STEPS + 1):
        for name in ("loss", "grad_norm", "reward", "kl", "learning_rate"):
            assert logs[0][step][name] == pytest.approx(logs[1][step][name], rel=1e-6, abs=1e-9), (step, name)
