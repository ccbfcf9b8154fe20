"""The program behind `symbolic`: compare two texts with Math-Verify, a pair a line, under hard limits.

It is killed by the kernel when a pair uses up its CPU time: no handler runs, so that arithmetic which never returns to
the interpreter ends as well. Both texts are data in a box of their own; nothing in them is evaluated as Python.
"""

import json
import os
import resource
import signal
import sys
from typing import Any

MEMORY_BYTES = 2 << 30
CPU_S = 3.0  # for one pair

# Math-Verify rounds to 6 decimals and 15 digits by default, where 1e-7 equals 2e-7.
_DECIMALS = 30
_DIGITS = 60


def main() -> None:
    """Answer `{"gold": ..., "answer": ...}` with `{"same": true, false or null}`; null where one cannot be read."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a library that prints must not spoil an answer
    import math_verify

    # Set after the import: threads of a numerical library reserve address space that they never use.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    _say(answers, {"ready": True})
    for line in sys.stdin:
        pair = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        try:
            same = _same(math_verify, pair["gold"], pair["answer"])
        except Exception:  # noqa: BLE001  whatever a parser of free text dies of
            same = None
        signal.setitimer(signal.ITIMER_PROF, 0)
        _say(answers, {"same": same})


def _say(answers: Any, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def _same(math_verify: Any, gold: str, answer: str) -> bool | None:
    left, right = (_read(math_verify, text) for text in (gold, answer))
    if left is None or right is None:
        return None
    return bool(
        math_verify.verify(
            [left],
            [right],
            float_rounding=_DECIMALS,
            numeric_precision=_DIGITS,
            timeout_seconds=None,
            raise_on_error=True,
        )
    )


def _read(math_verify: Any, text: str) -> Any:
    """Return the sympy object of a text, or None where Math-Verify falls back to comparing letters."""
    found = math_verify.parse(
        rf"\boxed{{{text}}}",
        extraction_config=[math_verify.LatexExtractionConfig(boxed_match_priority=0)],
        parsing_timeout=None,
        raise_on_error=True,
    )
    return next((item for item in found if not isinstance(item, str)), None)
