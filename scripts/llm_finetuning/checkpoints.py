"""Which model an evaluation speaks of (the base, a checkpoint, a folder, a hub id), and which bytes it is."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_finetuning import artifact, console, lineage
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.errors import Refusal

BASE = "base"
FOLDER = "train/checkpoints"  # of a run directory; the trainer writes checkpoint-N into it
FINAL = "train/model"  # what the trainer saves when it has finished
MERGED = "train/merged"  # what `finetune merge` makes of it where it is an adapter
ADAPTER = "adapter_config.json"
MERGE_RECORD = "merge.json"  # in a merged folder: `adapter` is the folder that it was made of, `sha256` its digest then

_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_READ_LONG = 5e9  # bytes of weights from which reading them is said


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One model to evaluate."""

    name: str  # what its evaluation is called unless the caller names it
    model: str  # absolute folder or hub id; with an adapter its base model; at an endpoint the name it serves
    adapter: str | None = None  # absolute folder of a LoRA adapter

    @property
    def shown(self) -> str:
        """The model as results name it."""
        return self.adapter or self.model


def base_model(loaded: LoadedBrief) -> Candidate:
    """Return the model that the brief names."""
    endpoint = loaded.brief.sampling.endpoint if loaded.brief.sampling.engine == "endpoint" else None
    if endpoint is not None:
        return Candidate(name=BASE, model=endpoint.model or loaded.brief.model)
    return Candidate(name=BASE, model=loaded.model_source())


def checkpoint(loaded: LoadedBrief, step: str) -> Candidate:
    """Return a checkpoint of the run: that of a step, the last whole one, or the final model; refuses others."""
    folder = loaded.run_dir / FOLDER
    if loaded.brief.sampling.engine == "endpoint":
        raise Refusal("--checkpoint: the brief samples from a server; serve the checkpoint there and name it: --model")
    if step == "final":
        if not (loaded.run_dir / FINAL).is_dir():
            raise Refusal(
                f"--checkpoint final: no {loaded.run_dir / FINAL} yet; the trainer saves it when it has finished"
            )
        return _of_folder(loaded, loaded.run_dir / FINAL)
    steps = _whole_steps(folder)
    if step != "last" and not step.isdecimal():
        raise Refusal(f"--checkpoint: {step!r} is neither a step nor `last` nor `final`")
    if not steps or (step != "last" and int(step) not in steps):
        there = f"there are {', '.join(map(str, sorted(steps)))}" if steps else "there is none; train first"
        raise Refusal(f"--checkpoint {step}: no such whole checkpoint in {folder}; {there}")
    return _of_folder(loaded, steps[max(steps) if step == "last" else int(step)])


def named(loaded: LoadedBrief, model: str) -> Candidate:
    """Return the model that a person names: a folder (from here, not from the brief), or a hub id."""
    if loaded.brief.sampling.engine == "endpoint":
        return Candidate(name=_name_of(model), model=model)
    path = Path(model).expanduser()
    if path.is_dir():
        return _of_folder(loaded, path.resolve())
    if model.startswith((".", "/", "~")):
        raise Refusal(f"--model {model}: no such folder; name a model folder or a hub id")
    return Candidate(name=_name_of(model), model=model)


def _whole_steps(folder: Path) -> dict[int, Path]:
    """Return the checkpoints by step; one without the trainer's state, which is written last, was cut by a kill."""
    found = {}
    for path in folder.glob("checkpoint-*"):
        step = path.name.rpartition("-")[2]
        if step.isdecimal() and (path / "trainer_state.json").is_file():
            found[int(step)] = path
    return found


def _of_folder(loaded: LoadedBrief, folder: Path) -> Candidate:
    name = "final" if folder == loaded.run_dir / FINAL else _name_of(folder.name)
    if not (folder / ADAPTER).is_file() or (folder / "config.json").is_file():
        return Candidate(name=name, model=str(folder))
    return Candidate(name=name, model=_base_of(loaded, folder), adapter=str(folder))


def _name_of(model: str) -> str:
    return re.sub(r"[^\w.-]+", "-", model.rstrip("/").rpartition("/")[2]).lstrip("._-") or "model"


def _base_of(loaded: LoadedBrief, adapter: Path) -> str:
    """Return the model that an adapter was trained on, as it says itself; the brief's where that folder is not here."""
    try:
        said = json.loads((adapter / ADAPTER).read_text("utf-8")).get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError) as error:
        raise Refusal(f"{adapter / ADAPTER}: cannot be read ({error}); save the adapter again") from None
    own = loaded.model_source()
    if not isinstance(said, str) or said in (own, loaded.brief.model):
        return own
    if Path(said).is_dir():
        return str(Path(said).resolve())
    if said.startswith(("/", ".", "~")):
        console.note(f"{adapter}: was trained on {said}, which is not here; it is put on the brief's model, {own}")
        return own
    return said


def digest(loaded: LoadedBrief, candidate: Candidate) -> str:
    """Return the SHA-256 of which model this is: every byte of weights and settings for folders, else the name.

    Names and sizes would not do: two checkpoints of a run have the same of both.
    """
    sampling = loaded.brief.sampling
    if sampling.engine == "endpoint" and sampling.endpoint is not None:
        return artifact.digest_value({"url": sampling.endpoint.url, "model": candidate.model})
    return artifact.digest_value([_identity(source) for source in (candidate.model, candidate.adapter) if source])


def weights_of(folder: Path) -> list[Path]:
    """Return the files of weights in the folder of a model or an adapter, in order; none where there is no folder."""
    return sorted({path for pattern in _WEIGHTS for path in folder.glob(pattern)})


def settings_of(folder: Path) -> list[Path]:
    """Return the small files beside the weights that decide which model a folder holds."""
    return [folder / name for name in (*lineage.MODEL_FILES, ADAPTER) if (folder / name).is_file()]


def merged_of(folder: Path) -> dict[str, Any] | None:
    """Return what `finetune merge` recorded in a folder that it wrote; None in any other."""
    try:
        found = json.loads((folder / MERGE_RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("adapter"), str) else None


def check_merged(loaded: LoadedBrief, candidate: Candidate) -> None:
    """Refuse a merged folder whose adapter was trained again since: its name would stand for the training before."""
    if loaded.brief.sampling.engine == "endpoint" or candidate.adapter is not None:
        return
    record = merged_of(Path(candidate.model)) if Path(candidate.model).is_absolute() else None
    if record is None or not weights_of(Path(record["adapter"])):
        return
    source = _of_folder(loaded, Path(record["adapter"]))
    if digest(loaded, source) != record.get("sha256"):
        step = [] if source.name == "final" else ["--checkpoint", source.name.removeprefix("checkpoint-")]
        again = artifact.shell_line("merge", loaded.run_dir, *step)
        raise Refusal(
            f"{candidate.model}: was made of {record['adapter']} as it was before it was trained again; make it again: "
            f"`{again}`"
        )


def _identity(source: str) -> Any:
    folder = Path(source)
    if not folder.is_absolute():
        return source
    weights = weights_of(folder)
    size = sum(path.stat().st_size for path in weights)
    if size > _READ_LONG:
        console.note(f"reading {size / 1e9:.0f} GB of weights in {folder} to tell them from others")
    return {path.name: artifact.digest_file(path) for path in (*weights, *settings_of(folder))}
