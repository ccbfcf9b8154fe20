"""Copy into a run all that decides what is trained on, so that it gives the same digests there as at the gate.

rewards/llm_finetuning/   what train.py needs of this package
rewards/files/            the brief's own reward files, what they import, and the files that they read
data/source/              the data set as the brief names it
data/train.jsonl          its rows as the trainer reads them, and data/held_out.jsonl
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from llm_finetuning import artifact, dataset
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.building import closure, rows
from llm_finetuning.errors import Refusal
from llm_finetuning.rewards import composition

PACKAGE_PLACE, FILES_PLACE, SOURCE_PLACE = "rewards/llm_finetuning", "rewards/files", "data/source"
TRAIN, HELD_OUT = "data/train.jsonl", "data/held_out.jsonl"

PROGRAMS = closure.PACKAGE / "templates" / "run"
"""The files that a run starts from; they are copied as they are."""

PROGRAM_OF: Mapping[str, str] = {
    "grpo": "grpo.py",
    "sft": "sft.py",
    "dpo": "preference.py",
    "kto": "preference.py",
    "orpo": "preference.py",
    "simpo": "preference.py",
}


def programs(method: str) -> list[Path]:
    """Return the Python files that a run of this method holds: its train.py, then the guards."""
    return [PROGRAMS / PROGRAM_OF[method], *sorted((PROGRAMS / "guards").rglob("*.py"))]


def package_files(loaded: LoadedBrief) -> list[Path]:
    """Return the files of this package that the run holds, relative to it: its own rewards may import some too."""
    own = composition.own_rewards(loaded)
    starts = [*programs(loaded.brief.method), *own, *(path for file in own for path in composition.neighbours(file))]
    return closure.closure(starts, closure.ROOMS if loaded.brief.rewards else ())


def freeze(
    loaded: LoadedBrief, folder: Path, training: list[dict[str, Any]], held_out: list[dict[str, Any]] | None
) -> dict[str, str]:
    """Fill the folder of a run and return where it keeps each file that the brief names, as `LoadedBrief.frozen`."""
    for source in programs(loaded.brief.method):
        relative = source.relative_to(PROGRAMS)
        copy(source, folder / (relative if len(relative.parts) > 1 else "train.py"))
    for relative in package_files(loaded):
        copy(closure.PACKAGE / relative, folder / PACKAGE_PLACE / relative)
    frozen = _freeze_own_files(loaded, folder)
    (folder / "data").mkdir()
    rows.write(folder / TRAIN, training)
    if held_out is not None:
        rows.write(folder / HELD_OUT, held_out)
    named = loaded.brief.dataset.path
    if dataset.is_file(loaded) and named not in frozen:
        source = loaded.resolve(named)
        frozen[named] = f"{SOURCE_PLACE}/{source.name}"
        copy(source, folder / frozen[named])
    return frozen


def _freeze_own_files(loaded: LoadedBrief, folder: Path) -> dict[str, str]:
    """Copy the files of the brief's rewards; where they lie relative to each other stays, so that they find theirs."""
    named = composition.named_files(loaded)
    own = {name: loaded.resolve(name) for name in named}
    beside = [path for wanted in composition.own_rewards(loaded) for path in composition.neighbours(wanted)]
    sources = dict.fromkeys([*own.values(), *beside])
    if not sources:
        return {}
    root = Path(os.path.commonpath([path.parent for path in sources]))
    for source in sources:
        copy(source, folder / FILES_PLACE / source.relative_to(root))
    return {name: f"{FILES_PLACE}/{path.relative_to(root)}" for name, path in own.items()}


def copy(source: Path, target: Path) -> None:
    """Copy a file's content, not its rights; raises Refusal for one that cannot be read."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError:
        raise Refusal(f"{source}: no such file; correct the brief") from None
    except (PermissionError, IsADirectoryError) as error:
        raise Refusal(f"{source}: {(error.strerror or '').lower()}; check the path and its permissions") from None


def digests(folder: Path, *, less: Iterable[str] = ()) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder, by its path within it."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    left_out = set(less)
    return {name: artifact.digest_file(folder / name) for name in names if name not in left_out}
