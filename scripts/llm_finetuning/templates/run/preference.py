"""Teach a model which of two completions is better (DPO, ORPO, SimPO) or whether one is good (KTO); `python train.py`.

All that differs between runs stands in config.yaml. It goes on from the last whole checkpoint by itself. SIGTERM
finishes the step, saves and stops.

Leaves logs/ (progress.jsonl, outcome.json, effective.yaml), checkpoints/ and, at the end, model/.
Exit codes: 0 finished, or stopped on request; 1 not what was built, or stopped by a guard; 2 config or environment;
4 full disk, other machinery.
"""

import importlib
from pathlib import Path
from typing import Any

from guards import ending, gate_check

HERE = Path(__file__).resolve().parent

PAIRS = ("prompt", "chosen", "rejected")

METHODS = {
    "dpo": ("trl", "DPOTrainer", PAIRS),
    "kto": ("trl", "KTOTrainer", ("prompt", "completion", "label")),
    "orpo": ("trl.experimental.orpo", "ORPOTrainer", PAIRS),
    "simpo": ("trl.experimental.cpo", "CPOTrainer", PAIRS),
}
"""Where each method's trainer is, and the columns that it reads; SimPO is a loss of the CPO trainer."""


def main(run: ending.Run) -> None:
    """Train, with everything that has to hold checked on the way."""
    # First of all, before anything else is imported: the files here are those that were built, byte for byte.
    gate_check.check(HERE)

    from guards import data, disk, interruption, last_step, offline_rows, options, progress

    # Every option is written out in config.yaml; one that this TRL does not have ends the run here.
    settings = options.load(HERE)
    args = options.trainer_config(settings)
    rows = data.Rows(settings)
    module, name, columns = METHODS[settings.method]

    # DPO and KTO make the reference model themselves (none with LoRA: the adapter is switched off).
    run.trainer = trainer = getattr(importlib.import_module(module), name)(
        model=settings.model_source,
        args=args,
        train_dataset=offline_rows.table(rows.train, columns),
        eval_dataset=offline_rows.table(rows.held_out, columns) if rows.held_out else None,
        peft_config=options.adapter_config(settings),
        **_as_it_takes_them(settings, args),
    )
    options.check_effective(settings, trainer)

    trainer.add_callback(progress.Progress(HERE))
    trainer.add_callback(last_step.LastStep())
    trainer.add_callback(interruption.Interruption(HERE))
    trainer.add_callback(disk.Room(HERE))

    # On from the last whole checkpoint, where there is one; the model is saved in model/.
    run.train(f"{settings.file}: not one step was trained on {len(rows.train)} rows; take a smaller batch")


def _as_it_takes_them(settings: Any, args: Any) -> dict[str, Any]:
    """Return what the trainers of trl.experimental want in another way: quantization, and a token to pad with."""
    from transformers import AutoTokenizer

    from guards import options

    quantization = options.quantization_config(settings)
    if not METHODS[settings.method][0].startswith("trl.experimental"):
        return {"quantization_config": quantization}
    if quantization is not None:
        args.model_init_kwargs = {**(args.model_init_kwargs or {}), "quantization_config": quantization}
    revision = settings.model.get("revision")
    trusted = {"trust_remote_code": args.trust_remote_code}
    tokenizer = AutoTokenizer.from_pretrained(settings.model_source, revision=revision or "main", **trusted)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return {"processing_class": tokenizer}


if __name__ == "__main__":
    with ending.recorded(HERE) as this_run:
        main(this_run)
