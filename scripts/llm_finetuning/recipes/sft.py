"""Supervised fine-tuning: imitate the completions of the data set; the off-ramp where a model never succeeds yet.

Rates, schedule, warm-up and length are those of Zephyr's SFT recipes, full and QLoRA (Alignment Handbook), which make
one pass over 200,000 rows; smaller sets get two. "LoRA Without Regret" (Schulman et al., Thinking Machines Lab, 29
September 2025, thinkingmachines.ai/blog/lora) is read through TRL's guide of that name. Both were read on 30 November
2026.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from llm_finetuning.brief import LoadedBrief
from llm_finetuning.recipes import offline, shared
from llm_finetuning.recipes.config import Machine, RunConfig

METHOD = offline.Method(
    rate=offline.Rate(
        full=2e-5,
        adapter=2e-4,
        source="Zephyr's SFT recipes, full and QLoRA; LoRA wants ten times the rate (LoRA Without Regret, 2025)",
    ),
    epochs=2.0,
    rows_a_step=16,  # below 32, since LoRA takes large batches less well (LoRA Without Regret, 2025)
    rows_a_device=4,
)

OPTIONS = shared.given(
    "recipe",
    lr_scheduler_type=("cosine", "as Zephyr's SFT recipes (Alignment Handbook)"),
    warmup_steps=(0.1, "a tenth of all steps"),
    max_length=(2048, "tokens of prompt and completion; longer rows lose their end"),
    truncation_mode="keep_start",
    completion_only_loss=(True, "the prompt is not what the model is to learn"),
    assistant_only_loss=(False, "rows are a prompt and its completion"),
    loss_type="nll",
    packing=(False, "rows in one sequence see each other without a flash-attention kernel"),
    packing_strategy="bfd",
    padding_free=False,
    eval_packing=False,
    pad_to_multiple_of=None,
    shuffle_dataset=(False, "the sampler shuffles each pass"),
    train_sampling_strategy="random",
    chat_template_path=None,
    eos_token=None,
    dataset_num_proc=None,
    activation_offloading=False,
    remove_unused_columns=True,
    router_aux_loss_coef=(None, "a mixture of experts has its own"),
    trust_remote_code=False,
)

CHECKS: offline.Checks = {
    "loss_type": offline.one_of("nll", "dft"),
    "packing_strategy": offline.one_of("bfd", "bfd_split", "wrapped"),
    "truncation_mode": offline.one_of("keep_start"),
}
"""`keep_end` and `chunked_nll` are deprecated in TRL 1.16.0."""


def recipe(loaded: LoadedBrief, machine: Machine, rows: int) -> RunConfig:
    """Return the config of an SFT run; refuses with all faults at once."""
    wrong = list(_packing_faults(loaded.brief.training))
    return offline.config(loaded, machine, rows, method=METHOD, own=OPTIONS, checks=CHECKS, wrong=wrong)


def _packing_faults(training: Mapping[str, Any]) -> Iterator[str]:
    attention = str((training.get("model_init_kwargs") or {}).get("attn_implementation", ""))
    if training.get("packing") and "flash" not in attention:
        yield (
            "training.packing: rows packed into one sequence see each other unless attention is computed by a "
            "flash-attention kernel; add `model_init_kwargs: {attn_implementation: flash_attention_2}`, or leave it out"
        )
    if training.get("packing") and training.get("max_length", 1) is None:
        yield "training.max_length: packing fills sequences of this length; write a number of tokens"
