"""Two models' evaluations as their files have them: read, held against each other, and judged."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from llm_finetuning import artifact, checkpoints, dataset, judging, lineage, pipeline
from llm_finetuning.brief import FILE_NAME, LoadedBrief
from llm_finetuning.comparing.evidence import in_turn
from llm_finetuning.errors import Refusal
from llm_finetuning.evaluating import calls, kept, spots
from llm_finetuning.evaluating.completions import fingerprint, scored_anew
from llm_finetuning.promoting import golden_leaks
from llm_finetuning.recipes import variants
from llm_finetuning.stages import promote as stage
from llm_finetuning.types import Arena, Build, Evaluation, Promotion, Row, Sample

MAY_DIFFER = ("model", "seed", "engine")
"""Parents of an evaluation that two of one comparison need not share; the completions are never the same."""

MOST_SAMPLES = 64  # completions an item up to which more are asked for; beyond, more items tell more


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """One model: its evaluation on the goldens, and on the drift suite where that was measured."""

    goldens: kept.Kept
    drift: kept.Kept | None

    @property
    def name(self) -> str:
        """What its evaluation is called."""
        return self.goldens.records[0].name


@dataclasses.dataclass(frozen=True)
class Contest:
    """A base and a candidate that can be compared."""

    loaded: LoadedBrief
    base: Side
    candidate: Side

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both, the base first."""
        return self.base, self.candidate

    @cached_property
    def transcripts(self) -> tuple[dict[str, list[Sample]], dict[str, list[Sample]]]:
        """The goldens' completions of both by item; none where they were thrown away, or are not what was graded."""
        return _transcripts(self.base.goldens), _transcripts(self.candidate.goldens)

    def judged(self, *, python: str | None = None, arena: bool = False) -> Promotion:
        """Return the promotion; with `arena` a calibrated judge is asked as well."""
        base, candidate = (side.goldens.records[0] for side in self.sides)
        goldens, changed, notes = self._goldens(python)
        leaks = golden_leaks.search(self.loaded, goldens, python=python) if goldens else self._unknown_goldens()
        leaks = self._as_trained(leaks)
        fought = self._arena({leak.prompt_id for leak in leaks.found}) if arena else None
        wanted, training = self.loaded.brief.evaluation, variants.training_of(self.loaded.brief)
        parents = [side.goldens.header.parents for side in self.sides]
        evidence = stage.evidence_of(
            base,
            candidate,
            suites=self._suites(),
            leaks=leaks,
            wanted=stage.Wanted(gain=wanted.gain, drift=wanted.drift),
            training=stage.Training(
                method=self.loaded.brief.method,
                lora=training.get("adapter", "none") != "none",
                beta=float(training.get("beta") or 0.0),
            ),
            commands=self._commands(),
            setting=stage.Setting(
                same_model="model" in parents[0] and parents[0]["model"] == parents[1].get("model"),
                engines_differ=parents[0].get("engine") != parents[1].get("engine"),
                goldens_changed=changed,
                notes=[*notes, *_corrected(base, candidate)],
            ),
            arena=fought,
        )
        return stage.promote(evidence)

    def _suites(self) -> stage.Suites:
        measured = [None if side.drift is None else side.drift.records[0] for side in self.sides]
        missing = [
            calls.drift(self.loaded, side.goldens)
            for side, found in zip(self.sides, measured, strict=True)
            if found is None
        ]
        return stage.Suites(base=measured[0], candidate=measured[1], missing=missing)

    def _goldens(self, python: str | None) -> tuple[dict[str, Any], bool, list[str]]:
        """Return the prompts that were evaluated by id, whether the file has others today, and what to say of that.

        From the kept completions, else from the file as long as it is the one that was evaluated.
        """
        told = {name: samples[0].prompt for found in self.transcripts for name, samples in found.items()}
        wanted = {item.prompt_id for item in self.base.goldens.records[0].items}
        known = {name: prompt for name, prompt in told.items() if name in wanted}
        today = self._rows_of_today(python)
        if today is None:
            return known, False, ["the held-out rows cannot be read any more: whether they changed is not known"]
        changed = fingerprint(today) != self.base.goldens.records[0].fingerprint
        if len(known) < len(wanted) and not changed:
            known = {row.prompt_id: row.prompt for row in today}
        return (known if len(known) == len(wanted) else {}), changed, []

    def _rows_of_today(self, python: str | None) -> list[Row] | None:
        if self.loaded.brief.dataset.evaluation is None:
            return None
        try:
            return golden_leaks.rows_of(lineage.held_out(self.loaded), python)
        except Refusal:
            return None

    def _as_trained(self, leaks: stage.Leakage) -> stage.Leakage:
        """Say where the rows that were searched are not those that this run trained the candidate on.

        A leaked row that is taken out after training has left its gain in the model.
        """
        path = self.loaded.run_dir / "train" / "build.json"
        model = Path(self.candidate.goldens.records[0].model)
        if leaks.unread or not model.is_relative_to(path.parent) or not path.exists():
            return leaks
        built = artifact.read_json(path, Build).header.parents
        if all(built.get(name) == digest for name, digest in _data_digest(self.loaded).items()):
            return leaks
        return stage.Leakage(
            unread=f"it is another one today than `{self.candidate.name}` was trained on",
            mend="bring back the rows that it was trained on, or train again on those of today",
        )

    def _unknown_goldens(self) -> stage.Leakage:
        again = in_turn(calls.both(self.loaded, [side.goldens for side in self.sides]))
        return stage.Leakage(
            unread="the goldens' prompts are neither in the kept completions nor in the held-out rows of today",
            mend=f"evaluate both on the goldens of today: {again}",
        )

    def _commands(self) -> stage.Commands:
        """Return what a next action may name, for these two in this run."""
        loaded, sides = self.loaded, [side.goldens for side in self.sides]
        run_dir, base = loaded.run_dir, self.base.goldens.records[0]
        more = max(2 * base.samples, 4)
        draws_more = not base.greedy and more <= MOST_SAMPLES
        has_trained = (run_dir / checkpoints.FINAL).is_dir()
        following = calls.free_run(run_dir)
        return stage.Commands(
            compare=artifact.shell_line("compare", run_dir, *(calls.name_in(run_dir, found.path) for found in sides)),
            again=calls.both(loaded, sides),
            more=calls.both(loaded, sides, samples=more) if draws_more else [],
            more_samples=more,
            scored_anew=calls.scored_anew(loaded, sides),
            moved=[_shown(loaded, found.path) for found in sides],
            trained=artifact.shell_line("evaluate", run_dir, "--checkpoint", "final")
            if has_trained
            else artifact.shell_line("status", run_dir),
            audit=artifact.shell_line("audit", run_dir),
            diagnose=artifact.shell_line("diagnose", run_dir),
            next_run=artifact.shell_line("new", following, "--from", str(run_dir)),
            place=calls.place(loaded, self.candidate.goldens, following),
        )

    def _arena(self, leaked: set[str]) -> Arena:
        """Ask the brief's judge about the first completion of each golden that did not leak."""
        from llm_finetuning.judging import arena  # the judge's modules are not needed without it

        brief = self.loaded.brief
        entries = [entry for entry in (*brief.evaluation.graders, *brief.rewards) if entry.use == judging.USE]
        place = self.loaded.run_dir / FILE_NAME
        if not entries:
            raise Refusal(f"{place}: --arena asks a `{judging.USE}` of `evaluation.graders` or `rewards`; name one")
        before, after = self.transcripts
        pairs = [
            arena.Pair(
                prompt=before[name][0].prompt,
                columns=before[name][0].columns,
                base=before[name][0].completion,
                candidate=after[name][0].completion,
            )
            for name in before
            if name in after and name not in leaked
        ]
        if not pairs:
            raise Refusal(f"{place}: --arena reads the kept completions of both; evaluate both again to have them")
        return arena.fight(self.loaded, entries[0], pairs)


def contest_of(loaded: LoadedBrief, base: str, candidate: str) -> Contest:
    """Return two evaluations with their drift suites; refuses two that cannot be compared."""
    before, after = _side(loaded, base), _side(loaded, candidate)
    check_models(loaded, base, candidate)
    if before.goldens.path.resolve() == after.goldens.path.resolve():
        raise Refusal(f"{before.goldens.path}: compared with itself; name two evaluations")
    _check_comparable(loaded, before.goldens, after.goldens)
    if before.drift is not None and after.drift is not None:
        _check_comparable(loaded, before.drift, after.drift)
    return Contest(loaded, before, after)


def parents_of(loaded: LoadedBrief, base: str, candidate: str) -> dict[str, str]:
    """Return what `promotion.json` depends on: both models' evaluations, the data, and what the brief wants."""
    found: dict[str, str] = {}
    for name in (base, candidate):
        goldens = kept.path_of(loaded.run_dir, name)
        for path in (goldens, kept.drift_path(goldens)):
            found[_shown(loaded, path)] = artifact.digest_file(path) if path.exists() else "absent"
    for source in (loaded, lineage.held_out(loaded) if loaded.brief.dataset.evaluation is not None else loaded):
        found.update(_data_digest(source))
    return {**found, **lineage.brief_part(loaded, "evaluation")}


def check_models(loaded: LoadedBrief, *names: str) -> None:
    """Raise Retrained for an evaluation of a folder that holds another model now; what is not there is passed over."""
    for name in names:
        goldens = kept.path_of(loaded.run_dir, name)
        for path in (goldens, kept.drift_path(goldens)):
            if not path.exists():
                continue
            try:
                evaluation = kept.read(path)
            except Refusal:  # who needs what is in it refuses it
                continue
            if (found := calls.outdated(loaded, evaluation)) is not None:
                raise Retrained(path, found)


class Retrained(Refusal):
    """An evaluation of a folder that was trained anew since."""

    def __init__(self, path: Path, found: calls.Outdated) -> None:
        """Name the evaluation, the folder and what to do."""
        super().__init__(f"{path}: {found.words}")
        self.found = found


def _data_digest(loaded: LoadedBrief) -> dict[str, str]:
    """Return the digest of a data set that may be gone: a run is judged long after it was trained."""
    if dataset.is_file(loaded) and not loaded.resolve(loaded.brief.dataset.path).exists():
        return {loaded.brief.dataset.path: "absent"}
    return lineage.dataset_digest(loaded)


def _shown(loaded: LoadedBrief, path: Path) -> str:
    folder = loaded.run_dir.resolve()
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)


def _side(loaded: LoadedBrief, name: str) -> Side:
    goldens = kept.evaluation_of(loaded.run_dir, name)
    path = goldens.path
    if goldens.records[0].suite != "goldens":
        raise Refusal(
            f"{path}: is of the drift suite; name the evaluation of the goldens, its drift is found beside it"
        )
    beside = kept.drift_path(path)
    drift = kept.read(beside) if beside.exists() else None
    if drift is not None and drift.header.parents.get("model") != goldens.header.parents.get("model"):
        raise Refusal(
            f"{beside}: is of another model ({drift.records[0].model}) than {path.name} "
            f"({goldens.records[0].model}); measure the drift suite again: "
            f"`{calls.drift(loaded, goldens)}` after moving that file away"
        )
    return Side(goldens, drift)


def _own_parents(found: kept.Kept) -> dict[str, str]:
    return {
        name: digest
        for name, digest in found.header.parents.items()
        if name not in MAY_DIFFER and not name.endswith(pipeline.TRANSCRIPTS)
    }


def is_comparable(before: kept.Kept, after: kept.Kept) -> bool:
    """Tell whether two were measured on the same rows, with the same settings and graders."""
    ids = [{item.prompt_id for item in found.records[0].items} for found in (before, after)]
    return not artifact.changed_parents(_own_parents(before), _own_parents(after)) and ids[0] == ids[1]


def _check_comparable(loaded: LoadedBrief, before: kept.Kept, after: kept.Kept) -> None:
    if is_comparable(before, after):
        return
    changed = artifact.changed_parents(_own_parents(before), _own_parents(after))
    parts = _settings_words(before, after) if "sampling settings" in changed else ""
    raise Refusal(
        f"{after.path}: differs in {changed or 'the rows'}{parts} from {before.path}; measure them alike: "
        f"{in_turn(_made_alike(loaded, before, after, changed))}{scored_anew(changed, before.path)}"
    )


def _made_alike(loaded: LoadedBrief, before: kept.Kept, after: kept.Kept, changed: str) -> list[str]:
    """Return the calls after which two can be compared: the base's as the candidate's was, or both as of today."""
    if changed != "sampling settings" or before.records[0].suite == "drift":
        return calls.both(loaded, [before, after])
    name = calls.another_name(loaded.run_dir / "eval", before.path.stem)
    other = calls.name_in(loaded.run_dir, after.path)
    return [calls.alike(loaded, before, after), artifact.shell_line("compare", loaded.run_dir, name, other)]


def _settings_words(before: kept.Kept, after: kept.Kept) -> str:
    known = [found.header.settings for found in (before, after)]
    words = [
        f"{key} {known[1].get(key)} for {known[0].get(key)}"
        for key in known[0]
        if key not in (spots.KEY, calls.SERVER) and known[0].get(key) != known[1].get(key)
    ]
    return f" ({', '.join(words)})" if words else ""


def _transcripts(found: kept.Kept) -> dict[str, list[Sample]]:
    by_item: dict[str, list[Sample]] = {}
    try:
        for sample in kept.completions_of(found):
            by_item.setdefault(sample.prompt_id, []).append(sample)
    except Refusal:  # nobody asked for them; what needs them says so
        return {}
    return by_item


def _corrected(base: Evaluation, candidate: Evaluation) -> Sequence[str]:
    """Say what a judge's verdicts are worth where one graded; the comparison itself takes them as they are."""
    found = [one.corrected for one in (base, candidate)]
    if found[0] is None or found[1] is None:
        return []
    words = [f"{one.value:.3f} ({one.low:.3f} to {one.high:.3f})" for one in found if one is not None]
    return [f"a judge graded; corrected for its errors pass@1 is {words[0]} and {words[1]}"]
