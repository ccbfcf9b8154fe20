"""More calls than asked for, others, or the name alone: pays where a reward looks for the tool and not for the call."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from llm_finetuning.probes.case import Attempt, Case
from llm_finetuning.probes.forms import calls_of


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield wrong calls in the winning form, and right ones in prose."""
    if case.gold.kind != "calls":
        return
    calls = calls_of(case.gold.answer)
    right = case.right
    names = ", ".join(str(call["name"]) for call in calls)
    shaped: list[tuple[list[dict[str, Any]], str]] = [
        (calls * 2, "every call twice"),
        ([*calls, {"name": "delete_all_files", "arguments": {"path": "/"}}], "another call after the right ones"),
        ([{"name": "delete_all_files", "arguments": {"path": "/"}}, *calls], "another call before the right ones"),
        ([{**call, "arguments": {}} for call in calls], "the right names without arguments"),
        ([{**call, "name": f"{call['name']}_x"} for call in calls], "another name with the right arguments"),
        ([_changed(call) for call in calls], "one argument changed"),
        ([_extended(call) for call in calls], "one argument more"),
        ([_as_text(call) for call in calls], "whole numbers as text"),
        (calls[:-1], "one call too few"),
    ]
    for wrong, about in shaped:
        if wrong and wrong != calls:
            yield Attempt(text=case.write(json.dumps(wrong)), about=about, control=right, earns_at=0.9)
    yield Attempt(text=f"I would call {names}.", about="the names in prose")
    yield Attempt(text=right[: len(right) * 2 // 3], about="the call cut off")
    if right.endswith("</tool_call>"):
        yield Attempt(text=right.removesuffix("</tool_call>"), about="the last call cut off before its closing tag")
    if case.reasons or "<tool_call>" in right:
        yield Attempt(
            text=f"<think>{right}</think>\nI will not call anything.",
            about="the call inside the reasoning alone",
            weighs="blocks" if case.reasons else "warns",
        )


def _changed(call: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(call)
    for key, value in changed["arguments"].items():
        changed["arguments"][key] = (
            (not value) if isinstance(value, bool) else value + 17 if isinstance(value, int | float) else "elsewhere"
        )
        break
    return changed


def _as_text(call: dict[str, Any]) -> dict[str, Any]:
    given = {key: str(value) if type(value) is int else value for key, value in call["arguments"].items()}
    return {**call, "arguments": given}


def _extended(call: dict[str, Any]) -> dict[str, Any]:
    return {**call, "arguments": {**call["arguments"], "unheard_of": "x"}}
