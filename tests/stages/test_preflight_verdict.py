"""What checks amount to: one that failed blocks, one that warns is said, what was skipped counts for nothing."""

from typing import Any

import pytest

from llm_finetuning.stages import preflight
from llm_finetuning.types import Check


def check(state: Any, name: str = "x", action: str | None = "mend it") -> Check:
    return Check(name=name, state=state, text="seen", next_action=None if state in ("passed", "skipped") else action)


@pytest.mark.parametrize(
    ("states", "verdict", "action"),
    [
        ((), "ready", "go on"),
        (("passed", "skipped"), "ready", "go on"),
        (("skipped",), "ready", "go on"),
        (("passed", "warning"), "ready-with-warnings", "go on"),
        (("warning", "failed"), "blocked", "mend it"),
        (("failed", "passed"), "blocked", "mend it"),
    ],
)
def test_verdicts(states: tuple[str, ...], verdict: str, action: str) -> None:
    """With the next action of each."""
    report = preflight.judge([check(state) for state in states], {"a": 1}, ready_action="go on")
    assert (report.verdict, report.next_action, report.machine) == (verdict, action, {"a": 1})
    assert [found.state for found in report.checks] == list(states)


def test_the_first_failure_comes_first() -> None:
    """The order of the checks is the order of mending; a failure without an action is named."""
    found = [check("warning", action="w"), check("failed", name="disk", action=None), check("failed", action="second")]
    assert preflight.judge(found, {}, ready_action="go on").next_action == "mend `disk`"
