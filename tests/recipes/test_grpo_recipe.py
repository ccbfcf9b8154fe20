"""Plain GRPO: every option of TRL's config that matters, explicit, with its source, on every machine."""

from pathlib import Path
from typing import Any

import pytest

import runs
from llm_finetuning import brief, trl_options
from llm_finetuning.errors import Refusal
from llm_finetuning.recipes import config_for, shapes
from llm_finetuning.recipes.config import Machine, Measured, RunConfig

LEFT_OUT = {
    "told elsewhere in the run": {"generation_batch_size", "reward_weights", "model_init_kwargs"},
    "the launcher's": {
        "accelerator_config",
        "deepspeed",
        "fsdp",
        "fsdp_config",
        "local_rank",
        "parallelism_config",
        "ddp_backend",
        "ddp_broadcast_buffers",
        "ddp_bucket_cap_mb",
        "ddp_find_unused_parameters",
        "ddp_static_graph",
        "ddp_timeout",
    },
    "train.py's own": {"do_eval", "do_predict", "do_train", "resume_from_checkpoint"},
    "off beside an option that is written down": {
        "entropy_coef_delta",
        "entropy_coef_max",
        "entropy_coef_min",
        "entropy_target",
        "greater_is_better",
        "hub_always_push",
        "hub_model_id",
        "hub_private_repo",
        "hub_revision",
        "hub_strategy",
        "hub_token",
        "liger_kernel_config",
        "metric_for_best_model",
        "ref_model_mixup_alpha",
        "ref_model_sync_steps",
        "torch_compile_backend",
        "torch_compile_mode",
        "transformers_continuous_batching_config",
    },
    "of other losses": {
        "sapo_temperature_neg",
        "sapo_temperature_pos",
        "vespo_k_neg",
        "vespo_k_pos",
        "vespo_lambda_neg",
        "vespo_lambda_pos",
    },
    "deprecated": {"use_transformers_paged", "vllm_importance_sampling_cap"},
    "TRL refuses it for GRPO": {"auto_find_batch_size"},
    "nothing to do with what is learnt": {
        "batch_eval_metrics",
        "bf16_full_eval",
        "dataloader_in_order",
        "dataloader_multiprocessing_context",
        "dataloader_persistent_workers",
        "dataloader_pin_memory",
        "dataloader_prefetch_factor",
        "debug",
        "enable_jit_checkpoint",
        "eval_accumulation_steps",
        "eval_delay",
        "eval_do_concat_batches",
        "eval_use_gather_object",
        "fp16_full_eval",
        "include_for_metrics",
        "label_names",
        "length_column_name",
        "log_level",
        "log_level_replica",
        "log_multimodal",
        "log_on_each_node",
        "max_tool_calling_iterations",
        "optim_args",
        "optim_target_modules",
        "prediction_loss_only",
        "project",
        "restore_callback_states_from_checkpoint",
        "run_name",
        "save_on_each_node",
        "skip_memory_metrics",
        "tf32",
        "torch_empty_cache_steps",
        "trackio_bucket_id",
        "trackio_space_id",
        "trackio_static_space_id",
        "train_sampling_strategy",
        "use_cache",
        "vllm_server_base_url",
    },
}
"""Options of TRL's config that a run leaves to TRL, by the reason."""

MANY_FAULTS = """\
training:
  remove_unused_columns: true
  per_device_eval_batch_size: 3
  num_generations_eval: 8
  ds3_gather_for_generation: false
  vllm_max_model_length: 8
"""

CPU, H100, NODE = Machine(name="cpu", gpus=0), Machine(name="h100", gpus=1), Machine(name="h100", gpus=8)


def config(
    folder: Path, machine: Machine = H100, text: str = "", *, rows: int = 100, measured: Measured | None = None
) -> RunConfig:
    loaded = brief.load(runs.write_run(folder, text=runs.BRIEF.replace("num_generations: 4, ", "") + text))
    return config_for(loaded, machine, rows, measured=measured)


def values(found: RunConfig) -> dict[str, Any]:
    return {name: option.value for name, option in found.trainer.items()}


def refused(folder: Path, machine: Machine = H100, text: str = "", *, rows: int = 100) -> list[str]:
    with pytest.raises(Refusal) as caught:
        config(folder, machine, text, rows=rows)
    return [line.replace(f"{folder}/", "") for line in caught.value.lines]


def test_no_option_is_left_to_a_default_unnoticed(tmp_path: Path) -> None:
    """Every option that TRL 1.16.0 has is written down, or left out for a reason that stands here (B46)."""
    written = set(values(config(tmp_path, NODE)))
    left = [name for names in LEFT_OUT.values() for name in names]
    known = set(trl_options.names("grpo")) - set(trl_options.adapter_names())

    assert len(left) == len(set(left))
    assert known == written | set(left), (known - written - set(left), set(left) - known)
    assert not written & set(left)


def test_the_objective_is_plain_grpo(tmp_path: Path) -> None:
    """DeepSeekMath's loss, whatever TRL's defaults are by now."""
    assert {
        "loss_type": "grpo",
        "importance_sampling_level": "token",
        "epsilon": 0.2,
        "epsilon_high": 0.2,
        "num_iterations": 1,
        "beta": 0.01,
        "use_bias_correction_kl": False,
        "scale_rewards": "group",
        "mask_truncated_completions": False,
        "vllm_importance_sampling_correction": False,
        "steps_per_generation": 4,
        "gradient_accumulation_steps": 4,
        "num_generations": 8,
        "max_completion_length": 16,
        "temperature": 1.0,
        "remove_unused_columns": False,
        "log_completions": True,
        "num_completions_to_print": 0,
        "disable_dropout": True,
        "router_aux_loss_coef": 0.0,
        "top_entropy_quantile": 1.0,
        "logging_steps": 1,
    }.items() <= values(config(tmp_path)).items()


@pytest.mark.parametrize(
    ("machine", "training", "rate", "dtype", "bf16", "use_cpu"),
    [
        (H100, "", 5e-7, "float32", True, False),
        (H100, "adapter: lora", 5e-6, "bfloat16", True, False),
        (H100, "adapter: qlora", 5e-6, "bfloat16", True, False),
        (CPU, "", 5e-7, "float32", False, True),
        (CPU, "adapter: lora", 5e-6, "float32", False, True),
        (Machine(name="t4", gpus=1), "adapter: lora", 5e-6, "float16", False, False),
    ],
)
def test_rate_and_precision_follow_adapter_and_machine(
    tmp_path: Path, machine: Machine, training: str, rate: float, dtype: str, bf16: bool, use_cpu: bool
) -> None:
    """Ten times the rate for an adapter; trained weights stay in float32, where steps of 5e-7 do not vanish."""
    found = config(tmp_path, machine, f"training: {{{training}}}\n")

    assert (rate, bf16, use_cpu) == tuple(values(found)[name] for name in ("learning_rate", "bf16", "use_cpu"))
    assert {"dtype": dtype} == found.model["init_kwargs"]


def test_the_brief_has_the_last_word(tmp_path: Path) -> None:
    """`training` wins over the recipe, in value and in source; `epsilon` alone moves both sides, as in TRL."""
    found = config(tmp_path, H100, "training: {learning_rate: 1e-6, epsilon: 0.1, report_to: wandb}\n")

    assert {"learning_rate": 1e-6, "epsilon": 0.1, "epsilon_high": 0.1, "report_to": "wandb"}.items() <= values(
        found
    ).items()
    assert {"brief"} == {found.trainer[name].source for name in ("learning_rate", "epsilon", "epsilon_high")}
    assert "recipe" == found.trainer["beta"].source


def test_a_generation_batch_becomes_steps(tmp_path: Path) -> None:
    """TRL refuses both; a run holds the one that does not change with the number of processes."""
    found = values(config(tmp_path, H100, "training: {generation_batch_size: 64}\n"))

    assert (8, 4, 8) == tuple(
        found[name] for name in ("per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation")
    )
    assert "generation_batch_size" not in found


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (CPU, {"use_vllm": False}),
        (
            H100,
            {"use_vllm": True, "vllm_mode": "colocate", "vllm_max_model_length": 56, "vllm_tensor_parallel_size": 1},
        ),
        (NODE, {"use_vllm": True, "vllm_mode": "server", "vllm_server_port": 8000, "vllm_enable_sleep_mode": False}),
    ],
    ids=["cpu", "one GPU", "eight GPUs"],
)
def test_the_engine_decides_which_options_are_there(tmp_path: Path, machine: Machine, expected: dict[str, Any]) -> None:
    """Options of vLLM stand where it runs; its window holds the longest prompt and the cap."""
    found = values(config(tmp_path, machine, measured=Measured(longest_prompt=40)))

    assert expected.items() <= found.items()
    assert found["use_vllm"] == ("vllm_gpu_memory_utilization" in found)
    assert (machine == NODE) == ("vllm_server_host" in found)


def test_a_window_that_is_not_known_is_noted(tmp_path: Path) -> None:
    """Without a counted prompt vLLM makes room for the whole context, which may not fit."""
    found = config(tmp_path)

    assert values(found)["vllm_max_model_length"] is None
    assert any("vllm_max_model_length: no prompt was counted" in note for note in found.notes)
    assert not any("vllm_max" in note for note in config(tmp_path, measured=Measured(longest_prompt=9)).notes)


def test_held_out_rows_are_measured(tmp_path: Path) -> None:
    """Where they are named they are evaluated with every checkpoint; where not, the run says what stays hidden."""
    named = config(tmp_path, H100, "").notes
    text = runs.BRIEF.replace("id: id}", "id: id, evaluation: held.jsonl}")
    found = config_for(brief.load(runs.write_run(tmp_path / "held", text=text)), H100, 100)

    assert any("no held-out rows" in note for note in named)
    assert not any("no held-out rows" in note for note in found.notes)
    assert "data/held_out.jsonl" == found.data["held_out"]
    options = values(found)
    assert ("steps", options["save_steps"], True) == (
        options["eval_strategy"],
        options["eval_steps"],
        options["eval_on_start"],
    )
    assert 0 == options["per_device_eval_batch_size"] % options["num_generations_eval"]
    saved = text + "training: {save_steps: 2}\n"
    options = values(config_for(brief.load(runs.write_run(tmp_path / "saved", text=saved)), H100, 100))
    assert (2, 6) == (options["save_steps"], options["eval_steps"])


def test_rewards_keep_their_order_names_and_weights(tmp_path: Path) -> None:
    """TRL logs each under its name; one of weight 0 only watches."""
    text = runs.BRIEF.replace(
        "rewards:\n",
        "rewards:\n  - {file: mine.py:polite, weight: 0.2}\n  - {use: math_answer, name: true_metric, weight: 0}\n",
    )
    found = config_for(brief.load(runs.write_run(tmp_path, text=text)), H100, 100)

    assert (("polite", 0.2), ("true_metric", 0.0), ("exact_answer", 1.0)) == tuple(
        (reward["name"], reward["weight"]) for reward in found.rewards
    )


def test_the_length_of_the_run_is_said(tmp_path: Path) -> None:
    """Steps, prompts a step, completions at once, and the rows that are left over."""
    notes = "\n".join(config(tmp_path, rows=103).notes)

    assert "25 optimizer steps; 4 prompts an optimizer step, 8 completions held at once a device to train" in notes
    assert "3 of 103 rows are left over" in notes


@pytest.mark.parametrize(
    ("machine", "text", "rows", "expected"),
    [
        (
            H100,
            "training:\n  per_device_train_batch_size: 1\n  gradient_accumulation_steps: 4\n",
            100,
            ["brief.yaml:11: training.gradient_accumulation_steps: a generation batch of 4 completions"],
        ),
        (H100, "", 3, ["brief.yaml:1: training.per_device_train_batch_size: 3 rows are fewer than the 4 prompts"]),
        (
            H100,
            "training:\n  vllm_mode: server\n",
            100,
            ["brief.yaml:10: training.vllm_mode: server needs a GPU of its own beside the trainer's"],
        ),
        (
            NODE,
            MANY_FAULTS,
            3,
            [
                "brief.yaml:9: training.per_device_train_batch_size: 3 rows are fewer than the 16 prompts",
                "brief.yaml:11: training.per_device_eval_batch_size: 3 completions on 4 processes",
                "brief.yaml:10: training.remove_unused_columns: it drops the columns",
                "brief.yaml:13: training.ds3_gather_for_generation: false leaves vLLM without whole weights",
                "brief.yaml:14: training.vllm_max_model_length: 8 tokens do not hold a prompt",
            ],
        ),
        (
            H100,
            "training:\n  vllm_mode: server\n  per_device_train_batch_size: 3\n  gradient_accumulation_steps: 1\n",
            100,
            ["brief.yaml:10: training.vllm_mode: server", "brief.yaml:12: training.gradient_accumulation_steps: a gen"],
        ),
    ],
    ids=["B43", "zero steps", "B51", "all at once", "shape and batch"],
)
def test_what_cannot_train_is_refused_before_launch(
    tmp_path: Path, machine: Machine, text: str, rows: int, expected: list[str]
) -> None:
    """Every fault at once, each at its line, with what to write."""
    found = refused(tmp_path, machine, text, rows=rows)

    assert len(expected) == len(found), found
    for wanted, line in zip(expected, found, strict=True):
        assert line.startswith(wanted), line


@pytest.mark.parametrize(
    ("training", "machine", "words"),
    [
        ("adapter: lora, learning_rate: 5e-7", H100, "raise it about ten times"),
        ("learning_rate: 3e-5", H100, "lower it to about 5e-07"),
        ("model_init_kwargs: {dtype: bfloat16}", H100, "weights trained in 16 bits hardly move"),
        ("num_iterations: 2", CPU, "one generation serves 2 optimizer steps"),
    ],
)
def test_what_is_rarely_meant_stands_in_the_notes(tmp_path: Path, training: str, machine: Machine, words: str) -> None:
    """A learning rate copied between full tuning and LoRA is no fault, but a person hears of it before launch (B47)."""
    assert any(words in note for note in config(tmp_path, machine, f"training: {{{training}}}\n").notes)


def test_two_generations_are_noted_with_the_measured_rate(tmp_path: Path) -> None:
    """The gate's pass rate decides how much signal is promised (B38)."""
    text = runs.BRIEF.replace("num_generations: 4", "num_generations: 2")
    loaded = brief.load(runs.write_run(tmp_path, text=text))
    found = config_for(loaded, H100, 100, measured=Measured(passed=(0.18, 0.117, 0.267)))

    assert any("num_generations 2: at the measured pass rate of 0.18, 30%" in note for note in found.notes)


@pytest.mark.parametrize(
    ("hardware", "words"),
    [
        ("dgx_spark", "did you mean `dgx-spark`?"),
        ("gpu x 8", "names no machine; write auto, cpu, a card"),
        ("0xh100", "names no machine"),
        ("2xdgx-spark", "a DGX Spark has one GPU"),
        ("''", "names no machine"),
    ],
)
def test_hardware_is_checked_when_the_brief_is_read(hardware: str, words: str) -> None:
    """A machine that cannot be meant is refused at its line, without asking the driver."""
    with pytest.raises(Refusal, match=r"brief.yaml:9: hardware: ") as caught:
        brief.parse(runs.BRIEF + f"hardware: {hardware}\n", Path("brief.yaml"))

    assert words in caught.value.lines[0]


@pytest.mark.parametrize(
    "hardware", ["auto", "cpu", "h100", "RTX4090", "8xh100", "2x8xh100", "dgx-spark", "2x1xdgx-spark"]
)
def test_machines_are_taken(hardware: str) -> None:
    """What the documentation shows is a brief, and what a brief takes names a machine."""
    parsed = brief.parse(runs.BRIEF + f"hardware: {hardware}\n", Path("brief.yaml"))

    assert hardware == "auto" or shapes.machine_of(parsed.hardware).machines >= 1


def test_other_methods_are_placed_in_the_brief_too(tmp_path: Path) -> None:
    """A refusal of any method's recipe begins with file and line."""
    text = runs.BRIEF.replace("grpo", "sft").replace("answer: answer", "completion: answer")
    loaded = brief.load(runs.write_run(tmp_path, text=text + "training:\n  learning_rate: -1.0\n"))

    with pytest.raises(Refusal, match=r"brief.yaml:10: training.learning_rate: "):
        config_for(loaded, H100, 100)
