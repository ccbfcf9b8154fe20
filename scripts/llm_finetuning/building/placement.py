"""Put a built folder in the place of an earlier one, without losing what a run left there.

A folder is built beside its place and moved there when it is whole: whoever looks sees the old one or the new one.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from llm_finetuning import artifact, brief
from llm_finetuning.building.freeze import digests
from llm_finetuning.errors import MachineryFailure, Refusal
from llm_finetuning.types import Build

OF_THE_RUN = ("logs", "checkpoints", "completions", "model")
"""Folders that the run itself fills."""

_DRAFT, _OLD = ".train.building-", ".train.old-"


@contextlib.contextmanager
def draft(run_dir: Path) -> Iterator[Path]:
    """Yield an empty folder beside `train`, held by this process alone; what is left of it at the end goes."""
    folder = os.open(run_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refusal(f"{run_dir}: another `build` is at work; wait for it") from None
        for left in (*run_dir.glob(f"{_DRAFT}*"), *run_dir.glob(f"{_OLD}*")):
            shutil.rmtree(left)  # of a build that was killed
        with tempfile.TemporaryDirectory(dir=run_dir, prefix=_DRAFT, ignore_cleanup_errors=True) as made:
            Path(made).chmod(0o755)
            yield Path(made)
    except OSError as error:
        raise MachineryFailure(f"{run_dir}: {(error.strerror or str(error)).lower()}; train/ is as it was") from None
    finally:
        os.close(folder)


def put(built: Path, train: Path, build: Build) -> str | None:
    """Move a whole draft to its place; return what a person should know of the folder that was there.

    Where nothing that training depends on changed, the folder stays with all that its run left, and the files around it
    are brought up to date; a launch file that somebody edited is kept. Otherwise a folder that was trained in, or
    edited, is set aside under a number, and one that was only built goes.
    """
    if not train.exists():
        built.rename(train)
        return None
    before = _build_of(train)
    if before is not None and _decides(train, before) == _decides(built, build):
        return _refresh(built, train, before, build)
    if before is None or _was_used(train, before):
        aside = _free_name(train)
        train.rename(aside)
        built.rename(train)
        return f"what training depends on changed: the folder that was there, with what its run left, is now {aside}"
    old = Path(tempfile.mkdtemp(dir=train.parent, prefix=_OLD))
    train.rename(old / train.name)
    built.rename(train)
    shutil.rmtree(old)
    return None


def _build_of(train: Path) -> Build | None:
    try:
        return artifact.read_json(train / "build.json", Build).records[0]
    except Refusal:
        return None  # not a folder of ours, or of another version: it is set aside


def _decides(folder: Path, build: Build) -> dict[str, object]:
    """Return what decides how a run in this folder goes on, as it is on the disk now.

    The gate's own words and the comments of the brief do not: they may change under a run that goes on.
    """
    found: dict[str, object] = {}
    for name in build.files:
        path = folder / name
        if name in ("gate.json", brief.FILE_NAME) or not path.is_file():
            continue
        found[name] = artifact.digest_file(path)
    try:
        path = folder / brief.FILE_NAME
        found[brief.FILE_NAME] = brief.parse(path.read_text("utf-8-sig"), path)
    except (OSError, ValueError, Refusal):
        found[brief.FILE_NAME] = None
    return found


def _refresh(built: Path, train: Path, before: Build, build: Build) -> str | None:
    """Replace the files that changed, build.json last: cut short, train.py refuses and the next build goes on."""
    edited = [
        name
        for name, digest in before.launch.items()
        if (train / name).is_file() and artifact.digest_file(train / name) != digest
    ]
    for name in [*sorted({*build.files, *build.launch} - set(edited)), "build.json"]:
        (train / name).parent.mkdir(parents=True, exist_ok=True)
        (built / name).replace(train / name)
    for name in {*before.files, *before.launch} - {*build.files, *build.launch, *edited}:
        (train / name).unlink(missing_ok=True)
    words = ["nothing that training depends on changed: what the run left in train/ stays"] if _left(train) else []
    if edited:
        words.append(f"{', '.join(edited)}: edited by hand and kept")
    return "; ".join(words) or None


def _was_used(train: Path, before: Build) -> bool:
    """Tell whether the folder holds more than a build wrote: a run's files, edits, files of a person's own."""
    if _left(train):
        return True
    written = {**before.files, **before.launch}
    found = {
        name: digest
        for name, digest in digests(train, less=["build.json"]).items()
        if "__pycache__" not in Path(name).parts and Path(name).parts[0] not in OF_THE_RUN
    }
    return any(written.get(name) != digest for name, digest in found.items())


def _left(train: Path) -> bool:
    return any(
        path.is_file() and path.name != "run.lock" for folder in OF_THE_RUN for path in (train / folder).rglob("*")
    )


def _free_name(train: Path) -> Path:
    number = 1
    while (aside := train.with_name(f"{train.name}.{number}")).exists():
        number += 1
    return aside
