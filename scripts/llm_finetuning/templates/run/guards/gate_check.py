"""Refuse to train on anything but what was built and inspected: the first thing that train.py does.

First every file is compared with what `build` wrote, before the rewards are imported. Then the gate has to be open, or
overridden by a person, for the state that its fingerprint names; and all of that state that travels with the run is
digested once more. Only the standard library is imported at the top: the rest lies in the run itself.
"""

import hashlib
import importlib.machinery
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llm_finetuning.artifact import Artifact
    from llm_finetuning.brief import LoadedBrief
    from llm_finetuning.types import GateReport

BUILD, GATE, BRIEF = "build.json", "gate.json", "brief.yaml"
PACKAGES = "rewards"  # the folder that the frozen package is imported from
WATCHED = ("guards", PACKAGES)  # folders in which a module more would be imported
MADE = ("data", "logs", "checkpoints", "completions", "model")  # the run's own folders, which nothing imports
CACHE = "__pycache__"
ENDINGS = tuple(importlib.machinery.all_suffixes())
AGAIN = "build the run again (`finetune build RUN`)"
MODEL = "FINETUNE_MODEL"  # names the model's place on this machine


class Refused(Exception):  # noqa: N818  it is an answer, not an error
    """The run is not what was inspected; the text is one line that says what, where and how to mend it."""


def check(here: Path) -> "LoadedBrief":
    """Return the run's brief, resolved within the run, or raise Refused."""
    here = here.resolve()
    build = _build(here)
    faults = [*_changed_files(here, build["files"]), *_strange_modules(here, build["files"])]
    if faults:
        raise Refused(faults[0] + (f" (and {len(faults) - 1} more like it)" if faults[1:] else ""))
    _use_frozen_package(here)
    from llm_finetuning import brief
    from llm_finetuning.errors import Stop

    try:
        parsed = brief.parse((here / BRIEF).read_text("utf-8-sig"), here / BRIEF)
        loaded = brief.LoadedBrief(parsed, here, build["frozen"])
        if parsed.method == "grpo":
            _check_gate(loaded, build)
    except Stop as stop:
        raise Refused(stop.lines[0]) from None
    return loaded


def _build(here: Path) -> dict[str, Any]:
    try:
        build: dict[str, Any] = json.loads((here / BUILD).read_bytes())
        return {**build, "files": dict(build["files"]), "frozen": dict(build["frozen"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(f"{here / BUILD}: cannot be read ({error}); {AGAIN} or copy it whole") from None


def _changed_files(here: Path, files: dict[str, str]) -> Iterator[str]:
    for name, expected in files.items():
        path = here / name
        try:
            with path.open("rb") as stream:
                digest = hashlib.sha256()
                for block in iter(lambda: stream.read(1 << 20), b""):
                    digest.update(block)
        except OSError as error:
            yield f"{path}: {(error.strerror or str(error)).lower()}; {AGAIN} or copy it whole"
            continue
        if digest.hexdigest() != expected:
            yield f"{path}: is not what was built; change the run that it was built from, then {AGAIN}"


def _strange_modules(here: Path, files: dict[str, str]) -> Iterator[str]:
    """Name what Python could import in a module's place: beside train.py, in packages there, the guards, the rewards.

    A package is a folder whose name could stand in an `import`; folders of the run's own and environments are none.
    """
    tops = sorted(here.iterdir())
    found = [path for path in tops if not path.is_dir()]
    for folder in (path for path in tops if path.is_dir()):
        if folder.name in WATCHED:
            found.extend(_below(folder))
        elif folder.name.isidentifier() and folder.name not in (*MADE, CACHE) and not _is_environment(folder):
            found.extend(_below(folder, packages=True))
    for path in found:
        if path.name.endswith(ENDINGS) and str(path.relative_to(here)) not in files:
            yield f"{path}: the build did not write it, and Python could import it; take it away, or {AGAIN}"


def _below(folder: Path, *, packages: bool = False) -> Iterator[Path]:
    """Yield all files below a folder, through links too; with `packages` those that an `import` could name."""
    walked: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in walked:  # a link that leads back
            folders.clear()
            continue
        walked.add(real)
        folders[:] = sorted(name for name in folders if name != CACHE and (name.isidentifier() or not packages))
        yield from (Path(place, name) for name in sorted(names))


def _is_environment(folder: Path) -> bool:
    """Tell whether a folder is a virtual environment and no package that has its mark as well."""
    return (folder / "pyvenv.cfg").is_file() and not any(path.name.endswith(ENDINGS) for path in folder.iterdir())


def _use_frozen_package(here: Path) -> None:
    frozen = str(here / PACKAGES)
    if frozen not in sys.path:
        sys.path.insert(0, frozen)
    import llm_finetuning

    if not Path(llm_finetuning.__file__).resolve().is_relative_to(here.resolve()):
        raise Refused(f"{llm_finetuning.__file__}: imported in place of the run's own copy; unset PYTHONPATH")


def _check_gate(loaded: "LoadedBrief", build: dict[str, Any]) -> None:
    from llm_finetuning import artifact, lineage
    from llm_finetuning.types import GateReport

    gate = artifact.read_json(loaded.run_dir / GATE, GateReport)
    readers = lineage.DEMO_READER if build.get("demo") is True else lineage.PERSONS
    lineage.gate_that_opens(gate, readers=readers, again=f"gate the run that it was built from, then {AGAIN}")
    _check_parents(loaded, build, gate)


def _check_parents(loaded: "LoadedBrief", build: dict[str, Any], gate: "Artifact[GateReport]") -> None:
    """Digest once more all that the gate judged and that is here."""
    from llm_finetuning import artifact, lineage
    from llm_finetuning.brief import LoadedBrief

    judged = {name: digest for name, digest in gate.header.parents.items() if name not in lineage.GATE_RESTS_ON}
    if lineage.MODEL_PARENT in judged:
        folder = _model_folder(loaded.run_dir)
        changed = artifact.changed_parents(build.get("model_files") or {}, lineage.model_files(folder) or {})
        if changed:
            raise Refused(f"{folder}: {changed} changed since the gate; put the model back, or sample and gate anew")
        loaded = LoadedBrief(loaded.brief, loaded.run_dir, {**loaded.frozen, loaded.brief.model: str(folder)})
    changed = artifact.changed_parents(judged, lineage.of_sources(loaded))
    if changed:
        raise Refused(f"{loaded.run_dir}: {changed} differs from what the gate judged; gate again, then {AGAIN}")


def _model_folder(here: Path) -> Path:
    """Return where the model is on this machine; the gate knew it as a folder."""
    from ruamel.yaml import YAML

    config = YAML(typ="safe", pure=True).load(here / "config.yaml")
    folder = Path(os.environ.get(MODEL) or config["model"]["source"]).expanduser()
    if not folder.is_dir():
        raise Refused(f"{folder}: no model folder; set {MODEL} to where this machine keeps the model that was gated")
    return folder
