"""What a run has shown of its lengths and its rewards, where what showed it is current; each gap has a note."""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_finetuning import dataset, lineage
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.errors import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What time depends on beside the config; None where nobody measured it."""

    rows: int | None = None  # that are trained on
    prompt: float | None = None  # tokens, the median
    lengths: tuple[int, ...] = ()  # tokens of the completions that were sampled as training will, ascending
    reward_s: float | None = None  # of one completion, all rewards together
    notes: tuple[str, ...] = ()

    @property
    def mean(self) -> float | None:
        """Tokens of a completion in the mean."""
        return sum(self.lengths) / len(self.lengths) if self.lengths else None

    def longest_of(self, completions: int) -> int | None:
        """Return the longest of so many completions: the length that all but one in n + 1 stay below."""
        if not self.lengths:
            return None
        place = round(len(self.lengths) * completions / (completions + 1))
        return self.lengths[min(place, len(self.lengths) - 1)]


def observed(loaded: LoadedBrief) -> Observed:
    """Return what audit, samples and scores of the run say; what is stale or absent is left out."""
    rows, prompt, notes = _audited(loaded)
    if rows is None:
        rows = _counted(loaded)
    if loaded.brief.method != "grpo":
        return Observed(rows=rows, prompt=prompt, notes=tuple(notes))
    lengths, reward_s, more = _sampled(loaded)
    return Observed(rows=rows, prompt=prompt, lengths=lengths, reward_s=reward_s, notes=(*notes, *more))


def _audited(loaded: LoadedBrief) -> tuple[int | None, float | None, list[str]]:
    if not (loaded.run_dir / "audit.json").exists():
        return None, None, []
    try:
        report = lineage.current_audit(loaded)
    except Refusal:
        return None, None, []  # `plan` says so where it asks for the longest prompt
    counted = report.prompt_tokens
    return report.rows, float(counted["median"]) if counted else None, []


def _counted(loaded: LoadedBrief) -> int | None:
    """Return the lines of a data set in JSON lines; None for any other, which is not read for this."""
    if not dataset.is_file(loaded):
        return None
    path = loaded.resolve(loaded.brief.dataset.path)
    if path.suffix != ".jsonl":
        return None
    try:
        with path.open("rb") as stream:
            return sum(1 for line in stream if line.strip())
    except OSError:
        return None


def _sampled(loaded: LoadedBrief) -> tuple[tuple[int, ...], float | None, Sequence[str]]:
    """Return the lengths of the policy's completions and the seconds that scoring one of them took."""
    if not (loaded.run_dir / "samples.jsonl").exists():
        return (), None, ()
    try:
        samples = lineage.complete_samples(loaded, without=["completion_ids"]).records
    except Refusal as refusal:
        return (), None, (f"the samples' lengths are not used: {refusal.lines[0]}",)
    lengths = tuple(sorted(sample.tokens for sample in samples if sample.pass_name == "policy"))
    if not (loaded.run_dir / "scores.jsonl").exists():
        return lengths, None, ()
    try:
        scores = lineage.current_scores(loaded, samples)
    except Refusal as refusal:
        return lengths, None, (f"the rewards' seconds are not used: {refusal.lines[0]}",)
    seconds = [sum(value.seconds for value in score.values) for score in scores if score.pass_name == "policy"]
    return lengths, (sum(seconds) / len(seconds) if seconds else None), ()
