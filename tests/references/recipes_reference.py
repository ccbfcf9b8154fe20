"""Writes the skills' references on recipes from the recipes: what a run gets that its brief does not say.

python tests/references/recipes_reference.py
"""

import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "llm_finetuning" / "templates" / "run")]

import preference as run_script  # noqa: E402  found through the path above
from llm_finetuning import recipes  # noqa: E402  likewise
from llm_finetuning.brief import LoadedBrief, parse  # noqa: E402  likewise
from llm_finetuning.recipes import offline, preference, sft, shapes  # noqa: E402  likewise
from llm_finetuning.recipes.config import Option, RunConfig  # noqa: E402  likewise

SKILLS = ROOT / "skills"
SUPERVISED = SKILLS / "lora-qlora-recipes" / "references" / "recipes.md"
PREFERENCES = SKILLS / "preference-optimization" / "references" / "recipes.md"

METHODS = ("dpo", "kto", "orpo", "simpo")
ADAPTERS = {"all weights": "{}", "LoRA": "{adapter: lora}", "QLoRA": "{adapter: qlora}"}
MACHINE, ROWS = "h100", 1000
OTHER_NAMES = {
    "r": "lora_r",
    "target_modules": "lora_target_modules",
    "bnb_4bit_use_double_quant": "use_bnb_nested_quant",
}
SCHEDULE = ("num_train_epochs", "lr_scheduler_type", "warmup_steps", "max_length")

HEAD = f"""
Written by `python tests/references/recipes_reference.py` from the recipes themselves, and compared with them by a test.
These are the values of a run on one {MACHINE} that its brief says nothing about; `training:` in the brief has the last
word over each of them, in TRL's spelling. `train/config.yaml` of a built run has all of them, each with its reason.
"""


def main() -> None:
    """Write both pages."""
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def pages() -> dict[Path, str]:
    """Return both pages as the recipes have them now."""
    return {SUPERVISED: _page(supervised()), PREFERENCES: _page(preferences())}


def supervised() -> Iterator[str]:
    """Yield the sections of SFT's page."""
    yield "# The recipe of supervised fine-tuning"
    yield _prose(HEAD)
    found = {name: config("sft", training) for name, training in ADAPTERS.items()}
    yield "\n".join(
        [
            "## Numbers",
            "",
            *_table(["", *found], _numbers(list(found.values()))),
            "",
            _prose(f"Learning rates: {sft.METHOD.rate.source}."),
        ]
    )
    lora, qlora = found["LoRA"], found["QLoRA"]
    assert lora.adapter is not None
    assert qlora.quantization is not None
    parts = {**{name: value for name, value in lora.adapter.items() if name != "kind"}, **qlora.quantization}
    rows = [[f"`{OTHER_NAMES.get(name, name)}`", _text(value)] for name, value in parts.items()]
    yield "\n".join(
        [
            "## The adapter",
            "",
            "`load_in_4bit` and what follows are QLoRA's alone.",
            "",
            *_table(["option", "value"], rows),
        ]
    )
    yield _reasons("## Why", found["all weights"], sft.OPTIONS)
    yield _refusals(sft.CHECKS)


def preferences() -> Iterator[str]:
    """Yield the sections of the preference methods' page."""
    yield "# The recipes of DPO, KTO, ORPO and SimPO"
    yield _prose(HEAD)
    found = {name: config(name, "{}") for name in METHODS}
    rates = [
        [name.upper() if name != "simpo" else "SimPO", f"{rate.full:g}", f"{rate.adapter:g}", rate.source]
        for name, rate in ((name, preference.METHODS[name].rate) for name in METHODS)
    ]
    heads = ["", *("SimPO" if name == "simpo" else name.upper() for name in METHODS)]
    columns = ["columns of a row", *(", ".join(f"`{one}`" for one in run_script.METHODS[name][2]) for name in METHODS)]
    kept = ["reference model kept", *("yes" if "sync_ref_model" in found[name].trainer else "no" for name in METHODS)]
    yield "\n".join(
        [
            "## Numbers",
            "",
            *_table(heads, [columns, kept, *_numbers(list(found.values()), ("beta", "loss_type", "simpo_gamma"))]),
            "",
            "With an adapter the reference is the same model with the adapter switched off, and costs no memory.",
        ]
    )
    yield "\n".join(["## Learning rates", "", *_table(["method", "all weights", "adapter", "from"], rates)])
    yield _weights()
    for name, head in zip(METHODS, heads[1:], strict=True):
        yield _reasons(f"## Why: {head}", found[name], preference.OPTIONS[name])
    yield _refusals(
        {f"{name}: {option}": check for name in METHODS for option, check in preference.CHECKS[name].items()}
    )


def _weights() -> str:
    """Say how KTO's two weights follow from the labels."""
    counts = ((500, 500), (520, 480), (900, 100), (100, 900))
    rows = []
    for good, bad in counts:
        options, _ = preference.weights_for(good, bad)
        weights = [
            _text(options[name].value) if name in options else "1"
            for name in ("desirable_weight", "undesirable_weight")
        ]
        rows.append([str(good), str(bad), *weights])
    balance = f"{preference.KTO_BALANCE:.2f}"
    words = f"""Counted from the labels where the data set is a file. While the good rows weigh 1 to {balance} times
        what the bad ones do, both weights stay 1; else the rarer side's is raised until both weigh alike."""
    return "\n".join(
        [
            "## KTO's weights",
            "",
            _prose(words),
            "",
            *_table(["good rows", "bad rows", "`desirable_weight`", "`undesirable_weight`"], rows),
        ]
    )


def config(method: str, training: str) -> RunConfig:
    """Return the config of a run of the method, as `build` writes it."""
    columns = {"sft": "completion: completion", "kto": "completion: completion, label: label"}
    named = columns.get(method, "chosen: chosen, rejected: rejected")
    text = (
        f"name: page\nmethod: {method}\nmodel: some/model\n"
        f"dataset: {{path: some/data, prompt: prompt, {named}}}\ntraining: {training}\nhardware: {MACHINE}\n"
    )
    loaded = LoadedBrief(parse(text, Path("brief.yaml")), Path("/nowhere"))
    return recipes.config_for(loaded, shapes.machine_of(MACHINE), ROWS)


def _numbers(found: Sequence[RunConfig], own: Sequence[str] = ()) -> Iterator[list[str]]:
    """Yield a row for each number, with a cell for each config."""
    for name in ("learning_rate", *own, *SCHEDULE):
        yield [f"`{name}`", *(_text(one.trainer[name].value) if name in one.trainer else "" for one in found)]
    yield ["rows a step (device x accumulation)", *(_batch(one) for one in found)]
    yield ["weights kept in", *(str(one.model["init_kwargs"]["dtype"]) for one in found)]


def _batch(found: RunConfig) -> str:
    device = found.trainer["per_device_train_batch_size"].value
    accumulated = found.trainer["gradient_accumulation_steps"].value
    return f"{device * accumulated} ({device} x {accumulated})"


def _reasons(head: str, found: RunConfig, own: Any) -> str:
    """Return the options of a method that have a reason beside them."""
    options: dict[str, Option] = {name: found.trainer[name] for name in own if found.trainer[name].why}
    rows = [[f"`{name}`", _text(option.value), option.why] for name, option in options.items()]
    return "\n".join([head, "", *_table(["option", "value", "reason"], rows)])


def _refusals(checks: offline.Checks) -> str:
    rows = [[f"`{name}`", words] for name, (_, words) in checks.items()]
    head = (
        "A brief with another value is refused by `finetune build`, since TRL would fail late or train something else."
    )
    return "\n".join(["## What is refused", "", head, "", *_table(["option", "has to be"], rows)])


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return (
        f"{value:g}"
        if isinstance(value, float)
        else "none"
        if value is None
        else str(value).lower().replace("causal_lm", "CAUSAL_LM")
    )


def _page(parts: Iterator[str]) -> str:
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _prose(words: str) -> str:
    return textwrap.fill(" ".join(words.split()), 120, break_on_hyphens=False)


def _table(heads: Sequence[str], rows: Any) -> list[str]:
    return [_row(heads), "|" + "---|" * len(heads), *(_row(row) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', 'or') for cell in cells)} |"


if __name__ == "__main__":
    main()
