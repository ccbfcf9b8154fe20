"""Runs one job with the processes that it is given, and decides.

The verdict is made here and in the tester, from plain values, never from what the candidate says of itself: not its
exit status, not its output, not a word of its own on whether a test held. The number of tests is what was declared.
"""

import time
from collections.abc import Mapping
from typing import Any

from llm_finetuning.sandbox.box import calls, exchanges, scope, suite
from llm_finetuning.sandbox.box.hands import Hands
from llm_finetuning.sandbox.box.session import Verdict

_MODES = {"calls": calls.run, "exchanges": exchanges.run, "suite": suite.run}


def judge(job: Mapping[str, Any], hands: Hands) -> dict[str, Any]:
    """Return the outcome of a job, both as `sandbox.wire` writes them; nothing that a program does makes it raise."""
    began = time.monotonic()
    verdict = Verdict(total_of(job))
    try:
        if job["language"] == "python":
            _MODES[job["mode"]](job, hands, verdict)
        else:
            verdict.stop("infrastructure", f"no runner for the language {job['language']!r}")
    except OSError as error:
        verdict.stop("infrastructure", f"no process: {error}")
    verdict.wall_s = time.monotonic() - began
    return verdict.told()


def total_of(job: Mapping[str, Any]) -> int:
    """Return the declared number of tests of a job."""
    if job["mode"] == "suite":
        return len(job["names"]) or _statements(job["source"])
    return len(job[job["mode"]])


def _statements(source: str) -> int:
    try:
        return scope.count(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 1  # the tester says what is wrong with it
