"""Ask an interpreter what it is and what it has; standard library only."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from llm_finetuning.errors import Refusal
from llm_finetuning.extras import install_command

OLDEST_PYTHON = (3, 10)
ANSWER_WAIT_S = 120.0  # from a cold network disk an interpreter can take a minute to start

# Runs under any interpreter, however old. The working folder leaves the path: `torch.py` there is not torch.
PROBE = """
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import importlib.util, json
missing = [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]
print(json.dumps([list(sys.version_info[:2]), missing]))
"""


def found(named: str) -> str:
    """Return the program that a name, a path or an environment's folder stands for; refuses what is none."""
    path = Path(named).expanduser()
    program = path / "bin" / "python" if path.is_dir() else path
    # Absolute, with links as they are: what an environment's `python` links to lies outside the environment.
    python = shutil.which(named if "/" not in named and not path.is_dir() else program.absolute())
    if python is None:
        raise Refusal(f"training interpreter {named}: no such program; name a Python or an environment's folder")
    return str(python)


def checked(python: str, needs: Sequence[str]) -> str:
    """Return the interpreter as it is, or refuse with the command that would mend it."""
    version, missing = probe(python, needs)
    if version < OLDEST_PYTHON:
        raise Refusal(f"training interpreter {python}: is Python {version[0]}.{version[1]}; name one of 3.10 or newer")
    if missing:
        raise Refusal(
            f"training interpreter {python}: has no {', '.join(missing)}; name another with --python, "
            f"or install into it: {install_command(python, missing)}"
        )
    return python


def at_hand(named: str | None, needs: Sequence[str]) -> str | None:
    """Return the named interpreter, or this one, if it has these modules; nothing is installed for them."""
    program = found(named) if named is not None else sys.executable
    _, missing = probe(program, needs)
    return None if missing else program


def probe(python: str, modules: Sequence[str]) -> tuple[tuple[int, int], list[str]]:
    """Return an interpreter's version and the modules it lacks, importing none; refuses what does not run."""
    try:
        done = subprocess.run(
            [python, "-c", PROBE, *modules],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_WAIT_S,
            check=True,
            env=training_environ(),
        )
        (major, minor), missing = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as fault:
        said = (str(getattr(fault, "stderr", "") or fault).strip() or "no answer").splitlines()[-1]
        raise Refusal(f"training interpreter {python}: does not run as Python ({said}); name another") from fault
    return (major, minor), missing


def training_environ() -> dict[str, str]:
    """Return the process environment for a program under the training interpreter.

    Bytecode of torch and its like lies beside their sources. With the launcher's folder for bytecode it would
    all be compiled again, which takes longer than the import. Nothing is written beside the plugin's files.
    PYTHONSAFEPATH would hide the working folder, from which the programs are loaded.
    """
    dropped = ("PYTHONPYCACHEPREFIX", "PYTHONSAFEPATH")
    environ = {name: value for name, value in os.environ.items() if name not in dropped}
    return environ | {"PYTHONDONTWRITEBYTECODE": "1"}
