"""Evaluations made without a model: records for the statistics, and transcripts on disk as `evaluate` writes them."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import runs
from llm_finetuning import artifact, brief, checkpoints, drift
from llm_finetuning.evaluating.general import General
from llm_finetuning.evaluating.goldens import Goldens
from llm_finetuning.evaluating.subject import Subject
from llm_finetuning.sampling.drawing import sample_id
from llm_finetuning.stages import evaluate as stage
from llm_finetuning.stages.promote import Commands
from llm_finetuning.types import Evaluation, RewardValue, Sample, Score

BRIEF = runs.BRIEF.replace("id: id}", "id: id, evaluation: held.jsonl}")
ROWS = 20

COMMANDS = Commands(
    compare="finetune compare R base tuned",
    again=[
        "finetune evaluate R --name base-2",
        "finetune evaluate R --model M --name tuned-2",
        "finetune compare R a b",
    ],
    more=["finetune evaluate R --samples 8 --name base-8", "finetune compare R base-8 tuned-8"],
    more_samples=8,
    scored_anew=["finetune evaluate R", "finetune evaluate R --model M --name tuned"],
    moved=["eval/base.json", "eval/tuned.json"],
    trained="finetune evaluate R --checkpoint final",
    audit="finetune audit R",
    diagnose="finetune diagnose R",
    next_run="finetune new R-2 --from R",
    place="finetune merge R",
)
"""What a next action of `compare` may name, for a run `R`."""


def of_rewards(
    groups: Sequence[Sequence[float | None]], *, name: str = "base", tokens: int = 10, cut: bool = False, **also: float
) -> Evaluation:
    """Return the evaluation of items with these weighted rewards; other rewards pay the same for all."""
    samples, scores = [], []
    for row, group in enumerate(groups):
        for index, reward in enumerate(group):
            paid = {"r": reward, **also}
            values = [RewardValue(name=key, value=paid[key], reason=None, fault=None, seconds=0.0) for key in paid]
            samples.append(
                Sample(
                    sample_id=f"{row}/{index}",
                    prompt_id=str(row),
                    row=row + 1,
                    pass_name="policy",
                    index=index,
                    prompt="p",
                    columns={},
                    completion="c",
                    completion_ids=None,
                    tokens=tokens + row,
                    finish_reason="length" if cut else "stop",
                    temperature=1.0,
                )
            )
            own = {"sample_id": f"{row}/{index}", "prompt_id": str(row), "pass_name": "policy"}
            scores.append(Score(**own, values=values, reward=reward, advantage=None))  # type: ignore[arg-type]
    setting = stage.Setting(
        name=name,
        model="some/model",
        greedy=False,
        samples=max(map(len, groups)),
        success_threshold=0.5,
        fingerprint="0" * 64,
    )
    return stage.evaluate(samples, scores, setting)


def write_run(folder: Path, text: str = BRIEF) -> Path:
    """Write a run whose held-out rows are the sums 101+100, 102+101, ..."""
    runs.write_run(folder, text=text)
    rows = [
        {"id": f"h{i}", "prompt": f"What is {i + 101} + {i + 100}?", "answer": str(2 * i + 201), "level": i}
        for i in range(ROWS)
    ]
    (folder / "held.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder


def write_transcripts(
    folder: Path,
    name: str,
    right: Callable[[int, int], bool],
    *,
    model: str | None = None,
    greedy: bool = False,
    keep: int | None = None,
    samples: int | None = None,
    seconds: float | None = None,
    general: Callable[[int], bool] | None = lambda _: False,
) -> Path:
    """Write eval/NAME.samples.jsonl as a killed `evaluate` leaves it: `keep` completions, all of them when left out.

    `samples` a row, the brief's when left out, each of which took so many `seconds` of its batch.
    Beside it stand those of the drift suite, of which `general` tells by its place which item is answered rightly; None
    leaves them out.
    """
    asked = subject(folder, model=model)
    suite = Goldens(asked, samples=samples, greedy=greedy)
    passed = "low_temperature" if greedy else "policy"
    drawn = [
        Sample(
            sample_id=sample_id(f"h{i}", passed, index),
            prompt_id=f"h{i}",
            row=i + 1,
            pass_name=passed,  # type: ignore[arg-type]
            index=index,
            prompt=f"What is {i + 101} + {i + 100}?",
            columns=columns,
            completion=f"it is {2 * i + 201 + (not right(i, index))}",
            completion_ids=[1, 2, 3],
            tokens=3,
            finish_reason="stop",
            temperature=0.0 if greedy else 1.0,
            seconds=seconds,
        )
        for i, columns in enumerate(_columns(folder))
        for index in range(suite.samples)
    ]
    path = folder / "eval" / f"{name}.samples.jsonl"
    path.parent.mkdir(exist_ok=True)
    _write(path, suite, drawn, keep)
    if general is not None:
        beside = General(asked, is_chat=False)
        _write(path.with_name(f"{name}.drift.samples.jsonl"), beside, drift_samples(general), None)
    return path


def subject(folder: Path, *, model: str | None = None) -> Subject:
    """Return what `evaluate` measures in a run: the base model, or the one that is named."""
    loaded = brief.load(folder)
    candidate = checkpoints.base_model(loaded) if model is None else checkpoints.named(loaded, model)
    digest = checkpoints.digest(loaded, candidate)
    return Subject(loaded=loaded, sampled=loaded, candidate=candidate, digest=digest, python=None)


def _columns(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "held.jsonl").read_text("utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "prompt"} for line in lines]


def drift_samples(right: Callable[[int], bool], *, chat: bool = False) -> list[Sample]:
    """Return completions of the drift suite; a right one says what the item expects, where that is a text."""
    return [
        Sample(
            sample_id=sample_id(row.prompt_id, "low_temperature", 0),
            prompt_id=row.prompt_id,
            row=row.row,
            pass_name="low_temperature",
            index=0,
            prompt=row.prompt,
            columns=row.columns,
            completion=str(row.columns["expected"]) if right(row.row - 1) else "",
            completion_ids=[1, 2, 3],
            tokens=3,
            finish_reason="stop",
            temperature=0.0,
        )
        for row in drift.rows(chat=chat)
    ]


def _write(path: Path, suite: Goldens | General, samples: Sequence[Sample], keep: int | None) -> None:
    engine: dict[str, Any] = {}
    header = artifact.header_for(path, suite.of_completions(), {"expected": len(samples), "engine": engine})
    artifact.write_lines(path, header, samples[:keep])
