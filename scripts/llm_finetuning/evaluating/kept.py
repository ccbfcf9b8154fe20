"""Evaluations that are made: found by their name, with the completions that they kept."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from llm_finetuning import artifact, checkpoints, pipeline
from llm_finetuning.errors import Refusal
from llm_finetuning.findings.evidence import Rule, is_paid
from llm_finetuning.types import Evaluation, Sample

Kept = artifact.Artifact[Evaluation]


def path_of(run_dir: Path, name: str) -> Path:
    """Return the file of an evaluation of the goldens that is named as in eval/, or by its path."""
    if "/" in name or name.endswith(".json"):
        return Path(name).expanduser().resolve()
    return run_dir / pipeline.evaluation_file(name, "goldens")


def drift_path(path: Path) -> Path:
    """Return the file that the drift suite of the same model has, beside an evaluation of the goldens."""
    return path.with_name(f"{path.stem}{pipeline.DRIFT}.json")


def evaluation_of(run_dir: Path, name: str) -> Kept:
    """Return an evaluation of a run; refuses one that is not there with those that are."""
    path = path_of(run_dir, name)
    if not path.is_file():
        there = sorted(one.stem for one in (run_dir / "eval").glob("*.json") if not one.stem.endswith(pipeline.DRIFT))
        known = f"there are {', '.join(there)}; " if there else ""
        raise Refusal(f"{path}: no such evaluation; {known}{_making(run_dir, name)}")
    if path.parent.name != "eval" or pipeline.names_artifact(path.stem):
        raise Refusal(f"{path}: is no evaluation in the folder `eval` of a run; name one that is, or move it into one")
    return read(path)


def _making(run_dir: Path, name: str) -> str:
    """Return how to make an evaluation of this name; whose model the name does not say, a person fills in."""
    if path_of(run_dir, name).parent != run_dir / "eval":
        return "check the path"
    if name == checkpoints.BASE:
        return f"make it: {artifact.shell_line('evaluate', run_dir)}"
    merged = run_dir / checkpoints.MERGED
    if name == merged.name:
        before = "" if merged.is_dir() else f"{artifact.shell_line('merge', run_dir)}, then "
        return f"make it: {before}{artifact.shell_line('evaluate', run_dir, '--model', str(merged))}"
    step = name.removeprefix("checkpoint-")
    if step in ("final", "last") or (step != name and step.isdecimal()):
        return f"make it: {artifact.shell_line('evaluate', run_dir, '--checkpoint', step)}"
    return f"make it: {artifact.shell_line('evaluate', run_dir, '--name', name)} --model PATH_OR_HUB_ID"


def read(path: Path) -> Kept:
    """Return the evaluation in a file; refuses one that is not whole, or was changed by hand."""
    found = artifact.read_json(path, Evaluation)
    _check_follows(path, found.records[0])
    return found


def _check_follows(path: Path, found: Evaluation) -> None:
    """Refuse an evaluation whose items do not say what their grades do: somebody changed it by hand."""
    rule = Rule(success=found.success_threshold)
    names = set(found.items[0].values) if found.items else set()
    for item in found.items:
        known = [grade for grade in item.grades if grade is not None]
        lists = [item.grades, item.rewards, *item.values.values()]
        successes = sum(math.isfinite(grade) and is_paid(grade, rule) for grade in known)
        is_even = {len(values) for values in lists} == {len(item.grades)} and set(item.values) == names
        if not is_even or not all(map(math.isfinite, known)) or (item.n, item.successes) != (len(known), successes):
            raise Refusal(
                f"{path}: item {item.prompt_id} is not what its grades say; move the file away and evaluate again, "
                "never edit it"
            )
    if "1" not in found.passes or not found.items or len({item.prompt_id for item in found.items}) < len(found.items):
        raise Refusal(
            f"{path}: holds no items, one twice, or no pass@1; move it away and evaluate again, never edit it"
        )


@contextlib.contextmanager
def set_aside(folder: Path, name: str) -> Iterator[Path | None]:
    """Move all that is there of an evaluation, both suites with their completions, into a folder of its own below.

    Yields that folder, None where nothing was there. It comes back where the block fails before anything took its
    place.
    """
    from llm_finetuning.evaluating.calls import files_of

    there = [path for path in files_of(folder, name) if path.exists()]
    if not there:
        yield None
        return
    number = 1
    while (aside := folder / f"aside-{number}").exists():
        number += 1
    _move(there, aside)
    try:
        yield aside
    except BaseException:
        if not any(path.exists() for path in files_of(folder, name)):
            _move([aside / path.name for path in there], folder)
            aside.rmdir()
        raise


def _move(paths: Sequence[Path], folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
        for path in paths:
            path.rename(folder / path.name)
    except OSError as error:
        words = (error.strerror or str(error)).lower()
        raise Refusal(f"{folder}: {words}; check the folder and its permissions") from None


def completions_of(found: Kept) -> list[Sample]:
    """Return the completions that were graded, in the order of the evaluation's items and of their drawing.

    Refuses where they are not kept, and where they are others than those that were graded.
    """
    path = pipeline.transcripts_of(found.path)
    if not path.exists():
        raise Refusal(f"{path}: the completions are not there; evaluate again under another --name to have them")
    if found.header.parents.get(path.name) != artifact.digest_file(path):
        raise Refusal(f"{path}: changed since {found.path.name} was made; evaluate again under another --name")
    places = {item.prompt_id: place for place, item in enumerate(found.records[0].items)}
    samples = artifact.read_lines(path, Sample, without=("completion_ids",)).records
    return sorted(samples, key=lambda sample: (places[sample.prompt_id], sample.index))
