"""`finetune plan` as a person calls it: the table, the verdict, the change that fits, and how fast it answers."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from llm_finetuning import artifact, brief
from llm_finetuning.building.steps import steps_of
from llm_finetuning.commands import plan
from llm_finetuning.errors import Refusal
from llm_finetuning.recipes import config_for, shapes
from llm_finetuning.types import Plan
from planned_runs import planned, write

Finetune = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).resolve().parents[2]
CPU_S = 1.0
SHARE = "vllm_gpu_memory_utilization"
TOO_LARGE = {"adapter": "lora", "vllm_gpu_memory_utilization": 0.6, "per_device_train_batch_size": 8}


def test_a_run_that_fits(tmp_path: Path, finetune: Finetune) -> None:
    """Exit 0, every phase with its interval and its formulae, an artifact that status knows until the brief changes."""
    run = write(tmp_path, model="Qwen2.5-1.5B", training={"adapter": "lora"})
    code, out, _ = finetune("plan", run, "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["verdict"] == "fits"
    assert facts["remedy"] is None
    assert facts["next_action"] == json.loads(finetune("status", run, "--json")[1])["next"] == f"finetune audit {run}"
    names = [phase["name"] for phase in facts["phases"]]
    assert names == ["rollout", "log-probabilities", "weight sync", "forward", "backward", "optimizer step"]
    for phase in facts["phases"]:
        assert phase["gib"] == pytest.approx(sum(part["gib"] for part in phase["parts"]))
        assert phase["low"] < phase["gib"] < phase["high"]
        assert all(part["formula"] for part in phase["parts"])
        assert not phase["breaks"]
    assert facts["engine"]["least"] <= facts["engine"]["ample"] <= 0.3
    record = artifact.read_json(run / "plan.json", Plan).records[0]
    assert record.verdict == "fits"
    assert "plan.json       done" in finetune("status", run)[1]
    text = (run / "brief.yaml").read_text()
    (run / "brief.yaml").write_text(text.replace('"lora"', '"qlora"'))
    assert "plan.json       stale" in finetune("status", run)[1]


def test_a_run_that_does_not_fit(tmp_path: Path, finetune: Finetune) -> None:
    """Exit 1; the table says which phases break, vLLM's share what it needs, the next line what to write (B49)."""
    run = write(tmp_path, hardware="rtx4090", cap=1536, training=TOO_LARGE)
    code, out, _ = finetune("plan", run)
    assert code == 1
    assert out.startswith("plan: does not fit: vLLM needs ")
    assert "BREAKS" in out
    assert "vllm_gpu_memory_utilization is 0.6: vLLM does not start with it; 0.73 holds" in out
    assert "  head " in out
    assert "smallest change that fits: `training: {" in out
    assert "adapter: qlora" in out.splitlines()[-1]
    assert "into brief.yaml" in out.splitlines()[-1]


@pytest.mark.parametrize(("machine", "why"), [("cpu", "how fast this CPU is"), ("mi300x", "of a mi300x are not both")])
def test_a_machine_of_unknown_speed(tmp_path: Path, finetune: Finetune, machine: str, why: str) -> None:
    """The number of steps hangs on rows and batch alone; what measures the time is a line to paste."""
    run = write(tmp_path, model="SmolLM2-135M", hardware=machine, training={"use_vllm": False})
    (run / "data.jsonl").write_text((run / "data.jsonl").read_text("utf-8") * 240, "utf-8")
    free = None if machine == "cpu" else 100.0
    out = finetune("plan", run, *(() if free is None else ("--available", free)))[1]
    (note,) = [line for line in out.splitlines() if "time is not known" in line]
    length = re.search(r"note: (\d+) steps; time is not known: ", note)
    assert length is not None
    assert int(length[1]) == steps_of(planned(run, available_gib=free).config, 240).total > 0
    assert why in note
    assert f"`finetune plan {run} --calibrate` measures it on the machine that trains" in note
    assert " RUN" not in out


@pytest.mark.parametrize("what", ["card", "model", "family"])
def test_what_is_not_known_is_exit_3(tmp_path: Path, finetune: Finetune, what: str) -> None:
    """An unknown card, a model that is not here, a family without formulae: one line that says what to do."""
    run = write(tmp_path, hardware="mi300x" if what == "card" else "h100")
    if what == "model":
        (tmp_path / "model" / "config.json").unlink()
    if what == "family":
        (tmp_path / "model" / "config.json").write_text('{"model_type": "perceptron"}')
    code, out, _ = finetune("plan", run, "--json")
    facts = json.loads(out)
    assert (code, facts["verdict"]) == (3, "unknown")
    assert facts["phases"] == []
    wanted = {"card": "hardware: auto", "model": "config.json", "family": "perceptron"}
    assert wanted[what] in facts["reason"]
    assert facts["next_action"] == f"do what the reason asks for, then `finetune plan {run}`"


def test_a_reason_is_said_once(tmp_path: Path, finetune: Finetune) -> None:
    """The first line says why nothing is known, the last what to call again, with the memory that was stated."""
    run = write(tmp_path)
    (tmp_path / "model" / "config.json").unlink()
    out = finetune("plan", run, "--available", "20", "--host", "1")[1]

    assert out.startswith(f"plan: unknown: model: {tmp_path / 'model'} has no config.json; name the folder")
    assert out.count("has no config.json") == 1
    assert out.endswith(f"then `finetune plan {run} --available 20 --host 1`\n")


def test_memory_that_is_stated(tmp_path: Path, finetune: Finetune) -> None:
    """Less free memory than the card has decides; on a Spark the host's own needs come off the same pool (B63)."""
    training = {"adapter": "lora", "vllm_gpu_memory_utilization": 0.3}
    run = write(tmp_path / "card", model="Qwen2.5-1.5B", training=training)
    assert finetune("plan", run)[0] == 0
    assert finetune("plan", run, "--available", "20")[0] == 1
    training = {"adapter": "lora", "vllm_gpu_memory_utilization": 0.6}
    spark = write(tmp_path / "spark", model="Qwen3-8B", hardware="dgx-spark", training=training)
    assert finetune("plan", spark)[0] == 0
    code, out, _ = finetune("plan", spark, "--available", "97", "--host", "64")
    assert code == 1
    assert "97.0 GiB available as stated, less 12.0 for the host and 64.0 for shared memory" in out


def test_the_share_of_vllm_is_derived(tmp_path: Path, finetune: Finetune) -> None:
    """Left open, it holds what the rollout needs and leaves what training needs; build writes what plan showed."""

    def built(run: Path) -> tuple[float, str]:
        loaded = brief.load(run)
        machine = shapes.machine_of(loaded.brief.hardware)
        option = plan.fitted(loaded, config_for(loaded, machine, 1000), machine, None)[0].trainer[SHARE]
        return option.value, option.source

    def shown(run: Path, *options: str) -> tuple[int, float]:
        code, out, _ = finetune("plan", run, "--json", *options)
        return code, json.loads(out)["engine"]["utilization"]

    roomy = write(tmp_path / "roomy", model="Qwen3-0.6B", hardware="h200")
    assert built(roomy) == (0.3, "recipe")
    large = write(tmp_path / "large", model="Qwen3-8B", hardware="l40s", training={"adapter": "lora"})
    share, source = built(large)
    assert share > 0.34  # 15.3 GiB of weights alone do not fit into the recipe's share of 44.4
    assert source == "machine"
    assert shown(large)[1] == share
    small = write(tmp_path / "small", model="Qwen2.5-1.5B", training={"adapter": "lora"})
    assert shown(small) == (0, 0.3)
    code, share = shown(small, "--available", "20")
    assert code == 0
    assert share < 20 / 79.18
    assert built(small) == (share, "machine")
    stated = write(tmp_path / "stated", model="Qwen3-0.6B", hardware="h200", training={SHARE: 0.2})
    assert built(stated) == (0.2, "brief")


@pytest.mark.parametrize("option", ["--available", "--host"])
@pytest.mark.parametrize("value", ["nan", "inf", "1e400", "-1"])
def test_memory_is_a_number(tmp_path: Path, finetune: Finetune, option: str, value: str) -> None:
    """What is no amount of memory is bad input, in one line."""
    code, _, err = finetune("plan", write(tmp_path), option, value)
    assert code == 2
    assert option in err


def test_what_was_stated_is_asked_again(tmp_path: Path, finetune: Finetune) -> None:
    """The next command plans on the same memory, and the change stands beside the options that are there."""
    run = write(tmp_path, model="Llama-3.1-8B", training={"adapter": "lora"})
    code, out, _ = finetune("plan", run, "--available", "30")
    assert code == 1
    last = out.splitlines()[-1]
    assert "into brief.yaml, beside what stands there, then" in last
    assert f"`finetune plan {run} --available 30`" in last


def test_the_layout_is_shown(tmp_path: Path, finetune: Finetune) -> None:
    """Which devices train and which serve, and the batch that each holds."""
    run = write(tmp_path, model="Llama-3.1-8B", hardware="8xh100")
    out = finetune("plan", run)[1]
    assert "trainer: 4 process(es), GPU 4, 5, 6, 7" in out
    assert "vLLM server: tensor parallel over GPU 0, 1, 2, 3" in out
    assert re.search(r"^  gpu_memory_utilization of the server: 0\.\d\d holds one sequence ", out, re.MULTILINE)
    assert "batch: 8 at once in each of 4 process(es), 4 times a step" in out
    assert "0 steps" not in out
    assert "no step at all: 1 rows are fewer than a step takes" in out
    layout = json.loads(finetune("plan", run, "--json")[1])["layout"]
    assert layout["processes"] == 4
    assert layout["processes"] * layout["per_device_train_batch_size"] % layout["num_generations"] == 0


def test_experts_stay_as_loaded_in_qlora(tmp_path: Path, finetune: Finetune) -> None:
    """4-bit loading takes linear maps: of Mixtral's 46.7 billion weights 45 billion stay in 16 bits."""
    run = write(tmp_path, model="Mixtral-8x7B", hardware="h200", training={"adapter": "qlora"})
    facts = json.loads(finetune("plan", run, "--json")[1])
    (weights,) = {part["gib"] for phase in facts["phases"] for part in phase["parts"] if part["name"] == "weights"}
    assert 84 < weights < 87
    assert any("experts stay as loaded" in note for note in facts["notes"])


def test_a_checkpoint_that_is_quantised_already_is_not_counted(tmp_path: Path, finetune: Finetune) -> None:
    """AWQ's four bits are no 16-bit weights: no number is made up."""
    run = write(tmp_path, model="Llama-3.1-8B", quantization_config={"quant_method": "awq", "bits": 4})
    code, out, _ = finetune("plan", run)
    assert code == 3
    assert "quantised already (awq)" in out


def test_build_says_the_verdict_and_refuses_the_impossible(tmp_path: Path) -> None:
    """What fits or is not known is a note; where not even the lowest need fits, building stops with the change."""

    def said(run: Path) -> str:
        loaded = brief.load(run)
        machine = shapes.machine_of(loaded.brief.hardware)
        return plan.fitted(loaded, config_for(loaded, machine, 1000), machine, None)[1]

    small = write(tmp_path / "a", model="Qwen2.5-1.5B", training={"adapter": "lora"})
    assert said(small).startswith("memory: fits: ")
    assert said(write(tmp_path / "b", hardware="mi300x")).startswith("memory not planned: hardware: ")
    close = write(tmp_path / "c", method="sft", hardware="l4", training={"adapter": "lora"})
    assert said(close).startswith("memory: does not fit: ")
    assert "its lower end fits, so that it may" in said(close)
    with pytest.raises(Refusal, match=r"brief\.yaml: .*vLLM needs .*; write `training: \{.*adapter: qlora"):
        said(write(tmp_path / "d", hardware="rtx4090", cap=1536, training=TOO_LARGE))


def test_it_answers_at_once_and_without_torch(tmp_path: Path) -> None:
    """Under a second of CPU time with every remedy tried, and none of the heavy libraries loaded."""
    run = write(tmp_path, model="Qwen2.5-32B", hardware="rtx4090")
    program = (
        "import sys; sys.path[0] = sys.argv.pop(1)\n"
        "from llm_finetuning.cli import main\n"
        "code = main()\n"
        "import json, resource\n"
        "usage = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print('\\n' + json.dumps([code, usage.ru_utime + usage.ru_stime, sorted(sys.modules)]))\n"
    )
    seconds = []
    for _ in range(2):
        command = [sys.executable, "-c", program, str(ROOT / "scripts"), "plan", str(run)]
        out = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ)).stdout
        code, used, loaded = json.loads(out.splitlines()[-1])
        assert code == 1
        assert not {"torch", "transformers", "trl", "vllm", "peft", "datasets"} & set(loaded)
        seconds.append(used)
    assert min(seconds) < CPU_S
