"""Opening a sealed test: the judge is asked about it and attacked, once, and its record is written.

The opening is kept together with the first verdicts, so that a server that is down opens nothing; one that was begun is
gone on with by the same judge alone, with the labels as they stood.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from llm_finetuning import artifact
from llm_finetuning.brief import FILE_NAME
from llm_finetuning.errors import Refusal
from llm_finetuning.judging import attacks
from llm_finetuning.judging.bench import FLOORS, Bench, now
from llm_finetuning.judging.questions import Questions
from llm_finetuning.rewards.judges import calibration
from llm_finetuning.rewards.judges.prompt import Material
from llm_finetuning.stages import calibrate as stage
from llm_finetuning.types import JudgeOpening, JudgeOutcome, JudgeVerdict

Ask = Callable[[Questions, Sequence[attacks.Work]], list[JudgeVerdict]]


def open_test(bench: Bench, ask: Ask) -> JudgeOutcome | stage.Wanting:
    """Return what the sealed test shows of this judge, or which labels are missing for it to be opened.

    The record is written to where the brief wants it. Refuses, before anything is asked, for a test that another judge
    was tested on, and where the record's place holds something else; raises MachineryFailure for a failing server.
    """
    opening = bench.opening
    if opening is not None and opening.judge != bench.digest:
        raise Refusal(another_judge(bench, opening))
    path = record_path(bench)
    outcome = bench.outcome
    _check_place(path, outcome)
    if outcome is None:
        sealed = _sealed(bench, opening)
        lacks = stage.wanting(sealed, FLOORS) if opening is None else None
        if lacks is not None:
            return lacks
        outcome = _measured(bench, opening or _new_opening(bench, sealed), sealed, ask)
        bench.keep([outcome])
    if not path.exists():
        artifact.write_text(path, outcome.record)
    return outcome


def another_judge(bench: Bench, opening: JudgeOpening) -> str:
    """Return why a test that another judge opened tells nothing of this one, and what to do."""
    changed = [name for name in bench.setting if bench.setting[name] != opening.setting.get(name)]
    words = ", ".join(name.removesuffix("_sha256") for name in changed)
    return (
        f"{bench.loaded.run_dir / 'judge.jsonl'}: the sealed test was opened on {opening.at[:10]} for a judge with "
        f"another {words}, and shows nothing of one that was changed since; {fresh_words(bench)}"
    )


def fresh_words(bench: Bench) -> str:
    """Return how a test that is used up is replaced."""
    folder = bench.loaded.run_dir
    return (
        f"fresh labels are needed: raise `sampling.prompts`, draw with "
        f"`{artifact.shell_line('sample', folder, '--fresh')}`, label the new prompts with "
        f"`{artifact.shell_line('review', folder)}`, then `{artifact.shell_line('calibrate', folder, '--new-test')}`"
    )


def record_path(bench: Bench) -> Path:
    """Return where the record is to be; refuses where the brief does not say."""
    record = bench.judge.record
    if record is None:
        raise Refusal(
            f"{bench.loaded.run_dir / FILE_NAME}: {bench.entry.where}: no option `calibration`; name the file that the "
            "record is to be written to: `calibration: calibration.json`"
        )
    return Path(record)


def _check_place(path: Path, outcome: JudgeOutcome | None) -> None:
    """Refuse to put a record in the place of another."""
    if not path.exists():
        return
    try:
        is_same = outcome is not None and path.read_text("utf-8") == outcome.record
    except (OSError, UnicodeDecodeError):
        is_same = False
    if not is_same:
        raise Refusal(
            f"{path}: is there already and holds another record; move it away, or name another file under the judge's "
            "option `calibration`"
        )


def _sealed(bench: Bench, opening: JudgeOpening | None) -> list[stage.Item]:
    """Return the sealed items with what people said of them, when the test was opened if it was."""
    if opening is None or bench.split is None:
        return bench.items("test")
    seen = bench.split.test
    gone = [name for name in opening.labels if seen[name] not in bench.policy]
    if gone:
        raise Refusal(
            f"{bench.loaded.run_dir / 'samples.jsonl'}: {len(gone)} samples of the test that was begun are no more, or "
            f"not as they were (first {gone[0]}); put the file back, and run it again"
        )
    return [stage.Item(bench.policy[seen[name]], seen[name], name, passed) for name, passed in opening.labels.items()]


def _new_opening(bench: Bench, sealed: Sequence[stage.Item]) -> JudgeOpening:
    split = bench.split
    days = sorted(day for item in sealed for day in item.days)
    if split is None or not days:
        raise Refusal(f"{bench.loaded.run_dir / 'labels.jsonl'}: no label of the test says its day; label them again")
    outside = bench.items("train", "dev")
    return JudgeOpening(
        split=split.number,
        judge=bench.digest,
        setting=bench.setting,
        labels={item.sample.sample_id: item.passed for item in sealed},
        people=sorted({name for item in sealed for name in item.people}),
        first_day=days[0],
        last_day=days[-1],
        train=sum(split.sides[item.prompt] == "train" for item in outside),
        dev=sum(split.sides[item.prompt] == "dev" for item in outside),
        at=now(),
    )


def _measured(bench: Bench, opening: JudgeOpening, sealed: Sequence[stage.Item], ask: Ask) -> JudgeOutcome:
    """Ask what is not known yet, and return the outcome."""
    unkept = [opening] if bench.opening is None else []

    def keep(verdicts: Sequence[JudgeVerdict]) -> None:
        bench.keep([*unkept, *verdicts])
        unkept.clear()

    # A wrong key or address is told on work that is not sealed.
    ask(bench.questions(), [work_of(item) for item in bench.items("train", "dev")])
    questions = bench.questions(keep)
    works = [work_of(item) for item in sealed]
    trials = _trials(bench, sealed)
    verdicts = ask(questions, works)
    dressed = ask(questions, [trial.work for trial in trials])
    controls = ask(questions, [trial.control or trial.work for trial in trials])
    if unkept:
        bench.keep(unkept)  # nothing had to be asked
    found = stage.tally((item.passed, said) for item, said in zip(sealed, verdicts, strict=True))
    measured, unanswered = _attacks(trials, dressed, controls)
    record = calibration.record_from_counts(
        bench.judge.setting,
        calibration.Labelling(
            people=opening.people,
            first_day=opening.first_day,
            last_day=opening.last_day,
            train=opening.train,
            dev=opening.dev,
            test=len(sealed),
        ),
        calibration.Counts(
            true_positives=found.true_positives,
            false_negatives=found.false_negatives,
            true_negatives=found.true_negatives,
            false_positives=found.false_positives,
            abstained=found.unanswered,
        ),
        measured,
    )
    return JudgeOutcome(
        split=opening.split, judge=bench.digest, record=record.to_json(), unanswered=unanswered, at=now()
    )


def work_of(item: stage.Item) -> attacks.Work:
    """Return a labelled item as work that a judge is asked about."""
    sample = item.sample
    return attacks.Work(sample.sample_id, sample.prompt, sample.columns, sample.completion)


def _trials(bench: Bench, sealed: Sequence[stage.Item]) -> list[attacks.Trial]:
    """Return the attacks on work that people failed, the sealed first, and on the prompts of the test."""
    failed = [item for item in sealed if not item.passed]
    failed += [item for item in bench.items("train", "dev") if not item.passed]
    wrong = [work_of(item) for item in failed]
    # What is paid 0 unasked cannot be dressed up: the judge would not see it.
    asked = [work for work in wrong if isinstance(_material(bench, work), Material)]
    prompts = {json.dumps(item.sample.prompt): work_of(item) for item in sealed}
    return attacks.trials(asked, list(prompts.values()), bench.judge.reference_of)


def _material(bench: Bench, work: attacks.Work) -> Any:
    return bench.judge.material_of(work.prompt, work.completion, work.columns)


def _attacks(
    trials: Sequence[attacks.Trial], dressed: Sequence[JudgeVerdict], controls: Sequence[JudgeVerdict]
) -> tuple[list[calibration.Attack], dict[str, int]]:
    """Return each attack's counts, and how many of its trials have no verdict and so are left out of them."""
    measured, unanswered = [], {}
    for name in calibration.ATTACKS:
        of_attack = [
            (trial, said.value, control.value)
            for trial, said, control in zip(trials, dressed, controls, strict=True)
            if trial.attack == name
        ]
        told = [one for one in of_attack if one[1] is not None and one[2] is not None]
        if len(told) < len(of_attack):
            unanswered[name] = len(of_attack) - len(told)
        if told:
            bare = [control for trial, _, control in told if trial.control is not None]
            measured.append(
                calibration.attack_from_counts(
                    name,
                    trials=len(told),
                    passes=sum(value == 1.0 for _, value, _ in told),
                    control_trials=len(bare),
                    control_passes=sum(value == 1.0 for value in bare),
                )
            )
    return measured, unanswered
