"""Run pip, uv and venv, and say in one line why they failed; standard library only."""

import os
import re
import shlex
import subprocess
from pathlib import Path

from llm_finetuning.errors import MachineryFailure
from llm_finetuning.extras import REQUIREMENTS

# What an installer's output means. The first that fits speaks: a full disk also ends connections, and a lost
# connection also ends in "no matching distribution".
FAULTS = (
    (
        r"No space left on device|os error 28|Errno 28|[Qq]uota exceeded",
        "the disk is full; free some space, or set FINETUNE_HOME to a folder on another disk",
    ),
    (
        r"DO NOT MATCH THE HASHES|Hash mismatch",
        "the package index serves another file than the lock names; use one that serves PyPI's own files",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|invalid peer certificate",
        "the package index's certificate is not trusted; set PIP_CERT to your site's certificate file",
    ),
    (
        (
            r"Failed to establish a new connection|Connection (refused|aborted|broken|reset)|dns error"
            r"|[Nn]ame resolution|Name or service not known|Network is unreachable|[Tt]imed? ?out"
            r"|Cannot connect to proxy|error sending request|Failed to fetch"
        ),
        "cannot reach the package index; connect to the network, or set PIP_INDEX_URL to a mirror",
    ),
    (
        r"No matching distribution found|No solution found",
        "the package index has no file that fits this machine and Python; see `pip config list`",
    ),
)

# Settings of the person's own that would lead an installer to other packages or to another place.
ASTRAY = (
    "PIP_PREFIX",
    "PIP_TARGET",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONPYCACHEPREFIX",
    "UV_PYTHON",
    "VIRTUAL_ENV",
)


def run(command: list[str], *, lock: int, log: Path, what: str) -> None:
    """Run one step in `requirements/` with its output in the log; fails with `what` and the cause.

    The step shares the lock: one that outlives its parent still keeps others out of the folder it writes to.
    """
    with log.open("ab") as file:
        file.write(f"$ {shlex.join(command)}\n".encode())
        file.flush()
        start = file.tell()
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=_environ(),
            cwd=REQUIREMENTS,
            pass_fds=(lock,),
            check=False,
        )
    if done.returncode:
        said = log.read_bytes()[start:].decode("utf-8", "replace")
        raise MachineryFailure(f"{what}: {_cause(said)} (everything that was said: {log})")


def _cause(said: str) -> str:
    """Return the first fault that fits, else the last line: pip and uv end with what stopped them."""
    for pattern, text in FAULTS:
        if re.search(pattern, said):
            return text
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "it ended without a word"


def _environ() -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if name not in ASTRAY}
    # pip's own five retries take a minute without a network; with none it does not even say that there is no network.
    if environ.get("PIP_RETRIES", "0") == "0":
        environ["PIP_RETRIES"] = "2"
    return environ | {
        "PIP_USER": "0",
        "PIP_NO_INPUT": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_PROGRESS_BAR": "off",
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_PROGRESS": "1",
    }
