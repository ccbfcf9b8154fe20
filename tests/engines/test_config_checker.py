"""Every config that we generate is one that the installed TRL takes as it is meant; any other is refused in words."""

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning import recipes
from llm_finetuning.brief import LoadedBrief, parse
from llm_finetuning.building import check_config
from llm_finetuning.engines import config_checker
from llm_finetuning.errors import Refusal
from llm_finetuning.recipes import shapes
from llm_finetuning.recipes.config import Option, RunConfig

ROWS = 1000

VARIANTS = ("plain", "dapo", "dr_grpo", "gspo")
ADAPTERS = ("none", "lora", "qlora")
SIBLINGS = ("sft", "dpo", "kto", "orpo", "simpo")

SHAPES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "cpu": ("cpu", {}),
    "cpu, colocate": ("cpu", {"use_vllm": True}),
    "one GPU, colocate": ("h100", {}),
    "an old GPU": ("t4", {}),
    "server": ("8xh100", {}),
    "cluster, zero3": ("2x8xh100", {"deepspeed": "zero3"}),
    "cluster, fsdp2": ("2x8xh100", {"fsdp": True}),
}

COLUMNS = {
    "grpo": "answer: answer",
    "sft": "completion: completion",
    "kto": "completion: completion, label: label",
    "dpo": "chosen: chosen, rejected: rejected",
    "orpo": "chosen: chosen, rejected: rejected",
    "simpo": "chosen: chosen, rejected: rejected",
}


def config_of(
    method: str,
    adapter: str = "none",
    hardware: str = "h100",
    training: Mapping[str, Any] = {},
    variant: str = "plain",
) -> RunConfig:
    """Return the config that we generate for a brief."""
    lines = [
        "name: trial",
        f"method: {method}",
        "model: some/model",
        f"dataset: {{path: some/data, prompt: prompt, {COLUMNS[method]}, evaluation: held_out.jsonl}}",
        f"hardware: {hardware}",
        *(["rewards: [{use: exact_answer}]"] if method == "grpo" else []),
        *([f"variant: {{use: {variant}, because: a test}}"] if variant != "plain" else []),
    ]
    brief = parse("\n".join(lines), Path("brief.yaml"))
    brief = brief.model_copy(update={"training": {"adapter": adapter, **training}})
    return recipes.config_for(LoadedBrief(brief, Path("/nowhere")), shapes.machine_of(hardware), ROWS)


def generated() -> dict[str, RunConfig]:
    """Return every variant x adapter x shape of GRPO and every sibling x adapter x shape that we generate."""
    wanted = [("grpo", variant) for variant in VARIANTS] + [(method, "plain") for method in SIBLINGS]
    made = {}
    for (method, variant), adapter, (name, (hardware, training)) in itertools.product(wanted, ADAPTERS, SHAPES.items()):
        if adapter == "qlora" and name.startswith("cluster"):
            continue  # 4-bit weights are not sharded; see below
        if "use_vllm" in training and method != "grpo":
            continue  # not an option of theirs
        made[f"{method}/{variant}/{adapter}/{name}"] = config_of(method, adapter, hardware, training, variant)
    return made


@pytest.mark.parametrize("shape", [name for name in SHAPES if name.startswith("cluster")])
@pytest.mark.parametrize("method", ["grpo", *SIBLINGS])
def test_four_bit_weights_are_not_sharded(method: str, shape: str) -> None:
    """What the grid above leaves out is refused, not generated wrong."""
    hardware, training = SHAPES[shape]
    with pytest.raises(Refusal, match="4-bit weights are not sharded"):
        config_of(method, "qlora", hardware, training)


Change = Mapping[str, Any]

WRONG: Mapping[str, tuple[str, Change, str]] = {
    "a misspelt option": ("grpo", {"trainer": {"learning_rte": 5e-6}}, "did you mean `learning_rate`?"),
    "an option of another method": ("dpo", {"trainer": {"num_generations": 8}}, "trainer.num_generations: unknown"),
    "a removed option": ("grpo", {"trainer": {"max_prompt_length": 512}}, "filter long rows out of the data set"),
    "a renamed option": ("sft", {"trainer": {"max_seq_length": 512}}, "use `max_length`"),
    "a number as text": ("sft", {"trainer": {"learning_rate": "5e-7"}}, "'5e-7' is str, and the option takes float"),
    "a flag as text": ("grpo", {"trainer": {"use_vllm": "no"}}, "trainer.use_vllm: 'no' is str"),
    "true as a number": ("grpo", {"trainer": {"max_steps": True}}, "True is bool, and the option takes int"),
    "groups that are not whole": ("grpo", {"trainer": {"num_generations": 7}}, "must be divisible by num_generations"),
    "one generation": ("grpo", {"trainer": {"num_generations": 1}}, "at least 2 generations"),
    "two sizes of a generation": ("grpo", {"trainer": {"generation_batch_size": 64}}, "can not be both configured"),
    "an evaluation of parts of groups": ("grpo", {"trainer": {"num_generations_eval": 5}}, "global eval batch size"),
    "two precisions": ("dpo", {"trainer": {"fp16": True}}, "At most one of fp16 and bf16"),
    "a negative warm-up": ("kto", {"trainer": {"warmup_steps": -3}}, "warmup_steps"),
    "an unknown schedule": ("orpo", {"trainer": {"lr_scheduler_type": "cosinus"}}, "cosinus"),
    "weights for another number of losses": (
        "dpo",
        {"trainer": {"loss_weights": [1.0, 2.0]}},
        "`loss_weights` must have",
    ),
    "a batch that shrinks": (
        "grpo",
        {"trainer": {"auto_find_batch_size": True}},
        "auto_find_batch_size is not supported",
    ),
    "a value that TRL replaces": (
        "simpo",
        {"trainer": {"loss_type": "alphapo"}},
        "wanted 'alphapo', and TRL makes it 'simpo'",
    ),
    "a default that depends on the machine": ("sft", {"trainer": {"pad_to_multiple_of": "auto"}}, "TRL makes it None"),
    "a misspelt adapter option": (
        "sft",
        {"adapter": {"lora_aplha": 8}},
        "adapter.lora_aplha: unknown option of the installed PEFT; did you mean `lora_alpha`?",
    ),
    "a misspelt quantisation": (
        "sft",
        {"quantization": {"bnb_4bit_use_duble_quant": True}},
        "did you mean `bnb_4bit_use_double_quant`?",
    ),
    "an unknown 4-bit type": ("sft", {"quantization": {"bnb_4bit_quant_type": "nf3"}}, "not one of nf4, fp4"),
    "an unknown compute dtype": ("sft", {"quantization": {"bnb_4bit_compute_dtype": "bfloat17"}}, "bfloat17"),
    "four bits and eight": ("sft", {"quantization": {"load_in_8bit": True}}, "only one can be used"),
    "another TRL": (
        "sft",
        {"versions": {"trl": "1.15.0"}},
        "trl 1.16.0 is installed, and the config is for 1.15.0; install trl==1.15.0",
    ),
}


def changed(config: RunConfig, change: Change) -> RunConfig:
    """Return a config with some entries replaced."""
    parts: dict[str, Any] = {part: {**getattr(config, part), **entries} for part, entries in change.items()}
    if "trainer" in parts:
        given = {name: Option(value, "brief", "") for name, value in change["trainer"].items()}
        parts["trainer"] = {**config.trainer, **given}
    return dataclasses.replace(config, **parts)


def on_so_many(processes: int) -> RunConfig:
    """Return a config of one completion a device, which holds whole groups of eight on eight processes."""
    config = config_of("grpo", training={"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1})
    config = changed(config, {"trainer": {"per_device_train_batch_size": 1, "steps_per_generation": 1}})
    return dataclasses.replace(config, shape=dataclasses.replace(config.shape, processes=processes))


@pytest.fixture(scope="module")
def checked(engine_python: str) -> dict[str, tuple[RunConfig, dict[str, Any]]]:
    """Each config with what the checker says of it; TRL is loaded once for all."""
    made = generated()
    made |= {
        f"wrong: {name}": changed(config_of(method, "qlora"), change) for name, (method, change, _) in WRONG.items()
    }
    made |= {f"processes: {processes}": on_so_many(processes) for processes in (1, 8)}
    made["deprecated"] = changed(config_of("sft"), {"trainer": {"pad_token": "<pad>"}})
    found = check_config.records_of(list(made.values()), engine_python)
    return {name: (config, record) for (name, config), record in zip(made.items(), found, strict=True)}


def test_every_generated_config_is_taken_as_it_is_meant(
    checked: dict[str, tuple[RunConfig, dict[str, Any]]],
) -> None:
    """None is refused, none is warned of, and after construction each option has the value that was written."""
    grid = list(generated())
    assert len(grid) > 150
    for name in grid:
        config, record = checked[name]
        assert record["faults"] == [], name
        assert not [note for note in record["notes"] if note.startswith("TRL warns")], name
        wanted = {option: entry.value for option, entry in config.trainer.items()}
        assert record["effective"] == {**wanted, "report_to": []}, name  # TRL's word for none


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_config_is_refused_in_one_line(
    checked: dict[str, tuple[RunConfig, dict[str, Any]]], wrong: str
) -> None:
    """The line names the option, or holds TRL's own words for it, and says how to mend it."""
    (line,) = checked[f"wrong: {wrong}"][1]["faults"]
    assert WRONG[wrong][2] in line
    assert "\n" not in line
    assert ";" in line or "takes" in line


def test_all_faults_come_at_once(engine_python: str) -> None:
    """A person mends a config in one go."""
    change = {
        "trainer": {"learning_rte": 5e-6, "max_prompt_length": 512, "beta": "0.1"},
        "adapter": {"rank": 8},
        "quantization": {"bnb_4bit_quant_type": "nf3"},
        "versions": {"trl": "1.15.0"},
    }
    with pytest.raises(Refusal) as caught:
        check_config.check(changed(config_of("grpo", "qlora"), change), engine_python)

    named = ["trl 1.16.0", "learning_rte", "max_prompt_length", "trainer.beta", "adapter.rank", "bnb_4bit_quant_type"]
    assert len(caught.value.lines) == len(named)
    assert all(word in line for word, line in zip(named, caught.value.lines, strict=True))


def test_batches_are_counted_over_the_processes_of_the_run(
    checked: dict[str, tuple[RunConfig, dict[str, Any]]],
) -> None:
    """A layout that is right on eight processes is wrong on one, wherever it is checked."""
    (line,) = checked["processes: 1"][1]["faults"]

    assert "generation_batch_size (1) must be divisible by num_generations (8)" in line
    assert checked["processes: 8"][1]["faults"] == []


def test_a_deprecated_option_is_a_note(checked: dict[str, tuple[RunConfig, dict[str, Any]]]) -> None:
    """It works for now; the person is told before it does not."""
    record = checked["deprecated"][1]

    assert record["faults"] == []
    assert any(note.startswith("TRL warns: `pad_token` is deprecated") for note in record["notes"])


def put(folder: Path, package: str, version: str) -> None:
    """Install nothing but a package's name and version."""
    place = folder / f"{package}-{version}.dist-info"
    place.mkdir()
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n", "utf-8")


@pytest.mark.parametrize(
    ("version", "engine", "is_refused"),
    [
        ("0.21.5", "colocate", True),
        ("0.22.0", "server", False),
        ("0.31.0+cu130", "colocate", False),
        ("0.31.1", "colocate", True),
        ("0.33.0", "server", True),
        ("0.33.0", "transformers", False),
    ],
)
def test_vllm_is_held_to_the_range_that_trl_supports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, engine: str, is_refused: bool
) -> None:
    """TRL itself only warns; a run without vLLM does not care."""
    put(tmp_path, "vllm", version)
    monkeypatch.syspath_prepend(tmp_path)

    faults, _ = config_checker.version_words({"vllm": "0.31.0"}, engine)

    assert faults == (
        [f"vllm {version} is installed, and TRL supports 0.22.0 to 0.31.0; install one of those"] if is_refused else []
    )


def test_other_versions_than_the_tried_ones_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another minor version may do, and a package that is missing comes with the run's requirements."""
    for package, version in (("peft", "0.20.1"), ("accelerate", "1.15.7")):
        put(tmp_path, package, version)
    monkeypatch.syspath_prepend(tmp_path)

    versions = {"peft": "0.21.2", "accelerate": "1.15.0", "no-such-package": "1.0"}
    faults, notes = config_checker.version_words(versions, "transformers")

    assert faults == []
    assert notes == [
        "peft 0.20.1 is installed; tried was 0.21.2",
        "no-such-package is not installed here; the run's requirements.txt brings it",
    ]
