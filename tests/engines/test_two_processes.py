"""Several processes: what accelerate reads from our files, and two real ones on the CPU, started by launch.sh."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpo_runs
import offline_runs
import pytest

from llm_finetuning.building import launch_files
from llm_finetuning.recipes import shapes
from llm_finetuning.recipes.config import Option, RunConfig, Shape

HERE = Path(__file__).parent
TWO = Shape(kind="cpu", engine="transformers", processes=2)
WAIT_S = 240.0


def config(shape: Shape, *, bf16: bool) -> RunConfig:
    return RunConfig(
        method="sft",
        model={"source": "some/model", "revision": None, "init_kwargs": {}},
        adapter=None,
        quantization=None,
        trainer={"bf16": Option(bf16, "machine", "")},
        rewards=(),
        data={},
        guards={},
        shape=shape,
        versions={},
    )


PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "server": ("8xh100", {}),
    "server, LoRA": ("8xh100", {"adapter": "lora"}),
    "colocate, FSDP2": ("4xh100", {"vllm_mode": "colocate", "fsdp": True}),
    "cluster": ("3x8xh100", {}),
    "cluster, FSDP2": ("2x8xh100", {"vllm_mode": "colocate", "fsdp": True}),
    "cluster, one trainer": ("2x1xdgx-spark", {}),
}


LAUNCHERS = {"zero3": "deepspeed_launcher", "fsdp2": "multi_gpu_launcher", "none": "multi_gpu_launcher"}


def expected(shape: Shape) -> dict[str, Any]:
    machines = shape.machines - (shape.kind == "cluster" and shape.engine == "server")
    launcher = LAUNCHERS[shape.sharding] if shape.processes > 1 else "simple_launcher"
    return {"by": launcher, "processes": shape.processes, "machines": machines}


def test_accelerate_reads_every_config_as_it_is_meant(engine_python: str, tmp_path: Path) -> None:
    """Known keys alone, the planned processes, and the sharding that was chosen reaches the trainer's environment."""
    plans = {name: shapes.shape_for(shapes.machine_of(where), "grpo", asked) for name, (where, asked) in PLANS.items()}
    for place, shape in enumerate(plans.values()):
        folder = tmp_path / str(place)
        folder.mkdir()
        for name, text in launch_files.files_for(config(shape, bf16=True)).items():
            (folder / name).write_text(text, "utf-8")
    files = [str(tmp_path / str(place) / "accelerate.yaml") for place in range(len(plans))]
    done = subprocess.run(
        [engine_python, HERE / "launch_reader.py", *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for (name, shape), meant in zip(plans.items(), json.loads(done.stdout.splitlines()[-1]), strict=True):
        environ = meant["environ"]
        assert {key: meant[key] for key in ("by", "processes", "machines")} == expected(shape), name
        assert (environ.get("ACCELERATE_USE_DEEPSPEED") == "true") == (shape.sharding == "zero3"), name
        assert (environ.get("ACCELERATE_USE_FSDP") == "true") == (shape.sharding == "fsdp2"), name
        if shape.sharding == "zero3":
            assert environ["ACCELERATE_DEEPSPEED_CONFIG_FILE"] == "deepspeed.json"
            assert environ["ACCELERATE_DEEPSPEED_ZERO3_INIT"] == "true"
            assert "mixed_precision" not in environ["ACCELERATE_CONFIG_DS_FIELDS"]  # refused beside a file of its own
        else:
            assert environ["ACCELERATE_MIXED_PRECISION"] == "bf16"
        if shape.sharding == "fsdp2":
            assert environ["FSDP_VERSION"] == "2"
            assert environ["FSDP_STATE_DICT_TYPE"] == "FULL_STATE_DICT"
            assert environ["FSDP_OFFLOAD_PARAMS"] == "false"


@pytest.fixture(scope="module")
def tiny(engine_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tiny model."""
    return grpo_runs.save_tiny_model(engine_python, tmp_path_factory.mktemp("model") / "tiny")


@contextlib.contextmanager
def launched(train: Path, python: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Start launch.sh for two processes in a group of its own; what it prints goes to logs/train.log."""
    grpo_runs.alter(train, lambda config: config["shape"].update(processes=TWO.processes))
    for name, text in launch_files.files_for(config(TWO, bf16=False)).items():
        (train / name).write_text(text, "utf-8")
    (train / "logs").mkdir(exist_ok=True)
    environ = {**os.environ, "PYTHON": python, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with (train / "logs" / "train.log").open("ab") as log:
        process = subprocess.Popen(
            ["bash", train / "launch.sh"], env=environ, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def to_end(train: Path, python: str) -> int:
    with launched(train, python) as process:
        return process.wait(WAIT_S)


def test_two_processes_train_grpo_on_all_of_their_completions(engine_python: str, tiny: Path, tmp_path: Path) -> None:
    """A step sees the completions of both: each process's rewards are in the mean and in the table of the step."""
    training = {**grpo_runs.QUICK, "per_device_train_batch_size": 4, "save_steps": 2}
    train = grpo_runs.built(tmp_path / "run", tiny, training)
    assert to_end(train, engine_python) == 0, offline_runs.log_of(train)[-3000:]
    assert grpo_runs.outcome_of(train) | {"at": ""} == {
        "state": "finished",
        "reason": "trained 2 steps",
        "global_step": 2,
        "exit_code": 0,
        "at": "",
    }
    logged = grpo_runs.logged(train)
    assert [line["step"] for line in logged] == [1, 2]  # the main process alone writes
    for step in (1, 2):
        rows = table(engine_python, train / "completions" / f"completions_{step:05d}.parquet")
        assert len(rows["prompt"]) == 8  # 4 of each process, two groups of four
        assert len(set(rows["prompt"])) == 2
        for reward in ("digits", "length"):
            paid = [value for value in rows[reward] if value is not None]
            assert logged[step - 1][f"rewards/{reward}/mean"] == pytest.approx(sum(paid) / len(paid), rel=1e-4)


def table(python: str, path: Path) -> dict[str, list[Any]]:
    """Read a parquet table with the interpreter that wrote it."""
    program = "import json, sys, pandas; print(pandas.read_parquet(sys.argv[1]).to_json(orient='split'))"
    done = subprocess.run([python, "-c", program, path], capture_output=True, text=True, check=True)
    split = json.loads(done.stdout)
    return {name: [row[place] for row in split["data"]] for place, name in enumerate(split["columns"])}


def test_two_processes_stop_at_one_step(engine_python: str, tiny: Path, tmp_path: Path) -> None:
    """Asked through launch.sh, past accelerate: both finish the step at hand, and one checkpoint of both is saved."""
    most = 400
    train = offline_runs.built(tmp_path / "run", "sft", tiny, {"max_steps": most, "save_steps": most})
    with launched(train, engine_python) as process:
        deadline = time.monotonic() + WAIT_S
        while not (train / "logs" / "progress.jsonl").exists() or len(grpo_runs.logged(train)) < 2:
            assert process.poll() is None, offline_runs.log_of(train)[-3000:]
            assert time.monotonic() < deadline, offline_runs.log_of(train)[-3000:]
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(WAIT_S) == 0, offline_runs.log_of(train)[-3000:]
    outcome = grpo_runs.outcome_of(train)
    stopped = outcome["global_step"]
    assert (outcome["state"], outcome["exit_code"]) == ("stopped", 0)
    assert 2 <= stopped < most
    (checkpoint,) = (train / "checkpoints").glob("checkpoint-*")
    assert checkpoint.name == f"checkpoint-{stopped}"
    assert len(list(checkpoint.glob("rng_state_*.pth"))) == 2  # one of each process
    assert not (train / "model").exists()
