"""What is trained, in a brief's words and in PEFT's."""

from pathlib import Path
from typing import Any

import pytest

from llm_finetuning import brief, trl_options
from llm_finetuning.errors import Refusal
from llm_finetuning.recipes import adapters
from llm_finetuning.recipes.config import Machine

BRIEF = """\
name: sums
method: {method}
model: some/model
dataset: {{path: data.jsonl, answer: answer, completion: c, chosen: a, rejected: b}}
rewards: [{{use: exact_answer}}]
training: {{{training}}}
"""


def loaded(training: str, method: str = "grpo") -> brief.LoadedBrief:
    parsed = brief.parse(BRIEF.format(method=method, training=training), Path("brief.yaml"))
    return brief.LoadedBrief(parsed, Path("run"))


H100, CPU = Machine(name="h100", gpus=1), Machine(name="cpu", gpus=0)
LORA = {
    "kind": "lora",
    "r": 16,
    "lora_alpha": 32,
    "lora_dropout": 0.0,
    "target_modules": "all-linear",
    "bias": "none",
    "task_type": "CAUSAL_LM",
}
NF4 = {
    "load_in_4bit": True,
    "bnb_4bit_quant_type": "nf4",
    "bnb_4bit_use_double_quant": True,
    "bnb_4bit_compute_dtype": "bfloat16",
}


@pytest.mark.parametrize(
    ("training", "adapter", "quantization"),
    [
        ("", None, None),
        ("adapter: none", None, None),
        ("adapter: lora", LORA, None),
        ("adapter: lora, lora_r: 1, use_dora: true", {**LORA, "r": 1, "use_dora": True}, None),
        ("adapter: lora, lora_target_modules: [q_proj]", {**LORA, "target_modules": ["q_proj"]}, None),
        (
            "adapter: lora, lora_target_parameters: [experts.w]",
            {**LORA, "target_modules": None, "target_parameters": ["experts.w"]},
            None,
        ),
        ("adapter: qlora", {**LORA, "kind": "qlora"}, NF4),
        (
            "adapter: qlora, load_in_4bit: true, bnb_4bit_quant_type: fp4, use_bnb_nested_quant: false",
            {**LORA, "kind": "qlora"},
            {**NF4, "bnb_4bit_quant_type": "fp4", "bnb_4bit_use_double_quant": False},
        ),
        ("adapter: qlora, load_in_8bit: true", {**LORA, "kind": "qlora"}, {"load_in_8bit": True}),
    ],
)
def test_a_brief_names_the_adapter(training: str, adapter: Any, quantization: Any) -> None:
    """Defaults and TRL's spelling in, LoraConfig's and BitsAndBytesConfig's out."""
    assert (adapter, quantization) == adapters.adapter_for(loaded(training), H100)


def test_matrices_are_multiplied_in_what_the_machine_can() -> None:
    """No 16-bit arithmetic on a CPU."""
    _, found = adapters.adapter_for(loaded("adapter: qlora"), CPU)

    assert found is not None
    assert "float32" == found["bnb_4bit_compute_dtype"]


def test_every_adapter_option_of_trl_has_a_place() -> None:
    """An option that a brief takes and that is dropped would be trained without."""
    named = {"adapter", *adapters.LORA_NAMES, *adapters.QUANTIZATION_NAMES}
    assert set(trl_options.adapter_names()) == named


@pytest.mark.parametrize(
    ("training", "words"),
    [
        ("lora_r: 8", "write `adapter: lora`"),
        ("adapter: lora, load_in_4bit: true", "write `adapter: qlora`"),
        ("load_in_4bit: true", "write `adapter: qlora`"),
        ("adapter: qlora, load_in_4bit: false", "write `adapter: lora`"),
        ("adapter: qlora, load_in_4bit: true, load_in_8bit: true", "keep one of them"),
        ("adapter: qlora, bnb_4bit_quant_type: int4", "'int4' is not one of nf4, fp4"),
        ("adapter: lora, lora_task_type: SEQ_CLS", "'SEQ_CLS' is another task"),
        ("adapter: lora, lora_target_modules: [q_proj, lm_head]", "an adapter on it is never trained"),
        ("adapter: lora, lora_target_modules: [model.lm_head]", "an adapter on it is never trained"),
        ("adapter: lora, lora_target_modules: '.*'", "an adapter on it is never trained"),
        ("adapter: lora, lora_target_modules: lm_head", "an adapter on it is never trained"),
        ("adapter: lora, lora_modules_to_save: [lm_head]", "an adapter on it is never trained"),
        ("adapter: lora, lora_r: 0", "0 is not a whole number from 1 on"),
        ("adapter: adalora", "'adalora' is not one of none, lora, qlora"),
    ],
)
def test_what_contradicts_the_adapter_is_refused(training: str, words: str) -> None:
    """TRL would ignore it, or refuse it after the model was loaded."""
    with pytest.raises(Refusal) as caught:
        loaded(training)

    (line,) = caught.value.lines
    assert line.startswith("brief.yaml:6: training.")
    assert words in line


@pytest.mark.parametrize("training", ["adapter: lora, lora_target_modules: [lm_head]"])
def test_orpo_trains_a_head(training: str) -> None:
    """Its trainer lets the model compute the logits, adapter included."""
    adapter, _ = adapters.adapter_for(loaded(training, method="orpo"), H100)

    assert adapter is not None
    assert ["lm_head"] == adapter["target_modules"]
