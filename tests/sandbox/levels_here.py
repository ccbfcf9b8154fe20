"""Which isolation levels this machine offers, to whom, and a way to run a job on the simulated host."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import simulated_host

from llm_finetuning.sandbox import levels

HERE = Path(__file__).parent
ORDINARY_USER = 1000


def offered() -> list[str]:
    """Return the levels that can be had here, strongest first."""
    found = []
    for name in levels.LEVELS:
        try:
            levels.choose(name, None)
        except levels.NoLevel:
            continue
        found.append(name)
    return found


def users() -> list[int]:
    """Return the user ids that tests can run as: root and an ordinary one where this is root."""
    return [0, ORDINARY_USER] if os.getuid() == 0 else [os.getuid()]


def run_on_host(*, uid: int, level: str, timeout: float = 550, **job: Any) -> dict[str, Any]:
    """Return the report of a job on the simulated host; skips where such a machine cannot be made."""
    python = simulated_host.interpreter_for(uid)
    if python is None:
        pytest.skip(f"user {uid} can start no Python here")
    keep = [str(folder) for folder in job.get("corpora", [])]
    packages = [path for path in sys.path if path.endswith("site-packages")]
    whole = {"uid": uid, "level": level, "python": python, "keep": [*keep, *packages, python], "paths": packages, **job}
    command = [sys.executable, str(HERE / "simulated_host.py"), json.dumps(whole)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode == simulated_host.CANNOT:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert report["uid"] == uid
    assert report["level"] == level
    return report
