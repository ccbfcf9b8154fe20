"""Which options of a GRPO run contradict each other: what TRL 1.16.0 takes without a word, or refuses after minutes.

`faults` needs the brief alone and runs when it is read; `run_faults` also needs the shape of the run. What may be meant
so, but rarely is, is a note of the run: `notes`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llm_finetuning.recipes import adapters, values, variants
from llm_finetuning.recipes.layout import LEAST_SIGNAL, Layout, share_with_signal

Fault = tuple[str, str]
"""An option of `training`, and what is wrong with it and how to mend it."""

RATE_FULL, RATE_ADAPTER = 5e-7, 5e-6
"""The learning rates of the recipe; `grpo` says where they are from."""

COLLAPSES_FULL = 1e-5  # reported: KL of 2 nats a token within 20 steps at 3e-5
STANDS_STILL_ADAPTER = 1e-6  # reported: KL flat at 0 after 100 steps at 5e-7
COLLAPSES_ADAPTER = 1e-4  # reported: mixed languages
LONG_COMPLETION = 1024  # tokens; noise of 0.02 nats a token gives a median sequence ratio of 0.82 there

RECIPE: Mapping[str, Any] = {
    "loss_type": "grpo",
    "importance_sampling_level": "token",
    "beta": 0.01,
    "epsilon": 0.2,
    "epsilon_high": 0.2,
    "num_iterations": 1,
    "mask_truncated_completions": False,
    "sync_ref_model": False,
    "vllm_importance_sampling_correction": False,
    "vllm_importance_sampling_mode": "token_truncate",
    "vllm_importance_sampling_clip_max": 3.0,
    "vllm_importance_sampling_clip_min": None,
}
"""Plain GRPO, as far as rules look at it; `grpo` says why."""


def effective(training: Mapping[str, Any], use: str | None) -> dict[str, Any]:
    """Return the objective's options: the recipe's, then the variant's, then the brief's."""
    recipe = dict(RECIPE)
    if "epsilon" in training:  # one number for both sides, as TRL takes it
        recipe["epsilon_high"] = training["epsilon"]
    return {**recipe, **{name: value for name, (value, _) in variants.options_of(use).items()}, **training}


def faults(training: Mapping[str, Any], use: str | None = None) -> Iterator[Fault]:
    """Yield every fault of a GRPO brief's options that needs no machine; `use` is its variant.

    Options whose own value is wrong take part in no rule about pairs.
    """
    wrong = {name: words for name, value in training.items() if (words := values.fault(name, value))}
    yield from wrong.items()
    sound = {name: value for name, value in training.items() if name not in wrong}
    yield from _loss_faults(sound, effective(sound, use))
    yield from _reference_faults(sound, effective(sound, use))
    yield from _correction_faults(sound, effective(sound, use))
    yield from model_faults(sound)
    yield from _generation_faults(sound)
    yield from _off_policy_faults(sound, use)


def _at(training: Mapping[str, Any], *options: str) -> str:
    """Return the option that a fault of several is told at: the first that the brief names."""
    return next((option for option in options if option in training), options[0])


def _loss_faults(training: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[Fault]:
    loss, level = wanted["loss_type"], wanted["importance_sampling_level"]
    if loss == "cispo" and training.get("epsilon_high") is None:
        words = f"cispo without `epsilon_high` clamps every ratio at epsilon, {wanted['epsilon']:g}"
        yield (
            "loss_type",
            f"{words}, so that gradients are several times too small; write `epsilon_high: 5.0` beside it",
        )
    place = _at(training, "importance_sampling_level", "loss_type")
    if level == "sequence" and loss in ("bnpo", "dr_grpo", "dapo", "cispo"):
        yield place, f"sequence ratios under loss {loss} weigh completions by length; write `loss_type: grpo` beside it"
    if loss == "luspo" and level != "sequence":
        yield place, "luspo is made for sequences; write `importance_sampling_level: sequence` beside it"
    if loss == "vespo" and level != "token":
        yield place, "vespo is made for tokens; write `importance_sampling_level: token` beside it"
    high = wanted["epsilon_high"] if wanted["epsilon_high"] is not None else wanted["epsilon"]
    if "delta" in training and training["delta"] is not None and training["delta"] <= 1 + high:
        yield "delta", f"{training['delta']} would clip before `epsilon_high` does; write more than {1 + high:g}"
    lowest, highest = training.get("entropy_coef_min", 0.0), training.get("entropy_coef_max", 1.0)
    if lowest > highest:
        yield _at(training, "entropy_coef_min", "entropy_coef_max"), f"{lowest} is above entropy_coef_max, {highest}"


def _reference_faults(training: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[Fault]:
    if not wanted["sync_ref_model"]:
        return
    if wanted["beta"] == 0:
        yield "sync_ref_model", "with beta 0 there is no reference model; leave it out, or set `beta`"
    if adapters.kind_of(training) is not None:
        yield "sync_ref_model", "under an adapter the reference is the model without it, so there is nothing to sync"


def _correction_faults(training: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[Fault]:
    mode = wanted["vllm_importance_sampling_mode"]
    lowest, highest = wanted["vllm_importance_sampling_clip_min"], wanted["vllm_importance_sampling_clip_max"]
    if lowest is not None and highest is not None and lowest >= highest:
        place = _at(training, "vllm_importance_sampling_clip_min", "vllm_importance_sampling_clip_max")
        yield place, f"the lower clip {lowest} is not below the upper one, {highest}"
    if not wanted["vllm_importance_sampling_correction"]:
        return
    place = _at(training, "vllm_importance_sampling_mode", "vllm_importance_sampling_correction")
    if wanted["loss_type"] == "vespo" and not str(mode).startswith("token"):
        yield place, f"vespo takes token_truncate or token_mask; {mode} is refused by TRL"
    if str(mode).endswith("_truncate") and lowest is None and highest is None:
        yield place, f"{mode} without a clip truncates nothing; set `vllm_importance_sampling_clip_max`"


_DTYPES = ("auto", "bfloat16", "float16", "float32")


def model_faults(training: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what is wrong with precision and `model_init_kwargs`, whatever the method."""
    if training.get("bf16") and training.get("fp16"):
        yield "fp16", "contradicts `bf16: true`; keep one of them"
    wanted = training.get("model_init_kwargs")
    if wanted is None:
        return
    if not isinstance(wanted, Mapping):
        yield "model_init_kwargs", f"{wanted!r} is not a mapping, as in `{{dtype: bfloat16}}`"
        return
    if "torch_dtype" in wanted:
        yield "model_init_kwargs", "`torch_dtype` is ignored without a word; write `dtype`"
    if "dtype" in wanted and wanted["dtype"] not in _DTYPES:
        yield "model_init_kwargs", f"dtype {wanted['dtype']!r} is not one of {', '.join(_DTYPES)}"
    if "quantization_config" in wanted:
        yield "model_init_kwargs", "`quantization_config` stands in the brief as `adapter: qlora`"
    if "device_map" in wanted:
        yield "model_init_kwargs", "`device_map` belongs to the shape of the run, which `hardware` decides; take it out"


_SAMPLED = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens", "max_length")


def _generation_faults(training: Mapping[str, Any]) -> Iterator[Fault]:
    wanted = training.get("generation_kwargs")
    if wanted is None:
        return
    if not isinstance(wanted, Mapping):
        yield "generation_kwargs", f"{wanted!r} is not a mapping of options"
        return
    there = [name for name in wanted if name in _SAMPLED]
    if there:
        words = f"{', '.join(there)}: training would draw otherwise than the samples that were read"
        yield "generation_kwargs", f"{words}; write it under `sampling`"
    if "num_return_sequences" in wanted or "n" in wanted:
        yield "generation_kwargs", "the number of completions is `sampling: {num_generations: ...}`"


def _off_policy_faults(training: Mapping[str, Any], use: str | None) -> Iterator[Fault]:
    """Find a variant that does nothing: where each generation serves one optimizer step, every ratio is 1."""
    if use is None or use not in variants.VARIANTS or not variants.VARIANTS[use].inert_on_policy:
        return
    accumulation = training.get("gradient_accumulation_steps", 1)
    steps = training.get("steps_per_generation", accumulation + 1)
    if steps <= accumulation and training.get("num_iterations", 1) == 1:
        words = f"a generation serves one optimizer step, so that {use} is plain GRPO"
        acting = accumulation * variants.off_policy_of(use)
        yield "steps_per_generation", f"{words}; leave it out, or write {acting}"


def run_faults(
    training: Mapping[str, Any], *, engine: str, processes: int, cap: int, longest_prompt: int | None
) -> Iterator[Fault]:
    """Yield the faults that depend on where the run runs.

    Args:
        training: The brief's options.
        engine: What generates: transformers, colocate or server.
        processes: Of the trainer.
        cap: `max_completion_length`, in tokens.
        longest_prompt: In tokens, where the audit counted them.
    """
    if training.get("remove_unused_columns"):
        yield "remove_unused_columns", "it drops the columns that rewards read; leave it out"
    if engine == "transformers":
        return
    if training.get("ds3_gather_for_generation") is False:
        yield "ds3_gather_for_generation", "false leaves vLLM without whole weights; leave it out"
    if training.get("load_in_8bit"):
        yield "load_in_8bit", "vLLM loads no 8-bit weights; leave it out for 4 bits, or write `use_vllm: false`"
    window = training.get("vllm_max_model_length")
    needed = cap + (longest_prompt or 1)
    if isinstance(window, int) and window < needed:
        prompt = f"the longest prompt of {longest_prompt}" if longest_prompt else "a prompt"
        yield (
            "vllm_max_model_length",
            f"{window} tokens do not hold {prompt} and max_completion_length {cap}; write {needed} or more",
        )
    parallel = training.get("vllm_tensor_parallel_size", 1)
    if engine == "colocate" and isinstance(parallel, int) and parallel > 0 and processes % parallel:
        yield (
            "vllm_tensor_parallel_size",
            f"{parallel} does not divide the {processes} trainer processes that vLLM lives in; leave it out",
        )


def notes(
    wanted: Mapping[str, Any], *, kind: str | None, layout: Layout, cap: int, passed: tuple[float, float, float] | None
) -> Iterator[str]:
    """Yield what may be meant so but rarely is.

    Args:
        wanted: The effective options, the sampling's among them.
        kind: lora, qlora, or None for full fine-tuning.
        layout: The batch.
        cap: `max_completion_length`, in tokens.
        passed: The measured pass rate and the ends of its interval, where there is one.
    """
    yield from _rate_notes(wanted["learning_rate"], kind)
    if layout.group < LEAST_SIGNAL:
        yield signal_words(layout, passed)
    if wanted["mask_truncated_completions"] and wanted["beta"] > 0:
        yield "mask_truncated_completions with beta above 0: cut completions lose their KL term too and may drift"
    if kind and wanted.get("lora_dropout") and wanted.get("disable_dropout"):
        yield "lora_dropout: `disable_dropout: true` switches it off; write `disable_dropout: false` to have it"
    if wanted["model_init_kwargs"].get("dtype") in ("bfloat16", "float16") and kind is None:
        yield (
            "model_init_kwargs.dtype: weights trained in 16 bits hardly move: an AdamW step of 5e-7 is a hundredth of "
            "the distance between neighbouring bfloat16 numbers near 0.02; leave it out for float32"
        )
    if layout.steps_per_generation > layout.accumulation or wanted["num_iterations"] > 1:
        updates = layout.steps_per_generation / layout.accumulation * wanted["num_iterations"]
        yield f"off-policy: one generation serves {updates:g} optimizer steps, so that ratios leave 1 and are clipped"
    if wanted.get("use_vllm"):
        yield from _correction_notes(wanted, cap)


def _correction_notes(wanted: Mapping[str, Any], cap: int) -> Iterator[str]:
    if not wanted["vllm_importance_sampling_correction"]:
        return
    if str(wanted["vllm_importance_sampling_mode"]).startswith("sequence") and cap >= LONG_COMPLETION:
        yield (
            f"vllm_importance_sampling_mode: sequence ratios decay with length, and completions may have {cap} tokens; "
            "token_truncate does not"
        )
    cut = [name for name in ("top_p", "top_k", "min_p") if wanted.get(name) not in (None, 0, 1.0)]
    if cut:
        yield (
            f"{', '.join(cut)} with vLLM's correction: the engine renormalises what is kept, which pulls every token's "
            "ratio below 1"
        )


def _rate_notes(rate: Any, kind: str | None) -> Iterator[str]:
    if kind is None and rate >= COLLAPSES_FULL:
        yield (
            f"learning_rate {rate:g} is one for an adapter: full fine-tuning at 1e-5 or more tends to collapse, with "
            f"kl above 1 in its first steps; lower it to about {RATE_FULL:g} and restart from the base model"
        )
    elif kind and rate <= STANDS_STILL_ADAPTER:
        yield (
            f"learning_rate {rate:g} is one for full fine-tuning: an adapter hardly moves at it and kl stays at 0; "
            f"raise it about ten times, to {max(RATE_ADAPTER, 10 * rate):g}"
        )
    elif kind and rate >= COLLAPSES_ADAPTER:
        yield f"learning_rate {rate:g} is high for GRPO on an adapter, whose recipe has {RATE_ADAPTER:g}; watch kl"


def signal_words(layout: Layout, passed: tuple[float, float, float] | None) -> str:
    """Return what few generations a prompt cost, and the layout with eight in the same memory."""
    enough = _with_groups_of(layout, LEAST_SIGNAL)
    if passed is None:
        now, then = (f"{share_with_signal(0.2, size):.0%}" for size in (layout.group, LEAST_SIGNAL))
        rate = "at a pass rate of 0.2"
    else:
        now, then = (_share_words(passed, size) for size in (layout.group, LEAST_SIGNAL))
        rate = f"at the measured pass rate of {passed[0]:.2f}"
    return (
        f"num_generations {layout.group}: {rate}, {now} of the groups carry a signal, and {then} at {LEAST_SIGNAL}; "
        f"write `num_generations: {LEAST_SIGNAL}` and " + _fits(enough)
    )


def _share_words(passed: tuple[float, float, float], size: int) -> str:
    low, high = span_with_signal(passed[1], passed[2], size)
    return f"{share_with_signal(passed[0], size):.0%} (95% interval {low:.0%} to {high:.0%})"


def span_with_signal(low: float, high: float, size: int) -> tuple[float, float]:
    """Return the lowest and highest share of groups with a signal over an interval of pass rates; it peaks at 0.5."""
    ends: Sequence[float] = [share_with_signal(low, size), share_with_signal(high, size)]
    peak = [share_with_signal(0.5, size)] if low <= 0.5 <= high else []  # noqa: PLR2004
    return min(ends), max([*ends, *peak])


def _with_groups_of(layout: Layout, size: int) -> Layout:
    """Return the layout with larger groups and as many completions held at once."""
    from llm_finetuning.recipes.layout import layout_of

    ratio = max(1, layout.steps_per_generation // layout.accumulation)
    device = {"per_device_train_batch_size": layout.per_device}
    return layout_of(device, size, layout.processes, off_policy=ratio)


def _fits(layout: Layout) -> str:
    options = ", ".join(f"{name}: {value}" for name, value in layout.options().items())
    return f"`{options}` ({layout.words()})"
