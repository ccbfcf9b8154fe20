"""Result files of lm-evaluation-harness (read as 0.4.13 writes them with `--log_samples`).

`samples_TASK_TIME.jsonl` holds one line an item and filter; `results_TIME.json` beside it says which model it was, how
completions were drawn, and whether more of a metric is better.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llm_finetuning.errors import Refusal
from llm_finetuning.exchange.foreign import Answer, Item, Result, chosen, number, plain, words
from llm_finetuning.types import Text

TOOL = "lm-evaluation-harness"
SAMPLES, RESULTS = "samples_", "results_"

_ASKED = ("doc_id", "doc", "target", "arguments", "doc_hash", "prompt_hash", "target_hash")
_ANSWERED = ("resps", "filtered_resps", "filter", "metrics")
_OWN_KEYS = frozenset((*_ASKED, *_ANSWERED))
"""Keys of a line that are no metric; lines of older versions do not list their metrics."""


def is_ours(path: Path) -> bool:
    """Tell whether a path looks like this program's output: its folder, or one of its two kinds of files."""
    if path.is_dir():
        return any(path.rglob(f"{SAMPLES}*.jsonl"))
    named = path.name.startswith(SAMPLES) and path.suffix == ".jsonl"
    return named or (path.name.startswith(RESULTS) and path.suffix == ".json")


def read(path: Path, *, task: str | None, metric: str | None) -> Result:
    """Return one task's result under one metric, named `exact_match` or, with its filter, `exact_match,strict`.

    Refuses a folder of several runs, several tasks or metrics of which none is named, a metric of which less is better,
    one that has no number for an item, and an item that stands twice.
    """
    samples, results = _files(path, task)
    if task not in (None, task_of(samples)):
        raise Refusal(f"--task {task}: {samples} is of the task {task_of(samples)}")
    lines = list(_lines(samples))
    if not lines:
        raise Refusal(f"{samples}: holds no samples; evaluate with `--log_samples`")
    name = _metric_of(samples, lines, metric)
    metric_name, _, filter_name = name.partition(",")
    task_name = task_of(samples)
    _check_direction(samples, results, task_name, metric_name)
    kept = [(number_, line) for number_, line in lines if _filter(line) == filter_name]
    return Result(
        tool=f"{TOOL} {version}" if (version := str(results.get("lm_eval_version") or "")) else TOOL,
        model=_model(results),
        task=task_name,
        metric=name,
        settings=_settings(results, task_name),
        items=_items(samples, kept, metric_name),
        notes=_notes(results, kept, metric_name),
    )


def task_of(samples: Path) -> str:
    """Return the task that a samples file is named after."""
    return samples.stem.removeprefix(SAMPLES).rpartition("_")[0]


def _files(path: Path, task: str | None) -> tuple[Path, dict[str, Any]]:
    """Return the samples file and what the results file beside it says; nothing where there is none."""
    if path.is_file() and path.name.startswith(SAMPLES):
        beside = path.with_name(f"{RESULTS}{path.stem.rpartition('_')[2]}.json")
        return path, _json(beside) if beside.is_file() else {}
    results = [path] if path.is_file() else sorted(path.rglob(f"{RESULTS}*.json"))
    if len(results) != 1:
        raise Refusal(f"{path}: holds {len(results)} {RESULTS}*.json; name the samples_*.jsonl that is meant")
    time = results[0].stem.removeprefix(RESULTS)
    by_task = {task_of(found): found for found in sorted(results[0].parent.glob(f"{SAMPLES}*_{time}.jsonl"))}
    if not by_task:
        raise Refusal(f"{results[0]}: no {SAMPLES}*.jsonl beside it; evaluate with `--log_samples`")
    return by_task[chosen(path, "--task", task, list(by_task))], _json(results[0])


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Refusal(f"{path}: cannot be read ({_first(error)}); write the results again") from None
    if not isinstance(found, dict):
        raise Refusal(f"{path}: not a results file of {TOOL}")
    return found


def _first(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"{path}: cannot be read ({_first(error)})") from None
    for place, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise Refusal(f"{path}:{place}: not JSON ({_first(error)}); write the samples again") from None
        if not isinstance(found, dict) or "doc_id" not in found:
            raise Refusal(f"{path}:{place}: no sample of {TOOL}: `doc_id` is missing")
        yield place, found


def _filter(line: dict[str, Any]) -> str:
    return str(line.get("filter") or "none")


def _metric_of(path: Path, lines: list[tuple[int, dict[str, Any]]], wanted: str | None) -> str:
    """Return METRIC,FILTER; the filter may be left out of what is asked for where the metric has one alone."""
    known: dict[str, None] = {}
    for _, line in lines:
        own = (
            line["metrics"] if isinstance(line.get("metrics"), list) else [key for key in line if key not in _OWN_KEYS]
        )
        known.update(dict.fromkeys(f"{metric},{_filter(line)}" for metric in own))
    names = list(known)
    if wanted is not None and wanted not in names:
        same = [name for name in names if name.partition(",")[0] == wanted]
        wanted = same[0] if len(same) == 1 else wanted
    return chosen(path, "--metric", wanted, names)


def _check_direction(path: Path, results: dict[str, Any], task: str, metric: str) -> None:
    if _table(_table(results, "higher_is_better"), task).get(metric) is False:
        raise Refusal(
            f"{path}: less of `{metric}` is better, so that no value of it is a success; name another --metric"
        )


def _items(path: Path, lines: list[tuple[int, dict[str, Any]]], metric: str) -> list[Item]:
    items: dict[str, Item] = {}
    for place, line in lines:
        item_id = str(line["doc_id"])
        if item_id in items:
            raise Refusal(
                f"{path}:{place}: doc_id {item_id} stands in it twice under one filter; write the samples again"
            )
        value = line.get(metric, math.nan)  # not there: not graded, as the program's own NaN
        if not isinstance(value, bool | int | float):
            raise Refusal(f"{path}:{place}: `{metric}` is no number of one item ({value!r:.60}); name another --metric")
        answer = Answer(completion=_completion(line), value=number(value))
        doc = line["doc"] if isinstance(line.get("doc"), dict) else {"doc": line.get("doc")}
        items[item_id] = Item(
            item_id=item_id,
            prompt=_prompt(line),
            target=words(line.get("target", "")),
            columns=plain(doc),
            answers=[answer],
        )
    return list(items.values())


def _arguments(line: dict[str, Any]) -> list[list[Any]]:
    """Return what the model was asked, request by request: the context first, then the continuation or its settings."""
    found = line.get("arguments")
    if isinstance(found, dict):
        requests = [found[key] for key in sorted(found, key=lambda key: int(key.rpartition("_")[2] or 0))]
        return [list(request.values()) if isinstance(request, dict) else [request] for request in requests]
    return [list(request) for request in found or [] if isinstance(request, list)]


def _prompt(line: dict[str, Any]) -> Text:
    asked = _arguments(line)
    first = asked[0][0] if asked and asked[0] else ""
    if isinstance(first, list) and all(isinstance(message, dict) for message in first):
        return plain({"messages": first})["messages"]  # type: ignore[no-any-return]
    return first if isinstance(first, str) else json.dumps(first, ensure_ascii=False, default=str)


def _completion(line: dict[str, Any]) -> str | None:
    """Return the text that was generated, or the likeliest of the choices; None where there is neither."""
    answers = [one[0] if isinstance(one, list) and one else one for one in line.get("resps") or []]
    if answers and isinstance(answers[0], str):
        return answers[0]
    scores = [number(_as_number(answer[0])) if isinstance(answer, list) and answer else None for answer in answers]
    known = [(score, place) for place, score in enumerate(scores) if score is not None]
    asked = _arguments(line)
    if not known or len(asked) != len(scores):
        return None
    likeliest = asked[max(known, key=lambda pair: pair[0])[1]]
    return likeliest[1] if len(likeliest) > 1 and isinstance(likeliest[1], str) else None


def _as_number(value: Any) -> Any:
    """Return a log-likelihood that the file wrote as text as the number it is."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _table(of: dict[str, Any], key: str) -> dict[str, Any]:
    """Return what stands under a key of the results file; empty where that is no table, or is not there."""
    found = of.get(key)
    return found if isinstance(found, dict) else {}


def _model(results: dict[str, Any]) -> str:
    config = _table(results, "config")
    said = config.get("model_args")
    pretrained = said.get("pretrained") or said.get("model") if isinstance(said, dict) else None
    return str(pretrained or results.get("model_name") or config.get("model") or "not said")


def _settings(results: dict[str, Any], task: str) -> dict[str, Any]:
    config, of_task = _table(results, "config"), _table(_table(results, "configs"), task)
    names = ("output_type", "num_fewshot", "repeats", "generation_kwargs")
    found = {name: of_task[name] for name in names if of_task.get(name) is not None}
    return plain({**found, "gen_kwargs": config.get("gen_kwargs") or {}, "limit": config.get("limit")})


def _notes(results: dict[str, Any], lines: list[tuple[int, dict[str, Any]]], metric: str) -> list[str]:
    notes = []
    if not results:
        notes.append("no results file beside the samples: which model it was, and how it was sampled, is not known")
    ungraded = sum(number(line.get(metric)) is None for _, line in lines)
    if ungraded:
        notes.append(
            f"{ungraded} of {len(lines)} items have no `{metric}`: they count neither as success nor as failure"
        )
    several = sum(
        1
        for _, line in lines
        if any(isinstance(one, list) and len(one) > 1 and isinstance(one[0], str) for one in line.get("resps") or [])
    )
    if several:
        notes.append(f"{several} items have several responses and one value: each counts as one completion")
    return notes
