"""Logs of inspect-ai (read as 0.3.285 writes them): `.eval`, a zip of JSON files, or one `.json`."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llm_finetuning.errors import Refusal
from llm_finetuning.exchange.foreign import Answer, Item, Result, chosen, number, plain, words
from llm_finetuning.types import FinishReason, Text

TOOL = "inspect-ai"
LARGEST = 1 << 28  # bytes of one sample, unpacked

GRADES: Mapping[str, float] = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partly correct, incorrect, no answer: what the program's own accuracy makes of them."""

_CUT = ("max_tokens", "model_length")
_PACE = ("max_connections", "max_retries", "timeout", "attempt_timeout", "adaptive_connections", "batch", "cache")
"""Settings that change how fast completions come, not which."""

_ATTACHED = "attachment://"


def is_ours(path: Path) -> bool:
    """Tell whether a file looks like a log of this program."""
    if path.suffix == ".eval":
        return True
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open("rb") as stream:
        start = stream.read(4096)
    return b'"eval"' in start and b'"version"' in start


def read(path: Path, *, metric: str | None) -> Result:
    """Return the log's result under one scorer, named as the log does, or SCORER/KEY where a score has several values.

    Refuses a log that is not whole, several scorers of which none is named, and values that are no grades or numbers.
    """
    with _opened(path) as (header, samples):
        if header.get("status") != "success":
            raise Refusal(
                f"{path}: the log is not whole (status {header.get('status')}); finish it with `inspect eval-retry`"
            )
        spec = header.get("eval")
        if not isinstance(spec, dict):
            raise Refusal(f"{path}: no log of {TOOL}: `eval` is missing")
        found = sorted(samples, key=lambda sample: int(sample.get("epoch") or 1))
    if not found:
        raise Refusal(f"{path}: holds no samples; evaluate with `--log-samples`")
    names = list(dict.fromkeys(name for sample in found for name in _values(sample)))
    name = chosen(path, "--metric", metric, names)
    items = _items(path, found, name)
    order = spec.get("dataset", {}).get("sample_ids") or []
    places = {str(item_id): place for place, item_id in enumerate(order)}
    packages = spec.get("packages") or {}
    return Result(
        tool=f"{TOOL} {packages.get('inspect_ai', '')}".strip(),
        model=str(spec.get("model") or "not said"),
        task=str(spec.get("task") or path.stem),
        metric=name,
        settings=_settings(header, spec),
        items=sorted(items, key=lambda item: places.get(item.item_id, len(places))),
        notes=_notes(found, name),
    )


@contextmanager
def _opened(path: Path) -> Iterator[tuple[dict[str, Any], Iterator[dict[str, Any]]]]:
    """Open a log as its header and its samples, one at a time."""
    if path.suffix != ".eval":
        whole = _object(path, "", path.read_bytes())
        samples = whole.get("samples") or []
        yield whole, (sample for sample in samples if isinstance(sample, dict))
        return
    zipfile = _zip_reader()
    try:
        with zipfile.ZipFile(path) as archive:
            if "header.json" not in archive.namelist():
                raise Refusal(
                    f"{path}: the log has no header: the evaluation was not finished; `inspect eval-retry` does"
                )
            yield (
                _object(path, "header.json", archive.read("header.json")),
                (_object(path, entry.filename, _entry(path, archive, entry)) for entry in _entries(archive)),
            )
    except zipfile.BadZipFile as error:
        raise Refusal(f"{path}: not a log of {TOOL} ({error})") from None


def _zip_reader() -> Any:
    """Return the module that opens zips with Zstandard in them, which Python's own does from 3.14 on."""
    if sys.version_info >= (3, 14):
        import zipfile
    else:
        from backports.zstd import zipfile
    return zipfile


def _entries(archive: Any) -> list[Any]:
    return [
        entry
        for entry in archive.infolist()
        if entry.filename.startswith("samples/") and entry.filename.endswith(".json")
    ]


def _entry(path: Path, archive: Any, entry: Any) -> bytes:
    if entry.file_size > LARGEST:
        raise Refusal(f"{path}: {entry.filename} has {entry.file_size >> 20} MiB, more than is read of one sample")
    data: bytes = archive.read(entry)
    return data


def _object(path: Path, name: str, data: bytes) -> dict[str, Any]:
    place = f"{path}: {name}" if name else str(path)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"{place}: not JSON ({str(error).splitlines()[0]}); write the log again") from None
    if not isinstance(found, dict):
        raise Refusal(f"{place}: no log of {TOOL}")
    return found


def _settings(header: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """Return what decides the completions: the solvers and their options, and how text is generated."""
    plan = header.get("plan") or {}
    given = {**(spec.get("model_generate_config") or {}), **(plan.get("config") or {})}
    steps = [{"solver": step.get("solver"), "params": step.get("params") or {}} for step in plan.get("steps") or []]
    return plain({**{name: value for name, value in given.items() if name not in _PACE}, "steps": steps})


def _values(sample: dict[str, Any]) -> dict[str, Any]:
    """Return a sample's values by the name of their scorer, and of their key where a scorer gives several."""
    values: dict[str, Any] = {}
    for scorer, score in (sample.get("scores") or {}).items():
        value = score.get("value") if isinstance(score, dict) else score
        if isinstance(value, dict):
            values.update({f"{scorer}/{key}": one for key, one in value.items()})
        else:
            values[scorer] = value
    return values


def _items(path: Path, samples: list[dict[str, Any]], name: str) -> list[Item]:
    items: dict[str, Item] = {}
    seen: set[tuple[str, int]] = set()
    for sample in samples:
        item_id, epoch = str(sample.get("id")), int(sample.get("epoch") or 1)
        if (item_id, epoch) in seen:
            raise Refusal(f"{path}: sample {item_id} stands in epoch {epoch} twice; write the log again")
        seen.add((item_id, epoch))
        answer = _answer(path, sample, name)
        if item_id in items:
            items[item_id].answers.append(answer)
            continue
        items[item_id] = Item(
            item_id=item_id,
            prompt=_text(sample.get("input"), sample),
            target=words(sample.get("target", "")),
            columns=plain(sample.get("metadata") or {}),
            answers=[answer],
        )
    return list(items.values())


def _answer(path: Path, sample: dict[str, Any], name: str) -> Answer:
    output = sample.get("output") or {}
    choices = output.get("choices") or []
    said = choices[0].get("message", {}).get("content") if choices else output.get("completion")
    reason = choices[0].get("stop_reason") if choices else None
    finish: FinishReason | None = None if reason is None else "length" if reason in _CUT else "stop"
    tokens = (output.get("usage") or {}).get("output_tokens")
    value = None if sample.get("error") else _grade(path, sample, name)
    return Answer(
        completion=None if said is None else _flat(said, sample),
        value=value,
        tokens=tokens if isinstance(tokens, int) and tokens >= 0 else None,
        finish_reason=finish,
    )


def _grade(path: Path, sample: dict[str, Any], name: str) -> float | None:
    value = _values(sample).get(name)
    if isinstance(value, str):
        if value in GRADES:
            return GRADES[value]
        try:
            return number(float(value))
        except ValueError:
            pass
        raise Refusal(
            f"{path}: sample {sample.get('id')}: `{name}` says {value!r:.40}, which is neither a number nor one of "
            f"{', '.join(GRADES)}; name another --metric"
        )
    if isinstance(value, list):
        raise Refusal(f"{path}: sample {sample.get('id')}: `{name}` is a list; name a --metric with one value")
    return number(value)


def _text(said: Any, sample: dict[str, Any]) -> Text:
    """Return an input in our two forms: a text, or chat messages with text alone."""
    if isinstance(said, list):
        return [
            {"role": str(message.get("role") or "user"), "content": _flat(message.get("content"), sample)}
            for message in said
            if isinstance(message, dict)
        ]
    return _flat(said, sample)


def _flat(content: Any, sample: dict[str, Any]) -> str:
    """Return a message's content as one text; of a long one, kept apart, the text; of a picture its kind."""
    if isinstance(content, list):
        return "".join(_part(part, sample) for part in content)
    text = "" if content is None else str(content)
    if text.startswith(_ATTACHED):
        return str((sample.get("attachments") or {}).get(text.removeprefix(_ATTACHED), text))
    return text


def _part(part: Any, sample: dict[str, Any]) -> str:
    if not isinstance(part, dict):
        return _flat(part, sample)
    kind = part.get("type")
    if kind == "text":
        return _flat(part.get("text"), sample)
    return "" if kind == "reasoning" else f"[{kind}]"


def _notes(samples: list[dict[str, Any]], name: str) -> list[str]:
    failed = sum(1 for sample in samples if sample.get("error"))
    unscored = sum(1 for sample in samples if not sample.get("error") and _values(sample).get(name) is None)
    notes = []
    if failed:
        notes.append(
            f"{failed} of {len(samples)} samples ended in an error: they count neither as success nor as failure"
        )
    if unscored:
        notes.append(
            f"{unscored} of {len(samples)} samples have no `{name}`: they count neither as success nor as failure"
        )
    return notes
