"""The launch files: started for real, with stubs where a GPU, a cluster or a vLLM server would be."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning.building import launch_files
from llm_finetuning.errors import Refusal
from llm_finetuning.recipes import shapes
from llm_finetuning.recipes.config import Option, RunConfig, Shape

STUB = Path(__file__).with_name("stub_python.py")
WAIT_S = 20.0

PLANS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "cpu": ("cpu", {}, []),
    "one GPU": ("h100", {}, []),
    "Spark": ("dgx-spark", {}, []),
    "two GPUs": ("2xh100", {}, ["serve.sh"]),
    "server": ("8xh100", {}, ["accelerate.yaml", "deepspeed.json", "serve.sh"]),
    "server, LoRA": ("8xh100", {"adapter": "lora"}, ["accelerate.yaml", "serve.sh"]),
    "server, FSDP2": ("8xh100", {"fsdp": True}, ["accelerate.yaml", "serve.sh"]),
    "colocate": ("4xh100", {"vllm_mode": "colocate"}, ["accelerate.yaml", "deepspeed.json"]),
    "cluster": ("3x8xh100", {}, ["accelerate.yaml", "deepspeed.json", "run.slurm", "serve.sh"]),
    "cluster, one process": ("2x1xdgx-spark", {}, ["accelerate.yaml", "run.slurm", "serve.sh"]),
    "cluster, colocate, FSDP2": (
        "2x8xh100",
        {"vllm_mode": "colocate", "fsdp": True},
        ["accelerate.yaml", "run.slurm"],
    ),
}


def config(shape: Shape, **trainer: Any) -> RunConfig:
    return RunConfig(
        method="grpo",
        model={"source": "some/model", "revision": None, "init_kwargs": {}},
        adapter=None,
        quantization=None,
        trainer={name: Option(value, "recipe", "") for name, value in {"bf16": True, **trainer}.items()},
        rewards=(),
        data={},
        guards={},
        shape=shape,
        versions={},
    )


def shape(hardware: str, training: Mapping[str, Any]) -> Shape:
    return shapes.shape_for(shapes.machine_of(hardware), "grpo", training)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest) -> tuple[str, dict[str, str]]:
    """A plan's name and its files."""
    hardware, training, _ = PLANS[request.param]
    return request.param, launch_files.files_for(config(shape(hardware, training)))


def test_every_shape_has_its_files(plan: tuple[str, dict[str, str]]) -> None:
    """A file more would be started by somebody."""
    name, files = plan
    assert sorted(files) == sorted(["launch.sh", *PLANS[name][2]])


def test_the_shell_is_sound(plan: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    """Bash reads every script, and shellcheck has nothing to say where it is installed."""
    _, files = plan
    for name in {"launch.sh", "serve.sh", "run.slurm"} & files.keys():
        (tmp_path / name).write_text(files[name], "utf-8")
        subprocess.run(["bash", "-n", tmp_path / name], check=True)
        if shutil.which("shellcheck"):
            done = subprocess.run(
                ["shellcheck", "--severity=warning", tmp_path / name], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout


def test_zero3_leaves_to_transformers_what_the_trainer_knows() -> None:
    """Two places that say a batch size are two that differ one day; the saved model is whole."""
    files = launch_files.files_for(config(shape("8xh100", {})))
    tree = json.loads(files["deepspeed.json"])
    assert tree["zero_optimization"]["stage"] == 3
    assert tree["zero_optimization"]["stage3_gather_16bit_weights_on_model_save"] is True
    assert not any("offload" in key for key in tree["zero_optimization"])
    for key in (
        "train_batch_size",
        "train_micro_batch_size_per_gpu",
        "gradient_accumulation_steps",
        "gradient_clipping",
    ):
        assert tree[key] == "auto", key
    assert tree["bf16"] == tree["fp16"] == {"enabled": "auto"}


def test_a_plan_with_one_device_in_two_places_is_refused() -> None:
    """The shape may come from elsewhere; the launch files are the last to see it."""
    twice = Shape(kind="server", engine="server", processes=1, trainer_devices=(0,), engine_devices=(0,))
    with pytest.raises(Refusal, match=r"devices \[0\]"):
        launch_files.files_for(config(twice))


class Run:
    """A run folder with launch files, and the machine that it is started on."""

    def __init__(self, folder: Path, bin_folder: Path, environ: dict[str, str]) -> None:
        """Take the folder, a folder of programs that stands first in PATH, and the environment."""
        self.folder, self.bin, self.environ = folder, bin_folder, environ
        self.started: list[subprocess.Popen[str]] = []

    def program(self, name: str, script: str) -> None:
        """Put a program into PATH."""
        path = self.bin / name
        path.write_text(f"#!/usr/bin/env bash\n{script}\n", "utf-8")
        path.chmod(0o755)

    def gpus(self, count: int) -> None:
        """Let the driver list so many GPUs."""
        self.program("nvidia-smi", f"seq 0 {count - 1}")

    def build(self, plan: Shape, **trainer: Any) -> None:
        """Write the launch files of a plan."""
        for name, text in launch_files.files_for(config(plan, **trainer)).items():
            (self.folder / name).write_text(text, "utf-8")

    def start(self, **environ: str) -> "subprocess.Popen[str]":
        """Start launch.sh in a group of its own, from elsewhere."""
        self.started.append(
            subprocess.Popen(
                ["bash", self.folder / "launch.sh"],
                cwd="/",
                env={**self.environ, **environ},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        )
        return self.started[-1]

    def to_end(self, **environ: str) -> tuple[int, str]:
        """Return the exit code and all that was said."""
        process = self.start(**environ)
        said, _ = process.communicate(timeout=WAIT_S)
        return process.returncode, said

    def notes(self, who: str | None = None) -> list[dict[str, Any]]:
        """Return what the stubs noted, of one kind or all."""
        path = Path(self.environ["STUB_LOG"])
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
        return [line for line in lines if who in (None, line["who"])]

    def order(self) -> list[str]:
        """Return the kinds of the notes."""
        return [line["who"] for line in self.notes()]

    def await_note(self, who: str) -> dict[str, Any]:
        """Return the first note of a kind once it is there."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            if found := self.notes(who):
                return found[0]
            time.sleep(0.05)
        raise AssertionError(f"no {who} in {self.order()}")

    def await_end_of(self, who: str) -> None:
        """Return once the processes of a kind are gone."""
        deadline = time.monotonic() + WAIT_S
        pids = [line["pid"] for line in self.notes(who)]
        assert pids
        while any(Path(f"/proc/{pid}").exists() for pid in pids):
            assert time.monotonic() < deadline, f"{who} lives on"
            time.sleep(0.05)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """A run folder, on a machine without GPUs, whose processes are ended after the test."""
    folder, programs = tmp_path / "a run" / "train", tmp_path / "bin"
    folder.mkdir(parents=True)
    programs.mkdir()
    environ = {key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"}
    environ |= {"PATH": f"{programs}:{environ['PATH']}", "STUB_LOG": str(tmp_path / "log.jsonl")}
    made = Run(folder, programs, environ | {"PYTHON": str(programs / "python-stub")})
    made.program("python-stub", f'exec {sys.executable} {STUB} "$@"')
    yield made
    for process in made.started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    for line in made.notes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(line["pid"], signal.SIGKILL)


def ports() -> dict[str, int]:
    return {"vllm_server_port": free_port(), "vllm_group_port": free_port()}


def test_one_process_is_python_itself(run: Run) -> None:
    """Signals and the exit code are the trainer's own, and waiting threads do not spin."""
    run.build(shape("cpu", {}))
    code, _ = run.to_end(STUB_TRAINER="3")
    assert code == 3
    trainer = run.await_note("trainer")
    assert trainer["argv"] == ["train.py"]
    assert trainer["env"] == {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}


@pytest.mark.parametrize(("visible", "expected"), [("", "0"), ("5,7", "5"), ("GPU-1a", "GPU-1a")])
def test_one_gpu_of_many_is_given_to_the_trainer(run: Run, visible: str, expected: str) -> None:
    """With more visible, transformers would spread the batch over them by itself."""
    run.gpus(8)
    run.build(shape("h100", {}))
    code, _ = run.to_end(**({"CUDA_VISIBLE_DEVICES": visible} if visible else {}))
    assert code == 0
    assert run.await_note("trainer")["env"]["CUDA_VISIBLE_DEVICES"] == expected


def test_a_run_for_gpus_does_not_start_without_them(run: Run) -> None:
    """On the CPU it would run for weeks."""
    run.build(shape("h100", {}))
    code, said = run.to_end()
    assert code == 2
    assert "planned for 1 GPU(s) and 0 can be seen" in said
    assert not run.notes()


@pytest.mark.parametrize("launched", [False, True], ids=["one trainer", "several trainers"])
def test_the_server_answers_before_training_begins_and_ends_after_it(run: Run, launched: bool) -> None:
    """Each has devices of its own, the plan is printed, and the command is vLLM's current one."""
    run.gpus(8)
    given = ports()
    run.build(shape("4xh100" if launched else "2xh100", {}), vllm_max_model_length=2048, **given)
    code, said = run.to_end(CUDA_VISIBLE_DEVICES="2,3,4,5")
    assert code == 0, said
    assert run.order() == ["server", *(["accelerate"] if launched else []), "trainer", "trainer ended", "server ended"]
    server, trainer = run.notes("server")[0], run.notes("trainer")[0]
    assert server["env"]["CUDA_VISIBLE_DEVICES"] == ("2,3" if launched else "2")
    assert trainer["env"]["CUDA_VISIBLE_DEVICES"] == ("4,5" if launched else "3")
    assert "vLLM server on GPU 2" in said
    assert server["env"]["VLLM_SERVER_DEV_MODE"] == "1"
    asked = ["-m", "vllm.entrypoints.cli.main", "serve", "some/model", "--host", "127.0.0.1"]
    asked += ["--port", str(given["vllm_server_port"]), "--weight-transfer-config", '{"backend":"nccl"}']
    asked += ["--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"]
    asked += ["--tensor-parallel-size", "2" if launched else "1", "--dtype", "bfloat16"]
    asked += ["--gpu-memory-utilization", "0.9", "--max-model-len", "2048"]
    assert server["argv"] == asked
    run.await_end_of("server")


def test_the_served_model_is_the_trained_one_on_another_machine_too(run: Run) -> None:
    """FINETUNE_MODEL says where this machine keeps the model, to both."""
    run.gpus(2)
    run.build(shape("2xh100", {}), **ports())
    code, said = run.to_end(FINETUNE_MODEL="/models/of mine")
    assert code == 0, said
    assert run.notes("server")[0]["argv"][3] == "/models/of mine"


@pytest.mark.parametrize(
    ("visible", "words"),
    [
        ("0", "planned for 2 GPU(s) and 1 can be seen: a vLLM server and a trainer"),
        ("3,3", "GPU 3 would serve and train"),
    ],
    ids=["one visible", "one named twice"],
)
def test_a_server_and_a_trainer_on_one_device_are_refused_at_launch(run: Run, visible: str, words: str) -> None:
    """There it would wait for ever without a word."""
    run.build(shape("2xh100", {}), **ports())
    code, said = run.to_end(CUDA_VISIBLE_DEVICES=visible)
    assert code == 2
    assert words in said
    assert not run.notes()


@pytest.mark.parametrize("which", ["vllm_server_port", "vllm_group_port"])
def test_a_taken_port_is_told_before_anything_starts(run: Run, which: str) -> None:
    """Else the trainer would sample from the server of somebody else."""
    run.gpus(2)
    with socket.create_server(("", 0)) as other:
        taken = other.getsockname()[1]
        run.build(shape("2xh100", {}), **{**ports(), which: taken})
        code, said = run.to_end()
    assert code == 2
    assert f"port {taken} is taken" in said
    assert not run.notes()


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("silent", "did not answer within 2 s; look at logs/server.log"),
        ("fails", "no kernel image is available\nlaunch.sh: the vLLM server ended before it answered"),
    ],
)
def test_a_server_that_does_not_come_up_ends_the_run_with_the_reason(run: Run, behaviour: str, words: str) -> None:
    """Nothing trains, nothing is left behind, and the last line is the reason."""
    run.gpus(2)
    run.build(shape("2xh100", {}), **ports())
    code, said = run.to_end(STUB_SERVER=behaviour, SERVER_START_S="2")
    assert code == 4
    assert words in said
    assert said.splitlines()[-1].startswith("launch.sh: the vLLM server")
    assert not run.notes("trainer")
    run.await_end_of("server")


@pytest.mark.parametrize("hardware", ["2xh100", "4xh100"])
def test_a_server_that_dies_ends_the_training(run: Run, hardware: str) -> None:
    """The trainer may be waiting for weights to be taken, and would wait for ever."""
    run.gpus(4)
    run.build(shape(hardware, {}), **ports())
    code, said = run.to_end(STUB_SERVER="dies", STUB_TRAINER="long")
    assert code == 4
    assert "the vLLM server ended during training" in said.splitlines()[-1]
    assert not run.notes("asked")
    run.await_end_of("trainer")


STOPPABLE = {"several": "4xh100 colocate", "server": "2xh100", "server, several": "4xh100"}


@pytest.mark.parametrize("case", STOPPABLE)
@pytest.mark.parametrize("whole_group", [False, True], ids=["the shell", "its group"])
def test_a_request_to_stop_reaches_each_trainer_once(run: Run, case: str, whole_group: bool) -> None:
    """And not accelerate, which would kill them after 30 s, nor the server, which the step at hand needs."""
    run.gpus(4)
    hardware, _, colocate = STOPPABLE[case].partition(" ")
    run.build(shape(hardware, {"vllm_mode": "colocate"} if colocate else {}), **ports())
    process = run.start(STUB_TRAINER="long")
    run.await_note("trainer")
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGTERM)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert (
        run.order()[-3 if "server" in case else -2 :]
        == ["asked", "trainer ended", "server ended"][: 3 if "server" in case else 2]
    )
    assert not run.notes("accelerate asked")


def test_a_request_to_stop_before_training_begins_is_one_too(run: Run) -> None:
    """The server is ended, nothing trains, and the code is that of an ended process."""
    run.gpus(2)
    run.build(shape("2xh100", {}), **ports())
    process = run.start(STUB_SERVER="silent")
    run.await_note("server")
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 143
    assert not run.notes("trainer")
    run.await_end_of("server")


def test_a_killed_launch_leaves_nothing_behind(run: Run) -> None:
    """A server that lived on would hold its GPUs, and the next start would find the port taken."""
    run.gpus(4)
    run.build(shape("4xh100", {}), **ports())
    process = run.start(STUB_TRAINER="long")
    run.await_note("trainer")
    os.killpg(process.pid, signal.SIGKILL)
    for who in ("server", "accelerate", "trainer"):
        run.await_end_of(who)


@pytest.mark.parametrize(("behaviour", "expected"), [("0", 0), ("1", 1), ("means 2", 2), ("means 4", 4)])
def test_the_exit_code_is_the_trainers_where_accelerate_hides_it(run: Run, behaviour: str, expected: int) -> None:
    """The trainer's own words are in outcome.json; those of an earlier start do not count."""
    run.gpus(4)
    run.build(shape("4xh100", {"vllm_mode": "colocate"}))
    (run.folder / "logs").mkdir()
    (run.folder / "logs" / "outcome.json").write_text('{"exit_code": 9}', "utf-8")
    code, said = run.to_end(STUB_TRAINER=behaviour)
    assert code == expected, said
    assert run.notes("trainer")[0]["env"]["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"


SRUN = r"""
# Runs the command once on each machine of --nodelist, as Slurm would, and hands SIGTERM on to all of a step.
rank=0
for argument in "$@"; do
    case "$argument" in
        --nodelist=*) IFS=, read -ra on <<< "${argument#*=}" ;;
    esac
done
echo "srun $*" >> "$CALLS"
while [[ "$1" == --* ]]; do shift; done
for machine in "${on[@]}"; do
    SLURM_PROCID=$rank STUB_MACHINE=$machine "$@" &
    rank=$((rank + 1))
done
trap 'for job in $(jobs -p); do kill -TERM "$job" $(cat /proc/"$job"/task/*/children); done' TERM
code=0
for job in $(jobs -p); do
    while kill -0 "$job" 2> /dev/null; do wait "$job"; done
    wait "$job" || code=$?
done
exit $code
"""


@pytest.fixture
def slurm(run: Run) -> Callable[[int], None]:
    """Make a Slurm of some machines; the first one is this machine under another name."""

    def make(machines: int) -> None:
        calls = run.folder.parent / "calls"
        run.environ |= {"CALLS": str(calls), "SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": "n[1-9]"}
        names = " ".join(["localhost", *(f"n{number}" for number in range(2, machines + 1))])
        run.program("srun", SRUN)
        run.program("scontrol", f'[ "$*" = "show hostnames n[1-9]" ] && printf "%s\\n" {names}')
        run.program("scancel", 'echo "scancel $*" >> "$CALLS"; kill -TERM "$(cat "$CALLS.pid")"')
        batch = 'echo 17; echo "sbatch $*" >> "$CALLS"; SLURM_SUBMIT_DIR=$PWD bash run.slurm > batch.log 2>&1 & '
        run.program("sbatch", f'{batch} echo $! > "$CALLS.pid"; wait $!')

    return make


def calls(run: Run) -> list[str]:
    return Path(run.environ["CALLS"]).read_text("utf-8").splitlines()


def test_on_a_cluster_one_machine_serves_and_the_others_train(run: Run, slurm: Callable[[int], None]) -> None:
    """Each command runs where it belongs, and the trainers meet on the second machine."""
    slurm(3)
    run.build(shape("3x8xh100", {}), **ports())
    code, said = run.to_end(CUDA_VISIBLE_DEVICES="0,1,2,3,4,5,6,7")
    assert code == 0, said + (run.folder / "batch.log").read_text("utf-8")
    (server,) = run.notes("server")
    assert server["machine"] == "localhost"
    assert server["argv"][server["argv"].index("--host") + 1] == "0.0.0.0"  # noqa: S104  other machines reach it
    assert server["argv"][server["argv"].index("--tensor-parallel-size") + 1] == "8"
    launchers = sorted(run.notes("accelerate"), key=lambda line: line["machine"])
    assert [line["machine"] for line in launchers] == ["n2", "n3"]
    for rank, line in enumerate(launchers):
        said_to = dict(zip(line["argv"][2:-1:2], line["argv"][3:-1:2], strict=True))
        assert said_to == {
            "--config_file": "accelerate.yaml",
            "--machine_rank": str(rank),
            "--main_process_ip": "n2",
            "--main_process_port": "29500",
        }
        assert line["argv"][-1] == "train.py"
        assert line["env"]["FINETUNE_SERVER_HOST"] == "localhost"
    assert calls(run)[0] == "sbatch --parsable --wait run.slurm"
    run.await_note("server ended")


def test_on_a_cluster_without_a_server_all_machines_train(run: Run, slurm: Callable[[int], None]) -> None:
    """Colocated engines and methods without one."""
    slurm(2)
    run.build(shape("2x8xh100", {"vllm_mode": "colocate"}))
    code, said = run.to_end()
    assert code == 0, said
    assert sorted(line["machine"] for line in run.notes("accelerate")) == ["localhost", "n2"]
    assert not run.notes("server")


def test_a_cluster_of_another_size_is_refused(run: Run, slurm: Callable[[int], None]) -> None:
    """The batch was laid out for the planned number of processes."""
    slurm(2)
    run.build(shape("3x8xh100", {}), **ports())
    code, _ = run.to_end()
    assert code == 2
    assert "planned for 3 machines and Slurm gave 2: localhost n2" in (run.folder / "batch.log").read_text("utf-8")


def test_a_request_to_stop_goes_through_slurm(run: Run, slurm: Callable[[int], None]) -> None:
    """From launch.sh to the batch script, and from there to the trainers; accelerate is told to leave it to them."""
    slurm(2)
    run.build(shape("2x8xh100", {"vllm_mode": "colocate"}))
    process = run.start(STUB_TRAINER="long")
    while len(run.notes("trainer")) < 2:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=WAIT_S)
    assert "scancel --batch --signal=TERM 17" in calls(run)
    assert not run.notes("accelerate asked")
    assert run.order().count("trainer ended") == 2


def test_without_slurm_the_launch_says_where_to_start_it(run: Run) -> None:
    """On a laptop, say."""
    run.build(shape("3x8xh100", {}))
    code, said = run.to_end(PATH="/usr/bin:/bin")
    assert code == 2
    assert "login node" in said


def test_what_a_cluster_needs_adapted_stands_on_top() -> None:
    """Directives before the first command, or Slurm does not read them."""
    text = launch_files.files_for(config(shape("3x8xh100", {})))["run.slurm"]
    head, _, _ = text.partition("set -euo pipefail")
    directives = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)$", head, re.MULTILINE))
    assert directives["nodes"] == "3"
    assert directives["gpus-per-node"] == "8"
    assert directives["signal"] == "B:TERM@600"
    assert re.fullmatch(r"\d+:\d\d:\d\d", directives["time"])
    assert "#SBATCH" not in text.removeprefix(head)
