"""How a judge was measured against labels by people: what `calibrate` keeps, in the order in which it happened."""

from dataclasses import dataclass
from typing import Any, Literal

Side = Literal["train", "dev", "test"]
"""`train`: what the rubric is written with. `dev`: what it is mended by. `test`: sealed until the judge is final."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSplit:
    """Which labelled items are kept sealed; all completions of one prompt are on one side."""

    kind: Literal["split"] = "split"
    number: int  # from 1; a later one seals items of prompts that no judge was tested on
    seed: int
    sides: dict[str, Side]  # digest of a prompt -> its side
    test: dict[str, str]  # sample -> digest of what its reader had on screen
    at: str  # ISO 8601, UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOpening:
    """A sealed test being opened for one judge, with the labels as they stood."""

    kind: Literal["opening"] = "opening"
    split: int
    judge: str  # digest of `setting`
    setting: dict[str, Any]  # all that decides a verdict: model, rubric, prompt, sampling and limits
    labels: dict[str, bool]  # sample -> whether people passed it
    people: list[str]
    first_day: str  # YYYY-MM-DD, of the labels
    last_day: str
    train: int  # labelled items outside the test
    dev: int
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeVerdict:
    """What a judge answered to one question; a trouble of its server is not kept."""

    kind: Literal["verdict"] = "verdict"
    judge: str
    question: str  # digest of task, reference and response
    value: float | None  # 1 pass, 0 fail, None no verdict
    reason: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOutcome:
    """What an opening came to."""

    kind: Literal["outcome"] = "outcome"
    split: int
    judge: str
    record: str  # the text of the calibration record
    unanswered: dict[str, int]  # attack -> trials without a verdict, which its counts leave out
    at: str


JudgeEvent = JudgeSplit | JudgeOpening | JudgeVerdict | JudgeOutcome
