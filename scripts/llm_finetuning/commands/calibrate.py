"""`finetune calibrate`: measure a rubric judge against labels by people, and write the record it needs to pay."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import EXIT_DONE, EXIT_INSUFFICIENT, EXIT_NO, Refusal

if TYPE_CHECKING:
    from llm_finetuning.judging.attacks import Work
    from llm_finetuning.judging.bench import Bench
    from llm_finetuning.judging.questions import Questions
    from llm_finetuning.rewards.judges.calibration import Attack, CalibrationRecord
    from llm_finetuning.stages.calibrate import Item, Tally, Wanting
    from llm_finetuning.types import JudgeOutcome, JudgeVerdict

SHOWN = 8  # disagreements in the text; all stand in --json
QUOTED = 400  # characters of a prompt or a completion in the text

Answer = tuple[list[str], dict[str, Any], int]
"""Lines, facts and the exit code."""


@click.command("calibrate", short_help="Measure a rubric judge against people's labels")
@options.run_dir
@click.option("--open-test", is_flag=True, help="Ask the judge about the sealed test, once, and write its record.")
@click.option("--new-test", is_flag=True, help="Seal another test, of prompts that no judge was tested on.")
@click.option("--reward", metavar="NAME", help="Which judge, where the brief names several.")
@click.option("--seed", default=0, show_default=True, help="Draws the first split; later ones keep it.")
@options.as_json
def command(run_dir: Path, open_test: bool, new_test: bool, reward: str | None, seed: int, as_json: bool) -> int:
    """Measure the brief's `rubric_judge` against what people said of samples.jsonl.

    Seals half of the labelled samples and asks the judge about the others, which you read to mend the rubric. When
    judge and rubric are final, `--open-test` asks about the sealed ones and tries attacks, once, and writes the record
    that the judge's option `calibration` names. Exit code 0: measured, and with --open-test the judge may pay; 1: it
    may not; 3: too few labels; 4: its server fails, and the same command goes on where it stopped.
    """
    from llm_finetuning import as_given
    from llm_finetuning.commands import status

    lines, facts, code = run(run_dir, open_test=open_test, new_test=new_test, reward=reward, seed=seed)
    facts["next"] = as_given.said(facts["next"], run_dir) or status.next_command(run_dir)
    lines = [as_given.said(line, run_dir) for line in lines]
    console.finish([*lines, f"next: {facts['next']}"], facts, as_json=as_json)
    return code


def run(
    run_dir: Path, *, open_test: bool = False, new_test: bool = False, reward: str | None = None, seed: int = 0
) -> Answer:
    """Measure the judge and return what is said of it; refuses, or fails with the machinery, as the command says."""
    from llm_finetuning import artifact, brief
    from llm_finetuning.judging import opening
    from llm_finetuning.judging.bench import EVENT, FLOORS, Bench
    from llm_finetuning.stages.calibrate import Wanting, wanting

    if open_test and new_test:
        raise Refusal("--open-test and --new-test: name one of them; a new test is sealed before it is opened")
    loaded = brief.load(run_dir)
    bench = Bench(loaded, reward)
    path = loaded.run_dir / "judge.jsonl"
    lacks = wanting(bench.labelled.items, FLOORS)
    if not path.exists() and lacks is not None:
        return _too_little(bench, lacks)
    with artifact.appending(path, artifact.header_for(path, {}), EVENT) as journal:
        bench.journal = journal
        if bench.split is None or new_test:
            lacks = bench.seal(seed)
            if lacks is not None:
                return _too_little(bench, lacks)
        if not open_test:
            going_on = artifact.shell_line("calibrate", run_dir, *(["--reward", reward] if reward else []))
            with console.goes_on_with(going_on if new_test else None):  # the option would seal yet another test
                return _measured(bench)
        found = opening.open_test(bench, _ask)
        return _too_little(bench, found) if isinstance(found, Wanting) else _opened(bench, found)


def _ask(questions: "Questions", works: "Sequence[Work]") -> "list[JudgeVerdict]":
    with console.progress("asking the judge", len(works)) as advance:
        return questions.answers(works, advance)


def _too_little(bench: "Bench", lacks: "Wanting") -> Answer:
    from llm_finetuning import artifact
    from llm_finetuning.commands.review import READS
    from llm_finetuning.stages import calibrate as stage

    of_what = "" if bench.split is None or bench.opening is None else ", of prompts that no judge was tested on"
    count = max(READS, len(bench.labelled.items) + lacks.passes + lacks.fails + lacks.any)
    read = artifact.shell_line("review", bench.loaded.run_dir, "--count", str(count))
    draw = artifact.shell_line("sample", bench.loaded.run_dir, "--fresh")
    facts = {
        **_facts(bench),
        "verdict": "insufficient",
        "needed": {"accept": lacks.passes, "reject": lacks.fails, "either": lacks.any},
        "next": f"{read}; where all samples are read, raise `sampling.prompts` and `{draw}` first",
    }
    return (
        [*_head(bench), f"too few labels for a test: {stage.words_of(lacks)} more are needed{of_what}"],
        facts,
        EXIT_INSUFFICIENT,
    )


# --- what is not sealed ---------------------------------------------------------------------------------------------


def _measured(bench: "Bench") -> Answer:
    """Ask about what is not sealed, and say the rates and what to read."""
    from llm_finetuning.judging.opening import work_of
    from llm_finetuning.stages import calibrate as stage

    told = []
    for side in ("train", "dev"):
        items = bench.items(side)
        told.append((side, items, _ask(bench.questions(), [work_of(item) for item in items])))
    of_side = {
        side: stage.tally((item.passed, said) for item, said in zip(items, verdicts, strict=True))
        for side, items, verdicts in told
    }
    differing = [
        _disagreement(item, said, side)
        for side, items, verdicts in told
        for item, said in zip(items, verdicts, strict=True)
        if said.value is not None and said.value != float(item.passed)
    ]
    facts = {
        **_facts(bench),
        "verdict": "measured",
        "sides": {side: _counts(found) for side, found in of_side.items()},
        "disagreements": differing,
        "next": _next(bench, differing, [said for _, _, verdicts in told for said in verdicts]),
    }
    lines = [*_head(bench), "", stage.HEAD, *(stage.rates_line(side, found) for side, found in of_side.items())]
    lines += [f"no verdict ({side}): {stage.reasons_line(found)}" for side, found in of_side.items() if found.reasons]
    lines += [line for one in differing[:SHOWN] for line in _shown(one)]
    if len(differing) > SHOWN:
        lines.append(f"and {len(differing) - SHOWN} more disagreements, all of them in --json")
    return [*lines, "", f"wrote: {facts['wrote']}"], facts, EXIT_DONE


def _next(bench: "Bench", differing: Sequence[dict[str, Any]], verdicts: "Sequence[JudgeVerdict]") -> str:
    from llm_finetuning import artifact
    from llm_finetuning.judging import opening
    from llm_finetuning.judging.bench import FLOORS

    again = artifact.shell_line("calibrate", bench.loaded.run_dir)
    last = artifact.shell_line("calibrate", bench.loaded.run_dir, "--open-test")
    if bench.opening is not None and bench.opening.judge != bench.digest:
        return f"the test was opened for another judge: {opening.fresh_words(bench)}"
    if bench.opening is not None:
        return f"{last}, which {'says again what the test showed' if bench.outcome else 'goes on where it stopped'}"
    silent = sum(said.value is None for said in verdicts)
    if silent > FLOORS.unanswered * len(verdicts):
        return (
            f"{silent} of {len(verdicts)} have no verdict, more than a record may have: mend what keeps the judge from "
            f"one and run `{again}`; a test opened now would be used up for nothing"
        )
    rubric = bench.entry.wanted.options.get("rubric_file")
    once = f"{last}, once, when rubric and judge are final"
    return f"read the disagreements, mend {rubric} and run `{again}`; then {once}" if differing else once


def _disagreement(item: "Item", said: "JudgeVerdict", side: str) -> dict[str, Any]:
    from llm_finetuning.findings.wording import text_of

    return {
        "sample_id": item.sample.sample_id,
        "side": side,
        "people": "accept" if item.passed else "reject",
        "judge": said.reason,
        "prompt": text_of(item.sample.prompt),
        "completion": text_of(item.sample.completion),
        "words": said.words,
        "notes": list(item.notes),
    }


def _shown(one: dict[str, Any]) -> list[str]:
    lines = ["", f"{one['sample_id']} ({one['side']}): people {one['people']}, the judge says {one['judge']}"]
    for name, key in (("prompt", "prompt"), ("completion", "completion"), ("judge", "words")):
        text = " ".join(one[key].split())
        lines.append(f"  {name}: {text[:QUOTED]}{'...' if len(text) > QUOTED else ''}")
    return [*lines, *(f"  people: {note}" for note in one["notes"])]


# --- the test -------------------------------------------------------------------------------------------------------


def _opened(bench: "Bench", outcome: "JudgeOutcome") -> Answer:
    """Say what the test showed, and whether the judge may pay; then the run goes on, and `next` is left to `status`."""
    from llm_finetuning.judging import opening
    from llm_finetuning.rewards.judges.calibration import CalibrationRecord, faults
    from llm_finetuning.stages import calibrate as stage

    record = CalibrationRecord.model_validate_json(outcome.record)
    found = faults(record, bench.judge.setting)
    path = str(opening.record_path(bench))
    facts = {
        **_facts(bench),
        "verdict": "may not pay" if found else "may pay",
        "record": record.model_dump(mode="json", by_alias=True),
        "unanswered": outcome.unanswered,
        "faults": found,
        "wrote": path,
        "next": f"mend the rubric, or take another judge: {opening.fresh_words(bench)}" if found else "",
    }
    lines = [*_head(bench), "", stage.HEAD, stage.rates_line("test", _tally(record)), ""]
    lines += [_attack_line(attack, outcome.unanswered.get(attack.name, 0)) for attack in record.attacks]
    lines += ["", "the judge may not pay:" if found else "the judge may pay", *(f"  {words}" for words in found)]
    return [*lines, f"wrote: {path}"], facts, EXIT_NO if found else EXIT_DONE


def _attack_line(attack: "Attack", unanswered: int) -> str:
    control = f" against {attack.control_passes} of {attack.control_trials} without it" if attack.control_trials else ""
    kind = "difference" if attack.control_trials else "share"
    interval = f"{kind} {attack.lift_low:.2f} to {attack.lift_high:.2f}"
    silent = f"; {unanswered} without a verdict" if unanswered else ""
    return f"attack {attack.name:<14} passes {attack.passes} of {attack.trials}{control} ({interval}){silent}"


def _tally(record: "CalibrationRecord") -> "Tally":
    from llm_finetuning.stages.calibrate import Tally

    test = record.test
    return Tally(
        test.true_positives,
        test.false_negatives,
        test.true_negatives,
        test.false_positives,
        {"no verdict": test.abstained} if test.abstained else {},
    )


def _counts(found: "Tally") -> dict[str, Any]:
    import dataclasses

    return {**dataclasses.asdict(found), "reasons": dict(found.reasons)}


# --- what stands above every answer -----------------------------------------------------------------------------------


def _facts(bench: "Bench") -> dict[str, Any]:
    """Return the counts; of a sealed test nothing else is told."""
    found, split = bench.labelled, bench.split
    facts: dict[str, Any] = {
        "judge": bench.entry.name,
        "model": bench.setting["model"],
        "labels": {
            "items": len(found.items),
            "accept": sum(item.passed for item in found.items),
            "contested": found.contested,
            "undecided": found.undecided,
            "repeated": found.repeated,
            "by_program": found.by_program,
        },
    }
    if split is not None:
        test = bench.items("test")
        facts["split"] = {
            "number": split.number,
            "train": len(bench.items("train")),
            "dev": len(bench.items("dev")),
            "test": len(test),
            "test_accept": sum(item.passed for item in test),
            "waiting": sum(item.prompt not in split.sides for item in found.items),
            "opened": None if bench.opening is None else bench.opening.at,
        }
        facts["wrote"] = str(bench.loaded.run_dir / "judge.jsonl")
    return facts


def _head(bench: "Bench") -> list[str]:
    facts = _facts(bench)
    labels = facts["labels"]
    kinds = ("contested", "undecided", "repeated", "by_program")
    out = [f"{labels[kind]} {kind.replace('_', ' a ')}" for kind in kinds if labels[kind]]
    lines = [
        f"judge: {facts['judge']}, {facts['model']}",
        f"labels: {labels['items']} samples judged by people, {labels['accept']} accepted"
        + (f"; not counted: {', '.join(out)}" if out else ""),
    ]
    if "split" in facts:
        split = facts["split"]
        state = "sealed" if split["opened"] is None else f"opened on {split['opened'][:10]}"
        waits = f"; {split['waiting']} of new prompts wait for another test" if split["waiting"] else ""
        lines.append(
            f"split {split['number']}: train {split['train']}, dev {split['dev']}, test {split['test']} "
            f"({split['test_accept']} accepted), {state}{waits}"
        )
    return lines
