"""Print the option names of TRL's trainer configs; `trl_options.json` is made by this program.

Run it with the training interpreter in the folder `scripts` and send what it prints into that file:
`python -m llm_finetuning.engines.trl_options_reader`. A test compares the file with what the installed TRL says.
"""

import dataclasses
import json
import os
import sys
import warnings

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
warnings.simplefilter("ignore")


def options() -> dict[str, object]:
    """Return TRL's version and, by method, the names that its config takes."""
    import trl

    from llm_finetuning.engines.config_checker import config_classes

    names = {
        method: sorted(field.name for field in dataclasses.fields(config) if field.init)
        for method, config in config_classes().items()
    }
    lora = sorted(
        field.name
        for field in dataclasses.fields(trl.ModelConfig)
        if any(part in field.name for part in ("lora", "dora", "bnb", "load_in_"))
    )
    # What every method shares is listed once, so that a change of TRL shows as a small difference.
    shared = sorted(set.intersection(*(set(method) for method in names.values())))
    own = {method: [name for name in listed if name not in shared] for method, listed in names.items()}
    return {"trl": trl.__version__, "shared": shared, "lora": lora, "methods": own}


if __name__ == "__main__":
    json.dump(options(), sys.stdout, indent=1)
    sys.stdout.write("\n")
