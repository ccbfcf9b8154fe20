"""The SFT recipe is explicit, sourced, and gives way to the brief; so is what it shares with the other methods."""

from pathlib import Path
from typing import Any

import pytest

from llm_finetuning import recipes, trl_options
from llm_finetuning.brief import LoadedBrief, parse
from llm_finetuning.errors import Refusal
from llm_finetuning.recipes import shapes
from llm_finetuning.recipes.config import RunConfig

LEFT_TO_TRL = {
    "dataset_text_field",  # rows are a prompt and its completion
    "dataset_kwargs",  # likewise
    "pad_token",  # deprecated
}


def config_of(training: str = "{}", hardware: str = "h100", rows: int = 1000, evaluation: str = "") -> RunConfig:
    held_out = f", evaluation: {evaluation}" if evaluation else ""
    text = (
        "name: trial\nmethod: sft\nmodel: some/model\n"
        f"dataset: {{path: some/data, prompt: prompt, completion: completion{held_out}}}\n"
        f"training: {training}\nhardware: {hardware}\n"
    )
    loaded = LoadedBrief(parse(text, Path("brief.yaml")), Path("/nowhere"))
    return recipes.config_for(loaded, shapes.machine_of(hardware), rows)


def values_of(config: RunConfig) -> dict[str, Any]:
    return {name: option.value for name, option in config.trainer.items()}


def test_every_option_of_the_trainer_itself_is_written_down() -> None:
    """What TRL's SFTConfig has beyond the others' options is not left to a default that changes between releases."""
    own = set(trl_options.own_names("sft"))

    assert own - set(config_of().trainer) == LEFT_TO_TRL


def test_the_loss_is_over_completions_and_rows_are_not_packed() -> None:
    """The model is to learn the answer, not the question, and one row is not to see another."""
    values = values_of(config_of())

    assert values["completion_only_loss"] is True
    assert values["packing"] is False
    assert values["max_length"] == 2048
    assert values["loss_type"] == "nll"


@pytest.mark.parametrize(
    ("hardware", "adapter", "rate", "dtype", "bf16", "fp16", "use_cpu"),
    [
        ("cpu", "none", 2e-5, "float32", False, False, True),
        ("cpu", "lora", 2e-4, "float32", False, False, True),
        ("h100", "none", 2e-5, "float32", True, False, False),
        ("h100", "lora", 2e-4, "bfloat16", True, False, False),
        ("8xa100", "qlora", 2e-4, "bfloat16", True, False, False),
        ("t4", "none", 2e-5, "float32", False, True, False),
        ("rtx2080", "lora", 2e-4, "float16", False, True, False),
        ("rtx4090", "lora", 2e-4, "bfloat16", True, False, False),
    ],
)
def test_adapter_and_machine_decide_rate_and_precision(
    hardware: str, adapter: str, rate: float, dtype: str, bf16: bool, fp16: bool, use_cpu: bool
) -> None:
    """Weights that are trained stay in float32; frozen ones and the arithmetic are in what the card computes in."""
    config = config_of(f"{{adapter: {adapter}}}", hardware)
    values = values_of(config)

    assert values["learning_rate"] == rate
    assert config.model["init_kwargs"] == {"dtype": dtype}
    assert (values["bf16"], values["fp16"], values["use_cpu"]) == (bf16, fp16, use_cpu)
    if config.quantization is not None:
        assert config.quantization["bnb_4bit_compute_dtype"] == dtype


@pytest.mark.parametrize(
    ("rows", "hardware", "training", "device", "accumulated", "steps"),
    [
        (1000, "h100", "{}", 4, 4, 126),
        (1000, "8xh100", "{}", 2, 1, 126),
        (1000, "4x8xh100", "{}", 1, 1, 64),
        (5, "cpu", "{}", 4, 4, 2),
        (1, "cpu", "{}", 4, 4, 2),
        (1000, "h100", "{per_device_train_batch_size: 1}", 1, 16, 126),
        (1000, "h100", "{gradient_accumulation_steps: 1}", 4, 1, 500),
        (1000, "h100", "{num_train_epochs: 0.5}", 4, 4, 32),
        (1000, "h100", "{max_steps: 7}", 4, 4, 7),
        (1000, "h100", "{max_steps: -1}", 4, 4, 126),
    ],
)
def test_a_step_keeps_its_rows_however_they_are_spread(
    rows: int, hardware: str, training: str, device: int, accumulated: int, steps: int
) -> None:
    """Sixteen rows a step, on one device or on eight; what the brief sets is kept, and the steps are told."""
    config = config_of(training, hardware, rows)
    values = values_of(config)

    assert (values["per_device_train_batch_size"], values["gradient_accumulation_steps"]) == (device, accumulated)
    together = device * accumulated * config.shape.processes
    assert config.notes[0].startswith(f"{steps} steps of {together} rows")
    assert "max_steps: 7" in training or "epochs" in training or ": 2 pass(es)" in config.notes[0]


@pytest.mark.parametrize(
    ("steps", "every"), [(1, 1), (2, 2), (7, 5), (12, 5), (50, 5), (51, 6), (300, 30), (500, 50), (10_000, 50)]
)
def test_checkpoints_are_spaced_by_the_length_of_the_run(steps: int, every: int) -> None:
    """A tenth of a run or fifty steps are lost to a crash at most; no short one is measured at each step."""
    config = config_of(f"{{max_steps: {steps}}}", evaluation="held_out.jsonl")
    values = values_of(config)

    assert values["save_steps"] == every
    assert values["eval_steps"] == every
    assert values["save_only_model"] is False
    assert steps // every <= 10 or every == 50
    assert "never every step of a short one" in config.trainer["eval_steps"].why


@pytest.mark.parametrize(
    ("said", "save", "evaluate"),
    [
        ("save_steps: 300", 300, 30),
        ("save_steps: 30", 30, 30),
        ("save_steps: 16", 16, 32),
        ("save_steps: 7", 7, 35),
        ("save_steps: 1", 1, 30),
        ("save_steps: 0.5", 0.5, 0.5),
        ("save_steps: 7, eval_steps: 3", 7, 3),
        ("save_steps: 7, eval_steps: null", 7, None),
        ("eval_steps: 1", 30, 1),
        ("eval_steps: 7", 28, 7),
        ("eval_steps: 40", 40, 40),
        ("eval_steps: 50", 50, 50),
        ("eval_steps: 51", 30, 51),
        ("eval_steps: 0.5", 30, 0.5),
        ("eval_steps: null", 30, None),
    ],
)
def test_saving_and_evaluating_stay_in_step(said: str, save: float, evaluate: float | None) -> None:
    """Of the two the one that the brief leaves out follows the other, near the recipe's pace of 30."""
    config = config_of(f"{{max_steps: 300, {said}}}", evaluation="held_out.jsonl")
    values = values_of(config)

    assert (values["save_steps"], values["eval_steps"]) == (save, evaluate)
    for name, other in (("save_steps", "eval_steps"), ("eval_steps", "save_steps")):
        follows = ("eval_steps: 1", "save_steps: 1", "save_steps: 30", "save_steps: 300")
        moved = name not in said and (values[name] != 30 or said in follows)
        assert (f"{other}, which the brief sets" in config.trainer[name].why) == moved


def test_nothing_follows_a_brief_without_held_out_rows() -> None:
    """Nothing is evaluated, however often it saves."""
    config = config_of("{max_steps: 300, save_steps: 7}")

    assert (values_of(config)["save_steps"], values_of(config)["eval_steps"]) == (7, None)
    assert config.trainer["eval_steps"].why == ""


def test_without_held_out_rows_nothing_is_evaluated() -> None:
    """TRL would refuse an evaluation without rows."""
    config = config_of()

    assert config.data == {"train": "data/train.jsonl", "held_out": None}
    assert values_of(config)["eval_strategy"] == "no"
    assert values_of(config)["eval_on_start"] is False
    assert config_of(evaluation="held_out.jsonl").data["held_out"] == "data/held_out.jsonl"


def test_the_brief_has_the_last_word() -> None:
    """Its value is taken, and the config says that it is the brief's and what the recipe has."""
    config = config_of("{max_length: 256, fp16: true, model_init_kwargs: {revision: abc, attn_implementation: sdpa}}")

    option = config.trainer["max_length"]
    assert (option.value, option.source, option.why) == (256, "brief", "the recipe has 2048")
    assert config.trainer["bf16"].value is False  # TRL takes one of the two
    assert config.model == {
        "source": "some/model",
        "revision": "abc",
        "init_kwargs": {"dtype": "float32", "attn_implementation": "sdpa"},
    }
    assert not {"model_init_kwargs", "adapter"} & set(config.trainer)


@pytest.mark.parametrize(
    ("training", "words"),
    [
        ("{adapter: lora, learning_rate: 2.0e-5}", "one for all weights"),
        ("{adapter: lora, learning_rate: 1.0e-4}", None),
        ("{learning_rate: 2.0e-4}", "one for an adapter"),
        ("{learning_rate: 5.0e-5}", None),
        ("{adapter: qlora, learning_rate: 5.0e-7}", "one for all weights"),
    ],
)
def test_a_learning_rate_copied_from_the_other_way_of_training_is_told(training: str, words: str | None) -> None:
    """An adapter stands still at a rate for all weights, and all weights collapse at one for an adapter."""
    told = [note for note in config_of(training).notes if note.startswith("learning_rate")]

    assert bool(told) == (words is not None)
    assert words is None or words in told[0]


@pytest.mark.parametrize(
    ("training", "words"),
    [
        ("{packing: true}", "flash-attention kernel"),
        (
            "{packing: true, max_length: null, model_init_kwargs: {attn_implementation: flash_attention_2}}",
            "training.max_length: packing fills",
        ),
        ("{loss_type: nil}", "training.loss_type: 'nil' is not one of nll, dft"),
        ("{truncation_mode: keep_end}", "'keep_end' is not one of keep_start"),
        ("{max_length: 0}", "training.max_length: 0 is not a whole number"),
        ("{learning_rate: 0}", "training.learning_rate: 0 is not"),
        ("{learning_rate: -1.0e-5}", "training.learning_rate"),
        ("{num_train_epochs: 0}", "training.num_train_epochs"),
        ("{max_steps: 0}", "training.max_steps"),
        ("{gradient_accumulation_steps: 0}", "training.gradient_accumulation_steps"),
        ("{save_strategy: 'no'}", "training.save_strategy"),
        ("{lora_r: 8}", "write `adapter: lora`"),
        ("{model_init_kwargs: {torch_dtype: bfloat16}}", "`torch_dtype` is ignored without a word"),
        ("{bf16: true, fp16: true}", "keep one of them"),
    ],
)
def test_what_trl_would_take_and_train_wrong_is_refused(training: str, words: str) -> None:
    """A fault is told before anything is loaded."""
    with pytest.raises(Refusal) as caught:
        config_of(training)

    (line,) = caught.value.lines
    assert words in line


def test_faults_of_all_kinds_come_at_once() -> None:
    """Machine, batch, values and method are told together."""
    with pytest.raises(Refusal) as caught:
        config_of("{deepspeed: zero3, packing: true, loss_type: nil, max_steps: 0}", rows=0)

    said = "\n".join(caught.value.lines)
    for words in ("nothing to shard over", "training.packing", "training.loss_type", "training.max_steps", "no rows"):
        assert words in said


def test_packing_with_a_kernel_that_keeps_rows_apart_is_taken() -> None:
    """The refusal is of packing without one."""
    config = config_of("{packing: true, model_init_kwargs: {attn_implementation: flash_attention_2}}")

    assert config.trainer["packing"].value is True
