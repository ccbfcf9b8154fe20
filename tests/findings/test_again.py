"""Which verbs an action is followed by: those whose files it makes stale."""

import pytest

from llm_finetuning.findings.again import with_commands


@pytest.mark.parametrize(
    ("code", "action", "last", "verbs"),
    [
        ("probe-exploit-echo", "stop", "gate", ["audit", "score", "probe", "gate"]),
        ("probe-exploit-echo", "stop", "probe", ["audit", "score", "probe"]),
        ("reward-nan", "fix", "gate", ["audit", "score", "probe", "gate"]),
        ("infrastructure", "bring up", "gate", ["score", "probe", "gate"]),
        ("advantages", "change", "gate", ["score", "probe", "gate"]),
        ("audit-gold-empty", "fill", "gate", ["audit", "sample", "score", "probe", "gate"]),
        ("probe-gold-unscored", "mend or remove", "probe", ["audit", "sample", "score", "probe"]),
        ("probe-gold-unscored", "mend the reward, not", "probe", ["audit", "score", "probe"]),
        ("unscored", "make those rows", "gate", ["audit", "sample", "score", "probe", "gate"]),
        ("truncated", "raise", "gate", ["audit", "sample", "score", "probe", "gate"]),
        ("labels", "read", "gate", ["gate"]),
    ],
)
def test_an_action_is_followed_by_the_verbs_that_it_makes_stale(
    code: str, action: str, last: str, verbs: list[str]
) -> None:
    """A reward is paid and attacked again, rows are drawn again, labels are only weighed again."""
    calls = [f"finetune {verb} RUN{' --fresh' if verb == 'sample' else ''}" for verb in verbs]
    assert with_commands(action, code, last=last) == f"{action}; then `{' && '.join(calls)}`"  # type: ignore[arg-type]


def test_an_action_that_names_its_command_stays() -> None:
    """Two commands at the end of one line would be read as one after the other."""
    action = "read 5 more completions with `finetune review RUN`"
    assert with_commands(action, "labels", last="gate") == action
