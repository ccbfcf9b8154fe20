"""What the checks of a machine amount to: ready, ready with warnings or blocked, and the one thing to do first."""

from collections.abc import Sequence
from typing import Any

from llm_finetuning.types import Check, EnvReport


def judge(checks: Sequence[Check], machine: dict[str, Any], *, ready_action: str) -> EnvReport:
    """Return the report on these checks: one that failed blocks; what was skipped does not count against it.

    Args:
        checks: In the order in which they are to be mended.
        machine: What was read of it.
        ready_action: The next action where nothing blocks; what a warning asks for stands with the warning.
    """
    failed = next((check for check in checks if check.state == "failed"), None)
    if failed is not None:
        action = failed.next_action or f"mend `{failed.name}`"
        return EnvReport(verdict="blocked", next_action=action, checks=list(checks), machine=machine)
    if any(check.state == "warning" for check in checks):
        return EnvReport(verdict="ready-with-warnings", next_action=ready_action, checks=list(checks), machine=machine)
    return EnvReport(verdict="ready", next_action=ready_action, checks=list(checks), machine=machine)
