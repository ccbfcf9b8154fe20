"""Which verbs follow an action: those whose files it makes stale, on one line to paste, with RUN for the run's name."""

from typing import Literal

_ROWS = (
    "audit-", "probe-gold-", "probe-honest-unknown", "unscored", "never-ends", "empty", "never-succeeds",
    "always-succeeds", "grouping", "groups-with-signal", "truncated",
)  # fmt: skip
"""Beginnings of codes whose action changes rows, prompts or sampling, so that completions are drawn again."""

_SCORING = ("infrastructure", "advantages")
_READING = ("labels", "readers-disagree")

_AGAIN = (
    "`finetune review RUN` and key `k` back to it, or a table with that one row, "
    "`finetune review RUN --import labels.csv --reader NAME`"
)
"""How a reader labels again what is labelled: the last label of a reader stands, so NAME is the name that it had."""


def with_commands(action: str, code: str, *, last: Literal["audit", "probe", "gate"]) -> str:
    """Return an action with the verbs to run once it is done; one that names a command of ours stays as it is.

    `code` is that of the gate's finding: `probe-...` where a probe found it, `audit-...` where the audit did; `last`
    is the verb that asks.
    """
    if "`finetune " in action:
        return action
    sampling = ["sample RUN --fresh"] if code.startswith(_ROWS) and not action.startswith("mend the reward") else []
    verbs = ["audit RUN", *sampling, "score RUN", "probe RUN", "gate RUN"]
    if code.startswith(_SCORING):
        verbs.remove("audit RUN")
    elif code.startswith(_READING):
        verbs = verbs[-1:]
    verbs = verbs[: verbs.index(f"{last} RUN") + 1]
    follow = f"then `{' && '.join(f'finetune {verb}' for verb in verbs)}`"
    if code == "readers-disagree":
        return f"{action}: {_AGAIN}; {follow}"
    if code in ("false-pass", "false-fail"):
        return f"{action}; {follow}. Was the label a slip, give it again: {_AGAIN}; then `finetune gate RUN` is enough"
    return f"{action}; {follow}"
