"""What TRL takes without a word is refused in the brief, or named in the run's notes."""

from pathlib import Path
from typing import Any

import pytest

from llm_finetuning import brief, trl_options
from llm_finetuning.errors import Refusal
from llm_finetuning.recipes import rules, values
from llm_finetuning.recipes.layout import layout_of

PATH = Path("brief.yaml")
BRIEF = """\
name: sums
method: grpo
model: some/model
dataset: {path: data.jsonl, answer: answer}
rewards: [{use: exact_answer}]
"""


def faults(text: str) -> list[str]:
    try:
        brief.parse(BRIEF + text, PATH)
    except Refusal as refusal:
        return list(refusal.lines)
    return []


@pytest.mark.parametrize(
    ("training", "words"),
    [
        ("loss_type: gpro", "'gpro' is not one of grpo, dr_grpo, dapo, bnpo, cispo, sapo, luspo, vespo; did you mean"),
        ("importance_sampling_level: sequences", "did you mean `sequence`?"),
        ("vllm_mode: colocated", "did you mean `colocate`?"),
        ("vllm_importance_sampling_mode: truncate", "is not one of sequence_mask, sequence_truncate, token_mask"),
        ("loss_type: null", "None is not one of grpo"),
        ("learning_rate: 0", "0 is not a number above 0 to below 1"),
        ("learning_rate: '5e-7'", "'5e-7' is not a number"),
        ("learning_rate: .nan", "nan is not a number above 0"),
        ("beta: -0.1", "-0.1 is not a number from 0 on"),
        ("beta: true", "True is not a number from 0 on"),
        ("epsilon: 0", "0 is not a number above 0"),
        ("epsilon_high: -1", "-1 is not a number above 0 or null"),
        ("top_entropy_quantile: 3.0", "3.0 is not a number above 0 to 1"),
        ("num_iterations: 0", "0 is not a whole number from 1 on"),
        ("num_iterations: 1.5", "1.5 is not a whole number"),
        ("max_steps: 0", "0 is not a whole number from 1 on, or -1"),
        ("save_strategy: 'no'", "'no' is not one of steps, epoch"),
        ("use_vllm: 'no'", "'no' is neither true nor false"),
        ("vllm_gpu_memory_utilization: 1.2", "1.2 is not a number above 0 to 1"),
        ("adam_beta2: 1", "1 is not a number from 0 to below 1"),
        ("loss_type: cispo", "write `epsilon_high: 5.0` beside it"),
        ("loss_type: luspo", "write `importance_sampling_level: sequence` beside it"),
        ("loss_type: vespo, importance_sampling_level: sequence", "vespo is made for tokens"),
        ("loss_type: dapo, importance_sampling_level: sequence", "write `loss_type: grpo` beside it"),
        (
            "loss_type: vespo, vllm_importance_sampling_correction: true, vllm_importance_sampling_mode: sequence_mask",
            "vespo takes token_truncate or token_mask",
        ),
        ("vllm_importance_sampling_clip_min: 3.0", "the lower clip 3.0 is not below the upper one, 3.0"),
        (
            "vllm_importance_sampling_correction: true, vllm_importance_sampling_clip_max: null",
            "token_truncate without a clip truncates nothing",
        ),
        ("sync_ref_model: true, beta: 0", "with beta 0 there is no reference model"),
        ("sync_ref_model: true, adapter: lora", "the reference is the model without it"),
        ("bf16: true, fp16: true", "contradicts `bf16: true`"),
        ("delta: 1.1", "write more than 1.2"),
        ("entropy_coef_min: 0.5, entropy_coef_max: 0.1", "0.5 is above entropy_coef_max, 0.1"),
        ("model_init_kwargs: {torch_dtype: bfloat16}", "`torch_dtype` is ignored without a word; write `dtype`"),
        ("model_init_kwargs: {dtype: bf16}", "dtype 'bf16' is not one of auto, bfloat16, float16, float32"),
        ("model_init_kwargs: {device_map: auto}", "`device_map` belongs to the shape"),
        ("model_init_kwargs: bfloat16", "is not a mapping"),
        ("generation_kwargs: {top_p: 0.9}", "top_p: training would draw otherwise than the samples that were read"),
        ("generation_kwargs: {num_return_sequences: 4}", "`sampling: {num_generations: ...}`"),
        ("use_liger_kernel: true", "write `model_init_kwargs: {use_kernels: true}`"),
        ("vllm_importance_sampling_cap: 2.0", "use `vllm_importance_sampling_clip_max`"),
        ("use_transformers_paged: true", "use `use_transformers_continuous_batching`"),
        ("log_completions: false", "completions are always kept"),
        ("logging_steps: 10", "the guards look at every step"),
        ("resume_from_checkpoint: true", "resumes from its last checkpoint by itself"),
        ("learnign_rate: 5e-6", "unknown option of TRL 1.16.0; did you mean `learning_rate`?"),
        ("max_prompt_length: 512", "filter long rows out of the data set"),
    ],
)
def test_a_wrong_option_is_refused_at_its_line(training: str, words: str) -> None:
    """Impossible values, pairs that contradict, options that are gone or misspelt (B44, B45, B46)."""
    found = faults(f"training: {{{training}}}\n")

    assert any(words in line for line in found), found
    assert all(line.startswith("brief.yaml:6: training.") for line in found)


@pytest.mark.parametrize(
    "training",
    [
        "loss_type: cispo, epsilon_high: 5.0",
        "loss_type: luspo, importance_sampling_level: sequence",
        "loss_type: vespo, vllm_importance_sampling_correction: true",
        "sync_ref_model: true",
        "importance_sampling_level: sequence",
        "delta: 1.3",
        "delta: 1.15, epsilon: 0.1",
        "beta: 0, epsilon: 10, epsilon_high: null, num_iterations: 4, max_steps: -1, warmup_steps: 0.1",
        "top_entropy_quantile: 1, save_total_limit: null, router_aux_loss_coef: null",
        "model_init_kwargs: {dtype: auto, attn_implementation: sdpa}, generation_kwargs: {no_repeat_ngram_size: 3}",
        "bf16: true, fp16: false, vllm_importance_sampling_clip_min: 0.3",
    ],
)
def test_what_trl_trains_with_is_taken(training: str) -> None:
    """Rules refuse nothing that means what it says."""
    assert [] == faults(f"training: {{{training}}}\n")


def test_all_faults_come_at_once_with_their_lines() -> None:
    """One reading shows every fault, whichever rule found it."""
    text = """\
training:
  loss_type: cispo
  learnign_rate: 5e-6
  beta: -1
  per_device_train_batch_size: 0
  lora_r: 16
hardware: abacus
variant: {use: gspoo}
"""
    found = faults(text)

    assert [7, 8, 9, 10, 11, 12, 13, 13] == sorted(int(line.split(":")[1]) for line in found), found


def test_a_wrong_value_spoils_no_other_rule() -> None:
    """An option that cannot be read is told once, not again as half of a pair."""
    assert 1 == len(faults("training: {sync_ref_model: true, beta: wrong}\n"))


@pytest.mark.parametrize(
    "table", [values.CHOICES, values.SPANS, dict.fromkeys(values.FLAGS)], ids=["words", "numbers", "flags"]
)
def test_every_option_with_a_rule_is_one_of_trl(table: dict[str, Any]) -> None:
    """A rule for an option that TRL does not have would never speak."""
    assert set(table) <= set(trl_options.names("grpo"))


def run_faults(training: dict[str, Any], **change: Any) -> list[str]:
    where = {"engine": "colocate", "processes": 4, "cap": 256, "longest_prompt": 100, **change}
    return [option for option, _ in rules.run_faults(training, **where)]


@pytest.mark.parametrize(
    ("training", "change", "expected"),
    [
        ({"remove_unused_columns": True}, {"engine": "transformers"}, ["remove_unused_columns"]),
        ({"ds3_gather_for_generation": False}, {}, ["ds3_gather_for_generation"]),
        ({"ds3_gather_for_generation": False}, {"engine": "transformers"}, []),
        ({"load_in_8bit": True}, {}, ["load_in_8bit"]),
        ({"vllm_max_model_length": 355}, {}, ["vllm_max_model_length"]),
        ({"vllm_max_model_length": 356}, {}, []),
        ({"vllm_max_model_length": 256}, {"longest_prompt": None}, ["vllm_max_model_length"]),
        ({"vllm_tensor_parallel_size": 3}, {}, ["vllm_tensor_parallel_size"]),
        ({"vllm_tensor_parallel_size": 2}, {}, []),
        ({"vllm_tensor_parallel_size": 3}, {"engine": "server"}, []),
    ],
)
def test_what_the_run_cannot_do_is_refused(
    training: dict[str, Any], change: dict[str, Any], expected: list[str]
) -> None:
    """Faults that show only beside the engine, the processes and the longest prompt."""
    assert expected == run_faults(training, **change)


def notes(
    *, kind: str | None = None, group: int = 8, passed: tuple[float, float, float] | None = None, **change: Any
) -> str:
    wanted = {
        **rules.RECIPE,
        "learning_rate": rules.RATE_ADAPTER if kind else rules.RATE_FULL,
        "model_init_kwargs": {"dtype": "bfloat16" if kind else "float32"},
        "use_vllm": True,
        **change,
    }
    training = {
        name: change[name] for name in ("steps_per_generation", "gradient_accumulation_steps") if name in change
    }
    batch = layout_of(training, group, 1)
    return "\n".join(rules.notes(wanted, kind=kind, layout=batch, cap=change.get("cap", 256), passed=passed))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kind": "lora", "learning_rate": 5e-7}, "raise it about ten times, to 5e-06"),
        ({"kind": "lora", "learning_rate": 1e-6}, "hardly moves at it and kl stays at 0"),
        ({"kind": "qlora", "learning_rate": 2e-4}, "is high for GRPO on an adapter"),
        ({"learning_rate": 3e-5}, "lower it to about 5e-07 and restart from the base model"),
        ({"learning_rate": 1e-5}, "tends to collapse"),
        ({"mask_truncated_completions": True}, "cut completions lose their KL term too"),
        ({"kind": "lora", "lora_dropout": 0.1, "disable_dropout": True}, "write `disable_dropout: false`"),
        ({"model_init_kwargs": {"dtype": "bfloat16"}}, "hardly move"),
        ({"num_iterations": 2}, "one generation serves 2 optimizer steps"),
        ({"steps_per_generation": 8, "gradient_accumulation_steps": 4}, "one generation serves 2 optimizer steps"),
        (
            {
                "vllm_importance_sampling_correction": True,
                "vllm_importance_sampling_mode": "sequence_mask",
                "cap": 2048,
            },
            "token_truncate does not",
        ),
        ({"vllm_importance_sampling_correction": True, "top_p": 0.95}, "top_p with vLLM's correction"),
        ({"group": 2}, "num_generations 2: at a pass rate of 0.2, 32% of the groups carry a signal, and 83% at 8"),
    ],
)
def test_what_is_rarely_meant_is_noted(given: dict[str, Any], words: str) -> None:
    """Learning rates copied between full tuning and LoRA (B47), and pairs that are legal and seldom wise."""
    assert words in notes(**given), notes(**given)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"kind": "lora"},
        {"learning_rate": 2e-6},
        {"kind": "lora", "learning_rate": 5e-5},
        {"mask_truncated_completions": True, "beta": 0.0},
        {"vllm_importance_sampling_mode": "sequence_mask", "top_p": 0.9, "cap": 4096},
        {"vllm_importance_sampling_correction": True, "top_p": 1.0, "top_k": 0, "cap": 4096},
        {"vllm_importance_sampling_correction": True, "vllm_importance_sampling_mode": "sequence_mask", "cap": 256},
    ],
    ids=str,
)
def test_the_recipe_and_its_neighbours_are_not_noted(given: dict[str, Any]) -> None:
    """A note that is always there is read by nobody."""
    assert "" == notes(**given)


def test_few_generations_are_noted_with_what_was_measured() -> None:
    """G 2 at a pass rate of 0.18: 30% with its interval, 80% at G 8, and a layout of the same memory (B38)."""
    batch = layout_of({"per_device_train_batch_size": 2, "gradient_accumulation_steps": 1}, 2, 1)

    words = rules.signal_words(batch, (0.18, 0.117, 0.267))

    assert (
        "0.18, 30% (95% interval 21% to 39%) of the groups carry a signal, and 80% (95% interval 63% to 92%)" in words
    )
    assert "`num_generations: 8`" in words
    assert "per_device_train_batch_size: 2," in words
    assert "2 completions held at once a device" in words


def test_an_interval_around_one_half_reaches_the_most_signal() -> None:
    """The share with a signal is largest at a pass rate of 0.5, within the interval and not at its ends."""
    low, high = rules.span_with_signal(0.4, 0.7, 2)

    assert (0.42, 0.5) == (pytest.approx(low), pytest.approx(high))
