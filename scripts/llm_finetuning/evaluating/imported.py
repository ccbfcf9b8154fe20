"""What another program measured, as an evaluation of this run: items, their completions, and its metric as the grader.

Its metric decides what is a success; nothing is scored anew. Two that were imported alike compare like two of ours.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_finetuning import artifact
from llm_finetuning.errors import Refusal
from llm_finetuning.exchange import foreign, inspect_log, lm_eval
from llm_finetuning.findings.evidence import Rule, is_paid
from llm_finetuning.stages import evaluate as stage
from llm_finetuning.types import Evaluation, EvaluationItem, Sample, Text

_ODD = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What comes of a value of another kind than the other program writes; the file is theirs, and may be edited."""


def read(path: Path, *, task: str | None, metric: str | None) -> foreign.Result:
    """Return what a result file or folder of another program holds; refuses one that no reader knows."""
    if not path.exists():
        raise Refusal(f"{path}: no such file or folder; name what the other program wrote")
    try:
        if lm_eval.is_ours(path):
            return lm_eval.read(path, task=task, metric=metric)
        if inspect_log.is_ours(path):
            if task is not None:
                raise Refusal(f"--task {task}: a log of {inspect_log.TOOL} holds one task; leave it out")
            return inspect_log.read(path, metric=metric)
    except OSError as error:
        raise Refusal(f"{path}: {(error.strerror or str(error)).lower()}; check the path and its permissions") from None
    except _ODD as error:
        words = f"{type(error).__name__}: {error}".splitlines()[0]
        raise Refusal(f"{path}: holds something else than its program writes there ({words}); write it again") from None
    raise Refusal(
        f"{path}: neither a log of {inspect_log.TOOL} (.eval, .json) nor a result of {lm_eval.TOOL} "
        "(samples_*.jsonl, results_*.json or their folder)"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """An evaluation, and all that goes into its files."""

    evaluation: Evaluation
    parents: dict[str, str]
    settings: dict[str, Any]
    samples: list[Sample]  # none where one of them, its length or its end is not known
    of_samples: tuple[str, ...] = ("held-out rows", "sampling settings", "model", "engine")  # their parents


def evaluation_of(path: Path, found: foreign.Result, *, name: str, success: float | None) -> Imported:
    """Return the evaluation that a result becomes; refuses a metric of which nobody said what a success is."""
    threshold = _threshold(path, found, success)
    fingerprint = artifact.digest_value([[item.item_id, item.prompt, item.target] for item in found.items])
    evaluation = stage.of_items(
        [_item(row, item, found.metric, threshold) for row, item in enumerate(found.items, 1)],
        [found.metric],
        stage.Setting(
            name=name,
            model=found.model,
            greedy=False,
            samples=max(len(item.answers) for item in found.items),
            success_threshold=threshold,
            fingerprint=fingerprint,
            notes=[f"imported from {path.name} of {found.tool}, task {found.task}", *found.notes],
        ),
    )
    parents = {
        "held-out rows": fingerprint,
        "sampling settings": artifact.digest_value(found.settings),
        "metric": artifact.digest_value([found.task, found.metric, threshold]),
        "model": artifact.digest_value(found.model),
        "engine": artifact.digest_value(found.tool),
    }
    settings = {**found.settings, "imported": {"file": path.name, "tool": found.tool, "task": found.task}}
    return Imported(evaluation=evaluation, parents=parents, settings=settings, samples=_samples(found))


def _threshold(path: Path, found: foreign.Result, success: float | None) -> float:
    """Return the value that counts as a success; of a metric of 0 and 1 that is 1, of any other a person's to say."""
    values = {answer.value for item in found.items for answer in item.answers if answer.value is not None}
    if not values:
        raise Refusal(f"{path}: `{found.metric}` has no value for any item; name another --metric")
    if success is not None:
        if not math.isfinite(success):
            raise Refusal(f"--success {success:g}: is no value; name the one from which on a completion is a success")
        if success > max(values):
            raise Refusal(
                f"--success {success:g}: no value of `{found.metric}` reaches it; the highest is {max(values):g}"
            )
        return success
    if values <= {0.0, 1.0}:
        return 1.0
    raise Refusal(
        f"{path}: `{found.metric}` goes from {min(values):g} to {max(values):g}; say from which value on a completion "
        "is a success: --success VALUE"
    )


def _item(row: int, item: foreign.Item, metric: str, threshold: float) -> EvaluationItem:
    values = [answer.value for answer in item.answers]
    known = [value for value in values if value is not None]
    tokens = [answer.tokens for answer in item.answers if answer.tokens is not None]
    reasons = [answer.finish_reason for answer in item.answers if answer.finish_reason is not None]
    return EvaluationItem(
        prompt_id=item.item_id,
        row=row,
        bucket=None,
        source=None,
        n=len(known),
        successes=sum(is_paid(value, Rule(success=threshold)) for value in known),
        grades=values,
        rewards=values,
        values={metric: values},
        tokens=tokens if len(tokens) == len(values) else [],
        finish_reasons=reasons if len(reasons) == len(values) else [],
    )


def _samples(found: foreign.Result) -> list[Sample]:
    """Return the completions as transcripts; none where one of them, its length or its end is not known."""
    samples = []
    for row, item in enumerate(found.items, 1):
        for index, answer in enumerate(item.answers):
            if answer.completion is None or answer.tokens is None or answer.finish_reason is None:
                return []
            samples.append(
                Sample(
                    sample_id=f"{item.item_id}/{index}",
                    prompt_id=item.item_id,
                    row=row,
                    pass_name="policy",  # noqa: S106  no secret
                    index=index,
                    prompt=item.prompt,
                    columns={**item.columns, "answer": item.target},
                    completion=_like(item.prompt, answer.completion),
                    completion_ids=None,
                    tokens=answer.tokens,
                    finish_reason=answer.finish_reason,
                    temperature=foreign.number(found.settings.get("temperature")) or 0.0,
                )
            )
    return samples


def _like(prompt: Text, completion: Text) -> Text:
    """Return a completion in the form of its prompt, as transcripts have it."""
    if isinstance(prompt, list) and isinstance(completion, str):
        return [{"role": "assistant", "content": completion}]
    return completion
