"""What one rule answers, and how its findings are put into words."""

from dataclasses import dataclass

from llm_finetuning.diagnosis.record import DiagnosisFinding


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """A rule found something, or could exclude it, or could not tell as a metric is missing."""

    found: tuple[DiagnosisFinding, ...] = ()
    clear: str = ""  # the numbers that exclude it
    unknown: str = ""  # the metric that is missing


def number(value: float) -> str:
    """Return a number as a person reads it."""
    return f"{value:.3g}"


def share(value: float) -> str:
    """Return a share in per cent."""
    return f"{100 * value:.0f} %"


def course(start: float, end: float) -> str:
    """Return a change in words."""
    return f"{number(start)} -> {number(end)}"
