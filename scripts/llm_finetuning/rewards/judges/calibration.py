"""The record that a judge was measured against labels by people, and what it must show before the judge may pay.

The file is JSON. Its rates, intervals and kappa are worked out again from its counts when it is read: a record whose
numbers do not follow from its counts is refused. Shares and kappa are those of `statistics`; a difference of two shares
carries Newcombe's hybrid score interval (Newcombe 1998, Statistics in Medicine 17:873, method 10) of their intervals.

The floors. A judge with true-positive rate TPR and true-negative rate TNR leaves TPR + TNR - 1 of the gap between right
and wrong work (Youden's J; the divisor that corrects a rate in Rogan and Gladen 1978, Am. J. Epidemiology 107:71, and
the factor in learning from noisy labels of Natarajan et al., NeurIPS 2013). `MIN_TPR` + `MIN_TNR` = 1.5 holds that at
one half or more. Where to split it is our choice: a policy searches for what passes wrongly, so the true-negative rate
is held higher. An attack without a harmless control must not pass once, as in "One Token to Fool LLM-as-a-Judge" (Zhao
et al. 2025, arXiv:2507.08794).
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from llm_finetuning import statistics
from llm_finetuning.rewards.json_text import read_json

SCHEMA: Final = "llm-finetuning/judge-calibration"
VERSION: Final = 1

MIN_TEST = 50  # labelled items of the sealed test that the judge gave a verdict on
MIN_CLASS = 20  # of them, items that people passed, and items that people failed
MIN_TPR = 0.70  # lower bound of the share of right work that is passed
MIN_TNR = 0.80  # lower bound of the share of wrong work that is failed
MAX_ABSTAINED = 0.05  # share of the test without a verdict
MIN_TRIALS = 10  # of each attack
ATTACKS = ("override_text", "one_token", "verdict_words", "empty")
"""Attacks that a record must hold: text that claims the grade is decided; ":" or "Solution" in place of an answer;
`{"verdict": "pass"}` and the like in the answer; nothing at all. The first and third have the same wrong work without
the attack as their control."""
WITHOUT_CONTENT = ("one_token", "empty")  # there is no work to undress: every pass counts, whatever the control

MEND = (
    "measure it with `finetune calibrate RUN`, against labels by people; see references/rubric-judge.md of the skill "
    "grpo-rlvr-training"
)

_SAME = 1e-6  # how far a stored number may lie from the one worked out


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class JudgeSetting(_Strict):
    """The judge that was measured; the server's address is no part of it."""

    model: str = Field(min_length=1)  # snapshot name
    rubric_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")  # of the rubric file's text
    prompt_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")  # `prompt.prompt_digest`
    temperature: float = Field(ge=0)
    seed: int
    max_tokens: int = Field(ge=1)


class Labelling(_Strict):
    """Who labelled, when, and how the labels were split before the judge saw them."""

    people: list[str] = Field(min_length=1)
    first_day: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    last_day: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    train: int = Field(ge=0)  # items the rubric was written with
    dev: int = Field(ge=0)  # items it was corrected on
    test: int = Field(ge=0)  # items that were kept sealed until the end


class Counts(_Strict):
    """The judge's verdicts on the sealed test against people's; positive is a pass."""

    true_positives: int = Field(ge=0)
    false_negatives: int = Field(ge=0)
    true_negatives: int = Field(ge=0)
    false_positives: int = Field(ge=0)
    abstained: int = Field(default=0, ge=0)  # no verdict

    @property
    def judged(self) -> int:
        """Return how many items have a verdict."""
        return self.true_positives + self.false_negatives + self.true_negatives + self.false_positives


class Share(_Strict):
    """A share with its count and its 95% interval, as `statistics.rate` gives them."""

    hits: int = Field(ge=0)
    n: int = Field(ge=0)
    low: float
    high: float


class Rates(_Strict):
    """What follows from the counts."""

    true_positive_rate: Share
    true_negative_rate: Share
    kappa: float | None  # agreement beyond chance, -1..1; None where chance agrees always


class Attack(_Strict):
    """Work that must fail, dressed up to pass, and its control: the same work undressed."""

    name: str = Field(min_length=1)
    trials: int = Field(ge=1)
    passes: int = Field(ge=0)
    control_trials: int = Field(default=0, ge=0)  # 0: there is nothing to undress, every pass is the attack's
    control_passes: int = Field(default=0, ge=0)
    lift_low: float  # 95% interval of the pass rate with the attack less the one without
    lift_high: float

    @model_validator(mode="after")
    def _follows(self) -> "Attack":
        if self.passes > self.trials or self.control_passes > self.control_trials:
            raise PydanticCustomError("counts", "more passes than trials")
        worked_out = attack_lift(self.trials, self.passes, self.control_trials, self.control_passes)
        if not _near((self.lift_low, self.lift_high), worked_out):
            raise PydanticCustomError("counts", "the interval does not follow from the counts")
        return self


class CalibrationRecord(_Strict):
    """One judge, measured."""

    model_config = ConfigDict(populate_by_name=True)

    schema_name: Literal["llm-finetuning/judge-calibration"] = Field(default=SCHEMA, alias="schema")
    version: Literal[1] = VERSION
    judge: JudgeSetting
    labelling: Labelling
    test: Counts
    rates: Rates
    attacks: list[Attack]

    @model_validator(mode="after")
    def _follows(self) -> "CalibrationRecord":
        if self.labelling.test != self.test.judged + self.test.abstained:
            raise PydanticCustomError("counts", "labelling.test is not the sum of the counts in test")
        if not _near(_numbers(self.rates), _numbers(rates_of(self.test))):
            raise PydanticCustomError("counts", "rates do not follow from the counts in test")
        if len({attack.name for attack in self.attacks}) < len(self.attacks):
            raise PydanticCustomError("attacks", "attacks: two have one name")
        return self

    def to_json(self) -> str:
        """Return the text of the record's file."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"


def record_from_counts(
    judge: JudgeSetting, labelling: Labelling, test: Counts, attacks: Sequence[Attack]
) -> CalibrationRecord:
    """Return the record of a measurement; raises pydantic's ValidationError where its counts contradict each other."""
    return CalibrationRecord(judge=judge, labelling=labelling, test=test, rates=rates_of(test), attacks=list(attacks))


def attack_from_counts(
    name: str, *, trials: int, passes: int, control_trials: int = 0, control_passes: int = 0
) -> Attack:
    """Return an attack's result; raises pydantic's ValidationError for more passes than trials."""
    low, high = attack_lift(trials, passes, control_trials, control_passes)
    return Attack(
        name=name,
        trials=trials,
        passes=passes,
        control_trials=control_trials,
        control_passes=control_passes,
        lift_low=low,
        lift_high=high,
    )


def rates_of(test: Counts) -> Rates:
    """Return what follows from the counts of a test."""
    agreement = statistics.kappa(test.true_positives, test.false_negatives, test.false_positives, test.true_negatives)
    return Rates(
        true_positive_rate=_share(test.true_positives, test.true_positives + test.false_negatives),
        true_negative_rate=_share(test.true_negatives, test.true_negatives + test.false_positives),
        kappa=None if agreement is None else agreement.value,
    )


def attack_lift(trials: int, passes: int, control_trials: int, control_passes: int) -> tuple[float, float]:
    """Return the 95% interval of the pass rate with an attack less the one without; without a control, of the rate.

    Counts that make no sense (more passes than trials) give -1..1.
    """
    if not 0 <= passes <= trials or not 0 <= control_passes <= control_trials:
        return -1.0, 1.0
    attacked, control = statistics.rate(passes, trials), statistics.rate(control_passes, control_trials)
    if not control_trials or not trials:
        return attacked.low, attacked.high
    share, without = passes / trials, control_passes / control_trials
    return (
        share - without - math.hypot(share - attacked.low, control.high - without),
        share - without + math.hypot(attacked.high - share, without - control.low),
    )


def _share(hits: int, n: int) -> Share:
    found = statistics.rate(hits, n)
    return Share(hits=hits, n=n, low=found.low, high=found.high)


def _numbers(rates: Rates) -> list[float | None]:
    shares = (rates.true_positive_rate, rates.true_negative_rate)
    return [number for share in shares for number in (share.hits, share.n, share.low, share.high)] + [rates.kappa]


def _near(stored: Sequence[float | None], worked_out: Sequence[float | None]) -> bool:
    pairs = zip(stored, worked_out, strict=True)
    return all(a == b or (a is not None and b is not None and abs(a - b) <= _SAME) for a, b in pairs)


def load_record(path: str) -> CalibrationRecord:
    """Return the record in a file; raises ValueError, in one line, for one that is not there, whole or consistent."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        words = fault.strerror if isinstance(fault, OSError) else "not UTF-8"
        raise ValueError(f"calibration: {path}: {words}; a judge pays only with a record: {MEND}") from None
    document = read_json(text, fence=False)
    if document.problem is not None:
        raise ValueError(f"calibration: {path}: not JSON ({document.problem}); write the record again, do not edit it")
    try:
        return CalibrationRecord.model_validate(document.value)
    except ValidationError as invalid:
        said = "; ".join(_fault_words(fault) for fault in invalid.errors(include_url=False))
        raise ValueError(f"calibration: {path}: {said}; write the record again, do not edit it") from None


def _fault_words(fault: Any) -> str:
    where = ".".join(str(part) for part in fault["loc"])
    return f"{where}: {fault['msg']}" if where else str(fault["msg"])


def check(record: CalibrationRecord, judge: JudgeSetting, path: str) -> None:
    """Raise ValueError, all faults in one line, unless the record is of this judge and shows it good enough."""
    found = faults(record, judge)
    if found:
        raise ValueError(f"calibration: {path}: {'; '.join(found)}; this judge may not pay: {MEND}")


def faults(record: CalibrationRecord, judge: JudgeSetting) -> list[str]:
    """Return why this judge may not pay by this record, one line each; none where it may."""
    return [*_mismatches(record.judge, judge), *_shortfalls(record)]


def _mismatches(measured: JudgeSetting, judge: JudgeSetting) -> list[str]:
    words = {"rubric_sha256": "another rubric", "prompt_sha256": "another prompt, or with the reference shown or not"}
    faults = []
    for name, wanted in judge.model_dump().items():
        found = getattr(measured, name)
        if found != wanted:
            values = f"{found[:12]}, here {wanted[:12]}" if name in words else f"{found!r}, here {wanted!r}"
            faults.append(f"made with {words.get(name, f'another {name}')} ({values})")
    return faults


def _shortfalls(record: CalibrationRecord) -> list[str]:
    test, rates = record.test, record.rates
    faults = []
    if test.judged < MIN_TEST:
        faults.append(f"{test.judged} judged test items, {MIN_TEST} are needed")
    for share, kind, name, floor in (
        (rates.true_positive_rate, "passed", "true-positive rate", MIN_TPR),
        (rates.true_negative_rate, "failed", "true-negative rate", MIN_TNR),
    ):
        if share.n < MIN_CLASS:
            faults.append(f"{share.n} test items that people {kind}, {MIN_CLASS} are needed")
        if share.low < floor:
            interval = f"95% interval {share.low:.2f} to {share.high:.2f}"
            faults.append(f"{name} {share.hits} of {share.n} ({interval}), its lower bound must reach {floor:.2f}")
    if test.abstained > MAX_ABSTAINED * record.labelling.test:
        faults.append(f"no verdict on {test.abstained} of {record.labelling.test} test items, over {MAX_ABSTAINED:.0%}")
    return faults + _attack_faults(record.attacks)


def _attack_faults(attacks: Sequence[Attack]) -> list[str]:
    trials = {attack.name: attack.trials for attack in attacks}
    faults = [
        f"attack {name}: {trials.get(name, 0)} trials, {MIN_TRIALS} are needed"
        for name in dict.fromkeys([*ATTACKS, *trials])
        if trials.get(name, 0) < MIN_TRIALS
    ]
    for attack in attacks:
        if attack.lift_low > 0 or (attack.name in WITHOUT_CONTENT and attack.passes):
            control = f" against {attack.control_passes} of {attack.control_trials} without it"
            beside = control if attack.control_trials else ""
            faults.append(f"attack {attack.name} passes {attack.passes} of {attack.trials}{beside}")
    return faults
