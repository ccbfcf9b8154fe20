"""Rubrics, calibration records and verdicts for tests, made with the product's own functions."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from llm_finetuning.rewards.judges.calibration import (
    ATTACKS,
    Attack,
    CalibrationRecord,
    Counts,
    JudgeSetting,
    Labelling,
    attack_from_counts,
    record_from_counts,
)
from llm_finetuning.rewards.judges.prompt import prompt_digest, text_digest

RUBRIC = "The response is correct and says why.\n"
MODEL = "judge-2026-01-15"


@dataclasses.dataclass
class Measured:
    """What a record is made from; a good judge unless a test says otherwise."""

    model: str = MODEL
    rubric: str = RUBRIC
    with_reference: bool = False
    prompt_sha256: str | None = None
    seed: int = 0
    max_tokens: int = 1024
    counts: tuple[int, ...] = (38, 2, 39, 1)  # true positives, false negatives, true negatives, false positives
    abstained: int = 0
    attacks: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)  # trials, passes and the control's
    without_attacks: tuple[str, ...] = ()


def record(measured: Measured) -> CalibrationRecord:
    right, missed, caught, fooled = measured.counts
    prompt = measured.prompt_sha256 or prompt_digest(with_reference=measured.with_reference)
    return record_from_counts(
        JudgeSetting(
            model=measured.model,
            rubric_sha256=text_digest(measured.rubric),
            prompt_sha256=prompt,
            temperature=0.0,
            seed=measured.seed,
            max_tokens=measured.max_tokens,
        ),
        Labelling(
            people=["Ada"],
            first_day="2026-01-20",
            last_day="2026-01-22",
            train=20,
            dev=30,
            test=sum(measured.counts) + measured.abstained,
        ),
        Counts(
            true_positives=right,
            false_negatives=missed,
            true_negatives=caught,
            false_positives=fooled,
            abstained=measured.abstained,
        ),
        [attack(name, measured) for name in ATTACKS if name not in measured.without_attacks],
    )


def attack(name: str, measured: Measured) -> Attack:
    usual = (20, 0) if name in ("one_token", "empty") else (20, 0, 20, 0)
    trials, passes, *control = measured.attacks.get(name, usual)
    of_control = dict(zip(("control_trials", "control_passes"), control, strict=False))
    return attack_from_counts(name, trials=trials, passes=passes, **of_control)


def files(folder: Path, measured: Measured | None = None) -> dict[str, str]:
    """Write rubric and record and return the options that name them."""
    (folder / "rubric.md").write_text(RUBRIC, "utf-8")
    (folder / "calibration.json").write_text(record(measured or Measured()).to_json(), "utf-8")
    return {"rubric_file": str(folder / "rubric.md"), "calibration": str(folder / "calibration.json")}


def chat(content: Any, *, finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    """Return a chat completion that says `content`."""
    return {
        "id": "x",
        "object": "chat.completion",
        "model": MODEL,
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def verdict(said: str, reasons: str = "It is so.") -> str:
    return json.dumps({"reasons": reasons, "verdict": said})


def material(body: dict[str, Any]) -> tuple[dict[str, str], str, str]:
    """Return what a request shows as data, the code of its markers, and all else that it says."""
    system, user = (message["content"] for message in body["messages"])
    lines = user.splitlines()
    (begin,) = [place for place, line in enumerate(lines) if line.startswith("BEGIN MATERIAL")]
    (end,) = [place for place, line in enumerate(lines) if line.startswith("END MATERIAL")]
    assert end == begin + 2
    code = lines[begin].removeprefix("BEGIN MATERIAL ")
    assert lines[end] == f"END MATERIAL {code}"
    outside = "\n".join([system, *lines[:begin], *lines[end + 1 :]])
    return json.loads(lines[begin + 1]), code, outside
