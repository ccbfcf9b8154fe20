"""Are completions cut before their answer?"""

from llm_finetuning.diagnosis import trends
from llm_finetuning.diagnosis.record import DiagnosisFinding, Effect
from llm_finetuning.diagnosis.rules.ruling import Ruling, number, share
from llm_finetuning.diagnosis.signals import Signals

CUT = 0.5
"""Share of completions cut in the second half: the reward then speaks more of the cap than of the policy."""

CUT_GUESSED = 0.3
"""Share of rows whose *mean* length lies on the ceiling: there nearly all completions are cut, so fewer rows do."""

CUT_AND_LEARNING = 0.8
"""Until here a reward that rises shows that enough completions end."""

_BEFORE = 3  # rows that speak of the policy as it was before training


def truncation(s: Signals) -> Ruling:
    """Completions that end at the cap instead of at an end token."""
    import numpy as np

    rows = s.cut
    if not trends.present(rows).any():
        why = "no clipped_ratio, and the mean length lies on no ceiling" if s.cut_is_guessed else "no length in the log"
        return Ruling(clear=why) if s.cut_is_guessed else Ruling(unknown=why)
    late = float(np.mean(s.second_half(rows)))
    least = CUT_GUESSED if s.cut_is_guessed else CUT
    learning = s.reward_moves == "up"
    if late < least or (learning and late < CUT_AND_LEARNING):
        early = float(np.mean(rows[trends.present(rows)][:5]))
        if learning and (shaped := _shaped(s, late)) is not None:
            return Ruling(found=(shaped,))
        return Ruling(
            found=_early(early, late, s) if early >= CUT_GUESSED and late < CUT_GUESSED else _watch(late),
            clear=f"{share(late)} of completions in the second half are cut",
        )
    since = s.begins(rows, least)
    masked = bool(s.options.get("mask_truncated_completions"))
    cap = f" at {s.cap:g} tokens" if s.cap is not None else ""
    guessed = ", judged by a mean length on one ceiling" if s.cut_is_guessed else ""
    return Ruling(
        found=(
            DiagnosisFinding(
                code="truncation",
                role="failure",
                text=f"{share(late)} of completions in the second half are cut{cap}{guessed}"
                + ("; they are masked, so that few are left to learn from" if masked else ""),
                since=float(s.log.steps[0]) if since is None else since,
                until=float(s.log.steps[-1]),
                numbers={"cut_second_half": late} | ({"cap": s.cap} if s.cap is not None else {}),
                effect=Effect(metric="completions/clipped_ratio", value=late),
                confirm="the last words of cut completions: an answer under way, or a loop without an end token",
                refute="completions that end with an end token and were counted as cut (a second end token)",
            ),
        )
    )


def _shaped(s: Signals, late: float) -> DiagnosisFinding | None:
    """Return that half of the first completions were cut and the reward rose as the policy became short enough.

    What it learned first is the cap; what it would have learned with room this log cannot show. A length that is judged
    by a mean alone says too little: one row may be one group.
    """
    there = trends.present(s.cut)
    rows, steps = s.cut[there], s.log.steps[there]
    first = float(rows[:_BEFORE].mean())
    early = trends.jump(rows)
    falls = trends.trend(rows).direction == "down" or (early is not None and early.direction == "down")
    if s.cut_is_guessed or first < CUT or late >= CUT_GUESSED or not falls:
        return None
    until = float(steps[trends.below_for_good(rows, CUT_GUESSED)])
    cap = f"{s.cap:g} tokens" if s.cap is not None else "the cap"
    return DiagnosisFinding(
        code="truncation",
        role="failure",
        text=f"{share(first)} of the first completions were cut and {share(late)} of those in the second half: by step "
        f"{until:g} the policy learned to answer within {cap}, whatever it knows",
        since=float(steps[0]),
        until=until,
        numbers={"cut_first_rows": first, "cut_second_half": late} | ({"cap": s.cap} if s.cap is not None else {}),
        effect=Effect(metric="completions/clipped_ratio", value=late - first),
        confirm="at twice the cap the reward ends higher, and completions are longer",
        refute="at twice the cap the reward ends where it does now",
    )


def _watch(late: float) -> tuple[DiagnosisFinding, ...]:
    if late < CUT_GUESSED:
        return ()
    return (
        DiagnosisFinding(
            code="partly_cut",
            role="watch",
            text=f"{share(late)} of completions in the second half are cut while the reward moves",
            numbers={"cut_second_half": late},
        ),
    )


def _early(early: float, late: float, s: Signals) -> tuple[DiagnosisFinding, ...]:
    return (
        DiagnosisFinding(
            code="shaped_by_cap",
            role="watch",
            text=f"{share(early)} of the first completions were cut, {share(late)} of the last: the policy learned to "
            f"answer within {number(s.cap) if s.cap is not None else 'the cap'}",
            numbers={"cut_first_rows": early, "cut_second_half": late},
        ),
    )
