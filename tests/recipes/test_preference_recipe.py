"""The recipes of DPO, KTO, ORPO and SimPO are explicit, sourced, and what their papers and repositories have."""

import json
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning import recipes, trl_options
from llm_finetuning.brief import LoadedBrief, parse
from llm_finetuning.errors import Refusal
from llm_finetuning.recipes import preference, shapes
from llm_finetuning.recipes.config import RunConfig

METHODS = ("dpo", "kto", "orpo", "simpo")

LEFT_TO_TRL = {
    "model_init_kwargs",  # stands under `model`
    "pad_token",  # deprecated
    "f_alpha_divergence_coef",  # of another divergence than the one written
    "discopop_tau",  # of another loss
    "ref_model_mixup_alpha",  # of a reference that follows the policy
    "ref_model_sync_steps",  # likewise
}


def config_of(
    method: str, training: str = "{}", hardware: str = "h100", path: str = "some/data", folder: Path = Path("/nowhere")
) -> RunConfig:
    columns = "completion: completion, label: label" if method == "kto" else "chosen: chosen, rejected: rejected"
    text = (
        f"name: trial\nmethod: {method}\nmodel: some/model\n"
        f"dataset: {{path: {path}, prompt: prompt, {columns}}}\ntraining: {training}\nhardware: {hardware}\n"
    )
    loaded = LoadedBrief(parse(text, Path("brief.yaml")), folder)
    return recipes.config_for(loaded, shapes.machine_of(hardware), 1000)


def values_of(config: RunConfig) -> dict[str, Any]:
    return {name: option.value for name, option in config.trainer.items()}


@pytest.mark.parametrize("method", METHODS)
def test_every_option_of_the_trainer_itself_is_written_down(method: str) -> None:
    """What a method's config has beyond the others' options is not left to a default that changes between releases."""
    assert set(trl_options.own_names(method)) - set(config_of(method).trainer) <= LEFT_TO_TRL


@pytest.mark.parametrize(
    ("method", "full", "adapter", "own"),
    [
        ("dpo", 5e-7, 5e-6, {"beta": 0.1, "loss_type": ["sigmoid"], "max_length": 1024, "disable_dropout": True}),
        ("kto", 1e-6, 5e-6, {"beta": 0.1, "loss_type": "kto", "train_sampling_strategy": "sequential"}),
        ("orpo", 8e-6, 8e-5, {"beta": 0.1, "max_length": 1024, "remove_unused_columns": False}),
        ("simpo", 5e-7, 5e-6, {"beta": 2.0, "loss_type": "simpo", "cpo_alpha": 0.0, "simpo_gamma": 1.0, "alpha": 0.0}),
    ],
)
def test_the_values_are_those_of_the_sources(method: str, full: float, adapter: float, own: dict[str, Any]) -> None:
    """SimPO without CPO's likelihood term, beta per method, a higher learning rate for an adapter."""
    values = values_of(config_of(method))

    assert {name: values[name] for name in own} == own
    assert values["learning_rate"] == full
    for kind in ("lora", "qlora"):
        assert values_of(config_of(method, f"{{adapter: {kind}}}"))["learning_rate"] == adapter


@pytest.mark.parametrize(
    ("good", "bad", "weights"),
    [
        (50, 50, {}),
        (40, 30, {}),  # 4 to 3 is the upper end
        (41, 30, {"undesirable_weight": 1.37}),
        (100, 10, {"undesirable_weight": 10.0}),
        (49, 50, {"desirable_weight": 1.02}),
        (10, 90, {"desirable_weight": 9.0}),
    ],
)
def test_the_rarer_label_weighs_more(good: int, bad: int, weights: dict[str, float]) -> None:
    """Good rows weigh in all from as much as bad ones to a third more, as TRL's KTO guide asks."""
    options, notes = preference.weights_for(good, bad)

    assert {name: option.value for name, option in options.items()} == weights
    assert notes == []
    together = weights.get("desirable_weight", 1.0) * good / (weights.get("undesirable_weight", 1.0) * bad)
    assert 0.99 <= together <= 4 / 3 + 1e-9


def test_the_labels_of_the_data_set_are_counted(tmp_path: Path) -> None:
    """The weights come from the rows, and the reason stands beside them; the brief still wins."""
    rows = [{"prompt": "q", "completion": "a", "label": place < 2} for place in range(8)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")

    option = config_of("kto", path="rows.jsonl", folder=tmp_path).trainer["desirable_weight"]
    said = config_of("kto", "{desirable_weight: 2.0}", path="rows.jsonl", folder=tmp_path).trainer["desirable_weight"]

    assert (option.value, option.source) == (3.0, "recipe")
    assert option.why == "2 good and 6 bad rows; both sides weigh alike"
    assert (said.value, said.source) == (2.0, "brief")


def test_the_labels_of_a_csv_are_words(tmp_path: Path) -> None:
    """They are counted like JSON's; a label that is neither true nor false decides nothing here."""
    (tmp_path / "rows.csv").write_text("prompt,completion,label\nq,a,true\nq,a,False\nq,a, FALSE\n", "utf-8")
    (tmp_path / "odd.csv").write_text("prompt,completion,label\nq,a,yes\nq,a,false\nq,a,false\n", "utf-8")

    counted = config_of("kto", path="rows.csv", folder=tmp_path)
    odd = config_of("kto", path="odd.csv", folder=tmp_path)

    assert counted.trainer["desirable_weight"].value == 2.0
    assert odd.trainer["desirable_weight"].value == 1.0
    assert not any("label" in note for note in odd.notes)


def test_labels_that_are_not_counted_or_all_alike_are_told(tmp_path: Path) -> None:
    """A hub data set is not read before training, and one label alone is rarely meant."""
    (tmp_path / "rows.jsonl").write_text('{"prompt": "q", "completion": "a", "label": true}\n', "utf-8")

    assert any("not counted" in note for note in config_of("kto").notes)
    assert any("all rows are labelled good" in n for n in config_of("kto", path="rows.jsonl", folder=tmp_path).notes)
    assert not any("label" in note for note in config_of("dpo").notes)


@pytest.mark.parametrize(
    ("method", "training", "words"),
    [
        ("dpo", "{beta: 0}", "training.beta: 0 is not a number above 0"),
        ("dpo", "{loss_type: sigmoyd}", "training.loss_type: 'sigmoyd' is not one of sigmoid"),
        ("dpo", "{loss_type: [sigmoid, sft2]}", "training.loss_type"),
        ("dpo", "{loss_type: []}", "training.loss_type"),
        ("dpo", "{label_smoothing: 0.5}", "training.label_smoothing"),
        ("dpo", "{truncation_mode: keep_end}", "training.truncation_mode"),
        ("kto", "{loss_type: sigmoid}", "training.loss_type: 'sigmoid' is not one of kto, apo_zero_unpaired"),
        ("kto", "{per_device_train_batch_size: 1}", "with one row a device the KL term is the reward"),
        ("kto", "{train_sampling_strategy: random}", "training.train_sampling_strategy"),
        ("kto", "{desirable_weight: -1}", "training.desirable_weight"),
        ("orpo", "{max_length: null}", "without one TRL takes 512"),
        ("orpo", "{beta: .inf}", "training.beta"),
        ("simpo", "{loss_type: sigmoid}", "training.loss_type: 'sigmoid' is not one of simpo"),
        ("simpo", "{simpo_gamma: -0.5}", "training.simpo_gamma"),
    ],
)
def test_what_trl_finds_out_late_or_never_is_refused(method: str, training: str, words: str) -> None:
    """TRL takes these when a config is made, and fails after the model is loaded, or trains something else."""
    with pytest.raises(Refusal) as caught:
        config_of(method, training)

    (line,) = caught.value.lines
    assert words in line


@pytest.mark.parametrize(
    ("method", "training"),
    [
        ("dpo", "{loss_type: [sigmoid, sft], loss_weights: [1.0, 0.5]}"),
        ("dpo", "{loss_type: ipo, label_smoothing: 0.1}"),
        ("kto", "{loss_type: apo_zero_unpaired, per_device_train_batch_size: 1, train_sampling_strategy: random}"),
        ("simpo", "{simpo_gamma: 0, cpo_alpha: 0.5}"),
    ],
)
def test_what_is_right_is_taken(method: str, training: str) -> None:
    """The checks stop at what is wrong."""
    assert config_of(method, training).method == method


@pytest.mark.parametrize(("hardware", "device"), [("cpu", 4), ("8xh100", 4), ("4x8xh100", 2)])
def test_kto_keeps_two_rows_on_a_device(hardware: str, device: int) -> None:
    """Its KL term is read off neighbours on the same device, however many devices there are."""
    assert values_of(config_of("kto", hardware=hardware))["per_device_train_batch_size"] == device
