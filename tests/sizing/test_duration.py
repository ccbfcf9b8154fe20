"""How long a run takes: its settings as work, what was observed of it, and what a calibration measured."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import runs
from llm_finetuning import artifact, brief
from llm_finetuning.commands import plan, score
from llm_finetuning.planning import decode, training_time
from llm_finetuning.planning.decode import Serving
from llm_finetuning.planning.job import Job
from llm_finetuning.planning.states import NF4
from llm_finetuning.planning.time_rates import Rates
from llm_finetuning.recipes.config import Machine
from llm_finetuning.sizing import calibrated, duration, observed
from llm_finetuning.sizing.forecast import forecast
from llm_finetuning.sizing.observed import Observed
from llm_finetuning.sizing.unknown import Unknown
from llm_finetuning.types import Plan, Score
from planned_runs import planned, situated, write
from public_configs import CONFIGS

Finetune = Callable[..., tuple[int, str, str]]
LORA = {"adapter": "lora"}
PACKED = {"packing": True, "model_init_kwargs": {"attn_implementation": "flash_attention_2"}}

WORK: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "one gpu",
        {"training": LORA},
        {"completions": 32, "prompts": 4, "engines": 1, "scorings": 1, "steps": 1.0, "sync": "colocate"},
    ),
    ("no KL", {"training": {**LORA, "beta": 0.0}}, {"scorings": 0}),
    ("correction", {"training": {**LORA, "vllm_importance_sampling_correction": True}}, {"scorings": 2}),
    (
        "two steps a generation",
        {"training": {**LORA, "steps_per_generation": 8}},
        {"completions": 64, "prompts": 8, "steps": 2.0, "scorings": 2},
    ),
    ("trained on twice", {"training": {**LORA, "num_iterations": 2}}, {"completions": 32, "steps": 2.0, "scorings": 2}),
    ("the trainer generates", {"training": {"use_vllm": False}}, {"sync": "none", "engines": 1}),
    ("a server", {"hardware": "8xh100"}, {"completions": 128, "processes": 4, "engines": 1, "sync": "server"}),
    (
        "a server of two",
        {"hardware": "8xh100", "training": {"vllm_tensor_parallel_size": 2}},
        {"completions": 192, "processes": 6, "engines": 1},
    ),
    (
        "four engines",
        {"hardware": "4xh100", "training": {**LORA, "vllm_mode": "colocate"}},
        {"completions": 128, "processes": 4, "engines": 4},
    ),
    ("asleep", {"training": {**LORA, "vllm_enable_sleep_mode": True}}, {"sleeps": True}),
]


def work_of(run: Path, seen: Observed | None = None) -> tuple[Job, duration.Round]:
    now = planned(run)
    options = {name: option.value for name, option in now.config.trainer.items()}
    return duration._drawing(now, options, seen or Observed(), [])


def timed(run: Path, seen: Observed | None = None, rates: Rates | None = None) -> duration.Timed:
    loaded, situation = situated(run)
    now = forecast(loaded, situation)
    return duration.timed(now, situation.model, seen or Observed(), rates or duration.rates_for(now.machine))


@pytest.mark.parametrize(("asked", "wanted"), [case[1:] for case in WORK], ids=[case[0] for case in WORK])
def test_the_settings_of_a_run_become_its_work(tmp_path: Path, asked: dict[str, Any], wanted: dict[str, Any]) -> None:
    """How many completions are drawn by how many engines, for how many steps, and scored how often (TRL 1.16.0)."""
    _, turn = work_of(write(tmp_path, **asked))
    assert {name: getattr(turn, name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"training": LORA}, {"engine": "vllm", "maps": 2.0, "moved": 0.0, "shares_prompts": True}),
        ({"training": {"adapter": "qlora"}}, {"maps": 0.5625, "moved": 4.0, "head": 2.0}),
        (
            {"training": {"use_vllm": False}},
            {"engine": "transformers", "maps": 4.0, "moved": 4.0, "launches": 1.0, "shares_prompts": False},
        ),
        ({"training": {"use_vllm": False, "adapter": "qlora"}}, {"maps": 0.5625, "moved": 4.0, "launches": 3.0}),
        ({"hardware": "8xh100"}, {"engine": "vllm", "tensor_parallel": 4}),
    ],
    ids=["vllm", "vllm in 4 bits", "transformers, cast", "transformers in 4 bits", "a server of four"],
)
def test_the_policy_is_served_as_its_engine_keeps_it(
    tmp_path: Path, asked: dict[str, Any], wanted: dict[str, Any]
) -> None:
    """Bytes of a weight, what moves more, and its launches."""
    _, turn = work_of(write(tmp_path, **asked))
    assert turn.serving is not None
    assert {name: getattr(turn.serving, name) for name in wanted} == wanted


def test_a_small_share_lets_sequences_wait(tmp_path: Path) -> None:
    """The cache that vLLM's share leaves holds so many sequences at once, and a smaller share fewer."""
    held = [
        work_of(write(tmp_path, training={**LORA, "vllm_gpu_memory_utilization": share}, cap=8192))[1].serving
        for share in (0.3, 0.6)
    ]
    assert held[0] is not None
    assert held[1] is not None
    assert held[0].sequences is not None
    assert held[1].sequences is not None
    assert 0 < held[0].sequences < held[1].sequences


def test_measured_lengths_take_the_place_of_assumptions(tmp_path: Path) -> None:
    """The mean of the samples, the longest that so many completions reach, the audit's median prompt."""
    run = write(tmp_path, training=LORA, cap=2048)
    _, assumed = work_of(run)
    assert (assumed.mean, assumed.longest) == (1024, 2048)
    job, turn = work_of(run, Observed(prompt=90.0, lengths=tuple(range(1, 101)), reward_s=0.5))
    assert (turn.prompt, turn.mean, turn.longest, turn.reward_s) == (90.0, 50.5, 98.0, 0.5)
    assert (job.prompt, job.completion) == (90, 98)


def test_an_unmeasured_run_says_what_was_assumed(tmp_path: Path) -> None:
    """Half of the cap, rewards that are in no sum, rows that nobody counted; each note goes once it is measured."""
    run = write(tmp_path, training=LORA)
    blind = timed(run)
    said = " ".join(blind.notes)
    assert "256 tokens are taken for the mean" in said
    assert "what the rewards take is not in these times" in said
    assert "an audit of the data set counts its rows" in said
    assert blind.steps is None
    seen = timed(run, Observed(rows=400, lengths=(100, 200), reward_s=0.1))
    assert seen.notes == ()
    assert seen.steps == 100
    assert timed(write(tmp_path, training={**LORA, "max_steps": 7})).steps == 7


@pytest.mark.parametrize(
    ("method", "scored", "steps"),
    [("sft", False, 40), ("dpo", True, 20), ("kto", True, 10), ("orpo", False, 20), ("simpo", False, 20)],
)
def test_methods_on_rows_train_alone(tmp_path: Path, method: str, scored: bool, steps: int) -> None:
    """No rollout and no reward; a reference that is asked is a pass of its own."""
    found = timed(write(tmp_path, method=method, model="Qwen2.5-1.5B"), Observed(rows=320))
    names = [stage.name for stage in found.duration.stages]
    assert ("log-probabilities" in names) is scored
    assert "rollout" not in names
    assert found.duration.unknown == ()
    assert found.steps == steps
    assert found.duration.seconds("trainer") == 0.05


def test_packed_rows_are_as_long_as_they_may_be(tmp_path: Path) -> None:
    """Without packing half of max_length is taken, with a note; with it all."""
    plain = timed(write(tmp_path, method="sft", model="Qwen2.5-1.5B"))
    packed = timed(write(tmp_path, method="sft", model="Qwen2.5-1.5B", training=PACKED))
    assert any("half as long as the longest" in note for note in plain.notes)
    assert not any("half as long" in note for note in packed.notes)
    assert any("fewer steps" in note for note in packed.notes)
    assert packed.duration.seconds("training") > 1.5 * plain.duration.seconds("training")


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (Machine(name="cpu", gpus=0), "how fast this CPU is depends on its machine"),
        (Machine(name="mi300x", gpus=1, memory_gb=192.0), "mi300x"),
        (Machine(name="mi300x", gpus=1), "not both known here"),
    ],
    ids=["cpu", "known by its memory", "unknown"],
)
def test_the_speed_of_an_unknown_device_is_not_guessed(machine: Machine, words: str) -> None:
    """One line says that it is not known; the caller, who knows the run, says what measures it."""
    with pytest.raises(Unknown, match=words):
        duration.rates_for(machine)


BRIEF = runs.BRIEF + "hardware: h100\ntraining: {adapter: lora}\n"


def sampled_run(folder: Path) -> Path:
    weights = folder / "model"
    weights.mkdir(parents=True)
    (weights / "config.json").write_text(json.dumps({"dtype": "bfloat16", **CONFIGS["Qwen2.5-1.5B"]}))
    run = runs.write_run(folder / "run", text=BRIEF.replace("some/model", str(weights)))
    runs.write_samples(run)
    return run


def test_what_the_run_has_shown_is_read(tmp_path: Path) -> None:
    """Lengths of the policy's completions, seconds of the rewards, rows; what is stale is left out with a note."""
    run = sampled_run(tmp_path)
    loaded = brief.load(run)
    assert observed.observed(loaded).reward_s is None
    score.run(run)
    seen = observed.observed(loaded)
    assert seen.rows == 15
    assert len(seen.lengths) == 60
    assert list(seen.lengths) == sorted(seen.lengths)
    assert seen.mean == pytest.approx((4 + 7) / 2)  # "The answer is 3." and "3 is not it, I say 4."; two each
    assert (seen.longest_of(1), seen.longest_of(8)) == (7, 7)
    scores = artifact.read_lines(run / "scores.jsonl", Score).records
    seconds = [one.values[0].seconds for one in scores if one.pass_name == "policy"]
    assert seen.reward_s == pytest.approx(sum(seconds) / 60)
    assert 0 < seen.reward_s < 1
    assert seen.notes == ()
    (run / "brief.yaml").write_text((run / "brief.yaml").read_text().replace("last_number", "boxed"))
    assert "rewards' seconds are not used" in observed.observed(brief.load(run)).notes[0]
    (run / "data.jsonl").write_text((run / "data.jsonl").read_text() + "\n")
    stale = observed.observed(brief.load(run))
    assert stale.lengths == ()
    assert "samples' lengths are not used" in stale.notes[0]


def test_plan_says_how_long_it_takes(tmp_path: Path, finetune: Finetune) -> None:
    """A row a phase, the run, the bottleneck; all of it in plan.json, and stale once something else is measured."""
    run = sampled_run(tmp_path)
    _, out, _ = finetune("plan", run)
    assert "time of a step" in out
    assert "bottleneck: " in out
    assert "what the rewards take is not in these times" in out
    score.run(run)
    assert "plan.json       stale" in finetune("status", run)[1]
    _, out, _ = finetune("plan", run, "--json")
    facts = json.loads(out)
    time = facts["time"]
    assert [phase["name"] for phase in time["phases"]][:2] == ["rollout", "reward"]
    assert time["step"]["seconds"] == pytest.approx(sum(phase["seconds"] for phase in time["phases"]))
    assert time["run"]["low"] < time["run"]["seconds"] < time["run"]["high"]
    assert time["run"]["seconds"] == pytest.approx(time["start"] + time["steps"] * time["step"]["seconds"])
    assert facts["calibrated"] is None
    assert artifact.read_json(run / "plan.json", Plan).records[0].time == time


@pytest.mark.parametrize(
    ("training", "words"),
    [
        ({"eval_steps": 1, "save_steps": 1}, "one each step, and one before the first step"),
        ({"eval_steps": 3, "eval_on_start": False}, "one every 3 steps\n"),
        ({"eval_steps": 0.5}, "one at each evaluation step, and one before the first step"),
        ({"eval_strategy": "epoch", "save_strategy": "epoch", "eval_on_start": False}, "one an epoch\n"),
        ({"eval_strategy": "no"}, None),
        (None, None),
    ],
    ids=["each step", "every third", "a share", "epochs", "none", "no rows"],
)
def test_plan_says_that_held_out_evaluations_are_not_in_its_time(
    tmp_path: Path, finetune: Finetune, training: dict[str, Any] | None, words: str | None
) -> None:
    """They can take as long as the steps between them, and nobody has measured them."""
    run = write(tmp_path, model="Qwen2.5-1.5B", training={**LORA, **(training or {})})
    if training is not None:
        text = (run / "brief.yaml").read_text()
        (run / "brief.yaml").write_text(
            text.replace("{path: data.jsonl,", "{path: data.jsonl, evaluation: held.jsonl,")
        )
        (run / "held.jsonl").write_text((run / "data.jsonl").read_text())
    _, out, err = finetune("plan", run)
    assert "time of a step" in out, err
    said = "note: held-out evaluations while it trains are not in these times: "
    assert (said in out) == (words is not None)
    assert words is None or said + words in out


def test_plan_of_a_cpu_says_that_its_speed_is_not_known(tmp_path: Path, finetune: Finetune) -> None:
    """Memory is planned all the same, and no time is made up."""
    run = write(tmp_path, model="SmolLM2-135M", hardware="cpu")
    code, out, _ = finetune("plan", run, "--available", "64")
    assert code == 0
    assert "note: time is not known: how fast this CPU is" in out
    assert "bottleneck" not in out


def test_a_calibration_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From seconds that known rates produce, the same rates are found; a plan reads them from the plan before it."""
    run = write(tmp_path, model="Qwen2.5-0.5B", hardware="cpu")
    loaded, situation = situated(run, available_gib=64.0)
    now = forecast(loaded, situation)
    true = Rates(name="cpu", bandwidth=2e10, arithmetic=3e11, launch_s=0.0, graph_s=0.0, sequence_s=1e-3)
    serving = Serving(engine="transformers", maps=4.0, experts=4.0, head=4.0, cache=4.0)
    model = situation.model
    shape = Job(tuning="full", weights="float32", autocast=False, loss="causal_lm", device="cpu", optimizer="sgd")
    trained = replace(shape, batch=1, prompt=0, completion=512, padded=False, checkpointing=True)
    single = decode.step(model, true, serving, 1, 64)
    measured = {
        "device": "cpu",
        "engine": "transformers",
        "decode_dtype": "float32",
        "decode": [
            {"batch": 1, "context": 64, "seconds": single.seconds},
            {"batch": 8, "context": 64, "seconds": single.seconds + 7e-3},
        ],
        "train": {
            "batch": 1,
            "tokens": 512,
            "seconds": training_time.passes(model, trained, true).training,
            "checkpointing": True,
        },
    }
    found = calibrated.rates_from(measured, model, now.job, None)
    assert found.calibrated
    assert found.bandwidth == pytest.approx(true.bandwidth, rel=1e-6)
    assert found.arithmetic == pytest.approx(true.arithmetic, rel=0.02)
    assert found.sequence_s == pytest.approx(true.sequence_s, rel=1e-6)
    assert calibrated.kept(loaded) is None
    first = plan.run(run, available_gib=64.0)
    assert first.time is None
    kept = {**measured, "of": calibrated._subject(loaded)}
    path = run / "plan.json"
    header = artifact.header_for(path, plan.parents_of(loaded), {})
    artifact.write_json(path, header, replace(first, calibrated=kept))
    again = plan.run(run, available_gib=64.0)
    assert again.calibrated == kept
    assert again.time["rates"]["bandwidth_gb_s"] == pytest.approx(20.0)
    assert again.time["phases"][0]["high"] == pytest.approx(1.4 * again.time["phases"][0]["seconds"])
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("platform.node", lambda: "another-machine")
        assert calibrated.kept(loaded) is None
    assert calibrated.kept(loaded) == kept
    (run / "brief.yaml").write_text((run / "brief.yaml").read_text().replace("hardware: cpu", "hardware: h100"))
    assert calibrated.kept(brief.load(run)) is None


def test_experts_are_read_as_they_were_loaded(tmp_path: Path) -> None:
    """In QLoRA the maps are in four bits and the experts are not: a rollout of the trainer's own reads both so."""
    training = {"adapter": "qlora", "use_vllm": False}
    served = duration._serving(planned(write(tmp_path, model="Mixtral-8x7B", training=training)), 100.0)
    assert (served.experts, served.maps) == (2.0, NF4)
