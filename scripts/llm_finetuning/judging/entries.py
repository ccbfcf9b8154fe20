"""The judges that a brief names, and whether their records let them pay."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from llm_finetuning import artifact
from llm_finetuning.brief import FILE_NAME, LoadedBrief, RewardBrief
from llm_finetuning.errors import Refusal
from llm_finetuning.judging import USE
from llm_finetuning.rewards import composition
from llm_finetuning.rewards.rubric_judge import UnmeasuredJudge

_EXAMPLE = (
    "`{use: rubric_judge, options: {url: ..., model: ..., rubric_file: rubric.md, calibration: calibration.json}}`"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One judge of a brief."""

    where: str  # rewards[0], evaluation.graders[1]
    wanted: RewardBrief

    @property
    def name(self) -> str:
        """Return what the judge's component is called."""
        return self.wanted.name or USE


def entries(loaded: LoadedBrief) -> list[Entry]:
    """Return the judges among rewards and graders; one that stands in both is named once."""
    lists = {"rewards": loaded.brief.rewards, "evaluation.graders": loaded.brief.evaluation.graders}
    found: list[Entry] = []
    for key, wanted_all in lists.items():
        for place, wanted in enumerate(wanted_all):
            known = [entry.wanted.options for entry in found]
            if wanted.use == USE and wanted.options not in known:
                found.append(Entry(f"{key}[{place}]", wanted))
    return found


def chosen(loaded: LoadedBrief, name: str | None) -> Entry:
    """Return the judge of a name, or the only one; refuses where there is none, or which one is not clear."""
    path = loaded.run_dir / FILE_NAME
    there = entries(loaded)
    if not there:
        raise Refusal(f"{path}: no `{USE}` among `rewards` or `evaluation.graders`; add one: {_EXAMPLE}")
    found = there if name is None else [entry for entry in there if entry.name == name]
    names = ", ".join(entry.name for entry in there)
    if not found:
        raise Refusal(f"--reward {name}: {path} names no judge of that name; it has {names}")
    if len(found) > 1:
        raise Refusal(f"{path}: names several judges ({names}); choose one with --reward NAME, which `name:` sets")
    return found[0]


def built(loaded: LoadedBrief, entry: Entry) -> UnmeasuredJudge:
    """Return the judge, which can be asked whatever its record says; refuses for options that do not fit."""
    function: Callable[..., Any] = composition.unpaid(
        loaded, entry.wanted, f"{loaded.run_dir / FILE_NAME}: {entry.where}"
    )
    return cast("UnmeasuredJudge", function)


def fault(loaded: LoadedBrief, entry: Entry) -> str | None:
    """Return why a judge may not pay, None where its record shows that it may."""
    try:
        return built(loaded, entry).fault()
    except Refusal as refusal:
        return refusal.lines[0]


def waiting(loaded: LoadedBrief, key: str = "") -> str | None:
    """Return the command that measures the first judge which may not pay; None where all may, or none is named.

    `key` is where it must be named, `rewards` or `evaluation.graders`; anywhere when left out. The measurement may be
    another run's, beside whose brief the record is to stand.
    """
    for entry in entries(loaded):
        if entry.where.startswith(key) and fault(loaded, entry) is not None:
            record = entry.wanted.options.get("calibration")
            folder = loaded.resolve(record).parent if isinstance(record, str) else loaded.run_dir
            home = folder if (folder / FILE_NAME).is_file() else loaded.run_dir
            several = [] if len(entries(loaded)) == 1 else ["--reward", entry.name]
            return artifact.shell_line("calibrate", Path(home), *several)
    return None
