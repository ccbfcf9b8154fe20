"""The argument and the option that every verb takes, spelt once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

RUN_DIR = click.Path(path_type=Path, file_okay=False)

run_dir: Callable[[Any], Any] = click.argument("run_dir", type=RUN_DIR)

as_json: Callable[[Any], Any] = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")

python: Callable[[Any], Any] = click.option(
    "--python", metavar="PATH", help="The training interpreter; the brief's `environment` when left out."
)
