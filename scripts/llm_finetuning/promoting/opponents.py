"""What an evaluation is compared with: one of the base that was measured in the same way."""

from llm_finetuning import artifact, checkpoints, pipeline
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.errors import Refusal
from llm_finetuning.evaluating import calls, kept
from llm_finetuning.promoting import contest


def following(loaded: LoadedBrief, name: str) -> str | None:
    """Return the call that follows on an evaluation of another name than the baseline's.

    It is compared with the first evaluation that it may be compared with, the baseline before any other; where there is
    none the base is measured as it was. None where it is of the base itself, and no step of the road by that.
    """
    folder = loaded.run_dir / "eval"
    path = folder / f"{name}.json"
    if not path.exists():  # the drift suite alone
        return calls.goldens(loaded, kept.read(kept.drift_path(path)))
    found = kept.read(path)
    is_imported = "imported" in found.header.settings
    own = checkpoints.base_model(loaded).shown
    if found.records[0].model == own and not is_imported:
        return None
    baseline = folder / f"{checkpoints.BASE}.json"
    others = [one for one in folder.glob("*.json") if one != path and not one.stem.endswith(pipeline.DRIFT)]
    for other in sorted(others, key=lambda one: (one != baseline, one.name)):
        try:
            before = kept.read(other)
        except Refusal:  # it is no part of what was asked for
            continue
        if (is_imported or before.records[0].model == own) and contest.is_comparable(before, found):
            return artifact.shell_line("compare", loaded.run_dir, other.stem, name)
    if is_imported or not baseline.exists():
        return artifact.shell_line("evaluate", loaded.run_dir)
    return calls.alike(loaded, kept.read(baseline), found)
