"""diagnosis.html: one self-contained file with what a log says of its run, on what evidence, and what to change.

No script, nothing from another address; texts of a model are escaped and their control characters are shown.
"""

import json
from typing import Any

from llm_finetuning.diagnosis.log import RunLog
from llm_finetuning.diagnosis.record import Diagnosis, DiagnosisFinding
from llm_finetuning.web import rendering
from llm_finetuning.web.diagnosis_pictures import pictures

_MARKS = {"healthy": "✓", "failure": "✗", "undecided": "?"}
_ROLES = {"failure": "Cause", "consequence": "Follows", "watch": "Watch", "sound": "Sound", "undecided": "Open"}
_NAMES = {"nan": "NaN", "kl_blowup": "KL blow-up"}
_SAID = {
    "bad": "the range that the verdict rests on",
    "warn": "the range of another finding",
    "weak": "the verdict's range, in other metrics",
}
_SIDES = {"before": "Before", "after": "After"}


def render(log: RunLog, diagnosis: Diagnosis) -> str:
    """Return the page of a diagnosis and the log that it was made from, as HTML."""
    import numpy as np

    environment = rendering.environment()
    environment.filters["words"] = lambda code: _NAMES.get(code, code.replace("_", " "))
    environment.filters["number"] = lambda value: f"{value:.3g}"
    environment.filters["sentence"] = rendering.sentence
    environment.filters["coded"] = rendering.coded
    with np.errstate(all="ignore"):  # medians of numbers near the largest one are infinite, and left out
        drawn = pictures(log, diagnosis)
    return environment.get_template("diagnosis.html").render(
        found=diagnosis,
        first=diagnosis.findings[0],
        mark=_MARKS[diagnosis.state],
        roles=_ROLES,
        sides=[(name, diagnosis.quotes[side]) for side, name in _SIDES.items() if diagnosis.quotes.get(side)],
        settings=_settings(diagnosis.advice.options),
        known=_settings(diagnosis.options),
        ranges=[_range(finding, diagnosis) for finding in diagnosis.findings],
        stretches=[(kind, words) for kind, words in _SAID.items() if any(kind in one.marks for one in drawn)],
        has_held_out=bool(log.held_out),
        excluded=[item for item in diagnosis.excluded if item.state == "excluded"],
        unknown=[item for item in diagnosis.excluded if item.state == "unknown"],
        pictures=drawn,
    )


def _settings(options: dict[str, Any]) -> list[tuple[str, str]]:
    """Return options as a brief writes them."""
    return [(name, json.dumps(value)) for name, value in options.items()]


def _range(finding: DiagnosisFinding, diagnosis: Diagnosis) -> str:
    """Return the steps that a finding holds for, in words; empty where it is about the log as a whole."""
    if finding.since is None:
        return ""
    until = diagnosis.last_step if finding.until is None else finding.until
    return f"steps {finding.since:g} to {until:g}"
