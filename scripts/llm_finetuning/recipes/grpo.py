"""Plain GRPO (DeepSeekMath, Shao et al., 2024, arXiv:2402.03300) as a complete set of options of TRL 1.16.0.

TRL's own defaults are another algorithm: the loss is DAPO's, there is no KL term, and where one is asked for it carries
the policy's ratio; vLLM's rollouts are weighed anew. Each of these changed between releases, so that every option that
matters is written down here.

Learning rates: 5e-7 for all weights. For an adapter ten times that, 5e-6: "LoRA Without Regret" (Schulman et al.,
Thinking Machines Lab, 29 September 2025, thinkingmachines.ai/blog/lora) finds the best rate of LoRA at about ten times
that of full fine-tuning, in supervised and in reinforcement learning (read through its reviews, on 29 November 2026;
TRL's guide of that name, written after it, has 1e-6 to 5e-5 for GRPO with LoRA).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from llm_finetuning.brief import LoadedBrief
from llm_finetuning.errors import Refusal
from llm_finetuning.recipes import adapters, layout, rules, shapes, shared, variants
from llm_finetuning.recipes.config import Machine, Measured, Option, RunConfig, Shape
from llm_finetuning.recipes.shared import given

EVAL_GENERATIONS = 1  # more prompts tell more of a model than more completions of the same

OBJECTIVE = given(
    "recipe",
    loss_type=("grpo", "each completion's mean over its own tokens, then the mean of completions"),
    importance_sampling_level=("token", "one ratio a token"),
    epsilon=(rules.RECIPE["epsilon"], "ratios are clipped at 1 - epsilon ..."),
    epsilon_high=(rules.RECIPE["epsilon_high"], "... and at 1 + epsilon_high: symmetric"),
    delta=(None, "no second clip for bad completions"),
    num_iterations=(1, "each completion is trained on once"),
    beta=(rules.RECIPE["beta"], "weight of the KL term that holds the model near its start"),
    use_bias_correction_kl=(False, "the KL estimate is not multiplied by the ratio, as in the paper"),
    scale_rewards=("group", "a group's rewards are divided by their deviation"),
    multi_objective_aggregation=("sum_then_normalize", "rewards are weighed and summed, then compared"),
    mask_truncated_completions=(False, "a cut completion is paid what its text earns"),
    top_entropy_quantile=(1.0, "every token is trained on"),
    off_policy_mask_threshold=None,
    entropy_coef=(0.0, "no entropy bonus"),
    use_adaptive_entropy=False,
    router_aux_loss_coef=(0.0, "the loss is GRPO's alone, on a mixture of experts too"),
    sync_ref_model=(False, "the reference is the model at its start"),
    disable_dropout=(True, "the policy that is trained is the one that was sampled"),
    cast_lm_head_to_fp32=False,
)

SCHEDULE = given(
    "recipe",
    lr_scheduler_type=("constant_with_warmup", "a longer run has the same first steps as a shorter one"),
    warmup_steps=(0.05, "below 1 a share of all steps"),
    num_train_epochs=(1.0, "each prompt once"),
    max_steps=(-1, "whole epochs"),
    shuffle_dataset=True,
    pad_to_multiple_of=None,
)

COMPLETIONS = {
    **given(
        "fixed",
        log_completions=(True, "what the policy wrote is kept with what it was paid"),
        num_completions_to_print=(0, "kept in files, not printed"),
        remove_unused_columns=(False, "rewards read the rows' columns"),
    ),
    **given("recipe", log_unique_prompts=False, log_completions_hub_repo=None, trust_remote_code=False),
}

GENERATION = given(
    "recipe",
    generation_kwargs=None,
    cache_implementation=None,
    use_transformers_continuous_batching=False,
    ds3_gather_for_generation=(True, "ZeRO-3 gathers weights to generate and to hand them to vLLM"),
)

VLLM = given(
    "recipe",
    vllm_model_impl="vllm",
    vllm_gpu_memory_utilization=(0.3, "share of the whole GPU's memory that a colocated vLLM takes"),
    vllm_enable_sleep_mode=(False, "its weights would be sent anew for every generation"),
    vllm_tensor_parallel_size=(1, "of a colocated vLLM; a server's stands in serve.sh"),
    vllm_structured_outputs_regex=None,
    vllm_importance_sampling_correction=(False, "the literal loss; watch the gap between vLLM and trainer"),
    vllm_importance_sampling_mode=("token_truncate", "where the correction is on: sequence ratios decay with length"),
    vllm_importance_sampling_clip_max=3.0,
    vllm_importance_sampling_clip_min=None,
)

SERVER = given(
    "machine",
    vllm_server_host=("127.0.0.1", "on a cluster the launch file names the first machine"),
    vllm_server_port=8000,
    vllm_group_port=51216,
    vllm_server_timeout=(600.0, "seconds for the server to load the model"),
)

GUARDS = given(
    "recipe",
    dead_group_steps=(20, "stop after so many steps in a row without a group whose rewards differ"),
    abstention_share=(0.2, "stop where a reward says nothing of so many completions ..."),
    abstention_steps=(3, "... for so many steps in a row"),
    canary=(True, "before and after step 1: do rollouts come from the weights that are trained?"),
    canary_gap=(0.1, "largest difference of log-probabilities, in nats a token"),
    end_token_steps=(5, "stop after so many steps in which no completion ended by itself"),
)

SAMPLED = (
    "num_generations",
    "max_completion_length",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "chat_template_kwargs",
)
"""What training draws with: the settings under which the samples were drawn that a person read."""


def recipe(loaded: LoadedBrief, machine: Machine, rows: int, *, measured: Measured | None = None) -> RunConfig:
    """Return the config of a GRPO run; refuses with all faults at once, each at its line of the brief.

    Args:
        loaded: The brief.
        machine: What its `hardware` names.
        rows: How many training rows there are.
        measured: What audit and samples have shown, where they are there.
    """
    found = measured or Measured()
    training, sampling = loaded.brief.training, loaded.brief.sampling
    shape, refused = _tried(lambda: shapes.shape_for(machine, "grpo", training), _NO_SHAPE)
    batch = layout.of_brief(loaded.brief, shape.processes)
    eval_group = training.get("num_generations_eval") or EVAL_GENERATIONS
    of_batch = [*layout.faults(batch, training, rows), *layout.eval_faults(training, eval_group, shape.processes)]
    faults = [
        *((fault.option, f"{fault.what}; {fault.mend}") for fault in of_batch),
        *rules.run_faults(
            training,
            engine=shape.engine,
            processes=shape.processes,
            cap=sampling.max_completion_length,
            longest_prompt=found.longest_prompt,
        ),
    ]
    if refused or faults:
        raise Refusal(*refused, *(f"training.{option}: {words}" for option, words in faults))
    options = _options(loaded, machine, shape, batch, rows, found)
    adapter, quantization = adapters.adapter_for(loaded, machine)
    model = shared.model(loaded, machine, adapters.kind_of(training))
    return RunConfig(
        method="grpo",
        model=model,
        adapter=adapter,
        quantization=quantization,
        trainer=options,
        rewards=tuple({"name": name, "weight": weight} for name, weight in rewards_of(loaded)),
        data=shared.data(loaded),
        guards=GUARDS,
        shape=shape,
        versions=shared.versions(shape),
        notes=tuple(_notes(loaded, options, batch, rows, found, model)),
    )


_NO_SHAPE = Shape(kind="cpu", engine="transformers", processes=1)


def _tried(shape: Callable[[], Shape], otherwise: Shape) -> tuple[Shape, Iterable[str]]:
    try:
        return shape(), ()
    except Refusal as refusal:
        return otherwise, refusal.lines


def rewards_of(loaded: LoadedBrief) -> list[tuple[str, float]]:
    """Return name and weight of each reward, in the brief's order; the names are those of TRL's metrics."""
    named = [
        (reward.name or reward.use or str(reward.file).rpartition(":")[2], reward.weight)
        for reward in loaded.brief.rewards
    ]
    return [(str(name), weight) for name, weight in named]


def _options(
    loaded: LoadedBrief, machine: Machine, shape: Shape, batch: layout.Layout, rows: int, found: Measured
) -> dict[str, Option]:
    """Return every option of the trainer: the recipe's, then the variant's, then the brief's."""
    training = loaded.brief.training
    kind = adapters.kind_of(training)
    rate = rules.RATE_ADAPTER if kind else rules.RATE_FULL
    why = "ten times the rate of full fine-tuning (LoRA Without Regret, 2025)" if kind else "of all weights"
    held_out = loaded.brief.dataset.evaluation is not None
    steps = _steps(training, batch, rows)
    ours = {
        **shared.common(machine, learning_rate=Option(rate, "recipe", why), steps=steps, held_out=held_out),
        **OBJECTIVE,
        **SCHEDULE,
        **COMPLETIONS,
        **GENERATION,
        **_sampling(loaded),
        **_batch(batch, training, shape.processes),
        **_engine(shape, loaded, found),
    }
    if "epsilon" in training:
        ours["epsilon_high"] = Option(training["epsilon"], "brief", "as epsilon, which the brief sets")
    use = variants.use_of(loaded.brief)
    ours.update({name: Option(value, "variant", why) for name, (value, why) in variants.options_of(use).items()})
    if variants.off_policy_of(use) > 1:
        names = ("gradient_accumulation_steps", "steps_per_generation")
        ours.update({name: Option(ours[name].value, "variant", variants.ACTS) for name in names})
    given_here = {name: value for name, value in training.items() if name != "generation_batch_size"}
    return shared.with_brief(ours, given_here)


def _steps(training: Mapping[str, Any], batch: layout.Layout, rows: int) -> int:
    return layout.steps_of(
        batch,
        rows,
        epochs=training.get("num_train_epochs", SCHEDULE["num_train_epochs"].value),
        max_steps=training.get("max_steps", -1),
        iterations=training.get("num_iterations", 1),
    )


def _sampling(loaded: LoadedBrief) -> dict[str, Option]:
    sampling = loaded.brief.sampling
    why = {
        "num_generations": "completions a prompt",
        "max_completion_length": "tokens; prompts are never cut",
        "temperature": "as the samples were drawn that a person read",
    }
    return {name: Option(getattr(sampling, name), "brief", why.get(name, "")) for name in SAMPLED}


def _batch(batch: layout.Layout, training: Mapping[str, Any], processes: int) -> dict[str, Option]:
    step = f"{batch.prompts_per_step:g} prompts an optimizer step"
    drawn = f"{batch.generation_batch} completions of {batch.prompts_per_generation} prompts are drawn at once"
    group = training.get("num_generations_eval") or EVAL_GENERATIONS
    options = given(
        "recipe",
        per_device_train_batch_size=(batch.per_device, "completions, not prompts"),
        gradient_accumulation_steps=(batch.accumulation, step),
        steps_per_generation=(batch.steps_per_generation, drawn),
        num_generations_eval=(group, "more prompts tell more than more completions"),
        per_device_eval_batch_size=(layout.eval_batch(group, processes, batch.per_device), "whole groups"),
    )
    if "generation_batch_size" in training:
        why = f"the brief's generation_batch_size, {batch.generation_batch}; {drawn}"
        options["steps_per_generation"] = Option(batch.steps_per_generation, "brief", why)
    return options


def _engine(shape: Shape, loaded: LoadedBrief, found: Measured) -> dict[str, Option]:
    if shape.engine == "transformers":
        return given("machine", use_vllm=(False, "the trainer generates"))
    cap = loaded.brief.sampling.max_completion_length
    window = found.longest_prompt + cap if found.longest_prompt is not None else None
    why = f"the longest prompt, {found.longest_prompt} tokens, and the cap" if window else "the model's whole context"
    options = {
        **given("machine", use_vllm=True, vllm_mode=shape.engine),
        **VLLM,
        "vllm_max_model_length": Option(window, "recipe", why),
    }
    return {**options, **SERVER} if shape.engine == "server" else options


def _notes(
    loaded: LoadedBrief,
    options: Mapping[str, Option],
    batch: layout.Layout,
    rows: int,
    found: Measured,
    model: Mapping[str, Any],
) -> Iterable[str]:
    wanted = {name: option.value for name, option in options.items()} | {
        "model_init_kwargs": model["init_kwargs"],
        "lora_dropout": loaded.brief.training.get("lora_dropout", 0.0),
    }
    steps = _steps(loaded.brief.training, batch, rows)
    yield f"{steps} optimizer steps; {batch.words()}"
    left = rows % batch.prompts_per_generation
    if left:
        yield f"{left} of {rows} rows are left over each epoch, other ones each time"
    if loaded.brief.dataset.evaluation is None:
        yield "no held-out rows: a reward earned in a wrong way will not show; name some, `dataset: {evaluation: FILE}`"
    if wanted["use_vllm"] and wanted["vllm_max_model_length"] is None:
        yield (
            "vllm_max_model_length: no prompt was counted, so vLLM makes room for the model's whole context; run "
            "`finetune audit` where the tokenizer is at hand, or set it to the longest prompt plus the cap"
        )
    yield from rules.notes(
        wanted,
        kind=adapters.kind_of(loaded.brief.training),
        layout=batch,
        cap=loaded.brief.sampling.max_completion_length,
        passed=found.passed,
    )
    yield from variants.notes(loaded.brief, found.constant_prompts)
