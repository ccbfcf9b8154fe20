"""What accelerate makes of its config files: `python launch_reader.py FILE ...`, for the training interpreter.

Each file is read as `accelerate launch --config_file` reads it; the environment that the trainer's processes would get
is printed as one JSON list.
"""

import json
import socket
import sys
from collections.abc import Callable
from typing import Any

from accelerate.commands import launch
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.utils.launch import (
    prepare_deepspeed_cmd_env,
    prepare_multi_gpu_env,
    prepare_simple_launcher_cmd_env,
)

PREFIXES = ("ACCELERATE_", "FSDP_")


def main() -> None:
    """Print what each file means."""
    print("\n" + json.dumps([meaning(path) for path in sys.argv[1:]]))  # noqa: T201  the answer


def meaning(path: str) -> dict[str, Any]:
    """Return how accelerate would start the trainer, and with which environment, after all of its own checks."""
    load_config_from_file(path)  # raises for a key that it does not know
    given = ["--config_file", path, "--machine_rank", "0", "--main_process_ip", "node"]
    with socket.create_server(("", 0)) as probe:  # accelerate refuses a port that is in use
        port = str(probe.getsockname()[1])
    found: dict[str, Any] = {}

    def started_by(name: str, environ_of: Callable[[Any], dict[str, str]]) -> None:
        def start(arguments: Any) -> None:
            environ = {key: value for key, value in environ_of(arguments).items() if key.startswith(PREFIXES)}
            found.update(by=name, processes=arguments.num_processes, machines=arguments.num_machines, environ=environ)

        setattr(launch, name, start)

    started_by("deepspeed_launcher", lambda arguments: prepare_deepspeed_cmd_env(arguments)[1])
    started_by("multi_gpu_launcher", prepare_multi_gpu_env)
    started_by("simple_launcher", lambda arguments: prepare_simple_launcher_cmd_env(arguments)[1])
    launch.launch_command(launch.launch_command_parser().parse_args([*given, "--main_process_port", port, "train.py"]))
    return found


if __name__ == "__main__":
    main()
