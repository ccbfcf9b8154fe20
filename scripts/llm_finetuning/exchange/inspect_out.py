"""An evaluation of ours as a log of inspect-ai, which its viewer opens and its library reads (tried with 0.3.285).

One sample an item and completion (`epoch` counts completions from 1), with our success as `C` and `I`, the weighted
grade, and what each component paid. What was not scored has no value there.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from llm_finetuning.artifact import Header, digest_value
from llm_finetuning.rewards.contract import text_of
from llm_finetuning.types import Evaluation, EvaluationItem, Sample, Text

LOG_VERSION = 2
SUCCESS, GRADE = "success", "grade"


def log_of(
    found: Evaluation, header: Header, samples: Sequence[Sample], *, success: Sequence[bool | None]
) -> dict[str, Any]:
    """Return the log; `samples` are the transcripts in the order of items and completions, `success` goes with them."""
    places = {item.prompt_id: item for item in found.items}
    when = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
    name = digest_value([header.parents, found.name])[:22]
    rows = [
        _sample(found, places[sample.prompt_id], sample, paid) for sample, paid in zip(samples, success, strict=True)
    ]
    return {
        "version": LOG_VERSION,
        "status": "success",
        "eval": {
            "eval_id": name,
            "run_id": name,
            "task_id": name,
            "created": when,
            "task": f"{found.suite}-{found.name}",
            "task_version": 0,
            "dataset": {
                "name": found.suite,
                "samples": len(found.items),
                "sample_ids": [item.prompt_id for item in found.items],
                "shuffled": False,
            },
            "model": found.model,
            "model_generate_config": _generation(header.settings),
            "config": {"epochs": found.samples},
            "metadata": {"maker": header.maker, "fingerprint": found.fingerprint, "parents": header.parents},
        },
        "plan": {"name": "plan", "steps": [], "config": {}},  # its reader counts on one before the results
        "results": _results(found, samples),
        "stats": {"started_at": when, "completed_at": when},
        "samples": rows,
    }


def _generation(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the sampling settings in the other program's names."""
    named = {"temperature": "temperature", "max_completion_length": "max_tokens", "top_p": "top_p", "top_k": "top_k"}
    return {theirs: settings[ours] for ours, theirs in named.items() if settings.get(ours) is not None}


def _results(found: Evaluation, samples: Sequence[Sample]) -> dict[str, Any]:
    share = found.passes["1"]
    graded = sum(1 for item in found.items if item.n)
    return {
        "total_samples": len(samples),
        "completed_samples": len(samples),
        "scores": [
            {
                "name": SUCCESS,
                "scorer": SUCCESS,
                "scored_samples": graded,
                "unscored_samples": len(found.items) - graded,
                "metrics": {
                    "accuracy": {"name": "accuracy", "value": share.value},
                    "low95": {"name": "low95", "value": share.low},
                    "high95": {"name": "high95", "value": share.high},
                },
            }
        ],
    }


def _sample(found: Evaluation, item: EvaluationItem, sample: Sample, success: bool | None) -> dict[str, Any]:  # noqa: FBT001
    said = {"role": "assistant", "content": text_of(sample.completion), "model": found.model, "source": "generate"}
    asked = _messages(sample.prompt)
    values = {name: paid[sample.index] for name, paid in item.values.items()}
    scores: dict[str, Any] = {GRADE: item.grades[sample.index], **values}
    if success is not None:
        scores[SUCCESS] = "C" if success else "I"
    reason = "max_tokens" if sample.finish_reason == "length" else "stop"
    return {
        "id": item.prompt_id,
        "epoch": sample.index + 1,
        "uuid": digest_value([found.fingerprint, found.name, sample.sample_id])[:22],
        "input": sample.prompt if isinstance(sample.prompt, str) else asked,
        "target": _target(sample),
        "messages": [*asked, said],
        "output": {
            "model": found.model,
            "choices": [{"message": said, "stop_reason": reason}],
            "completion": said["content"],
            "usage": {"input_tokens": 0, "output_tokens": sample.tokens, "total_tokens": sample.tokens},
        },
        "scores": {name: {"value": value} for name, value in scores.items() if value is not None},
        "metadata": {**sample.columns, "bucket": item.bucket, "source": item.source},
    }


def _target(sample: Sample) -> str:
    answer = sample.columns.get("answer", sample.columns.get("expected", ""))
    return answer if isinstance(answer, str) else str(answer)


def _messages(text: Text) -> list[dict[str, Any]]:
    if isinstance(text, str):
        return [{"role": "user", "content": text}]
    return [{"role": str(part.get("role") or "user"), "content": str(part.get("content") or "")} for part in text]
