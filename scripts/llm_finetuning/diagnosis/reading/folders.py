"""Where a training log is: our run directory, a trainer's output folder, or a file."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from llm_finetuning.diagnosis.reading.json_text import parsed, plain_options
from llm_finetuning.diagnosis.reading.source import Table
from llm_finetuning.errors import Refusal

PROGRESS = "progress.jsonl"  # guards/progress.py
STATE = "trainer_state.json"
CONFIG = "config.yaml"
_DEEPEST = 4  # folders from a run's `train` down to a log of its checkpoints
MOST_BYTES = 1 << 30
_LINES = ("logging.jsonl", "trainer_log.jsonl")  # ms-swift, LLaMA-Factory
_ARGUMENTS = ("args.json", "training_args.json")  # ms-swift, and what people write themselves; no pickle is opened
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_EVENTS = "events.out.tfevents.*"


def bytes_of(path: Path) -> bytes:
    """Return a file's bytes; refuses in one line what cannot be read."""
    try:
        if (size := path.stat().st_size) > MOST_BYTES:
            raise Refusal(
                f"{path}: has {size >> 20} MiB, of which {MOST_BYTES >> 20} are read; cut out what was logged"
            )
        return path.read_bytes()
    except OSError as fault:
        raise Refusal(f"{path}: cannot be read ({fault.strerror}); name a log or the folder of a run") from None


def run_folder(path: Path) -> Path | None:
    """Return the folder `train` of one of our runs; None for any other folder."""
    return next((place for place in (path / "train", path) if (place / "guards").is_dir()), None)


def run_about(path: Path) -> Path | None:
    """Return the folder `train` of the run of ours that a path names or lies in, such as one of its checkpoints."""
    if (own := run_folder(path)) is not None:
        return own
    about = list(path.absolute().parents)[:_DEEPEST]
    return next((place for place in about if (place / "guards").is_dir() and (place / CONFIG).is_file()), None)


def held_out_draws(folder: Path) -> tuple[int, int] | None:
    """Return how many completions an evaluation of a run of ours draws, and how many of each held-out row.

    None where that is not known. TRL draws `num_generations_eval`, or as many as it trains with where that is null.
    """
    config = _config(folder / CONFIG, [])
    try:
        options = config["trainer"]
        each = int(options.get("num_generations_eval") or options["num_generations"])
        lines = bytes_of(folder / config["data"]["held_out"]).split(b"\n")
    except (KeyError, TypeError, ValueError, AttributeError, Refusal):
        return None
    return each * sum(bool(line.strip()) for line in lines), each


def has_ended(folder: Path) -> bool:
    """Tell whether a run of ours says that all its steps are done."""
    path = folder / "logs" / "outcome.json"
    found = parsed(bytes_of(path).decode("utf-8", "replace")) if path.is_file() else None
    return isinstance(found, dict) and found.get("state") == "finished"


def weights_of(folder: Path) -> dict[str, float]:
    """Return the weights of a run's rewards by name: a log may have its components in another order."""
    listed = _config(folder / CONFIG, []).get("rewards") or []
    named = [reward for reward in listed if isinstance(reward, Mapping) and {"name", "weight"} <= set(reward)]
    return {str(reward["name"]): float(reward["weight"]) for reward in named}


def of_run(folder: Path, *, untrained: bool = False) -> tuple[Table, Path] | None:
    """Return the log of one of our runs, also while it is being written; None where nothing is logged yet.

    guards/progress.py writes it: a line when training begins, with the step from which it goes on, and one a log. With
    `untrained` the first such line alone is a log without rows.
    """
    path = folder / "logs" / PROGRESS
    if not path.is_file():
        return None
    rows: list[dict[str, Any]] = []
    begins: dict[int, float] = {}
    *lines, rest = bytes_of(path).split(b"\n")
    notes = ["the last line is being written and was left out"] if rest.strip() else []
    for count, line in enumerate(lines, 1):
        row = parsed(line.decode("utf-8", "replace"))
        if not isinstance(row, dict) or not isinstance(row.get("metrics"), dict):
            notes.append(f"line {count} is no line of the run's log and was left out")
        elif row["metrics"]:
            rows.append({**row["metrics"], "step": row.get("step")})
        elif isinstance(step := row.get("step"), int | float):
            begins[len(rows)] = min(step, begins.get(len(rows), step))
    if not rows and not (untrained and begins):
        return None
    options, era = config_of(folder, notes)
    return Table(form="run", rows=rows, options=options, begins=begins, notes=tuple(notes), era=era), path


def config_of(folder: Path, notes: list[str]) -> tuple[dict[str, Any], str | None]:
    """Return the trainer's options from config.yaml, of which `finetune build` writes every one, and TRL's release."""
    path = folder / CONFIG
    config = _config(path, notes)
    if not config:
        return {}, None
    try:
        options = dict(config["trainer"])
        if rewards := config.get("rewards"):
            options.setdefault("reward_weights", [reward["weight"] for reward in rewards])
        return options, ".".join(str(config["versions"]["trl"]).split(".")[:2])
    except (ValueError, KeyError, TypeError) as fault:
        notes.append(_unread(path, fault))
        return {}, None


def _config(path: Path, notes: list[str]) -> dict[str, Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        config = YAML(typ="safe", pure=True).load(path.read_text("utf-8"))
        return dict(config)
    except (OSError, ValueError, YAMLError, TypeError) as fault:
        notes.append(_unread(path, fault))
        return {}


def _unread(path: Path, fault: Exception) -> str:
    return f"{path} cannot be read ({type(fault).__name__}), so that no option of the run is known"


def candidates(folder: Path) -> Iterator[Path]:
    """Yield what may hold the log of a trainer's output folder, the most telling first."""
    states = [(number, place / STATE) for number, place in checkpoints(folder) if (place / STATE).is_file()]
    if (folder / STATE).is_file():
        states.append((_global_step(folder / STATE), folder / STATE))
    yield from (path for _, path in sorted(states, reverse=True))
    yield from (folder / name for name in _LINES if (folder / name).is_file())


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """Return the checkpoints of an output folder with their steps, in no order."""
    named = [(_CHECKPOINT.fullmatch(place.name), place) for place in folder.iterdir() if place.is_dir()]
    return [(int(name[1]), place) for name, place in named if name]


def event_files(folder: Path) -> list[Path]:
    """Return TensorBoard's files at or below a folder, in the order in which they were begun."""
    return sorted(folder.rglob(_EVENTS), key=lambda path: (path.name.split(".")[3:4], path.name))


def joined(tables: list[Table]) -> Table:
    """Return the tables of one run's files, one after another, as one."""
    first = tables[0]
    return Table(
        form=first.form,
        rows=[row for table in tables for row in table.rows],
        options={name: value for table in tables for name, value in table.options.items()},
        notes=tuple(note for table in tables for note in table.notes),
    )


def arguments_beside(path: Path) -> dict[str, Any]:
    """Return the training arguments that a program left as JSON in a log's folder, or beside its checkpoint."""
    from llm_finetuning import trl_options

    places = [path.parent, *([path.parent.parent] if _CHECKPOINT.fullmatch(path.parent.name) else [])]
    known = frozenset(trl_options.names("grpo"))
    found: dict[str, Any] = {}
    for file in (place / name for place in places for name in _ARGUMENTS):
        if file.is_file():
            listed = parsed(bytes_of(file).decode("utf-8", "replace"))
            found.update(plain_options(listed) if isinstance(listed, Mapping) else {})
    return {name: value for name, value in found.items() if name in known}


def _global_step(path: Path) -> int:
    """Return the step of a state; -1 where it is torn."""
    state = parsed(bytes_of(path).decode("utf-8", "replace"))
    step = state.get("global_step") if isinstance(state, dict) else None
    return step if isinstance(step, int) else -1
