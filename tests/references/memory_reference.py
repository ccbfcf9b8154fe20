"""Writes the skill's reference on memory from the planner.

python tests/references/memory_reference.py
"""

import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

import planned_runs  # noqa: E402  found through the path above
from llm_finetuning.planning import hardware  # noqa: E402  likewise
from llm_finetuning.sizing import duration, remedies  # noqa: E402  likewise
from llm_finetuning.sizing.forecast import Forecast, forecast  # noqa: E402  likewise
from llm_finetuning.sizing.observed import Observed  # noqa: E402  likewise

PAGE = ROOT / "skills" / "grpo-rlvr-training" / "references" / "grpo-memory.md"

MODELS = ("Qwen3-0.6B", "Qwen3-1.7B", "Qwen3-4B", "Qwen3-8B", "Qwen3-14B", "Qwen3-32B", "Qwen3-30B-A3B")
MACHINES = ("rtx4090", "l40s", "a100", "h100", "h200", "dgx-spark")
ADAPTERS: Mapping[str, dict[str, Any]] = {"all weights": {}, "LoRA": {"adapter": "lora"}, "QLoRA": {"adapter": "qlora"}}
PROMPT, CAP = 512, 1024  # tokens
TIMED = ("rtx4090", "h100", "dgx-spark")
MARKS = {"fits": "", "tight": " tight", "does not fit": " **no**"}
HALF = {"model_init_kwargs": {"dtype": "bfloat16"}}

HEAD = f"""
Read this when a person asks what fits a machine, when `finetune plan RUN` says `does not fit`, or after an
out-of-memory. Every number here is the planner's own (`python tests/references/memory_reference.py` writes this
page, and a test compares it): the recipe as `build` writes it, prompts of {PROMPT} tokens, completions of {CAP},
checkpointing on, vLLM colocated with its share of the card, TRL 1.16. For a run of your own ask `finetune plan RUN`;
it knows your lengths.
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")


def page() -> str:
    """Return the page as the planner has it now."""
    parts = [
        "# Memory of a GRPO run",
        _prose(HEAD),
        sizes(),
        changes(),
        phases(),
        sleep(),
        states(),
        lengths(),
        times(),
        spark(),
    ]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def sizes() -> str:
    """Say what each class of model needs of each machine."""
    lines = [
        "## What fits",
        "",
        _prose(
            """GiB of one device that a run needs, all counted: tensors, what the allocator loses, the CUDA context, and
            vLLM's share of the card, which grows with the card. `tight`: above 85 % of what is free. `share`: the rest
            would fit, but vLLM does not start in its share; give it more."""
        ),
        "",
    ]
    free = [f"{name} ({_free(name):.0f})" for name in MACHINES]
    for adapter, training in ADAPTERS.items():
        lines += [*_head([f"{adapter}; card (GiB free)", *free])]
        for model in MODELS:
            found = [run(model, hardware=name, training=training) for name in MACHINES]
            lines.append(_row([model, *(f"{one.memory.device.gib:.0f}{_mark(one)}" for one in found)]))
        lines.append("")
    return "\n".join(lines)


def changes() -> str:
    """Say with which change what does not fit, fits."""
    lines = [
        "## The smallest change that fits",
        "",
        "What `plan` answers for all weights: of all changes that fit, those that cost least in quality and speed.",
        "",
        *_head(["model", "machine", "change of the brief"]),
    ]
    for model in MODELS[:5]:
        for name in ("rtx4090", "h100", "dgx-spark"):
            words = _remedy(model, name)
            if words:
                lines.append(_row([model, name, words]))
    return "\n".join(lines)


def phases() -> str:
    """Show where one run's memory goes."""
    found = run("Qwen3-1.7B", hardware="h100")
    names = list(dict.fromkeys(part.name for phase in found.memory.phases for part in phase.parts))
    formulae = {part.name: part.formula for phase in found.memory.phases for part in phase.parts}
    lines = [
        "## Where it goes: Qwen3-1.7B, all weights, h100",
        "",
        _prose(
            """GiB of tensors in each phase of a step. The fullest phase decides, and only what lives in that phase is
            worth cutting."""
        ),
        "",
        *_head(["part", *(phase.name for phase in found.memory.phases), "how it comes about"]),
    ]
    for name in names:
        held = [next((part.gib for part in phase.parts if part.name == name), None) for phase in found.memory.phases]
        cells = ["" if one is None else f"{one:.1f}" for one in held]
        lines.append(_row([name, *cells, formulae[name].replace("|", "or")]))
    lines.append(_row(["all", *(f"{phase.gib:.1f}" for phase in found.memory.phases), ""]))
    return "\n".join(lines)


def sleep() -> str:
    """Say what sleep mode gives back, and where it is off."""
    lines = [
        "## Sleep mode",
        "",
        _prose(
            """`vllm_enable_sleep_mode: true` gives vLLM's share back while the trainer trains, and sends the weights
            anew for every generation. Worth it where a training phase breaks, useless where the rollout does."""
        ),
        "",
        *_head(["run", "awake", "asleep while training"]),
    ]
    for model, name, adapter in (
        ("Qwen3-0.6B", "rtx4090", "all weights"),
        ("Qwen3-1.7B", "l40s", "all weights"),
        ("Qwen3-4B", "h200", "all weights"),
        ("Qwen3-8B", "l40s", "LoRA"),
    ):
        training = ADAPTERS[adapter]
        awake = run(model, hardware=name, training=training)
        asleep = run(model, hardware=name, training={**training, "vllm_enable_sleep_mode": True})
        cells = [f"{one.memory.device.gib:.1f}{_mark(one)}" for one in (awake, asleep)]
        lines.append(_row([f"{model}, {adapter}, {name}", *cells]))
    return "\n".join(lines)


def states() -> str:
    """Say what the optimizer's states cost and what makes them smaller."""
    tactics = {
        "the recipe: 32-bit weights, two 32-bit moments": {},
        "`optim: adamw_bnb_8bit`; embeddings keep 32-bit moments": {"optim": "adamw_bnb_8bit"},
        "`beta: 0.0`: no reference model": {"beta": 0.0},
        "`model_init_kwargs: {dtype: bfloat16}`; small learning rates then hardly move a weight": HALF,
        "`adapter: lora`": {"adapter": "lora"},
        "`adapter: qlora`": {"adapter": "qlora"},
    }
    parts = ("weights", "reference", "gradients", "optimizer")
    lines = [
        "## Optimizer states: Qwen3-1.7B on an h100",
        "",
        "The states appear with the first optimizer step: a run that fails at step 2 fails of them.",
        "",
        *_head(["tactic", *parts, "whole run"]),
    ]
    for words, training in tactics.items():
        found = run("Qwen3-1.7B", hardware="h100", training=training)
        most = {
            name: max(
                (part.gib for phase in found.memory.phases for part in phase.parts if part.name == name), default=0
            )
            for name in parts
        }
        lines.append(_row([words, *(f"{most[name]:.1f}" for name in parts), f"{found.memory.device.gib:.1f}"]))
    return "\n".join(lines)


def lengths() -> str:
    """Say what long completions cost."""
    small = {"adapter": "lora", "per_device_train_batch_size": 1, "gradient_accumulation_steps": 32}
    lines = [
        "## Long completions: Qwen3-8B, LoRA, h100",
        "",
        _prose(
            """The longest batch decides, not the mean. From TRL 1.15 on the loss is computed in chunks of tokens by
            vocabulary, so that logits no longer grow with length; activations and the KV cache do. First fewer
            completions at once with more accumulation (the batch that the optimizer sees stays), then several GPUs."""
        ),
        "",
        *_head(["max_completion_length", "8 completions at once", "1 at once", "vLLM's share for all at once"]),
    ]
    for cap in (1024, 4096, 8192, 16384):
        eight = run("Qwen3-8B", hardware="h100", cap=cap, training={"adapter": "lora"})
        one = run("Qwen3-8B", hardware="h100", cap=cap, training=small)
        cells = [f"{found.memory.device.gib:.1f}{_mark(found)}" for found in (eight, one)]
        assert eight.share is not None
        lines.append(_row([str(cap), *cells, f"{eight.share.ample:.2f}"]))
    return "\n".join(lines)


def times() -> str:
    """Say how long one step takes, and of what."""
    lines = [
        "## Time of a step",
        "",
        _prose(
            f"""Seconds of one optimizer step with LoRA, and what bounds its longest phase: {PROMPT} tokens of prompt,
            completions half as long as the cap in the mean, no time for rewards. To within a factor of 2:
            `finetune plan RUN` takes lengths and rewards of your samples, and `--calibrate` measures the machine."""
        ),
        "",
        *_head(["model", *TIMED]),
    ]
    lines += [_row([model, *(_step(model, name) for name in TIMED)]) for model in MODELS[:4]]
    return "\n".join(lines)


def _step(model: str, name: str) -> str:
    with tempfile.TemporaryDirectory() as made:
        loaded, where = _situated(Path(made), model, name, CAP, ADAPTERS["LoRA"])
        now = forecast(loaded, where)
        if now.verdict == "does not fit":
            return "does not fit"
        seen = Observed(prompt=float(PROMPT))
        found = duration.timed(now, where.model, seen, duration.rates_for(where.machine)).duration
    return f"{found.step[0]:.0f}; {found.bottleneck}"


def spark() -> str:
    """Say what is different where host and GPU share one memory."""
    card = hardware.CARDS["dgx-spark"]
    floor = hardware.host_floor_gib(card.memory_gib)
    words = f"""
        Host and GPU have one memory. The plan counts what is available ({card.idle_available_gib} GiB at rest) less
        {floor:.0f} GiB for the host, since an allocation too many hangs the machine instead of failing; say with
        `--host` what shared memory and data workers take. Sleep mode is off by default there: users saw it crash at
        wake-up. Its {card.bandwidth_gb_s:g} GB/s are a {_ratio(card):.0f}th of an H100's, and a rollout reads all
        weights for every token: prefer models up to 4B, and many completions at once. Remedies for its memory and heat
        beyond the plan belong to the `dgx-spark-ops` plugin, where it is installed."""
    return "\n".join(["## DGX Spark", "", _prose(words)])


def run(model: str, *, hardware: str, cap: int = CAP, training: Mapping[str, Any] | None = None) -> Forecast:
    """Return the forecast of a run of the recipe."""
    with tempfile.TemporaryDirectory() as made:
        return forecast(*_situated(Path(made), model, hardware, cap, training or {}))


def _situated(folder: Path, model: str, name: str, cap: int, training: Mapping[str, Any]) -> Any:
    path = planned_runs.write(folder, model=model, hardware=name, cap=cap, training=dict(training))
    return planned_runs.situated(path, longest_prompt=PROMPT)


def _remedy(model: str, name: str) -> str:
    """Return the change in words; empty where the recipe has room to spare."""
    with tempfile.TemporaryDirectory() as made:
        loaded, where = _situated(Path(made), model, name, CAP, {})
        now = forecast(loaded, where)
        if now.verdict == "fits":
            return ""
        found = remedies.search(loaded, where, now).found
    return f"{remedies.words_of(found.change)} ({found.gib:.0f} GiB)" if found else "none: a smaller model, more GPUs"


def _mark(found: Forecast) -> str:
    if found.memory.blocked and found.memory.device.gib <= found.device.free_gib:
        return " **no**: share"
    return MARKS[found.verdict]


def _free(name: str) -> float:
    return run("Qwen3-0.6B", hardware=name).device.free_gib


def _ratio(card: hardware.Card) -> float:
    return (hardware.CARDS["h100"].bandwidth_gb_s or 0) / (card.bandwidth_gb_s or 1)


def _prose(words: str) -> str:
    return textwrap.fill(" ".join(words.split()), 120, break_on_hyphens=False)


def _head(cells: Sequence[str]) -> list[str]:
    return [_row(cells), "|" + "---|" * len(cells)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
