"""What one check comes to: a state, one line of what was seen, and where something is to be done the one thing."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from llm_finetuning.machine.facts import Facts
from llm_finetuning.machine.needs import Needs

State = Literal["passed", "warning", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One check's answer."""

    state: State
    text: str
    fix: str | None = None  # of warning and failed alone, in the imperative


Look = Callable[[Facts, Needs], Outcome]


def passed(text: str) -> Outcome:
    """Return that all is well."""
    return Outcome("passed", text)


def warning(text: str, fix: str) -> Outcome:
    """Return that training can start, and what may go wrong."""
    return Outcome("warning", text, fix)


def failed(text: str, fix: str) -> Outcome:
    """Return that training cannot start, or cannot end well."""
    return Outcome("failed", text, fix)


def skipped(why: str) -> Outcome:
    """Return that nothing was looked at, and why."""
    return Outcome("skipped", why)


def here(look: Look) -> Look:
    """Make a check skip, with the reason, where the brief's machine is not this one."""

    @functools.wraps(look)
    def looked(facts: Facts, needs: Needs) -> Outcome:
        return look(facts, needs) if needs.elsewhere is None else skipped(needs.elsewhere)

    return looked


def on_gpu(look: Look) -> Look:
    """Make a check skip, with the reason, where the run uses no GPU of this machine."""

    @here
    @functools.wraps(look)
    def looked(facts: Facts, needs: Needs) -> Outcome:
        return look(facts, needs) if needs.machine.gpus else skipped("the run is for the CPU")

    return looked
