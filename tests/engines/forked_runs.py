"""Start the train.py of several run folders: `python forked_runs.py FOLDER ...`, for the training interpreter.

The libraries are imported once and each run is a fork with modules of its own, which saves seconds a run. What a run
prints goes to its logs/train.log; the exit codes are printed as one JSON list.
"""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # more threads spin against one another on busy cores
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import peft  # noqa: F401
import torch  # noqa: F401
import trl.experimental.cpo
import trl.experimental.orpo  # noqa: F401
from trl import DPOTrainer, KTOTrainer, SFTTrainer  # noqa: F401


def main() -> None:
    """Run each folder to its end, one after the other."""
    codes = []
    for folder in map(Path, sys.argv[1:]):
        child = os.fork()
        if child == 0:
            _become(folder)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        codes.append(code if code >= 0 else _as_a_program(folder))
    print("\n" + json.dumps(codes))  # noqa: T201  the answer


def _as_a_program(folder: Path) -> int:
    """Run a folder in a process of its own: the fork of one with threads may crash where the run would not."""
    with (folder / "logs" / "train.log").open("ab") as log:
        done = subprocess.run([sys.executable, "train.py"], cwd=folder, stdout=log, stderr=log, check=False)
    return done.returncode


def _become(folder: Path) -> None:
    """Be the run of a folder, as `python train.py` there would be."""
    (folder / "logs").mkdir(exist_ok=True)
    log = os.open(folder / "logs" / "train.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(folder)
    sys.path[0] = str(folder)
    sys.argv = ["train.py"]
    code = 0
    try:
        runpy.run_path(str(folder / "train.py"), run_name="__main__")
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
