"""A training log, whichever trainer, release or tool wrote it, as one RunLog; one readable table of the forms."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from llm_finetuning.diagnosis.log import Completion, RunLog
from llm_finetuning.errors import Refusal

if TYPE_CHECKING:
    from llm_finetuning.diagnosis.reading.source import Table

_ROOM = "llm_finetuning.diagnosis.reading"

FORMS: Mapping[str, tuple[str, str, str]] = {
    "tensorboard": (f"{_ROOM}.tensorboard", "read_events", "an event file of TensorBoard: its scalars"),
    "notebook": (f"{_ROOM}.notebook", "read_notebook", "the table of a notebook, as .ipynb or HTML"),
    "trainer_state": (
        f"{_ROOM}.json_text",
        "read_document",
        "one JSON document: trainer_state.json of any release, a list of rows, lists by name",
    ),
    "jsonl": (
        f"{_ROOM}.json_text",
        "read_lines",
        "a JSON object a line: logging.jsonl of ms-swift, the history of a wandb run, a file of one's own",
    ),
    "csv": (
        f"{_ROOM}.columns_text",
        "read_columns",
        "a table with a head: wandb's or pandas' CSV, a notebook's table copied as text",
    ),
    "console": (f"{_ROOM}.console_text", "read_console", "what the trainer printed, between progress bars"),
}
"""Form of a file -> where its reader is and what it takes; the first that knows a file reads it."""


def read(path: Path, *, options: Mapping[str, Any] | None = None, untrained: bool = False) -> RunLog:
    """Return the training log of our run, of a trainer's output folder, or in a file.

    `options` are training arguments in TRL's spelling, for what is not said beside the log. Raises Refusal with one
    line for what is not there, cannot be read, or holds no row of training; with `untrained` a run that has begun, and
    evaluations from before its first step, are a log without steps.
    """
    import dataclasses

    from llm_finetuning.diagnosis.reading import folders

    try:
        log, run = _found(path, options or {}, untrained=untrained), folders.run_about(path)
        if run is None:
            return log
        return dataclasses.replace(log, weights=folders.weights_of(run), ended=folders.has_ended(run))
    except OSError as fault:
        raise Refusal(f"{fault.filename or path}: cannot be read ({fault.strerror}); name another") from None


def _found(path: Path, given: Mapping[str, Any], *, untrained: bool) -> RunLog:
    from llm_finetuning.diagnosis.reading import folders
    from llm_finetuning.diagnosis.reading.assembly import assemble

    if path.name == folders.PROGRESS and folders.run_folder(path.parent.parent):
        path = path.parent.parent
    run = folders.run_folder(path) if path.is_dir() else None
    if run is not None and (found := folders.of_run(run, untrained=untrained)):
        return assemble(*found, given, untrained=untrained)
    notes: list[str] = []
    about = folders.run_about(path)
    config = {} if about is None else folders.config_of(about, notes)[0]
    if not path.is_dir():
        return _file(path, given, config, notes, untrained=untrained)
    place, none = (path if run is None else run / "checkpoints"), _nothing(path, run)
    return _output(place, given, config, notes, none=none, untrained=untrained)


def completions(folder: Path, *, python: str, log: RunLog | None = None) -> list[Completion]:
    """Return the completions that TRL kept of a run's training, read under the interpreter `python`, with pyarrow.

    Without a log the folder's own is read, to tell rewards from other columns and evaluations from training. Empty
    where no completions were kept.
    """
    from llm_finetuning.diagnosis.reading.completion_tables import read_tables

    return read_tables(folder, python=python, log=log or read(folder))


def _file(
    path: Path,
    given: Mapping[str, Any],
    config: Mapping[str, Any] = MappingProxyType({}),
    notes: Iterable[str] = (),
    *,
    untrained: bool = False,
) -> RunLog:
    """Return the log in a file; what `config` says counts before what stands beside the log."""
    import dataclasses

    from llm_finetuning.diagnosis.reading import folders
    from llm_finetuning.diagnosis.reading.assembly import assemble

    table = table_of(path)
    beside = {**folders.arguments_beside(path), **table.options, **config}
    table = dataclasses.replace(table, notes=(*notes, *table.notes), options=beside)
    return assemble(table, path, given, untrained=untrained)


def table_of(path: Path) -> "Table":
    """Return the Table of the first form that knows a file; refuses in one line where none does."""
    import importlib

    from llm_finetuning.diagnosis.reading import folders
    from llm_finetuning.diagnosis.reading.source import Source

    source = Source(path, folders.bytes_of(path))
    if not source.data.strip():
        raise Refusal(f"{path}: is empty; give the log once the trainer has written to it")
    for module, function, _ in FORMS.values():
        table: Table | None = getattr(importlib.import_module(module), function)(source)
        if table is not None:
            return table
    known = "; ".join(text for _, _, text in FORMS.values())
    raise Refusal(f"{path}: no training log was found in it; give one of these: {known}")


def _output(
    folder: Path,
    given: Mapping[str, Any],
    config: Mapping[str, Any],
    notes: Iterable[str],
    *,
    none: Refusal,
    untrained: bool,
) -> RunLog:
    """Return the log of a trainer's output folder: the newest state that can be read, or what else it wrote."""
    import dataclasses

    from llm_finetuning.diagnosis.reading import folders
    from llm_finetuning.diagnosis.reading.assembly import assemble

    if not folder.is_dir():
        raise none
    refused: list[str] = []
    for path in folders.candidates(folder):
        try:
            return _file(path, given, config, [*notes, *refused], untrained=untrained)
        except Refusal as refusal:
            refused += refusal.lines
    tables: list[Table] = []
    for path in folders.event_files(folder):
        try:
            tables.append(table_of(path))
        except Refusal as refusal:  # one that is begun is empty
            refused += refusal.lines
    if tables:
        table = folders.joined(tables)
        table = dataclasses.replace(table, notes=(*notes, *refused, *table.notes))
        return assemble(table, folder, given, untrained=untrained)
    raise Refusal(*refused) if refused else none


def _nothing(path: Path, run: Path | None) -> Refusal:
    if run is not None:
        return Refusal(
            f"{run / 'logs' / 'progress.jsonl'}: nothing is logged yet; `finetune status` shows how far it is"
        )
    if (path / "brief.yaml").is_file():
        return Refusal(f"{path}: nothing was built here yet; `finetune status` names the next command")
    return Refusal(
        f"{path}: neither a run of `finetune build` nor an output folder of a trainer (no trainer_state.json, no "
        "checkpoint, no event file); name the folder or the file that holds the log"
    )
