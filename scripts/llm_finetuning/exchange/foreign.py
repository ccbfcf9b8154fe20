"""What another program measured, before it becomes an evaluation of ours."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llm_finetuning.errors import Refusal
from llm_finetuning.findings.wording import listed
from llm_finetuning.types import FinishReason, Text

_LARGEST = sys.float_info.max  # an integer can be larger, and is no number that is reckoned with
SHOWN = 12  # names in one line


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One completion and what the other program's metric made of it."""

    completion: Text | None  # None where the metric reads likelihoods and no choice was the likeliest
    value: float | None  # None: not scored, or not a finite number
    tokens: int | None = None  # of the completion, as the program counted them
    finish_reason: FinishReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item with all of its answers, in their order."""

    item_id: str
    prompt: Text
    target: str
    columns: dict[str, Any]  # what else the program kept of the item
    answers: list[Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One model on one task under one metric."""

    tool: str  # with its version where the file says it
    model: str
    task: str
    metric: str
    settings: dict[str, Any]  # how completions were drawn, in the other program's words
    items: list[Item]
    notes: list[str] = field(default_factory=list)


def chosen(path: Path, option: str, wanted: str | None, known: Sequence[str]) -> str:
    """Return the name that is asked for, or the only one; refuses one that is not there, and several to choose from."""
    if wanted is not None and wanted in known:
        return wanted
    there = listed(known, SHOWN) or "none"
    if wanted is not None:
        raise Refusal(f"{option} {wanted}: {path} has {there}; name one of them")
    if len(known) != 1:
        raise Refusal(f"{path}: holds {len(known)} to choose from ({there}); name one with {option}")
    return known[0]


def number(value: Any) -> float | None:
    """Return a metric's value of one item as a number; None for what is none, or is not finite."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float) and -_LARGEST <= value <= _LARGEST:
        return float(value)
    return None


def words(target: Any) -> str:
    """Return a right answer as text; several are written one after the other."""
    import json

    if isinstance(target, str):
        return target
    if isinstance(target, Sequence):
        return "; ".join(words(one) for one in target)
    return json.dumps(target, ensure_ascii=False, default=str)


def plain(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns as JSON values; what is none is written as text."""
    import json

    kept: dict[str, Any] = json.loads(json.dumps(dict(columns), ensure_ascii=False, default=str))
    return kept
