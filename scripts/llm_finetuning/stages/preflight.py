"""What the checks of a machine amount to: ready or not, and the one thing to do first."""

from collections.abc import Sequence

from llm_finetuning.types import Check, EnvReport


def judge(checks: Sequence[Check], *, ready_action: str) -> EnvReport:
    """Return the report on these checks: ready when none failed; what was skipped does not count against it."""
    failed = [check for check in checks if check.state == "failed"]
    if not failed:
        return EnvReport(verdict="ready", next_action=ready_action, checks=list(checks))
    first = failed[0]
    return EnvReport(verdict="not-ready", next_action=first.next_action or f"mend `{first.name}`", checks=list(checks))
