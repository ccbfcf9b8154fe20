"""The completions of one suite by one model, in a file that a killed evaluation goes on with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llm_finetuning import artifact
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.evaluating.subject import Subject
from llm_finetuning.sampling import drawing
from llm_finetuning.types import Row, Sample

OF_COMPLETIONS = ("held-out rows", "drift items", "sampling settings", "model", "seed", "engine")
"""Parents that decide what is drawn; any other decides only how it is scored."""


class Completions:
    """What is drawn, with what decides it."""

    def __init__(
        self, subject: Subject, rows: Sequence[Row], *, sampled: LoadedBrief, samples: int, greedy: bool
    ) -> None:
        """Plan `samples` completions a row with the sampling settings of `sampled`, at temperature 0 where greedy."""
        sampling = sampled.brief.sampling
        self._subject, self._sampled = subject, sampled
        temperature = 0.0 if greedy else sampling.temperature
        self.expected = len(rows) * samples
        passed = ("low_temperature" if greedy else "policy", samples, temperature)
        self._batches = drawing.batches_of(rows, sampling.seed, [passed])
        self.settings: dict[str, Any] = {
            "samples": samples,
            "temperature": temperature,
            **drawing.drawn_with(sampling),
            "chat_template_kwargs": sampling.chat_template_kwargs,
        }
        self.parents = {
            "sampling settings": artifact.digest_value(self.settings),
            "model": subject.digest,
            "seed": artifact.digest_value(sampling.seed),
            "engine": artifact.digest_value(sampling.engine),
        }

    def draw(self, transcripts: Path, parents: dict[str, str], *, anew: str) -> list[Sample]:
        """Draw what is missing of the completions and return all of them, row by row."""
        candidate = self._subject.candidate
        wanted = drawing.Drawing(
            path=transcripts,
            parents={**parents, **self.parents},
            settings={"sampling": self.settings, "model": candidate.shown, **self._subject.server},
            anew=anew,
        )
        source = drawing.Source(model=candidate.model, adapter=candidate.adapter)
        drawn = drawing.draw(self._sampled, wanted, self._batches, source, python=self._subject.python)
        # A server answers in any order, and a kill can leave a part of a row: what is scored together may not hang on
        # that.
        return sorted(drawn, key=lambda one: (one.row, one.index))


def fingerprint(rows: Sequence[Row]) -> str:
    """Return the SHA-256 of items: their ids, prompts and columns, in their order."""
    return artifact.digest_value([[row.prompt_id, row.prompt, row.columns] for row in rows])


def scored_anew(changed: str, path: Path) -> str:
    """Return the cheaper way to an evaluation that differs in these parents alone, in words; none where it is drawn."""
    if any(parent in changed.split(", ") for parent in OF_COMPLETIONS):
        return ""
    return f" (or move {path.name} away and evaluate again: the kept completions are scored anew)"
