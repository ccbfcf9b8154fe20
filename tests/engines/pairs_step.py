"""Let TRL's own trainers read files of preferences as they stand: `python pairs_step.py MODEL FOLDER METHOD=FILE ...`.

A program for the training interpreter. Prints, for each file, how many rows the trainer kept, the tokens of its first
row as text, and the losses of two steps.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # more threads spin against one another on busy cores


def main() -> None:
    """Train two steps on each file."""
    model, folder, *files = sys.argv[1:]
    print("\n" + json.dumps([step(model, Path(folder), *file.split("=", 1)) for file in files]))  # noqa: T201  the answer


def step(model: str, folder: Path, method: str, file: str) -> dict[str, Any]:
    """Return what one trainer made of one file."""
    from datasets import load_dataset
    from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer

    makers: dict[str, Any] = {"dpo": (DPOConfig, DPOTrainer), "kto": (KTOConfig, KTOTrainer)}
    config, trainer_class = makers[method]
    options = {"output_dir": str(folder), "max_steps": 2, "per_device_train_batch_size": 2, "logging_steps": 1}
    args = config(**options, use_cpu=True, report_to=[], save_strategy="no", learning_rate=0.01)
    rows = load_dataset("json", data_files=file, split="train", cache_dir=str(folder / "cache"))
    trainer = trainer_class(model, args=args, train_dataset=rows)
    trainer.train()
    first = trainer.train_dataset[0]
    sides = [name for name in ("prompt", "chosen", "rejected", "completion") if f"{name}_ids" in first]
    return {
        "rows": len(trainer.train_dataset),
        "texts": {name: trainer.processing_class.decode(first[f"{name}_ids"]) for name in sides},
        "label": first.get("label"),
        "losses": [line["loss"] for line in trainer.state.log_history if "loss" in line],
    }


if __name__ == "__main__":
    main()
