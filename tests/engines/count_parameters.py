"""Build models on the meta device and print how many parameters each has.

A program for the training interpreter: `python count_parameters.py CONFIGS.json`, an object of name and config; prints
an object of name and count, or a sentence where transformers refuses the config.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"


def count(config: dict[str, Any]) -> int:
    """Return the number of parameters of the causal language model, each counted once where tied."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    kind = config.get("model_type")
    built = AutoConfig.for_model(kind, **{key: value for key, value in config.items() if key != "model_type"})
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(built)
    model.tie_weights()
    return sum(parameter.numel() for parameter in model.parameters())


def main() -> None:
    """Count every config of the file."""
    configs = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    counts: dict[str, int | str] = {}
    for name, config in configs.items():
        try:
            counts[name] = count(config)
        except (ValueError, KeyError, TypeError, AttributeError, ImportError) as error:
            counts[name] = f"{type(error).__name__}: {error}"
    print("\n" + json.dumps(counts))  # noqa: T201  the answer


if __name__ == "__main__":
    main()
