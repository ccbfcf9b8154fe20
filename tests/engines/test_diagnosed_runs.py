"""Real runs on the CPU that were driven into a failure mode, or left alone: what `finetune diagnose` says of each."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpo_runs
import pytest

HERE = Path(__file__).parent

BATCH: dict[str, Any] = {"per_device_train_batch_size": 32, "gradient_accumulation_steps": 1, "learning_rate": 0.003}


@dataclass(frozen=True)
class Drive:
    """One run: what it is paid for, what drives it into its failure, and what is to be said of it."""

    rewards: dict[str, float]  # function of learned_words.py -> weight
    verdict: str
    advised: dict[str, Any]  # the options of the one change
    steps: int = 60
    rate: float = 0.003
    held_out: int = 0
    trainer: dict[str, Any] = field(default_factory=dict)  # changes of config.yaml
    guards: dict[str, Any] = field(default_factory=dict)


DRIVES = {
    "left alone": Drive({"digits": 1}, "healthy", {}, steps=80, trainer={"max_completion_length": 32}),
    "no end within the cap": Drive(
        {"any_digits": 1}, "truncation", {"max_completion_length": 6}, trainer={"max_completion_length": 3}
    ),
    "shaped by the cap": Drive(
        {"digits": 1}, "truncation", {"max_completion_length": 4}, steps=70, trainer={"max_completion_length": 2}
    ),
    "never paid": Drive({"unreachable": 1}, "zero_signal", {}, trainer={"max_completion_length": 24}),
    "hacked": Drive({"talk": 1, "correct": 0}, "proxy_only", {}, trainer={"max_completion_length": 24}),
    "hacked, held out": Drive(
        {"talk": 1, "correct": 0}, "proxy_only", {}, steps=80, held_out=8, trainer={"max_completion_length": 24}
    ),
    "one word alone": Drive(
        {"half_paid": 1},
        "entropy_collapse",
        {"learning_rate": 0.001},
        steps=60,
        rate=0.01,
        trainer={
            "max_completion_length": 16,
            "beta": 0.0,
            "seed": 3,
        },  # with 42 the word then has no end, and all is lost
        guards={"dead_group_steps": 1000},
    ),
}
STOPPED = {"never paid"}  # by the guard of dead groups, after 20 steps


def build(folder: Path, model: Path, drive: Drive) -> Path:
    """Build one run and return its train/."""

    def change(config: dict[str, Any]) -> None:
        config["trainer"].update(drive.trainer)
        config["guards"].update(drive.guards)

    rewards = "".join(f"  - {{file: my_rewards.py:{name}, weight: {w}}}\n" for name, w in drive.rewards.items())
    own = (HERE / "learned_words.py").read_text("utf-8")
    training = {**BATCH, "learning_rate": drive.rate, "max_steps": drive.steps, "save_steps": drive.steps}
    return grpo_runs.built(folder, model, training, rewards=rewards, own=own, held_out=drive.held_out, change=change)


@pytest.fixture(scope="module")
def driven(engine_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every run built and trained, in one process; its folder by name."""
    base = tmp_path_factory.mktemp("driven")
    model = grpo_runs.save_tiny_model(engine_python, base / "model")
    trains = {name: build(base / f"run-{place}", model, drive) for place, (name, drive) in enumerate(DRIVES.items())}
    (base / "jobs.json").write_text(json.dumps([{"run": str(train)} for train in trains.values()]), "utf-8")
    command = [engine_python, str(HERE / "trainings.py"), str(base / "jobs.json")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    for name, answer in zip(DRIVES, json.loads(done.stdout.splitlines()[-1]), strict=True):
        assert answer["code"] == (name in STOPPED), (name, answer["said"], answer["complained"][-2000:])
    return {name: train.parent for name, train in trains.items()}


@pytest.fixture
def diagnosed(
    driven: dict[str, Path], finetune: Callable[..., tuple[int, str, str]], engine_python: str
) -> Callable[[str], dict[str, Any]]:
    """What `finetune diagnose RUN --json` says of a run, with its exit code."""

    def ask(name: str) -> dict[str, Any]:
        code, said, _ = finetune("diagnose", driven[name], "--json", "--python", engine_python)
        return {"code": code, **json.loads(said)}

    return ask


@pytest.mark.parametrize("name", DRIVES)
def test_a_run_is_named_for_what_drove_it(
    driven: dict[str, Path], diagnosed: Callable[[str], dict[str, Any]], name: str
) -> None:
    """Verdict, exit code and the options of the one change; a run that learns keeps plain GRPO."""
    drive, found = DRIVES[name], diagnosed(name)
    assert (found["verdict"], found["code"]) == (drive.verdict, int(drive.verdict != "healthy")), found["findings"]
    advice = found["advice"]
    assert (advice["options"], advice["variant"]) == (drive.advised, None)
    assert (advice["change"] == "keep plain GRPO") == (drive.verdict == "healthy")
    assert (found["form"], found["era"], found["rows"]) == ("run", "1.16", 20 if name in STOPPED else drive.steps)
    assert not any("cannot be read" in note or "not read" in note for note in found["notes"])
    kept = json.loads((driven[name] / "diagnosis.json").read_text("utf-8"))
    assert kept["findings"] == found["findings"]


@pytest.mark.parametrize("name", [name for name in DRIVES if name not in STOPPED])
def test_the_trainers_own_state_says_the_same(
    driven: dict[str, Path], finetune: Callable[..., tuple[int, str, str]], name: str
) -> None:
    """trainer_state.json of the checkpoint, without config.yaml beside it."""
    drive = DRIVES[name]
    state = driven[name] / "train" / "checkpoints" / f"checkpoint-{drive.steps}" / "trainer_state.json"
    code, said, _ = finetune("diagnose", state, "--json")
    found = json.loads(said)
    assert (found["verdict"], code) == (drive.verdict, int(drive.verdict != "healthy")), found["findings"]


@pytest.mark.parametrize("name", ["hacked", "hacked, held out"])
def test_a_hacked_run_shows_the_texts_that_were_paid(diagnosed: Callable[[str], dict[str, Any]], name: str) -> None:
    """The component of weight 0 is what is wanted; after the change the best paid texts have none of it."""
    found = diagnosed(name)
    assert found["goal"] == "correct"
    first, after = found["findings"][0], found["quotes"]["after"]
    assert "correct" in first["text"]
    assert all(quote["paid"] == 1 and quote["goal"] == 0 for quote in after)
    assert all(set(quote["completion"].split()) <= {"The", "answer", "is"} for quote in after)
    held_out = name == "hacked, held out"
    assert first["text"].startswith("held-out") == held_out
    if held_out:
        assert found["checkpoint"]["step"] < first["since"]
        assert "best held-out" in found["checkpoint"]["why"]


def test_what_follows_from_entropy_that_is_gone_is_no_cause(diagnosed: Callable[[str], dict[str, Any]]) -> None:
    """Groups of one text are paid alike, below the most that there is; entropy left first."""
    found = diagnosed("one word alone")
    roles = {finding["code"]: finding["role"] for finding in found["findings"]}
    assert roles["zero_signal"] == "consequence"
    first = found["findings"][0]
    assert first["numbers"]["start"] > 2.5
    assert first["numbers"]["start"] + first["numbers"]["change"] < 0.05
    assert first["confidence"] == "literature only"
