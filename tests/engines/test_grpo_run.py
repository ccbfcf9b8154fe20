"""The generated GRPO script on the CPU, with a tiny model and TRL as it is: what it trains, and what ends it."""

import json
import math
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpo_runs
import pytest

HERE = Path(__file__).parent

NEVER = """
def never(completions, **kwargs):
    return [None] * len(completions)
"""

ALIKE = """
def alike(completions, **kwargs):
    return [0.4] * len(completions)
"""

FALLS_SILENT = """
def judge(completions, trainer_state, **kwargs):
    return [None if trainer_state.global_step >= 2 else 0.1 * i for i in range(len(completions))]
"""

UNPAYABLE = """
def divides(completions, trainer_state, **kwargs):
    return [float("nan") if trainer_state.global_step else 0.1 * i for i in range(len(completions))]
"""

RAISES = """
async def leaves(completions, trainer_state, **kwargs):
    import sys
    if trainer_state.global_step:
        sys.exit("no judge")
    return [0.1 * i for i in range(len(completions))]
"""

RAISED_ABSTENTIONS = """
def judge(completions, trainer_state, **kwargs):
    return [None if trainer_state.global_step >= 6 else 0.1 * i for i in range(len(completions))]
"""

ENDLESS = """
def asks_to_stop(completions, trainer_state, **kwargs):
    import os, signal
    from pathlib import Path
    asked = Path(__file__).with_name("asked")
    with Path(__file__).with_name("seen.jsonl").open("a") as stream:
        stream.write(f"{trainer_state.global_step} {kwargs['prompts'][0]} {kwargs['prompts'][-1]}\\n")
    if trainer_state.global_step >= 2 and not asked.exists():
        asked.touch()
        os.kill(os.getpid(), signal.SIGTERM)
    return [i / 8 for i in range(len(completions))]
"""


def one(name: str, more: str = "") -> str:
    """Return the brief's rewards: one of my_rewards.py."""
    return f"  - {{file: my_rewards.py:{name}}}\n{more}"


def trainer(**options: Any) -> Any:
    """Return a change of the trainer's options in config.yaml."""
    return lambda config: config["trainer"].update(options)


@dataclass(frozen=True)
class Job:
    """One run: what is asked for, what breaks it, and how it ends."""

    code: int
    words: str = ""  # in the reason that it gives
    training: dict[str, Any] = field(default_factory=dict)
    build: dict[str, Any] = field(default_factory=dict)
    plant: str | None = None
    model: str = "model"


LORA = {"adapter": "lora"}

JOBS = {
    "text": Job(0, build={"held_out": 12}),
    "chat": Job(0, build={"chat": True}, plant="recorded"),
    "lora": Job(0, training=LORA, plant="recorded"),
    "lora, chat": Job(0, training=LORA, build={"chat": True}),
    "dapo": Job(0, build={"extra": "variant: {use: dapo, because: a test}\n"}),
    "dr_grpo": Job(0, build={"extra": "variant: {use: dr_grpo, because: a test}\n"}),
    "gspo": Job(0, build={"extra": "variant: {use: gspo, because: a test}\n"}),
    "unpaid": Job(1, "every reward abstained", build={"rewards": one("never"), "own": NEVER}),
    "silent reward": Job(
        1,
        "reward never has abstained on every completion of the first 32 prompts",
        training={"max_steps": 20},
        build={"rewards": one("digits", one("never")), "own": grpo_runs.OWN + NEVER},
    ),
    "abstentions": Job(
        1,
        "reward judge abstained on 100% of the prompts of the last 3 logs",
        training={"max_steps": 12},
        build={"rewards": one("digits", one("judge")), "own": grpo_runs.OWN + RAISED_ABSTENTIONS},
    ),
    "falls silent": Job(
        1,
        "step 18: reward judge abstained on each of the 32 prompts of the last 16 logs, and on 0 of 4 before",
        training={"max_steps": 24, "save_steps": 24},
        build={"rewards": one("digits", one("judge")), "own": grpo_runs.OWN + FALLS_SILENT},
    ),
    "paid nan": Job(
        1,
        "reward divides paid nan on training row",
        training={"max_steps": 6},
        build={"rewards": one("digits", one("divides")), "own": grpo_runs.OWN + UNPAYABLE},
    ),
    "awaited reward leaves": Job(
        2,
        "my_rewards.py:5: reward leaves raised SystemExit: no judge: on a batch of 8 completion(s)",
        build={"rewards": one("leaves"), "own": RAISES},
    ),
    "dead groups": Job(
        1,
        "for 3 logs in a row every group was paid alike",
        training={"max_steps": 6},
        build={
            "rewards": one("alike"),
            "own": ALIKE,
            "change": grpo_runs.set_guards(dead_group_steps=3),
        },
    ),
    "dead groups of a batch": Job(
        1,
        "for 2 logs in a row every group was paid alike",
        training={"max_steps": 6, "scale_rewards": "batch"},
        build={
            "rewards": one("by_prompt"),
            "own": "def by_prompt(completions, id, **kwargs):\n    return [float(name[1:]) for name in id]\n",
            "change": grpo_runs.set_guards(dead_group_steps=2),
        },
    ),
    "no end": Job(
        1,
        "not one completion of the first 2 logs ended by itself",
        training={"max_steps": 6},
        build={
            "change": lambda c: (
                c["guards"].update(end_token_steps=2),
                c["trainer"].update(generation_kwargs={"suppress_tokens": [0, 1]}),
            )
        },
    ),
    "no step": Job(2, "not one step was trained", build={"change": trainer(num_iterations=0, max_steps=2)}),
    "misspelt": Job(
        2,
        "trainer.learning_rte: GRPOConfig has no such option; did you mean `learning_rate`?",
        build={"change": trainer(learning_rte=5e-6)},
    ),
    "text for a number": Job(2, "write 5e-06", build={"change": trainer(learning_rate="5e-6")}),
    "impossible": Job(2, "GRPOConfig refuses it", build={"change": trainer(num_generations=3)}),
    "other TRL": Job(2, "made for TRL 1.15.0", build={"change": lambda c: c["versions"].update(trl="1.15.0")}),
    "other processes": Job(
        2, "made for 2 and started with 1", build={"change": lambda c: c["shape"].update(processes=2)}
    ),
    "other option": Job(2, "trainer.learning_rate: 0.001 was asked for and the trainer has 0.5", plant="other option"),
    "other dtype": Job(
        2,
        "float16 was asked for and the model is in float32",
        plant="other dtype",
        build={"change": lambda c: c["model"]["init_kwargs"].update(dtype="float16")},
    ),
    "other rewards": Job(2, "rewards: lists", build={"change": lambda c: c["rewards"][0].update(weight=0.5)}),
    "two starts": Job(2, "prompts begin with two start tokens", model="two starts"),
    "foreign end": Job(
        2,
        "100% would be masked",
        model="foreign end",
        build={"chat": True, "change": trainer(mask_truncated_completions=True)},
    ),
    "foreign end, unmasked": Job(0, model="foreign end", build={"chat": True}),
    "stale": Job(4, "canary before step 1: the engine kept its old weights", plant="stale"),
    "adapter not merged": Job(
        4, "the adapter is not in what the engine gets", training=LORA, plant="adapter not merged"
    ),
    "stale after step 1": Job(4, "canary after step 1: the engine kept its old weights", plant="stale after step 1"),
    "canary off": Job(0, plant="stale", build={"change": grpo_runs.set_guards(canary=False)}),
    "asked to stop": Job(
        0,
        "step 3: asked to stop",
        training={"max_steps": 6},
        build={"rewards": one("asks_to_stop"), "own": ENDLESS},
    ),
    "asked to stop, gspo": Job(
        0,
        "step 5: asked to stop",
        training={"max_steps": 10},
        build={
            "rewards": one("asks_to_stop"),
            "own": ENDLESS,
            "rows": 12,
            "extra": "variant: {use: gspo, because: a test}\n",
        },
    ),
}
AGAIN = ("asked to stop", "asked to stop, gspo")


@pytest.fixture(scope="module")
def ended(engine_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Every job built and run, those in `AGAIN` twice, in one process; by name: folder, exit code and words."""
    base = tmp_path_factory.mktemp("grpo")
    models = {name: base / f"model-{place}" for place, name in enumerate(("model", "two starts", "foreign end"))}
    for name, folder in models.items():
        grpo_runs.save_tiny_model(engine_python, folder, name)
    folders, jobs = {}, []
    for place, (name, job) in enumerate(JOBS.items()):
        training = {**grpo_runs.QUICK, **job.training}
        folders[name] = grpo_runs.built(base / f"run-{place}", models[job.model], training, **job.build)
        jobs.append({"run": str(folders[name]), "plant": job.plant})
    jobs += [{"run": str(folders[name])} for name in AGAIN]
    (base / "jobs.json").write_text(json.dumps(jobs), "utf-8")
    command = [engine_python, str(HERE / "trainings.py"), str(base / "jobs.json")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    names = [*JOBS, *(f"{name}, again" for name in AGAIN)]
    return {
        name: {"train": folders[name.removesuffix(", again")], **answer}
        for name, answer in zip(names, answers, strict=True)
    }


@pytest.mark.parametrize("name", JOBS)
def test_a_run_ends_as_it_should_and_says_why(ended: dict[str, dict[str, Any]], name: str) -> None:
    """Each fault ends the run with its exit code and its reason; a sound run finishes its two steps."""
    job, seen = JOBS[name], ended[name]
    assert job.code == seen["code"], (seen["said"], seen["complained"][-2000:])
    if name in AGAIN:
        assert f"stopped at {job.words}" in seen["said"]
        return
    outcome = grpo_runs.outcome_of(seen["train"])
    assert job.code == outcome["exit_code"]
    assert job.words in outcome["reason"]
    if job.code == 0:
        assert (outcome["state"], outcome["global_step"]) == ("finished", 2)
        assert (seen["train"] / "model" / "config.json").exists() or "lora" in name
        assert "canary after step 1: rollouts follow" in seen["said"] or name == "canary off"
    else:
        assert not (seen["train"] / "model").exists()


@pytest.mark.parametrize("name", ["chat", "lora"])
def test_the_canary_leaves_no_trace(ended: dict[str, dict[str, Any]], name: str) -> None:
    """Weights, optimiser, random numbers, mode and sampling are bit for bit as before, both times."""
    assert ended[name]["said"].count("undisturbed True") == 2
    assert "undisturbed False" not in ended[name]["said"]


def test_the_reward_of_weight_zero_watches(ended: dict[str, dict[str, Any]]) -> None:
    """TRL's sum is the weighted one, so the third reward, whose weight is 0, is logged and not trained on."""
    for log in grpo_runs.logged(ended["text"]["train"]):
        table = ended["text"]["tables"][f"completions_{log['step']:05d}"]
        lengths = [0.0 if value is None or math.isnan(value) else value for value in table["length"]]
        wanted = (sum(table["digits"]) + 0.1 * sum(lengths)) / len(lengths)
        assert log["reward"] == pytest.approx(wanted, abs=1e-5)
        assert log["rewards/exact_answer/mean"] == pytest.approx(sum(table["exact_answer"]) / len(lengths), abs=1e-5)


def test_both_tables_of_a_step_are_kept(ended: dict[str, dict[str, Any]]) -> None:
    """Training and evaluation at one step have a table each, whole, with rows, lengths, ends, rewards and reasons."""
    tables = ended["text"]["tables"]
    names = [f"completions_{step:05d}" for step in (1, 2)] + [f"evaluation_{step:05d}" for step in (0, 2)]
    assert names == sorted(tables)
    for name, table in tables.items():
        training = name.startswith("completions")
        assert (8 if training else 12) == len(table["completion"])
        assert all((row < 8) == training for row in table["finetune_row"])
        assert {"digits", "length", "exact_answer", "exact_answer_reason", "advantage"} <= set(table)
        for tokens, finish in zip(table["finetune_tokens"], table["finetune_finish"], strict=True):
            assert 1 <= tokens <= 8
            assert finish == "stop" or tokens == 8
    assert any("stop" in table["finetune_finish"] for table in tables.values())


def test_progress_and_effective_config_are_written(ended: dict[str, dict[str, Any]]) -> None:
    """logs/ holds a line for each step, and what the trainer made of the config."""
    train = ended["lora"]["train"]
    assert [1, 2] == [log["step"] for log in grpo_runs.logged(train)]
    effective = (train / "logs" / "effective.yaml").read_text("utf-8")
    assert "reference_dtype: null" in effective
    assert "r: 16" in effective or "r: 32" in effective


def test_an_unknown_end_token_is_said_where_nothing_is_masked(ended: dict[str, dict[str, Any]]) -> None:
    """Finished answers that count as cut off spoil lengths, not the run."""
    assert "the chat template ends a turn with it" in ended["foreign end, unmasked"]["said"]


@pytest.mark.parametrize("name", AGAIN)
def test_a_run_that_was_asked_to_stop_goes_on(ended: dict[str, dict[str, Any]], name: str) -> None:
    """The second start goes on from the saved step to the last, with the prompts of an unbroken run."""
    again = ended[f"{name}, again"]
    assert again["code"] == 0, again["complained"][-2000:]
    step = JOBS[name].words.removeprefix("step ").partition(":")[0]
    assert f"going on from checkpoint-{step}" in again["said"]
    outcome = grpo_runs.outcome_of(again["train"])
    assert ("finished", JOBS[name].training["max_steps"]) == (outcome["state"], outcome["global_step"])
