"""The goldens: the held-out rows of the task, what is decided about each, and by whom."""

from pathlib import Path

from llm_finetuning import dataset, judging, lineage
from llm_finetuning.brief import FILE_NAME, LoadedBrief, RewardBrief, nearest
from llm_finetuning.errors import Refusal
from llm_finetuning.evaluating.completions import Completions, fingerprint
from llm_finetuning.evaluating.subject import Subject
from llm_finetuning.rewards import composition
from llm_finetuning.sampling import drawing
from llm_finetuning.scoring.scores import scores_of
from llm_finetuning.scoring.success import success_of, threshold_of
from llm_finetuning.stages import evaluate as stage
from llm_finetuning.types import Component, Evaluation, Sample, Suite

MEND = "mend it and evaluate again: the completions are kept"


class Goldens:
    """The held-out rows under one model."""

    suite: Suite = "goldens"

    def __init__(self, subject: Subject, *, samples: int | None, greedy: bool) -> None:
        """Read the rows and compose what grades them; refuses, before anything is sampled, what cannot be measured."""
        loaded = subject.loaded
        check_brief(loaded)
        held_out = lineage.held_out(loaded)
        rows = drawing.rows_of(held_out, subject.python)
        _check_columns(held_out, list(rows[0].columns))
        self._subject, self._greedy = subject, greedy
        self.items = len(rows)
        self.is_chat = isinstance(rows[0].prompt, list)
        self.samples = 1 if greedy else samples or loaded.brief.sampling.num_generations
        self.completions = Completions(subject, rows, sampled=subject.sampled, samples=self.samples, greedy=greedy)
        self.fingerprint = fingerprint(rows)
        self._compose(loaded, list(rows[0].columns))

    def _compose(self, loaded: LoadedBrief, columns: list[str]) -> None:
        wanted = loaded.brief.evaluation
        self._rewards = composition.compose(loaded, columns) if loaded.brief.rewards else []
        self._graders = []
        if wanted.graders:
            self._graders = composition.compose(lineage.graded(loaded), columns, key=lineage.GRADERS)
            _check_apart(loaded, self._rewards, self._graders)
        deciding = self._graders or self._rewards
        if not any(part.weight for part in deciding):
            key = lineage.GRADERS if self._graders else "rewards"
            raise Refusal(f"{loaded.run_dir / FILE_NAME}: {key}: all weights are 0, so that nothing decides; give one")
        if wanted.success is not None or self._graders:
            key = "evaluation.success"
            self.threshold = threshold_of(loaded, deciding, wanted.success, key=key)
        else:
            self.threshold = success_of(loaded, deciding)
        self._judge = _judge_record(loaded, wanted.graders or loaded.brief.rewards, deciding)

    def parents(self) -> dict[str, str]:
        """Return what the numbers depend on, as it is now."""
        return {**self.of_completions(), **lineage.of_grading(self._subject.loaded, self.threshold)}

    def of_completions(self) -> dict[str, str]:
        """Return what the completions depend on."""
        return {"held-out rows": self.fingerprint, **self.completions.parents}

    def make_ready(self) -> None:
        """Let what grades say that it has its machinery; raises MachineryFailure."""
        composition.make_ready([*self._rewards, *self._graders])

    def draw(self, transcripts: Path, *, anew: str) -> list[Sample]:
        """Return the completions, drawn as far as they are missing."""
        return self.completions.draw(transcripts, {"held-out rows": self.fingerprint}, anew=anew)

    def evaluation(self, name: str, drawn: list[Sample]) -> Evaluation:
        """Grade the completions; refuses for a reward or grader that fails."""
        loaded, wanted = self._subject.loaded, self._subject.loaded.brief.evaluation
        paid = scores_of(loaded, self._rewards, drawn, mend=MEND) if self._rewards else None
        graded = lineage.graded(loaded)
        grades = scores_of(graded, self._graders, drawn, mend=MEND) if self._graders else paid
        assert grades is not None, "check_brief refuses a brief without both"
        setting = stage.Setting(
            name=name,
            suite=self.suite,
            model=self._subject.candidate.shown,
            greedy=self._greedy,
            samples=self.samples,
            success_threshold=self.threshold,
            fingerprint=self.fingerprint,
            bucket=wanted.bucket,
            source=wanted.source,
            judge=self._judge,
        )
        return stage.evaluate(drawn, grades, setting, paid=paid)


def check_brief(loaded: LoadedBrief) -> None:
    """Refuse a brief that names no held-out rows, or nothing to grade them with."""
    place = loaded.run_dir / FILE_NAME
    if loaded.brief.dataset.evaluation is None:
        raise Refusal(
            f"{place}: no `dataset.evaluation`; name a file of held-out rows with the columns of the data set: "
            "`dataset: {path: data/train.jsonl, evaluation: data/held-out.jsonl, ...}`"
        )
    if not loaded.brief.rewards and not loaded.brief.evaluation.graders:
        raise Refusal(f"{place}: no `rewards` to score with, and no `evaluation.graders`; add one")


def _check_columns(held_out: LoadedBrief, columns: list[str]) -> None:
    wanted = held_out.brief.evaluation
    named = {"bucket": wanted.bucket, "source": wanted.source}
    place = dataset.source_name(held_out)
    faults = [
        f"{place}: no column `{column}` (`evaluation.{key}` names it); {nearest(column, columns)}"
        for key, column in named.items()
        if column is not None and column not in columns
    ]
    if faults:
        raise Refusal(*faults)


def _check_apart(loaded: LoadedBrief, rewards: list[Component], graders: list[Component]) -> None:
    """Refuse a grader that is called as a reward is: the two could not be told apart in what is measured."""
    names = {component.name for component in rewards}
    faults = [
        f"{loaded.run_dir / FILE_NAME}: {lineage.GRADERS}[{place}]: is named `{grader.name}`, as one of the rewards; "
        "give it its own `name:`"
        for place, grader in enumerate(graders)
        if grader.name in names
    ]
    if faults:
        raise Refusal(*faults)


def _judge_record(
    loaded: LoadedBrief, wanted: list[RewardBrief], components: list[Component]
) -> stage.JudgeRecord | None:
    """Return how a judge that alone decides judged work of known worth; None where something else decides."""
    deciding = [entry for entry, part in zip(wanted, components, strict=True) if part.weight]
    if len(deciding) != 1:
        return None
    (entry,) = deciding
    if entry.use != judging.USE or entry.weight < 0 or entry.length_penalty is not None:
        return None
    from llm_finetuning.rewards.judges.calibration import load_record

    test = load_record(str(loaded.resolve(entry.options["calibration"]))).test
    return stage.JudgeRecord(
        true_positives=test.true_positives,
        positives=test.true_positives + test.false_negatives,
        true_negatives=test.true_negatives,
        negatives=test.true_negatives + test.false_positives,
    )
