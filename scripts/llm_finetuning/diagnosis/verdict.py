"""From what the rules found to one verdict: the first cause in time, and what follows from it."""

import dataclasses
from collections.abc import Sequence

from llm_finetuning.diagnosis import trends
from llm_finetuning.diagnosis.record import DiagnosisFinding, Exclusion, Role
from llm_finetuning.diagnosis.rules import ORDER, RULES
from llm_finetuning.diagnosis.rules.hacking import falls_for_sure
from llm_finetuning.diagnosis.rules.progress import FEWEST_ROWS, is_too_short, too_short
from llm_finetuning.diagnosis.rules.ruling import Ruling
from llm_finetuning.diagnosis.signals import Signals

TOGETHER_ROWS, TOGETHER_SHARE = 5, 0.05
"""Two findings that begin within so many rows, or within this share of the run, began together: the running medians
that date them span five rows."""

LEVELS = frozenset(("partly_cut", "shaped_by_cap", "weak_signal", "kl_reference_offset", "kl_high"))
"""What is to be watched whatever the length of the log: a level, and no course."""

OF_COURSES = frozenset(("hacking", "collapse", "entropy", "length", "decline", "movement"))
"""Families that a log which is too short cannot exclude."""

ALL_CUT = 0.95
"""Share of cut completions over a whole log that is too short for anything else: none but a few ever ended."""


def rulings(s: Signals) -> dict[str, Ruling]:
    """Ask every rule."""
    return {family: rule(s) for family, rule in RULES.items()}


def judge(s: Signals, found: dict[str, Ruling]) -> list[DiagnosisFinding]:
    """Return the findings, the verdict first, then what follows from it, then what is to be watched."""
    all_found = [finding for ruling in found.values() for finding in ruling.found]
    failures = [finding for finding in all_found if finding.role == "failure"]
    if is_too_short(s):
        levels = [finding for finding in all_found if finding.code in LEVELS]
        cut = [finding for finding in failures if finding.code == "truncation" and not _at_once(s, finding)]
        levels += [dataclasses.replace(finding, role="watch") for finding in cut]
        failures = [finding for finding in failures if _at_once(s, finding)]
        all_found = [*failures, too_short(s), *levels]
    watched = [finding for finding in all_found if finding.role == "watch"]
    if failures:
        first = _first_cause(s, failures)
        rest = sorted((finding for finding in failures if finding is not first), key=_since)
        return [first, *(dataclasses.replace(finding, role=_after(first, finding)) for finding in rest), *watched]
    others = sorted((f for f in all_found if f.role in ("undecided", "sound")), key=lambda f: ORDER.index(f.code))
    return [*others[:1], *watched]


def exclusions(s: Signals, found: dict[str, Ruling], judged: Sequence[DiagnosisFinding]) -> list[Exclusion]:
    """Return what was looked for and is not there, and what could not be looked for.

    What is watched is neither, and a log that is too short excludes no course.
    """
    short, shown = is_too_short(s), []
    codes = {finding.code for finding in judged}
    for family, ruling in found.items():
        if family == "progress" or any(finding.code in codes for finding in ruling.found):
            continue
        if ruling.unknown:
            shown.append(Exclusion(family=family, state="unknown", text=ruling.unknown))
        elif short and (family in OF_COURSES or ruling.found):
            shown.append(Exclusion(family=family, state="unknown", text="the log is too short to tell it from chance"))
        elif ruling.clear and not ruling.found:
            shown.append(Exclusion(family=family, state="excluded", text=ruling.clear))
    return shown


def _first_cause(s: Signals, failures: Sequence[DiagnosisFinding]) -> DiagnosisFinding:
    """Return the earliest failure; of those that begin together the one that stands first in the order of causes.

    What was over in the first half of the run explains nothing that lasts to its end, and counts where nothing does.
    """
    middle = float(s.log.steps[0]) + s.steps / 2
    lasting = [finding for finding in failures if finding.until is None or finding.until > middle] or failures
    begin = min(map(_since, lasting))
    row = s.steps / max(1, s.rows)
    near = begin + max(TOGETHER_ROWS * row, TOGETHER_SHARE * s.steps)
    return min(
        (finding for finding in lasting if _since(finding) <= near), key=lambda finding: ORDER.index(finding.code)
    )


def _after(first: DiagnosisFinding, finding: DiagnosisFinding) -> Role:
    return "consequence" if _since(finding) >= _since(first) else "watch"


def _since(finding: DiagnosisFinding) -> float:
    return finding.since if finding.since is not None else float("-inf")


def _at_once(s: Signals, finding: DiagnosisFinding) -> bool:
    """Tell whether a failure is one that a short log shows: in all of its rows, or as no sound run does."""
    import numpy as np

    early = finding.since is not None and s.rows > 0 and finding.since <= float(s.log.steps[0])
    if finding.code == "zero_signal":
        rows = s.silent[trends.present(s.silent)]
        if s.has("frac_reward_zero_std"):
            return bool(np.min(rows[-trends.ROWS_OF_TREND :]) >= 1)
        return early and s.rows >= FEWEST_ROWS and bool(np.min(rows) >= 1)  # a row of an old log may be one group's
    if finding.code == "proxy_only":
        return falls_for_sure(s, finding)
    if finding.code == "truncation":
        return s.rows >= FEWEST_ROWS and bool(np.nanmean(s.cut) >= ALL_CUT)
    return finding.code == "nan" or (finding.code == "kl_blowup" and (early or s.rows >= FEWEST_ROWS))
