"""The brief of the next run: another run's, with its paths still valid, and with one advised change.

Both work on the text as a person wrote it: comments, order and quotes stay.
"""

import dataclasses
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_finetuning import dataset, lineage
from llm_finetuning.brief import LoadedBrief, SamplingBrief
from llm_finetuning.diagnosis.record import Advice
from llm_finetuning.recipes import variants
from llm_finetuning.rewards import composition

Tree = Any
"""A mapping as ruamel reads it in round-trip mode."""

_OFF_POLICY = ("steps_per_generation", "generation_batch_size")


@dataclasses.dataclass(frozen=True, slots=True)
class Changed:
    """A brief's new text and, in one line each, what is new in it."""

    text: str
    changes: list[str]


def moved(text: str, loaded: LoadedBrief, folder: Path) -> Changed:
    """Return a brief's text for another folder: its relative paths name the files that they named before."""
    tree, write = _open(text)
    changes: list[str] = []
    for held, key, where in _paths(tree, loaded):
        new = _from(folder, loaded, held[key])
        if new != held[key]:
            held[key] = new
            changes.append(f"{where}: {held[key]}")
    return Changed(write() if changes else text, changes)


def _paths(tree: Tree, loaded: LoadedBrief) -> Iterator[tuple[Any, Any, str]]:
    """Yield where a brief names a file or a folder of this machine: what holds it, under which key, and its name."""
    if dataset.is_file(loaded):
        yield tree["dataset"], "path", "dataset.path"
    if loaded.brief.dataset.evaluation is not None and dataset.is_file(lineage.held_out(loaded)):
        yield tree["dataset"], "evaluation", "dataset.evaluation"
    if loaded.model_source() != loaded.brief.model:
        yield tree, "model", "model"
    graders = (tree.get("evaluation") or {}).get("graders") or []
    yield from _paths_of_rewards(tree.get("rewards") or [], "rewards", set(composition.named_files(loaded)))
    yield from _paths_of_rewards(graders, lineage.GRADERS, set(composition.named_files(lineage.graded(loaded))))


def _paths_of_rewards(listed: Sequence[Any], key: str, named: set[str]) -> Iterator[tuple[Any, Any, str]]:
    for number, reward in enumerate(listed):
        where = f"{key}[{number}]"
        if reward.get("file") is not None:
            yield reward, "file", f"{where}.file"
        files, given = reward.get("files") or [], reward.get("options") or {}
        yield from ((files, at, f"{where}.files[{at}]") for at in range(len(files)))
        yield from (
            (given, option, f"{where}.options.{option}")
            for option in given
            if isinstance(given[option], str) and given[option] in named
        )


def _from(folder: Path, loaded: LoadedBrief, name: str) -> str:
    """Return a path of a brief, or FILE.py:FUNCTION, as one from another folder; an absolute one as it is."""
    if Path(name).expanduser().is_absolute():
        return name
    new = os.path.relpath(loaded.resolve(name), folder.resolve())
    return new if new.startswith(".") else f"./{new}"


def advised(text: str, advice: Advice, evidence: str) -> Changed:
    """Return a brief's text with the one change that a diagnosis advises; without changes where it has it already.

    `evidence` is what the log showed; it becomes the reason of a variant.
    """
    tree, write = _open(text)
    changes: list[str] = []
    options = dict(advice.options)
    if advice.variant is not None:
        _vary(tree, advice, evidence, options, changes)
    sampling = {name: options.pop(name) for name in list(options) if name in SamplingBrief.model_fields}
    _merge(tree, "sampling", sampling, changes)
    _merge(tree, "training", options, changes)
    if "steps_per_generation" in options and "generation_batch_size" in (tree.get("training") or {}):
        del tree["training"]["generation_batch_size"]
        changes.append("training.generation_batch_size: taken out, steps_per_generation stands for it")
    return Changed(write() if changes else text, changes)


def _vary(tree: Tree, advice: Advice, evidence: str, options: dict[str, Any], changes: list[str]) -> None:
    """Name the variant; take out of `options` what it sets by itself, unless `training` says otherwise."""
    use = str(advice.variant)
    because = advice.because if evidence in advice.because else f"{evidence}; {advice.because}"
    if (tree.get("variant") or {}).get("use") != use:
        _put(tree, "variant", {"use": use, "because": because})
        changes.append(f"variant: {use}, because {because}")
    training = tree.get("training") or {}
    for name, value in list(options.items()):
        if name in variants.options_of(use) and (name not in training or training[name] == value):
            del options[name]
    if variants.off_policy_of(use) > 1 and not any(name in training for name in _OFF_POLICY):
        options.pop("num_iterations", None)  # the variant's own generations serve several steps already


def _merge(tree: Tree, key: str, options: Mapping[str, Any], changes: list[str]) -> None:
    held = tree.get(key)
    new = {name: value for name, value in options.items() if held is None or name not in held or held[name] != value}
    if not new:
        return
    if held is None:
        _put(tree, key, {})
        held = tree[key]
    for name, value in new.items():
        before = f", was {_words(held[name])}" if name in held else ""
        _put(held, name, value)
        if before:
            _say_whence(held, name, before)
        changes.append(f"{key}.{name}: {_words(value)}{before}")


def _put(held: Tree, key: str, value: Any) -> None:
    """Set a key where it stands; a new one of a block goes before the others, whose comments then stay with them."""
    from ruamel.yaml.comments import CommentedMap

    if isinstance(value, dict):
        value = CommentedMap(value)
    if key in held or held.fa.flow_style() or value == {} or key == "variant":
        held[key] = value
    else:
        held.insert(0, key, value)


def _say_whence(held: Tree, name: str, before: str) -> None:
    """Replace the comment beside a value, which was about the old one; what stands in the lines below it stays."""
    token = (held.ca.items.get(name) or [None] * 3)[2]
    if token is not None and token.value.startswith("#"):
        _, line, below = token.value.partition("\n")
        token.value = f"# advised by `finetune diagnose` of the run before{before}{line}{below}"


def _open(text: str) -> tuple[Tree, Callable[[], str]]:
    """Return a brief as a tree, and what writes it back in the layout that it had."""
    from ruamel.yaml import YAML
    from ruamel.yaml.util import load_yaml_guess_indent

    _, indent, offset = load_yaml_guess_indent(text)
    yaml = YAML(typ="rt", pure=True)
    yaml.preserve_quotes = True
    yaml.width = 10_000
    yaml.indent(mapping=2, sequence=indent or 4, offset=offset if indent else 2)
    tree = yaml.load(text)

    def write() -> str:
        stream = io.StringIO()
        yaml.dump(tree, stream)
        return stream.getvalue()

    return tree, write


def _words(value: Any) -> str:
    return json.dumps(value, default=str)
