"""Programs and outcomes as they cross into the box: plain JSON, with values as `box.values` writes them."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from llm_finetuning.sandbox.box import judge, values
from llm_finetuning.sandbox.jobs import Call, Calls, Exchanges, Outcome, Program


def program_to_json(program: Program) -> dict[str, Any]:
    """Return a job for `box.judge`; raises ValueError, naming the call, for arguments that are no plain data."""
    job: dict[str, Any] = {"code": program.code, "language": program.language, "limits": asdict(program.limits)}
    tests = program.tests
    if isinstance(tests, Calls):
        return job | {"mode": "calls", "calls": [_call_to_json(call) for call in tests.calls]}
    if isinstance(tests, Exchanges):
        return job | {"mode": "exchanges", "exchanges": [asdict(exchange) for exchange in tests.exchanges]}
    names, entry_points = list(tests.names), list(tests.entry_points)
    return job | {"mode": "suite", "source": tests.source, "names": names, "entry_points": entry_points}


def outcome_from_json(told: Mapping[str, Any]) -> Outcome:
    """Return what the judge said; raises TypeError for anything else."""
    return Outcome(**told)


def total_of(program: Program) -> int:
    """Return the declared number of tests: of a suite without names, its statements that assert."""
    return judge.total_of(program_to_json(program))


def _call_to_json(call: Call) -> dict[str, Any]:
    try:
        # One message for both: a list that stands in two places is one list to the candidate too.
        _, (arguments, keywords) = values.plain((list(call.arguments), dict(call.keywords)))
        expected = values.plain(call.expected)
    except values.Refused as reason:
        raise ValueError(f"{call.text}: {reason}") from None
    return {
        "text": call.text,
        "function": call.function,
        "arguments": arguments,
        "keywords": keywords,
        "expected": expected,
        "relation": call.relation,
        "relative_tolerance": call.relative_tolerance,
        "absolute_tolerance": call.absolute_tolerance,
    }
