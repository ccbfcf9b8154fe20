"""One judge of a run, what people said of the run's samples, and all that the judge was asked before."""

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from llm_finetuning import artifact, lineage
from llm_finetuning.brief import FILE_NAME, LoadedBrief
from llm_finetuning.errors import Refusal
from llm_finetuning.judging import entries
from llm_finetuning.judging.questions import Questions
from llm_finetuning.rewards.judges import calibration
from llm_finetuning.stages import calibrate as stage
from llm_finetuning.types import JudgeEvent, JudgeOpening, JudgeOutcome, JudgeSplit, JudgeVerdict

EVENT: Any = JudgeEvent  # a union is no type to mypy, and is one to pydantic

FLOORS = stage.Floors(calibration.MIN_TEST, calibration.MIN_CLASS, calibration.MAX_ABSTAINED)


class Bench:
    """What `calibrate` works on. `journal` is judge.jsonl, open for appending once there is something to keep."""

    journal: artifact.Appender[Any] | None = None

    def __init__(self, loaded: LoadedBrief, reward: str | None) -> None:
        """Read samples and labels; refuses for a brief without a judge, and for one whose options do not fit."""
        self.loaded = loaded
        self.entry = entries.chosen(loaded, reward)
        self.judge = entries.built(loaded, self.entry)
        self.setting = {**self.judge.setting.model_dump(), **self.judge.limits}
        self.digest = artifact.digest_value(self.setting)
        samples = lineage.complete_samples(loaded, without=("completion_ids",)).records
        column, columns = self.judge.limits["answer_column"], lineage.columns_of(samples)
        if column is not None and column not in columns:
            raise Refusal(
                f"{loaded.run_dir / FILE_NAME}: {self.entry.where}: option `answer_column`: no column `{column}`; "
                f"the samples have {', '.join(columns) or 'none'}"
            )
        seen = lineage.seen_digests(samples)
        prompts = {sample.sample_id: artifact.digest_value(sample.prompt) for sample in samples}
        self.labelled = stage.labelled(samples, lineage.labels(loaded), seen, prompts)
        self.policy = {seen[one.sample_id]: one for one in samples if one.pass_name == "policy"}

    # --- what happened before ---------------------------------------------------------------------------------------

    @property
    def events(self) -> list[Any]:
        """Return all that the journal holds, oldest first."""
        return [] if self.journal is None else self.journal.records

    @property
    def split(self) -> JudgeSplit | None:
        """Return the split that counts, the last one."""
        found = [event for event in self.events if isinstance(event, JudgeSplit)]
        return found[-1] if found else None

    @property
    def opening(self) -> JudgeOpening | None:
        """Return the opening of the test that counts, None while it is sealed."""
        return next((one for one in self._of_split(JudgeOpening)), None)

    @property
    def outcome(self) -> JudgeOutcome | None:
        """Return what that opening came to, None before it came to anything."""
        return next((one for one in self._of_split(JudgeOutcome)), None)

    def _of_split(self, kind: type[Any]) -> list[Any]:
        split = self.split
        return [event for event in self.events if isinstance(event, kind) and split and event.split == split.number]

    def items(self, *sides: str) -> list[stage.Item]:
        """Return the labelled items on these sides; of the test, those that were sealed and are still the same."""
        split = self.split
        if split is None:
            return []
        sealed = set(split.test.values())
        return [
            item
            for item in self.labelled.items
            if (side := split.sides.get(item.prompt)) in sides and (side != "test" or item.seen in sealed)
        ]

    # --- what is done -----------------------------------------------------------------------------------------------

    def keep(self, events: Sequence[Any]) -> None:
        """Put events on the disk."""
        if self.journal is None:
            raise TypeError("the journal is not open")
        self.journal.append(events)

    def seal(self, seed: int) -> stage.Wanting | None:
        """Draw and keep a split, or return what is missing for one; refuses while a sealed test is still good."""
        before = self.split
        if before is not None and self.opening is None:
            raise Refusal("--new-test: the sealed test has not been opened, and is still good; leave --new-test out")
        if before is not None:
            seed = before.seed
        known = None if before is None else before.sides
        found = stage.split(self.labelled.items, FLOORS, seed=seed, known=known)
        if isinstance(found, stage.Wanting):
            return found
        number = 1 if before is None else before.number + 1
        test = {item.sample.sample_id: item.seen for item in found.test}
        self.keep([JudgeSplit(number=number, seed=seed, sides=found.sides, test=test, at=now())])
        return None

    def questions(self, keep: Callable[[Sequence[JudgeVerdict]], None] | None = None) -> Questions:
        """Return the judge with what it answered before; what it answers now is kept at once."""
        known = [event for event in self.events if isinstance(event, JudgeVerdict)]
        return Questions(self.judge, self.digest, known, keep or self.keep)


def now() -> str:
    """Return the time as the journal holds it."""
    return dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
