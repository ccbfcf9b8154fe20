"""Exchanges: the code runs whole, once for each input, and what it prints is compared."""

import time
from collections.abc import Mapping
from typing import Any

from llm_finetuning.sandbox.box.hands import Hands
from llm_finetuning.sandbox.box.session import Session, Verdict
from llm_finetuning.sandbox.box.supervision import Stopped, why

_SHOWN = 120


def run(job: Mapping[str, Any], hands: Hands, verdict: Verdict) -> None:
    """Judge a program by what it prints, a process for each exchange.

    After right output, an exit status other than zero is a failure still, as with judges of contests. One that did not
    compile, died, or was stopped at a limit is not run again for the exchanges that are left; those failed.

    The CPU limit is of each run, the wall limit of all together, as `wall_left` has it.
    """
    began, wall_s = time.monotonic(), job["limits"]["wall_s"]
    for index, exchange in enumerate(job["exchanges"]):
        left = wall_left(wall_s, verdict.cpu_s, time.monotonic() - began)
        if left <= 0:
            verdict.stop("timeout", f"exchange {index + 1}: wall time: all before it took too long together")
            return
        session = Session({**job, "limits": {**job["limits"], "wall_s": min(wall_s, left)}}, hands)
        try:
            reason = _fault_of(session, job["code"], exchange)
            if reason is None:
                verdict.held.add(index)
            else:
                verdict.fail(f"exchange {index + 1}: {reason}")
        except Stopped as stopped:
            verdict.stop(stopped.status, f"exchange {index + 1}: {stopped.detail}")
            return
        finally:
            session.close(verdict)


def wall_left(wall_s: float, cpu_s: float, elapsed_s: float) -> float:
    """Return the seconds that the exchanges which are left may take; zero or less if there are none.

    All together may take the wall limit beside the CPU time that they used, and never more than twice the limit: a
    program that sleeps does not hold its worker once for each exchange, and one that computes has its time.
    """
    return min(wall_s + cpu_s, 2 * wall_s) - elapsed_s


def _fault_of(session: Session, code: str, exchange: Mapping[str, str]) -> str | None:
    name, said = session.run_whole(code, exchange["stdin"])
    ending = session.candidate.ending
    if ending is None or ending.signal is not None:
        raise why(ending, session.limits, "the program")
    if name == "MemoryError":
        raise Stopped("memory", said)
    if name in {"SyntaxError", "IndentationError", "TabError"}:
        raise Stopped("error", said)
    if ending.code != 0:
        return said or f"exit status {ending.code}"
    printed = lines_of(session.candidate.printed().decode("utf-8", "replace"))
    expected = lines_of(exchange["stdout"])
    return None if printed == expected else _difference(printed, expected)


def lines_of(text: str) -> list[str]:
    """Return the lines that count: without white space at their ends, and without empty ones at the end."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _difference(printed: list[str], expected: list[str]) -> str:
    for place, (found, wanted) in enumerate(zip(printed, expected, strict=False), start=1):
        if found != wanted:
            return f"line {place} is {found[:_SHOWN]!r}, not {wanted[:_SHOWN]!r}"
    return f"printed {len(printed)} lines, not {len(expected)}"
