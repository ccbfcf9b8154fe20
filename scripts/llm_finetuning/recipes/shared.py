"""What every method's recipe has in common: precision, optimiser, saving, logging, seeds, and the brief's last word."""

import math
import re
from collections.abc import Mapping
from typing import Any

from llm_finetuning import trl_options
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.extras import REQUIREMENTS, TORCH
from llm_finetuning.recipes.config import Machine, Option, Shape, Source

CHECKPOINTS_A_RUN = 10  # a tenth of the run is lost to a crash at most
LEAST_STEPS_APART = 5  # between checkpoints of a short run; each is measured on the whole held-out set
MOST_STEPS_UNSAVED = 50  # steps; of a long run less than a tenth is lost

WITHOUT_BF16 = ("t4", "v100", "p100", "titan", "rtx2060", "rtx2070", "rtx2080", "quadro", "gtx")
"""Cards before NVIDIA's Ampere; bfloat16 arithmetic begins with compute capability 8.0 (CUDA programming guide)."""

NOT_THE_TRAINERS = ("model_init_kwargs", "deepspeed", "fsdp", "fsdp_config")
"""Options of a brief's `training` that have another place in the config than `trainer`; the adapter's are the rest."""


def given(source: Source, **values: Any) -> dict[str, Option]:
    """Return options of one source; a tuple is a value and its reason, anything else a value that needs none."""
    return {
        name: Option(value[0], source, value[1]) if isinstance(value, tuple) else Option(value, source, "")
        for name, value in values.items()
    }


def common(machine: Machine, *, learning_rate: Option, steps: int, held_out: bool) -> dict[str, Option]:
    """Return the options that mean the same for every method.

    Args:
        machine: Where the run is to run.
        learning_rate: The method's, with its source.
        steps: Optimiser steps of the whole run, which the saving and the evaluation are spaced by.
        held_out: Whether there is a held-out set to evaluate.
    """
    return {
        **given("fixed", output_dir=("checkpoints", "in the run's own folder")),
        "learning_rate": learning_rate,
        **_OPTIMISER,
        **_precision(machine),
        **_saving(steps, held_out=held_out),
        **_LOGGING,
        **_REPRODUCIBLE,
    }


_OPTIMISER = given(
    "recipe",
    optim="adamw_torch_fused",
    weight_decay=0.0,
    adam_beta1=0.9,
    adam_beta2=0.999,
    adam_epsilon=1e-8,
    max_grad_norm=1.0,
    lr_scheduler_kwargs=None,
    label_smoothing_factor=0.0,
    neftune_noise_alpha=None,
    gradient_checkpointing=(True, "a fifth slower, but activations do not fill the memory"),
    gradient_checkpointing_kwargs=({"use_reentrant": False}, "as PEFT and FSDP2 need it"),
    average_tokens_across_devices=True,
    use_liger_kernel=(False, "deprecated in TRL, and it knows fewer losses"),
    torch_compile=False,
)

_LOGGING = {
    **given(
        "recipe",
        logging_strategy="steps",
        logging_steps=(1, "the guards look at every step"),
        logging_first_step=True,
        report_to=("none", "or tensorboard, wandb, trackio"),
        disable_tqdm=(True, "the log is a file"),
        include_num_input_tokens_seen="no",
    ),
    **given("fixed", logging_nan_inf_filter=(False, "it would hide NaN from the guard")),
}

_REPRODUCIBLE = {
    **given(
        "recipe",
        seed=42,
        data_seed=(42, "the order of the rows, also after resuming"),
        full_determinism=False,
        dataloader_num_workers=0,
        dataloader_drop_last=False,
    ),
    **given("fixed", ignore_data_skip=(False, "a resumed run goes on at the row where it stopped")),
}


def _precision(machine: Machine) -> dict[str, Option]:
    half = half_precision(machine)
    why = {None: "float32 on the CPU", "float16": f"{machine.name} has no bfloat16"}.get(half, "")
    return given(
        "machine",
        use_cpu=machine.gpus == 0,
        bf16=(half == "bfloat16", why or "the arithmetic; what the weights are kept in is model.init_kwargs.dtype"),
        fp16=(half == "float16", why),
    )


def _saving(steps: int, *, held_out: bool) -> dict[str, Option]:
    tenth = math.ceil(steps / CHECKPOINTS_A_RUN)
    every = max(1, min(steps, MOST_STEPS_UNSAVED, max(LEAST_STEPS_APART, tenth)))
    often = "with each checkpoint: ten times in a run of up to 500 steps, and never every step of a short one"
    evaluated = "each checkpoint has its held-out figure" if held_out else "the brief names no `dataset.evaluation`"
    return {
        **given("fixed", save_only_model=(False, "resuming needs the optimiser's state")),
        **given(
            "recipe",
            save_strategy="steps",
            save_steps=(every, "so much is lost to a crash at most"),
            save_total_limit=(3, "older checkpoints are deleted"),
            load_best_model_at_end=False,
            push_to_hub=False,
            eval_strategy=("steps" if held_out else "no", evaluated),
            eval_steps=(every if held_out else None, often if held_out else ""),
            eval_on_start=(held_out, "the base model's figure is the one to beat" if held_out else ""),
        ),
    }


def half_precision(machine: Machine) -> str | None:
    """Return the 16-bit format that the machine computes in; None on the CPU, which computes in float32."""
    if machine.gpus == 0:
        return None
    name = re.sub(r"[^a-z0-9]", "", machine.name.lower())
    return "float16" if name.startswith(WITHOUT_BF16) else "bfloat16"


def weights_dtype(machine: Machine, adapter: str | None) -> str:
    """Return what the model's weights are kept in; `adapter` is None for full fine-tuning.

    Weights that are trained stay in float32: at a learning rate of 5e-7, AdamW moves a weight by about 5e-7 a step,
    while neighbouring bfloat16 numbers near 0.02 lie 1.2e-4 apart, so that most of the steps would round to nothing.
    Frozen weights under an adapter are kept in 16 bits. The adapter itself is in float32 with LoRA, in bfloat16 with
    QLoRA, as its paper has it; half of it starts at 0, where bfloat16 is fine enough.
    """
    half = half_precision(machine)
    return half if half is not None and adapter is not None else "float32"


def model(loaded: LoadedBrief, machine: Machine, adapter: str | None) -> dict[str, Any]:
    """Return the `model` part of the config; `training.model_init_kwargs` of the brief has the last word."""
    wanted: dict[str, Any] = dict(loaded.brief.training.get("model_init_kwargs") or {})
    revision = wanted.pop("revision", None)
    kwargs = {"dtype": weights_dtype(machine, adapter), **wanted}
    return {"source": loaded.model_source(), "revision": revision, "init_kwargs": kwargs}


def data(loaded: LoadedBrief) -> dict[str, str | None]:
    """Return where the rows lie within the run's folder."""
    held_out = "data/held_out.jsonl" if loaded.brief.dataset.evaluation else None
    return {"train": "data/train.jsonl", "held_out": held_out}


def with_brief(options: Mapping[str, Option], training: Mapping[str, Any]) -> dict[str, Option]:
    """Return the trainer's options with what the brief's `training` says instead."""
    elsewhere = {*NOT_THE_TRAINERS, *trl_options.adapter_names()}
    said = {name: value for name, value in training.items() if name not in elsewhere}
    for one, other in (("fp16", "bf16"), ("bf16", "fp16")):  # TRL takes one of the two
        if said.get(one) and other not in said:
            said[other] = False
    options = {**options, **_in_step(options, said)}
    return {**options, **{name: Option(value, "brief", _instead(options, name)) for name, value in said.items()}}


def _in_step(options: Mapping[str, Option], said: Mapping[str, Any]) -> dict[str, Option]:
    """Return the one of `save_steps` and `eval_steps` that the brief leaves out, so that it follows the one it sets.

    Where both fall together, checkpoints can be held against each other by their held-out figures. Evaluation keeps the
    recipe's pace where the brief saves more often, since it costs, or more seldom, since the log would show nothing of
    what training costs elsewhere; saving keeps it where the brief evaluates more often, or too seldom for a crash.
    """
    recipes = options["eval_steps"].value if "eval_steps" in options else None
    if recipes is None or ("save_steps" in said) == ("eval_steps" in said):
        return {}
    if "save_steps" in said:
        saved = said["save_steps"]
        if type(saved) is not int or saved < 1:
            return {"eval_steps": Option(saved, "brief", "as save_steps, which the brief sets")}
        if saved > recipes:
            why = "at the recipe's pace, more often than save_steps, which the brief sets"
            return {"eval_steps": Option(recipes, "recipe", why)}
        why = "a multiple of save_steps, which the brief sets, at the recipe's pace"
        return {"eval_steps": Option(saved * math.ceil(recipes / saved), "brief", why)}
    wanted = said["eval_steps"]
    if type(wanted) is not int or not 1 <= wanted <= MOST_STEPS_UNSAVED:
        return {}
    why = "a multiple of eval_steps, which the brief sets: each checkpoint has its held-out figure"
    return {"save_steps": Option(wanted * max(1, recipes // wanted), "brief", why)}


def _instead(options: Mapping[str, Option], name: str) -> str:
    return f"the recipe has {options[name].value}" if name in options else ""


def versions(shape: Shape) -> dict[str, str]:
    """Return the versions that this product was tried with, of the packages that the run imports."""
    pinned = dict(line.split(";")[0].split("==") for line in _lines("train-constraints.txt") if "==" in line)
    names = ["transformers", "trl", "accelerate", "datasets", "peft"]
    found = {"torch": TORCH[0].partition("==")[2], **{name: pinned[name].strip() for name in names}}
    if shape.engine != "transformers":
        found["vllm"] = next(line for line in _lines("vllm.txt") if line.startswith("vllm")).partition("==")[2]
    return found


def _lines(name: str) -> list[str]:
    return [line.strip() for line in (REQUIREMENTS / name).read_text("utf-8").splitlines()]
