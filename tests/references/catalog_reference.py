"""Writes the skill's catalogue of models: what each needs, from the planner; whose it is, as read in public.

python tests/references/catalog_reference.py            writes the page, and warns when its date is old
python tests/references/catalog_reference.py --check    warns alone
"""

import functools
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from memory_reference import ADAPTERS, CAP, PROMPT, ROOT, _head, _prose, _row  # it also finds the package

import planned_runs
import public_configs
from llm_finetuning.planning import architecture
from llm_finetuning.planning.shapes import Architecture

PAGE = ROOT / "skills" / "finetuning-method-selection" / "references" / "model-catalog.md"

READ = date(2026, 11, 30)
"""When families, licences and notes were last looked up; whoever looks them up again moves it."""

MONTHS = 6
"""Makers publish a new generation about twice a year: after so many months the page is likely to miss one."""

MACHINES = ("rtx4090", "l40s", "h100", "h200")  # by rising memory
UNIFIED = "dgx-spark"

COLUMNS: Mapping[str, tuple[str, str]] = {
    "SFT, all weights": ("sft", "all weights"),
    "SFT, LoRA": ("sft", "LoRA"),
    "DPO, LoRA": ("dpo", "LoRA"),
    "GRPO, LoRA": ("grpo", "LoRA"),
    "GRPO, QLoRA": ("grpo", "QLoRA"),
}

SIZES: Mapping[str, float] = {"up to 1B": 1e9, "1B to 5B": 5e9, "5B to 10B": 10e9, "10B to 20B": 20e9, "above": 1e15}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One family of models and what its makers say of it."""

    name: str
    maker: str  # the organisation on the hub
    models: tuple[str, ...]  # as in public_configs
    licence: str
    source: str
    note: str


FAMILIES: tuple[Family, ...] = (
    Family(
        name="SmolLM",
        maker="HuggingFaceTB",
        models=("SmolLM2-135M", "SmolLM3-3B"),
        licence="Apache 2.0",
        source="the models' pages on the hub",
        note="the 135M of the demo runs on two CPU cores: for trying the road, not for quality",
    ),
    Family(
        name="Qwen3",
        maker="Qwen",
        models=("Qwen3-0.6B", "Qwen3-1.7B", "Qwen3-4B", "Qwen3-8B", "Qwen3-14B", "Qwen3-32B", "Qwen3-30B-A3B"),
        licence="Apache 2.0",
        source="README of github.com/QwenLM/Qwen3 at 4d9f43e",
        note="thinks by default; `chat_template_kwargs: {enable_thinking: false}` in the brief's `sampling` turns it "
        "off, but not in the 2507 releases, where it is one model each",
    ),
    Family(
        name="Llama 3",
        maker="meta-llama",
        models=("Llama-3.2-1B", "Llama-3.2-3B", "Llama-3.1-8B"),
        licence="Llama Community License of its version",
        source="README of github.com/meta-llama/llama-models at 03b8191",
        note="the licence has to be accepted, and access granted, before the weights can be fetched",
    ),
    Family(
        name="Gemma 3",
        maker="google",
        models=("Gemma-3-270M", "Gemma-3-1B", "Gemma-3-4B", "Gemma-3-12B"),
        licence="Gemma Terms of Use (of 1 April 2026)",
        source="their text as the hub has it; they name derived models too",
        note="from 4B on with a vision tower, which text-only training leaves idle",
    ),
    Family(
        name="Granite 3.1",
        maker="ibm-granite",
        models=("Granite-3.1-1B-A400M", "Granite-3.1-2B"),
        licence="Apache 2.0",
        source="the models' pages on the hub",
        note="the A400M is a mixture of experts",
    ),
    Family(
        name="OLMo 2",
        maker="allenai",
        models=("OLMo-2-7B",),
        licence="Apache 2.0",
        source="the model's page on the hub",
        note="its training data is public too: a held-out set can be looked for in it",
    ),
    Family(
        name="Ministral 3",
        maker="mistralai",
        models=("Ministral-3-3B",),
        licence="Apache 2.0",
        source="the card of the 14B base model, 2512",
        note="with a vision encoder, which text-only training leaves idle; the Ministral of 2024 has another licence",
    ),
    Family(
        name="Phi-4",
        maker="microsoft",
        models=("Phi-4",),
        licence="MIT",
        source="the model's page on the hub",
        note="",
    ),
    Family(
        name="gpt-oss",
        maker="openai",
        models=("gpt-oss-20b",),
        licence="Apache 2.0",
        source="README of github.com/openai/gpt-oss at 0492bd3",
        note="works in its harmony format alone; the experts are published in MXFP4, and counted here as loaded",
    ),
)

HEAD = f"""
Read this when a person has no model yet, or asks what their machine can train. The one place that names families; all
else here takes any model of a family that the planner knows. Families, licences and notes were read on {READ:%d %B %Y};
numbers are the planner's own (`python tests/references/catalog_reference.py` writes this page, a test compares it, and
with `--check` it says whether the date is more than {MONTHS} months old). The licence that counts is the one beside the
weights: read it with the person before they publish or sell.
"""

CHOICE = """
Start with the smallest model that sometimes succeeds: `finetune evaluate RUN` measures that, and every later step costs
less with it. For chat and for RL take an instruction-tuned one (its name ends in Instruct or it): it answers in turns
and ends them. When a newer model's `model_type` is not known here, `finetune plan RUN` says so.
"""

MEANING = f"""
The smallest of {", ".join(MACHINES)} on which the recipe fits as it is: one card, prompts of {PROMPT} tokens, and
completions of {CAP} in GRPO; `+ spark` where a DGX Spark takes it too. A dash: on none of them without changes.
`finetune plan RUN` names the changes that make a run fit, and counts your lengths.
"""


def main(arguments: Sequence[str]) -> None:
    """Write the page, unless it is only to be checked, and say when its date is old."""
    if "--check" not in arguments:
        PAGE.write_text(page(), "utf-8")
    sys.stderr.write("".join(f"warning: {line}\n" for line in staleness(date.today())))  # noqa: DTZ011  days, anywhere


def staleness(today: date) -> list[str]:
    """Return a line when the date of the page is too old, else nothing; a person reads it, no test fails of it."""
    months = (today.year - READ.year) * 12 + today.month - READ.month - (today.day < READ.day)
    if months < MONTHS:
        return []
    mend = "look them up again, and move READ in tests/references/catalog_reference.py"
    return [f"{PAGE.name}: families and licences were read on {READ}, {months} months ago; {mend}"]


def page() -> str:
    """Return the page as the planner has it now."""
    parts = ["# Models to start from", _prose(HEAD), _prose(CHOICE), sizes(), families()]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def sizes() -> str:
    """Say by size class which machine takes which method."""
    lines = ["## By size: the smallest machine for each method", "", _prose(MEANING), ""]
    models = sorted((model for family in FAMILIES for model in family.models), key=lambda one: shape(one).total)
    lines += _head(["size", "model", "parameters", *COLUMNS])
    for model in models:
        counted = shape(model)
        size = next(name for name, limit in SIZES.items() if counted.total < limit)
        cells = [smallest(model, method, adapter) for method, adapter in COLUMNS.values()]
        lines.append(_row([size, model, _parameters(counted), *cells]))
    return "\n".join(lines)


def families() -> str:
    """Say whose the families are, under which licence, and what to know of them."""
    lines = ["## By family", "", *_head(["family", "on the hub", "`model_type`", "licence", "read in", "know"])]
    for one in FAMILIES:
        types = dict.fromkeys(f"`{public_configs.CONFIGS[model]['model_type']}`" for model in one.models)
        lines.append(_row([one.name, one.maker, ", ".join(types), one.licence, one.source, one.note]))
    return "\n".join(lines)


def smallest(model: str, method: str, adapter: str) -> str:
    """Return the smallest machine on which the recipe fits, and whether a DGX Spark takes it."""
    card = next((name for name in MACHINES if fits(model, method, adapter, name)), None)
    spark = fits(model, method, adapter, UNIFIED)
    return " + ".join(filter(None, [card, "spark" if spark else None])) or "-"


@functools.cache
def fits(model: str, method: str, adapter: str, machine: str) -> bool:
    """Tell whether the recipe fits the machine as it is."""
    with tempfile.TemporaryDirectory() as made:
        path = planned_runs.write(
            Path(made), model=model, method=method, hardware=machine, cap=CAP, training=dict(ADAPTERS[adapter])
        )
        return planned_runs.planned(path, longest_prompt=PROMPT).verdict != "does not fit"


@functools.cache
def shape(model: str) -> Architecture:
    """Return the architecture of a model; raises UnknownShape where the planner does not know its family."""
    return architecture.read(public_configs.CONFIGS[model])


def _parameters(counted: Architecture) -> str:
    total = f"{counted.total / 1e9:.2f}B" if counted.total < 1e9 else f"{counted.total / 1e9:.1f}B"
    has_experts = any(layer.mlp.experts for layer in counted.layers)
    return f"{total}, {counted.active / 1e9:.1f}B active" if has_experts else total


if __name__ == "__main__":
    main(sys.argv[1:])
