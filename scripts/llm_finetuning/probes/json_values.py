"""The right document with one value changed, left out or added: pays where keys are compared and values are not."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from llm_finetuning.probes import golds
from llm_finetuning.probes.case import Attempt, Case


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield changed documents; nothing where the reward says nothing about values."""
    if case.gold.kind != "json" or not case.prompt.values_count:
        return
    document = golds.document(case.gold)
    for changed, about in _changed(document):
        if changed != document or json.dumps(changed) != json.dumps(document):
            text = json.dumps(changed, ensure_ascii=False)
            yield Attempt(text=case.write(text), about=about, control=case.right, earns_at=0.9)


def _changed(document: Any) -> Iterator[tuple[Any, str]]:
    for path in _leaves(document)[:3]:
        value = _at(document, path)
        yield _with(document, path, _other(value)), f"another value at {_shown(path)}"
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield _with(document, path, str(value)), f"a number as text at {_shown(path)}"
    if isinstance(document, dict):
        yield {**document, "unheard_of": "x"}, "one key more"
    for path in _lists(document)[:1]:
        yield _with(document, path, _at(document, path)[::-1]), f"another order at {_shown(path)}"
    if isinstance(document, dict) and len(document) > 1:
        key = list(document)[-1]
        yield {name: value for name, value in document.items() if name != key}, f"without {key}"
    if isinstance(document, list) and len(document) > 1:
        yield document[:-1], "without its last part"
        if document[0] != document[-1]:
            yield document[::-1], "in another order"


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for key, part in value.items() for leaf in _leaves(part, (*path, key))]
    if isinstance(value, list):
        return [leaf for place, part in enumerate(value) for leaf in _leaves(part, (*path, place))]
    return [path] if path else []


def _lists(document: Any) -> list[tuple[Any, ...]]:
    """Return where lists of more than one part stand."""
    inside = dict.fromkeys(leaf[:-1] for leaf in _leaves(document) if leaf[:-1] and isinstance(leaf[-1], int))
    return [path for path in inside if len(_at(document, path)) > 1]


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def _with(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    _at(changed, path[:-1])[path[-1]] = value
    return changed


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 17
    return "something else" if isinstance(value, str) else "was null"


def _shown(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))
