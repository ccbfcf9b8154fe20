"""The brief of the next run: another run's, with its paths still valid, and with what is changed of it.

One advised change, another model or another data set work on the text as a person wrote it: comments, order and quotes
stay. Another method has a brief of its own, which takes over what that method knows too.
"""

import dataclasses
import io
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_finetuning import dataset, lineage
from llm_finetuning.brief import COLUMNS_BY_METHOD, DatasetBrief, LoadedBrief, SamplingBrief
from llm_finetuning.diagnosis.record import Advice
from llm_finetuning.errors import Refusal
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


def moved(text: str, loaded: LoadedBrief, folder: Path, *, but: Collection[str] = ()) -> Changed:
    """Return a brief's text for another folder: its relative paths name the files that they named before.

    Those in `but` (`model`, `dataset.path`) stay as they are written.
    """
    tree, write = _open(text)
    changes: list[str] = []
    for held, key, where in _paths(tree, loaded):
        if where in but:
            continue
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


def pointed(text: str, *, model: str | None, path: str | None) -> Changed:
    """Return a brief's text with another model, and with rows from another place, written as they are given."""
    tree, write = _open(text)
    changes: list[str] = []
    for held, key, where, value in ((tree, "model", "model", model), (tree["dataset"], "path", "dataset.path", path)):
        if value is not None and held[key] != value:
            before = f"was {held[key]}"
            held[key] = value
            _say_whence(held, key, before)
            changes.append(f"{where}: {value}, {before}")
    if any(change.startswith("dataset.path") for change in changes):
        for key in [key for key in ("config", "split") if key in tree["dataset"]]:
            del tree["dataset"][key]
            changes.append(f"dataset.{key}: taken out, it was of the rows before")
    return Changed(write() if changes else text, changes)


def of_method(template: str, loaded: LoadedBrief, rows: DatasetBrief) -> Changed:
    """Return the brief of another method in the source's folder; its changes are the names of what was left out.

    Args:
        template: The commented brief of that method.
        loaded: The brief that it takes over from.
        rows: Its data set, of `rows_for`.
    """
    tree, write = _open(template)
    source, method = loaded.brief, str(tree["method"])
    given = rows.model_dump(exclude_unset=True)
    if rows.evaluation is not None:  # no part of a dump
        given["evaluation"] = rows.evaluation
    _refill(tree["dataset"], given)
    tree["sampling"].update(source.sampling.model_dump(mode="json", exclude_unset=True))
    kept = {"rewards": source.rewards and (method == "grpo" or rows.answer is not None)}
    kept |= {"gate": method == "grpo", "evaluation": rows.evaluation is not None, "environment": True, "hardware": True}
    written = source.model_dump(mode="json", exclude_unset=True)
    for key in kept:
        if written.get(key) and kept[key]:
            if key in tree:
                tree[key] = written[key]
            else:
                tree.insert(list(tree).index("sampling" if key == "rewards" else "hardware"), key, written[key])
    gone = [key for key in ("rewards", "variant", "gate", "evaluation") if written.get(key) and not kept.get(key)]
    gone += [f"training.{option}" for option in source.training]
    if source.dataset.evaluation is not None and rows.evaluation is None:
        gone.append("dataset.evaluation")
    return Changed(write(), gone)


def rows_for(method: str, loaded: LoadedBrief, folder: Path, path: str | None) -> DatasetBrief:
    """Return the data set of another method's brief, still named from the source's folder where it is the source's.

    Args:
        method: Whose columns it needs.
        loaded: The brief that it takes over from.
        folder: Of the new brief.
        path: Rows from another place, as the new brief is to name them; None: the source's.

    Raises:
        Refusal: A column that the method reads is not there, in one line.
    """
    source, needed = loaded.brief.dataset, COLUMNS_BY_METHOD[method]
    given = path is not None
    new = DatasetBrief(path=path or source.path, prompt=source.prompt)
    at = LoadedBrief(loaded.brief.model_copy(update={"dataset": new}), folder if given else loaded.run_dir)
    present = _columns(at)
    found: dict[str, str] = {}
    for role in (*needed, "answer", "id"):
        column = getattr(source, role)
        if present is not None:
            column = next((one for one in (column, role if role != "id" else None) if one in present), None)
        elif given:
            column = role if role in needed else None
        if column is not None:
            found[role] = column
    missing = [role for role in needed if role not in found]
    if missing:
        raise Refusal(_wanting(method, missing, at, present, given=given))
    extra = {} if given else source.model_dump(include={"config", "split"}, exclude_unset=True)
    made = DatasetBrief(path=new.path, **found, **extra)
    held_out = source.evaluation
    if held_out is not None and _holds(loaded, held_out, found.values()):
        made = made.model_copy(update={"evaluation": held_out})
    return made


def _columns(loaded: LoadedBrief) -> list[str] | None:
    """Return the columns of the rows; None where they are not there yet, or a program would have to read them."""
    if dataset.needs_program(loaded) or not loaded.resolve(loaded.brief.dataset.path).exists():
        return None
    refused: Refusal | None = None
    for prompt in dict.fromkeys((loaded.brief.dataset.prompt, "prompt")):
        wanted = DatasetBrief(path=loaded.brief.dataset.path, prompt=prompt)
        try:
            found = dataset.read(LoadedBrief(loaded.brief.model_copy(update={"dataset": wanted}), loaded.run_dir))
        except Refusal as refusal:
            refused = refusal
        else:
            return [prompt, *found.rows[0].columns]
    assert refused is not None
    raise refused


def _holds(loaded: LoadedBrief, path: str, columns: Collection[str]) -> bool:
    """Tell whether held-out rows have these columns too, as they must; not where a program would have to read them."""
    rows = DatasetBrief(path=path, prompt=loaded.brief.dataset.prompt)
    at = LoadedBrief(loaded.brief.model_copy(update={"dataset": rows}), loaded.run_dir)
    try:
        return set(columns) <= set(_columns(at) or ())
    except Refusal:
        return False


def _wanting(
    method: str, missing: Sequence[str], at: LoadedBrief, present: Sequence[str] | None, *, given: bool
) -> str:
    """Return the refusal of rows that lack what a method reads."""
    words = " and ".join(f"`{role}`" for role in missing)
    has = f" has {', '.join(present)}, and" if present is not None else ""
    place = dataset.source_name(at)
    mend = (
        "rename its columns" if given else "name rows that have it: `--dataset FILE`, seen from the new brief's folder"
    )
    return f"{place}:{has} method {method} reads {words} too; {mend}"


def _refill(held: Tree, values: Mapping[str, Any]) -> None:
    for key in [key for key in held if key not in values]:
        del held[key]
    held.update(values)


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
            _say_whence(held, name, f"advised by `finetune diagnose` of the run before{before}")
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


def _say_whence(held: Tree, name: str, words: str) -> None:
    """Replace the comment beside a value, which was about the old one; what stands in the lines below it stays."""
    token = (held.ca.items.get(name) or [None] * 3)[2]
    if token is not None and token.value.startswith("#"):
        _, line, below = token.value.partition("\n")
        token.value = f"# {words}{line}{below}"


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
