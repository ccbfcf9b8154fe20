"""A program that runs programs in one box and prints their outcomes, so that a test can be another user.

`python confined.py JOB` with a job in JSON: `level`, `programs` as pairs of code and limits, and `landlock_at_most`.
Each program is to define `attempt`, and passes if that returns the word "refused".
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
Code = str | tuple[str, dict[str, float]]


def run_as(uid: int, level: str, programs: Sequence[Code], landlock_at_most: int | None = None) -> list[dict[str, Any]]:
    """Return the outcomes of programs that a user runs at a level; skips where that user can start no Python."""
    import pytest
    import simulated_host

    python = simulated_host.interpreter_for(uid)
    if python is None:
        pytest.skip(f"user {uid} can start no Python here")
    whole = [(program, {}) if isinstance(program, str) else program for program in programs]
    job = {"level": level, "programs": whole, "landlock_at_most": landlock_at_most}
    options: dict[str, Any] = {"user": uid, "group": uid, "extra_groups": []} if os.getuid() != uid else {}
    done = subprocess.run(
        [python, "-B", __file__],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd="/",
        env={"PATH": os.environ["PATH"], "SECRET_TOKEN": "CANARY-environment", "HOME": "/"},
        **options,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes: list[dict[str, Any]] = json.loads(done.stdout)
    return outcomes


def main() -> None:
    sys.path[:0] = [str(SCRIPTS)]
    from llm_finetuning.sandbox.jobs import Call, Calls, Limits, Program
    from llm_finetuning.sandbox.levels import LEVELS
    from llm_finetuning.sandbox.worker import Worker

    job = json.load(sys.stdin)
    tests = Calls([Call("attempt()", "attempt", expected="refused")])
    with Worker(LEVELS[job["level"]], packages=(), landlock_at_most=job["landlock_at_most"]) as worker:
        outcomes = [worker.run(Program(code, tests, Limits(**limits))) for code, limits in job["programs"]]
    json.dump([asdict(outcome) for outcome in outcomes], sys.stdout)


if __name__ == "__main__":
    main()
