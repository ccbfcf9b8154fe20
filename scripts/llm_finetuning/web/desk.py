"""What the review page works on: the chosen samples of one run, one reader, and the labels on the disk."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

from llm_finetuning import brief, console, labelling, lineage
from llm_finetuning.findings.wording import text_of
from llm_finetuning.types import Label, Reading, Verdict
from llm_finetuning.web.segments import segments

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


class Desk:
    """The samples that one reader was given, in order, and that reader's labels as they stand on the disk.

    Every label is appended and flushed on its own, so that two tabs, two readers and a killed server lose nothing.
    What the rewards paid, and why a sample is read, is told for labelled samples alone.
    """

    def __init__(
        self,
        run_dir: Path,
        reader: str,
        count: int,
        append: Callable[[Sequence[Label]], None],
        following: Callable[[], str],
    ) -> None:
        """Load a run; refuses for one without complete samples.

        `append` returns once labels are on the disk; `following` says what the run asks for next, as every verb does.
        """
        self._loaded = loaded = brief.load(run_dir)
        samples = lineage.complete_samples(loaded).records
        self.name = loaded.brief.name
        self.reader = reader
        self._append, self._following = append, following
        self._samples = {sample.sample_id: sample for sample in samples}
        self._seen = lineage.seen_digests(samples)
        self._scores = labelling.scores_of(loaded, samples)
        self.readings: list[Reading] = labelling.to_read(loaded, samples, lineage.labels(loaded), reader, count)

    def overview(self) -> dict[str, Any]:
        """Return the order and this reader's labels; neither what a reward said nor why a sample is read."""
        standing = self._standing()
        items = [
            {
                "id": item.sample_id,
                "verdict": standing[item.sample_id].verdict if item.sample_id in standing else None,
                "noted": bool(item.sample_id in standing and standing[item.sample_id].note),
            }
            for item in self.readings
        ]
        return {"run": self.name, "reader": self.reader, "items": items}

    def following(self) -> dict[str, str]:
        """Return what the run asks for next, as it stands on the disk now."""
        return {"next": self._following()}

    def item(self, place: int) -> dict[str, Any]:
        """Return what is shown of one reading; raises IndexError.

        `paid` and `part`, which hint at what a reward said, are there once the reader has decided.
        """
        if not 0 <= place < len(self.readings):
            raise IndexError(place)
        reading = self.readings[place]
        sample = self._samples[reading.sample_id]
        label = self._standing().get(reading.sample_id)
        answer = sample.columns.get("answer")
        shown: dict[str, Any] = {
            "id": console.visible(sample.sample_id),
            "prompt": segments(text_of(sample.prompt)),
            "gold": None if answer is None else segments(str(answer)),
            "completion": segments(text_of(sample.completion)),
            "tokens": sample.tokens,
            "cut": sample.finish_reason == "length",
            "label": None if label is None else {"verdict": label.verdict, "note": label.note},
        }
        if label is not None:
            shown |= {"part": reading.part, "paid": self._paid(reading)}
        return shown

    def record(self, place: int, verdict: Verdict, note: str) -> dict[str, Any]:
        """Append a label and return the reading as it is shown afterwards; it is on the disk when this returns."""
        if not 0 <= place < len(self.readings):
            raise IndexError(place)
        reading = self.readings[place]
        sample = self._samples[reading.sample_id]
        rest = {"reader": self.reader, "note": note, "source": "page", "part": reading.part}
        self._append([labelling.label_for(sample, verdict, **rest)])
        return self.item(place)

    def search(self, words: str) -> list[int]:
        """Return the places whose prompt, gold or completion holds the words, without regard to case."""
        wanted = words.casefold()
        found = []
        for place, reading in enumerate(self.readings):
            sample = self._samples[reading.sample_id]
            texts = (text_of(sample.prompt), str(sample.columns.get("answer") or ""), text_of(sample.completion))
            if any(wanted in text.casefold() for text in texts):
                found.append(place)
        return found

    def _paid(self, reading: Reading) -> dict[str, Any]:
        score = self._scores.get(reading.sample_id)
        values = [] if score is None else score.values
        return {
            "why": reading.why,
            "reward": None if score is None else score.reward,
            "scored": score is not None,
            "values": [{"name": value.name, "value": value.value, "reason": value.reason} for value in values],
        }

    def _standing(self) -> dict[str, Label]:
        """Return this reader's last labels of what is shown now, whoever wrote them to the disk."""
        return labelling.standing_of(self.reader, lineage.labels(self._loaded), self._seen)
