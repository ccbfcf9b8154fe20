"""Calls that measure the models of evaluations again and work as they stand: with their options, under free names."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_finetuning import artifact, checkpoints, pipeline
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.evaluating import spots
from llm_finetuning.evaluating.kept import Kept
from llm_finetuning.findings.wording import listed
from llm_finetuning.types import Evaluation

SERVER = "server"
"""Name of the record in the header's settings of an evaluation that `--endpoint` measured: `url`, and `api_key_env`."""

LONGEST_NAME = 150  # bytes; a file's name may have 255 bytes, and those of drafts, locks and transcripts are longer


def free_name(folder: Path, wish: str, *, but: Collection[str] = ()) -> str:
    """Return a name that no file of `folder` (a run's `eval`) and none in `but` has: the wish, else with a number."""
    stem = wish.encode()[: LONGEST_NAME - 6].decode(errors="ignore")
    name, number = stem, 2
    while name in but or any(path.exists() for path in files_of(folder, name)):
        name, number = f"{stem}-{number}", number + 1
    return name


def another_name(folder: Path, name: str) -> str:
    """Return the first of NAME-2, NAME-3, ... that no file has."""
    return free_name(folder, name, but=(name,))


def name_in(run_dir: Path, path: Path) -> str:
    """Return what `compare` knows an evaluation by: its name in this run, or the path of one of another place."""
    return path.stem if path.parent == run_dir / "eval" else str(path)


def free_run(run_dir: Path) -> Path:
    """Return a folder beside the run that is not there yet, for a run that follows on it."""
    number = 2
    while (folder := run_dir.with_name(f"{run_dir.name}-{number}")).exists():
        number += 1
    return folder


def place(loaded: LoadedBrief, found: Kept, following: Path) -> str:
    """Return the call that makes use of a model which was promoted: a whole one of an adapter, or a run from it."""
    model = Path(found.records[0].model)
    if {"imported", SERVER} & set(found.header.settings) or loaded.brief.sampling.engine == "endpoint":
        return artifact.shell_line("export", loaded.run_dir, found.path.stem, f"{found.path.stem}.json")
    is_adapter = (model / checkpoints.ADAPTER).is_file() and not (model / "config.json").is_file()
    if is_adapter and model.is_relative_to(loaded.run_dir / Path(checkpoints.FINAL).parent):
        return merge(loaded, model)
    return artifact.shell_line("new", following, "--from", str(loaded.run_dir), "--model", str(model))


def files_of(folder: Path, name: str) -> list[Path]:
    """Return where the files of an evaluation stand, be they there or not: both suites, each with its completions."""
    made = [folder / Path(pipeline.evaluation_file(name, suite)).name for suite in ("goldens", "drift")]
    return [path for one in made for path in (one, pipeline.transcripts_of(one))]


def drift(loaded: LoadedBrief, found: Kept) -> str:
    """Return the call that measures the drift suite of an evaluation's model, beside it."""
    return _call(loaded, found, ["--suite", "drift"], name=found.path.stem)


@dataclass(frozen=True, slots=True)
class Outdated:
    """An evaluation of a folder that holds another model by now."""

    folder: str  # from the run directory on where it is in it
    files: list[str]  # of it, that are others
    calls: list[str]  # that measure it again, one after another

    @property
    def words(self) -> str:
        """Which folder, what changed in it, and what to do."""
        again = ", then ".join(f"`{call}`" for call in self.calls)
        return (
            f"{self.folder} holds another model than was measured ({listed(self.files)} changed); measure it: {again}"
        )


def goldens(loaded: LoadedBrief, found: Kept) -> str:
    """Return the call that measures the held-out rows under the model of a drift suite, beside it."""
    name = found.path.stem.removesuffix(pipeline.DRIFT)
    return _call(loaded, found, ["--suite", "goldens"], name=name)


def alike(loaded: LoadedBrief, found: Kept, other: Kept) -> str:
    """Return the call that measures the model of an evaluation in the way of another one, under a free name."""
    options = _drawn(loaded, other.records[0])
    return _call(loaded, found, options, name=another_name(loaded.run_dir / "eval", found.path.stem))


def outdated(loaded: LoadedBrief, found: Kept) -> Outdated | None:
    """Return that the folder of an evaluation holds another model now; None where it is not known to."""
    own = found.path.parents[1].resolve()  # the run that it stands in, which may be another one
    changed = spots.changed(own, found.header)
    if changed is None:
        return None
    calls = [afresh(loaded, found)]
    record = checkpoints.merged_of(Path(found.records[0].model))
    if record is not None and own / changed.folder == Path(record["adapter"]):
        calls.insert(0, merge(loaded, Path(record["adapter"])))
    return Outdated(changed.folder, changed.files, calls)


def merge(loaded: LoadedBrief, adapter: Path) -> str:
    """Return the call that merges an adapter of the run: the final one, or a checkpoint's."""
    step = [] if adapter == loaded.run_dir / checkpoints.FINAL else ["--checkpoint", adapter.name.rpartition("-")[2]]
    return artifact.shell_line("merge", loaded.run_dir, *step)


def scored_anew(loaded: LoadedBrief, sides: Sequence[Kept]) -> list[str]:
    """Return the calls that score kept completions anew once their evaluations were moved away, and then compare."""
    again = [
        _call(loaded, found, [*_drawn(loaded, found.records[0]), "--suite", "goldens"], name=found.path.stem)
        for found in sides
    ]
    names = [name_in(loaded.run_dir, found.path) for found in sides]
    return [*again, artifact.shell_line("compare", loaded.run_dir, *names)]


def afresh(loaded: LoadedBrief, found: Kept) -> str:
    """Return the call that sets an evaluation aside and measures its model again in the same way."""
    name = found.path.stem.removesuffix(pipeline.DRIFT)
    options = [*_drawn(loaded, found.records[0]), "--fresh"]
    return _call(loaded, found, options, name=name, run_dir=found.path.parents[1].resolve())


def both(loaded: LoadedBrief, sides: Sequence[Kept], *, samples: int | None = None) -> list[str]:
    """Return the calls that measure two models again under free names, and the one that then compares them.

    In the same way as before, or with so many `samples` an item. What another program measured has to be measured by
    it: its calls name `--results PATH`.
    """
    names: list[str] = []
    calls = []
    for found in sides:
        stem = found.path.stem.removesuffix(pipeline.DRIFT)
        folder = loaded.run_dir / "eval"
        if samples is None:
            names.append(free_name(folder, stem, but=(stem, *names)))
            options = _drawn(loaded, found.records[0])
        else:
            names.append(free_name(folder, f"{stem}-{samples}", but=names))
            options = ["--samples", str(samples)]
        calls.append(_call(loaded, found, options, name=names[-1]))
    return [*calls, artifact.shell_line("compare", loaded.run_dir, *names)]


def _drawn(loaded: LoadedBrief, found: Evaluation) -> list[str]:
    """Return the options that draw as many completions an item as an evaluation has; a brief asks for two at least."""
    if found.suite == "drift" or found.samples == loaded.brief.sampling.num_generations:
        return []
    return ["--greedy"] if found.greedy else ["--samples", str(found.samples)]


def _call(loaded: LoadedBrief, found: Kept, options: Sequence[str], *, name: str, run_dir: Path | None = None) -> str:
    folder = run_dir or loaded.run_dir
    settings = found.header.settings
    if "imported" in settings:
        return artifact.shell_line("evaluate", folder, "--results", "PATH", "--name", name)
    own_name, model = model_options(loaded, folder, found.records[0].model, settings.get(SERVER))
    named = [] if name == own_name else ["--name", name]
    return artifact.shell_line("evaluate", folder, *model, *options, *named)


def model_options(loaded: LoadedBrief, run_dir: Path, model: str, server: Any) -> tuple[str, list[str]]:
    """Return what an evaluation of this model is called where no `--name` is given, and the options that name it.

    Args:
        loaded: The brief.
        run_dir: The run that the evaluation stands in.
        model: As results name it.
        server: The record `SERVER` of the header's settings, where there is one.
    """
    if server is not None:
        key = server.get("api_key_env")
        return "", ["--endpoint", server["url"], *(["--api-key-env", key] if key else []), "--model", model]
    folder = Path(model)
    if folder == run_dir / checkpoints.FINAL:
        return "final", ["--checkpoint", "final"]
    if folder.parent == run_dir / checkpoints.FOLDER:
        return folder.name, ["--checkpoint", folder.name.rpartition("-")[2]]
    if model == checkpoints.base_model(loaded).shown:
        return checkpoints.BASE, []
    is_own = folder.parent == run_dir / Path(checkpoints.MERGED).parent
    return folder.name if is_own else "", ["--model", model]
