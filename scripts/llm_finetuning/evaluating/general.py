"""The drift suite under one model: does it still do what has nothing to do with the task?"""

from pathlib import Path

from llm_finetuning import artifact, console, drift, lineage, pipeline
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.errors import Refusal
from llm_finetuning.evaluating.completions import Completions, fingerprint
from llm_finetuning.evaluating.subject import Subject
from llm_finetuning.sampling import drawing
from llm_finetuning.scoring.scores import scores_of
from llm_finetuning.stages import evaluate as stage
from llm_finetuning.types import Evaluation, Sample, Suite

PLAIN = {"max_completion_length": drift.MAX_TOKENS, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
"""Sampling settings of the suite, whatever the brief's are: a penalty on repetition alone changes plain answers."""


class General:
    """The drift suite, greedily: one completion an item."""

    suite: Suite = "drift"
    samples = 1

    def __init__(self, subject: Subject, *, is_chat: bool) -> None:
        """Take the items in the form of the run's own prompts."""
        rows = drift.rows(chat=is_chat)
        brief = subject.sampled.brief
        sampling = brief.sampling.model_copy(update={**PLAIN, "seed": 0})
        sampled = LoadedBrief(
            brief.model_copy(update={"sampling": sampling}), subject.sampled.run_dir, subject.sampled.frozen
        )
        self._subject = subject
        self._grader = drift.component()
        self.items = len(rows)
        self.fingerprint = fingerprint(rows)
        self.completions = Completions(subject, rows, sampled=sampled, samples=self.samples, greedy=True)

    def parents(self) -> dict[str, str]:
        """Return what the numbers depend on, as it is now."""
        return {**self.of_completions(), "drift suite": drift.digest()}

    def of_completions(self) -> dict[str, str]:
        """Return what the completions depend on."""
        return {"drift items": self.fingerprint, **self.completions.parents}

    def make_ready(self) -> None:
        """Do nothing: the suite grades by itself."""

    def draw(self, transcripts: Path, *, anew: str) -> list[Sample]:
        """Return the completions, drawn as far as they are missing; those of the same model under another name are."""
        if not transcripts.exists() and (before := drawn_before(self._subject, self, transcripts)) is not None:
            console.note(
                f"drift suite: the completions are those of {before.name}, of the same model; nothing is drawn"
            )
            found = artifact.read_lines(before, Sample)
            artifact.write_lines(transcripts, found.header, found.records)
        return self.completions.draw(transcripts, {"drift items": self.fingerprint}, anew=anew)

    def evaluation(self, name: str, drawn: list[Sample]) -> Evaluation:
        """Grade the completions."""
        loaded = self._subject.loaded
        bare = LoadedBrief(loaded.brief.model_copy(update={"rewards": []}), loaded.run_dir, loaded.frozen)
        grader = self._grader
        setting = stage.Setting(
            name=name,
            suite=self.suite,
            model=self._subject.candidate.shown,
            greedy=True,
            samples=self.samples,
            success_threshold=grader.weight * (grader.low + grader.high) / 2,
            fingerprint=self.fingerprint,
            bucket="kind",
        )
        return stage.evaluate(drawn, scores_of(bare, [grader], drawn), setting)


def prompts_are_chat(subject: Subject) -> bool:
    """Tell whether the run's prompts are chat messages: its held-out rows', or where none are named its data set's."""
    loaded = subject.loaded
    named = loaded.brief.dataset.evaluation is not None
    rows = drawing.rows_of(lineage.held_out(loaded) if named else loaded, subject.python)
    return isinstance(rows[0].prompt, list)


def drawn_before(subject: Subject, suite: General, transcripts: Path) -> Path | None:
    """Return the file with these very completions that another evaluation of the run kept; None where there is none.

    They are greedy, so that the same model gives them again. A server may serve another model by now.
    """
    if subject.sampled.brief.sampling.engine == "endpoint":
        return None
    wanted = suite.of_completions()
    for path in sorted(transcripts.parent.glob(f"*{pipeline.DRIFT}.json")):
        before = pipeline.transcripts_of(path)
        if before == transcripts or not before.exists():
            continue
        try:
            parents = artifact.read_json(path, Evaluation).header.parents
        except Refusal:  # it is no part of what was asked for
            continue
        is_same = all(parents.get(name) == digest for name, digest in wanted.items())
        if is_same and parents.get(before.name) == artifact.digest_file(before):
            return before
    return None
