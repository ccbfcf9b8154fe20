"""What each artifact of a run was made from, as digests of what is there now."""

from pathlib import Path
from typing import Any

from llm_finetuning import artifact, dataset
from llm_finetuning.brief import FILE_NAME, LoadedBrief
from llm_finetuning.errors import Refusal
from llm_finetuning.rewards import composition
from llm_finetuning.types import Sample

OBJECTIVE_OPTIONS = ("scale_rewards", "multi_objective_aggregation")
"""Options of `training` that turn rewards into advantages; the rest does not change what was inspected."""


def brief_part(loaded: LoadedBrief, *keys: str) -> dict[str, str]:
    """Return a parent entry for the named keys of the brief, so that editing another key makes nothing stale."""
    return {f"{FILE_NAME}#{','.join(keys)}": loaded.part_digest(*keys)}


def dataset_digest(loaded: LoadedBrief) -> dict[str, str]:
    """Return the parent entry of the data set; a hub id stands for itself, since its rows are in the samples."""
    name = loaded.brief.dataset.path
    if not dataset.is_file(loaded):
        return {name: artifact.digest_value(name)}
    return {name: artifact.digest_file(loaded.resolve(name))}


MODEL_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)
"""Files of a model folder that decide how a prompt is rendered and where a completion ends."""


def model_digest(loaded: LoadedBrief) -> dict[str, str]:
    """Return the parent entry of a local model: its template, tokenizer and end tokens; a hub id has none.

    Weights are left out, since reading them takes long; the engine records their names and sizes.
    """
    folder = Path(loaded.model_source())
    if not folder.is_dir():
        return {}
    present = [name for name in MODEL_FILES if (folder / name).is_file()]
    return {
        "model(template, tokenizer)": artifact.digest_value(
            {name: artifact.digest_file(folder / name) for name in present}
        )
    }


def of_samples(loaded: LoadedBrief) -> dict[str, str]:
    """Return what `samples.jsonl` depends on."""
    parts = brief_part(loaded, "model", "dataset", "sampling")
    return {**parts, **dataset_digest(loaded), **model_digest(loaded)}


def objective_options(loaded: LoadedBrief) -> dict[str, Any]:
    """Return the brief's values of `OBJECTIVE_OPTIONS`."""
    return {key: loaded.brief.training[key] for key in OBJECTIVE_OPTIONS if key in loaded.brief.training}


def of_scores(loaded: LoadedBrief) -> dict[str, str]:
    """Return what `scores.jsonl` depends on."""
    return {
        "samples.jsonl": artifact.digest_file(loaded.run_dir / "samples.jsonl"),
        **brief_part(loaded, "rewards"),
        f"{FILE_NAME}#training(objective)": artifact.digest_value(objective_options(loaded)),
        **composition.source_digests(loaded),
    }


def of_gate(loaded: LoadedBrief) -> dict[str, str]:
    """Return what `gate.json` depends on: its digest is the fingerprint."""
    return {
        **of_samples(loaded),
        **of_scores(loaded),
        **brief_part(loaded, "method", "gate"),
        "scores.jsonl": artifact.digest_file(loaded.run_dir / "scores.jsonl"),
        "labels.jsonl": _digest_or_absent(loaded.run_dir / "labels.jsonl"),
    }


def _digest_or_absent(path: Path) -> str:
    return artifact.digest_file(path) if path.exists() else "absent"


def complete_samples(loaded: LoadedBrief) -> artifact.Artifact[Sample]:
    """Return the samples, or refuse if they are stale or not all there."""
    path = loaded.run_dir / "samples.jsonl"
    found = artifact.read_lines(path, Sample)
    artifact.check_parents(path, found.header, of_samples(loaded))
    expected = int(found.header.settings["expected"])
    if len(found.records) != expected:
        again = f"finetune sample {loaded.run_dir}"
        raise Refusal(f"{path}: holds {len(found.records)} of {expected} samples; run `{again}` to continue")
    return found


def seen_digest(sample: Sample) -> str:
    """Return the digest of what a reader of this sample has on screen."""
    shown = {"prompt": sample.prompt, "answer": sample.columns.get("answer"), "completion": sample.completion}
    return artifact.digest_value(shown)
