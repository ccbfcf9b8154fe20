"""Whether the folder that an evaluation measured still holds that model, told without reading all of it."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from llm_finetuning import artifact, checkpoints
from llm_finetuning.checkpoints import Candidate
from llm_finetuning.errors import Refusal

KEY = "spots"
"""Name of the record in the header's settings of an evaluation: folder -> file -> digest of its spots."""

SPOTS, SPOT = 64, 16 * 1024
"""Places of a file of weights that are read, evenly spread, and the bytes of each: 1 MiB of a file, however large."""


class Changed(NamedTuple):
    """A folder that holds another model than was measured."""

    folder: str  # from the run directory on where it is in it
    files: list[str]


def of(run_dir: Path, candidate: Candidate) -> dict[str, dict[str, str]]:
    """Return the spots of a model's local folders; of a merged model also those of the adapter that it was made of."""
    return {_shown(run_dir, folder): found for folder in _folders(candidate) if (found := _spots(folder))}


def changed(run_dir: Path, header: artifact.Header) -> Changed | None:
    """Return the first folder of an evaluation that holds another model now; None where none is known to.

    Each file of weights is told by its size and by `SPOTS` parts of it, so that a copy with other times is the same
    model, and 16 GB are told in a moment. Two trainings differ nearly everywhere. It does not see weights that changed
    between the spots alone, as where one small tensor was edited by hand, or trained with all others frozen; nor a
    folder that is gone or without weights, a model of the hub, one behind a server, and an evaluation of a version that
    kept no spots. `evaluate` itself reads every byte.
    """
    kept = header.settings.get(KEY)
    for shown, before in kept.items() if isinstance(kept, dict) else ():
        now = _spots(run_dir / shown)
        if now and now != before:
            return Changed(shown, sorted(name for name in {*before, *now} if before.get(name) != now.get(name)))
    return None


def _folders(candidate: Candidate) -> Iterator[Path]:
    for source in (candidate.adapter, candidate.model):
        if source is not None and Path(source).is_absolute():
            yield Path(source)
            if (record := checkpoints.merged_of(Path(source))) is not None:
                yield Path(record["adapter"])


def _shown(run_dir: Path, folder: Path) -> str:
    return str(folder.relative_to(run_dir)) if folder.is_relative_to(run_dir) else str(folder)


def _spots(folder: Path) -> dict[str, str]:
    """Return each file's digest; nothing for a folder without weights, in which there is no model to tell apart."""
    weights = checkpoints.weights_of(folder)
    if not weights:
        return {}
    whole = {path.name: artifact.digest_file(path) for path in checkpoints.settings_of(folder)}
    return whole | {path.name: _digest(path) for path in weights}


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file's size and spots; of a small file that is all of it."""
    try:
        with path.open("rb") as stream:
            size = path.stat().st_size
            digest = hashlib.sha256(str(size).encode())
            if size <= SPOTS * SPOT:
                digest.update(stream.read())
            else:
                for place in range(SPOTS):
                    stream.seek(place * (size - SPOT) // (SPOTS - 1))
                    digest.update(stream.read(SPOT))
    except OSError as error:
        raise Refusal(f"{path}: {(error.strerror or str(error)).lower()}; check the path and its permissions") from None
    return digest.hexdigest()
