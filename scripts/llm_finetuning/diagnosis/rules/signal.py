"""Is there anything to learn from: do completions of one group differ in what they are paid?"""

from llm_finetuning.diagnosis import trends
from llm_finetuning.diagnosis.record import DiagnosisFinding, Effect
from llm_finetuning.diagnosis.rules.ruling import Ruling, number, share
from llm_finetuning.diagnosis.signals import SILENT, Signals

WEAK = 0.5
FIRST_ROWS = 5  # a silence that begins within them was there from the start


def signal(s: Signals) -> Ruling:
    """Groups in which all completions are paid the same: their advantage is 0, and so is their gradient."""
    import numpy as np

    rows = s.silent
    there = rows[trends.present(rows)]
    if not len(there):
        return Ruling(unknown="neither frac_reward_zero_std nor a reward_std of groups is in the log")
    late = float(np.mean(s.second_half(rows)))
    if late < SILENT:
        return Ruling(found=_weak(late), clear=f"{share(late)} of groups in the second half without a signal")
    if s.at_ceiling:
        return Ruling(found=(_solved(late),), clear="groups agree because the task is solved")
    since = s.begins(rows, SILENT)
    begin = float(s.log.steps[0]) if since is None else since
    early = float(s.log.steps[min(s.rows - 1, max(FIRST_ROWS, s.rows // 20))])
    from_start = begin <= early and float(there[0]) >= WEAK
    _, reward = s.held("reward")
    level = number(float(np.mean(reward[-max(1, len(reward) // 4) :]))) if len(reward) else "unknown"
    how = (
        "from the start: nothing ever told good from bad completions"
        if from_start
        else f"from about step {begin:g}: completions of a group became alike before the task was solved"
    )
    return Ruling(
        found=(
            DiagnosisFinding(
                code="zero_signal",
                role="failure",
                text=f"{share(late)} of groups in the second half hold one reward (mean {level}) {how}",
                since=float(s.log.steps[0]) if from_start else begin,
                until=float(s.log.steps[-1]),
                numbers={"silent_second_half": late, "from_start": float(from_start)},
                effect=Effect(metric="frac_reward_zero_std", value=late),
                confirm="`finetune score` on samples of this checkpoint: groups of one reward, by prompt",
                refute="rewards of one group that differ in the table of completions",
            ),
        )
    )


def _weak(late: float) -> tuple[DiagnosisFinding, ...]:
    if late < WEAK:
        return ()
    return (
        DiagnosisFinding(
            code="weak_signal",
            role="watch",
            text=f"{share(late)} of groups in the second half hold one reward: they cost time and teach nothing",
            numbers={"silent_second_half": late},
        ),
    )


def _solved(late: float) -> DiagnosisFinding:
    return DiagnosisFinding(
        code="solved",
        role="watch",
        text=f"{share(late)} of groups agree at the highest reward of the log: nothing is left to teach",
        numbers={"silent_second_half": late},
    )
