"""What each artifact of a run was made from, as digests of what is there now."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from llm_finetuning import artifact, dataset, trl_options
from llm_finetuning.brief import FILE_NAME, LoadedBrief
from llm_finetuning.errors import Refusal
from llm_finetuning.findings.readings import standing_labels
from llm_finetuning.findings.success import for_run
from llm_finetuning.recipes import variants
from llm_finetuning.rewards import composition
from llm_finetuning.types import AuditReport, Build, GateReport, Label, ProbeReport, Sample, Score

OBJECTIVE_OPTIONS = ("scale_rewards", "multi_objective_aggregation")
"""Options of `training` that turn rewards into advantages."""


def brief_part(loaded: LoadedBrief, *keys: str) -> dict[str, str]:
    """Return a parent entry for each named key of the brief, so that editing another one makes nothing stale."""
    return {f"{key} of {FILE_NAME}": loaded.part_digest(key) for key in keys}


def dataset_digest(loaded: LoadedBrief) -> dict[str, str]:
    """Return the parent entry of the data set; a hub id stands for itself, since its rows are in the samples."""
    name = loaded.brief.dataset.path
    if not dataset.is_file(loaded):
        return {name: artifact.digest_value(name)}
    dataset.check_there(loaded)
    return {name: artifact.digest_file(loaded.resolve(name))}


MODEL_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)
"""Files of a model folder that decide how a prompt is rendered and where a completion ends."""

MODEL_PARENT = "model(template, tokenizer)"


def model_digest(loaded: LoadedBrief) -> dict[str, str]:
    """Return the parent entry of a local model: its template, tokenizer and end tokens; a hub id has none.

    Weights are left out, since reading them takes long; the engine records their names and sizes.
    """
    found = model_files(Path(loaded.model_source()))
    return {MODEL_PARENT: artifact.digest_value(found)} if found is not None else {}


def model_files(folder: Path) -> dict[str, str] | None:
    """Return the digest of each of `MODEL_FILES` that is there; None where this is no folder, as of a hub id."""
    if not folder.is_dir():
        return None
    return {name: artifact.digest_file(folder / name) for name in MODEL_FILES if (folder / name).is_file()}


AUDITED_SAMPLING = ("num_generations", "max_completion_length", "chat_template_kwargs", "engine")
AUDITED_TRAINING = (
    *trl_options.BATCH_OPTIONS,
    "remove_unused_columns",
    "mask_truncated_completions",
    "use_vllm",
    "vllm_max_model_length",
)
"""Options of the brief that decide what the audit finds."""


def of_audit(loaded: LoadedBrief) -> dict[str, str]:
    """Return what `audit.json` depends on, held-out rows included."""
    sampling = loaded.brief.sampling.model_dump(mode="json")
    options = {
        **{key: sampling[key] for key in AUDITED_SAMPLING},
        **{key: variants.training_of(loaded.brief).get(key) for key in AUDITED_TRAINING},
    }
    return {
        **brief_part(loaded, "model", "method", "dataset", "rewards", "hardware"),
        f"options of {FILE_NAME} that the audit reads": artifact.digest_value(options),
        **dataset_digest(loaded),
        **model_digest(loaded),
        **composition.source_digests(loaded, later=False),  # an audit pays nothing, so it needs no judge's record
        "held-out rows": _held_out_digest(loaded),
    }


def held_out(loaded: LoadedBrief) -> LoadedBrief:
    """Return the brief with its held-out rows in the data set's place; the caller knows that some are named."""
    dataset_brief = loaded.brief.dataset.model_copy(update={"path": loaded.brief.dataset.evaluation})
    brief = loaded.brief.model_copy(update={"dataset": dataset_brief})
    return LoadedBrief(brief, loaded.run_dir, loaded.frozen)


GRADERS = "evaluation.graders"


def graded(loaded: LoadedBrief) -> LoadedBrief:
    """Return the brief with its graders in the rewards' place; the caller knows that some are named."""
    brief = loaded.brief.model_copy(update={"rewards": loaded.brief.evaluation.graders})
    return LoadedBrief(brief, loaded.run_dir, loaded.frozen)


def of_grading(loaded: LoadedBrief, threshold: float) -> dict[str, str]:
    """Return what the numbers of an evaluation depend on besides its completions.

    What is wanted of a candidate (`evaluation.gain`, `evaluation.drift`) is no part of it, and an entry stands only
    for what the brief names: an evaluation from before the brief named graders stays what it was.
    """
    wanted = loaded.brief.evaluation
    parents = {"success threshold": artifact.digest_value(threshold)}
    if loaded.brief.rewards:
        parents.update({**brief_part(loaded, "rewards"), **composition.source_digests(loaded)})
    if wanted.graders:
        in_place = graded(loaded)
        parents.update(composition.source_digests(in_place))
        parents[f"{GRADERS} of {FILE_NAME}"] = in_place.part_digest("rewards")
    for key in ("bucket", "source"):
        if column := getattr(wanted, key):
            parents[f"evaluation.{key} of {FILE_NAME}"] = artifact.digest_value(column)
    return parents


def current_audit(loaded: LoadedBrief) -> AuditReport:
    """Return what the audit found in the data set, or refuse if it is stale."""
    path = loaded.run_dir / "audit.json"
    found = artifact.read_json(path, AuditReport)
    artifact.check_parents(path, found.header, of_audit(loaded))
    return found.records[0]


def of_samples(loaded: LoadedBrief) -> dict[str, str]:
    """Return what `samples.jsonl` depends on."""
    parts = brief_part(loaded, "model", "dataset", "sampling")
    return {**parts, **dataset_digest(loaded), **model_digest(loaded)}


def objective_options(loaded: LoadedBrief) -> dict[str, Any]:
    """Return the values of `OBJECTIVE_OPTIONS` that the brief or its variant sets; TRL takes true and false too."""
    training = variants.training_of(loaded.brief)
    given = {key: training[key] for key in OBJECTIVE_OPTIONS if key in training}
    if isinstance(given.get("scale_rewards"), bool):
        given["scale_rewards"] = "group" if given["scale_rewards"] else "none"
    return given


def of_scores(loaded: LoadedBrief) -> dict[str, str]:
    """Return what `scores.jsonl` depends on."""
    return {"samples.jsonl": artifact.digest_file(loaded.run_dir / "samples.jsonl"), **_of_objective(loaded)}


def _of_objective(loaded: LoadedBrief) -> dict[str, str]:
    training = variants.training_of(loaded.brief)
    options = {key: training.get(key) for key in (*OBJECTIVE_OPTIONS, *trl_options.BATCH_OPTIONS)}
    off_policy = variants.off_policy_of(variants.use_of(loaded.brief))
    if off_policy > 1:  # rewards are called with so many times as many completions
        options["off_policy"] = off_policy
    return {
        **brief_part(loaded, "rewards"),
        f"objective and batch options of {FILE_NAME}": artifact.digest_value(options),
        **composition.source_digests(loaded),
    }


def of_probe(loaded: LoadedBrief) -> dict[str, str]:
    """Return what `probe.json` depends on."""
    return {
        **of_scores(loaded),
        **brief_part(loaded, "model", "dataset", "sampling"),
        "scores.jsonl": artifact.digest_file(loaded.run_dir / "scores.jsonl"),
    }


PERSONS, DEMO_READER = "persons", "persons and the demo's program"
"""Whose labels a gate counted; part of the fingerprint, so that a demo's answer is no other run's."""


def of_gate(loaded: LoadedBrief, *, readers: str = PERSONS) -> dict[str, str]:
    """Return what `gate.json` depends on: its digest is the fingerprint."""
    return {
        **of_sources(loaded),
        "samples.jsonl": artifact.digest_file(loaded.run_dir / "samples.jsonl"),
        "scores.jsonl": artifact.digest_file(loaded.run_dir / "scores.jsonl"),
        "audit.json": _digest_or_absent(loaded.run_dir / "audit.json"),
        "probe.json": _digest_or_absent(loaded.run_dir / "probe.json"),
        "labels.jsonl": _digest_or_absent(loaded.run_dir / "labels.jsonl"),
        "readers": readers,
    }


GATE_RESTS_ON = ("samples.jsonl", "scores.jsonl", "audit.json", "probe.json", "labels.jsonl", "readers")
"""The parents of a gate that a built run does not carry with it; `of_sources` gives all others."""


def of_sources(loaded: LoadedBrief) -> dict[str, str]:
    """Return what a gate depends on besides artifacts: brief, data set, template and rewards.

    A frozen run holds all of it, so that the trainer computes it once more on another machine.
    """
    return {**of_samples(loaded), **_of_objective(loaded), **brief_part(loaded, "method", "gate")}


def open_gate(loaded: LoadedBrief, *, readers: str = PERSONS) -> GateReport:
    """Return the gate's report where the run may go on; refuses with the verb to run where it may not.

    It may where the gate is open, or a person overrode it, and all that was judged is still there as it was. A demo's
    answer opens nothing but the demo's own build, which names `readers=DEMO_READER`.
    """
    path = loaded.run_dir / "gate.json"
    found = artifact.read_json(path, GateReport)
    artifact.check_parents(path, found.header, of_gate(loaded, readers=found.header.parents.get("readers", "")))
    return gate_that_opens(found, readers=readers, again=f"run `{artifact.shell_line('gate', loaded.run_dir)}`")


def gate_that_opens(found: artifact.Artifact[GateReport], *, readers: str, again: str) -> GateReport:
    """Return the report in a gate.json that lets its run go on; refuses one that does not, whatever is there now.

    `again` is the mending half of a refusal that asks for another gate.
    """
    report = found.records[0]
    if found.header.parents.get("readers") not in (PERSONS, readers):
        raise Refusal(f"{found.path}: counts for the demo alone; let a person read, then {again}")
    if artifact.digest_value(found.header.parents) != report.fingerprint:
        raise Refusal(f"{found.path}: its fingerprint is not that of what it names; {again}")
    if report.verdict != "open" and not is_overridden(report):
        folder = found.path.parent.parent if found.path.parent.name == "train" else found.path.parent
        action = for_run(report.next_action, str(folder))
        raise Refusal(f"{found.path}: the gate is not open ({report.verdict}): {action}")
    return report


def of_build(loaded: LoadedBrief) -> dict[str, str]:
    """Return what `train/build.json` depends on."""
    parts = brief_part(loaded, "method", "model", "dataset", "training", "variant", "hardware")
    if loaded.brief.method == "grpo":
        parts.update(of_sources(loaded))
        parts["gate.json"] = _digest_or_absent(loaded.run_dir / "gate.json")
    else:
        parts.update({**dataset_digest(loaded), **model_digest(loaded)})
    return {**parts, "held-out rows": _held_out_digest(loaded)}


def _held_out_digest(loaded: LoadedBrief) -> str:
    named = loaded.brief.dataset.evaluation is not None
    return artifact.digest_value(dataset_digest(held_out(loaded)) if named else None)


def current_build(loaded: LoadedBrief, *, demo: bool = False) -> Build:
    """Return what was built where it may be trained on; refuses with the verb to run where it may not.

    What stands in the built folder is not looked at: its train.py does that, wherever the folder is by then.
    """
    path = loaded.run_dir / "train" / "build.json"
    found = artifact.read_json(path, Build)
    if loaded.brief.method == "grpo":
        open_gate(loaded, readers=DEMO_READER if demo else PERSONS)
    artifact.check_parents(path, found.header, of_build(loaded))
    return found.records[0]


def is_overridden(report: GateReport) -> bool:
    """Tell whether a person's override speaks of the state that this report judged."""
    return any(override.fingerprint == report.fingerprint for override in report.overrides)


def _digest_or_absent(path: Path) -> str:
    return artifact.digest_file(path) if path.exists() else "absent"


def complete_samples(loaded: LoadedBrief, *, without: Sequence[str] = ()) -> artifact.Artifact[Sample]:
    """Return the samples (the fields named in `without` as None), or refuse if they are stale or not all there.

    They come as they are scored, the policy pass first and group after group; in the file they stand as an engine gave
    them, and a server answers in any order.
    """
    path = loaded.run_dir / "samples.jsonl"
    found = artifact.read_lines(path, Sample, without=without)
    artifact.check_parents(path, found.header, of_samples(loaded))
    expected = found.header.settings.get("expected")
    if not isinstance(expected, int) or expected < 1:
        raise Refusal(f"{path}:1: the header does not say how many samples belong here; {begin_anew(loaded.run_dir)}")
    if len({sample.sample_id for sample in found.records}) != len(found.records):
        raise Refusal(f"{path}: a sample stands in it twice; {begin_anew(loaded.run_dir)}")
    if len(found.records) != expected:
        again = artifact.shell_line("sample", loaded.run_dir)
        raise Refusal(f"{path}: holds {len(found.records)} of {expected} samples; run `{again}` to continue")
    first: dict[tuple[str, str], int] = {}
    for sample in found.records:
        first.setdefault((sample.pass_name, sample.prompt_id), len(first))
    found.records.sort(key=lambda one: (one.pass_name != "policy", first[one.pass_name, one.prompt_id], one.index))
    return found


def begin_anew(run_dir: Path) -> str:
    """Return the mending half of a refusal of samples that cannot be gone on with."""
    return f"`{artifact.shell_line('sample', run_dir, '--fresh')}` sets it aside and begins anew"


def columns_of(samples: list[Sample]) -> list[str]:
    """Return the columns that rewards are handed for these samples."""
    return list(dict.fromkeys(key for sample in samples for key in sample.columns))


def current_scores(loaded: LoadedBrief, samples: list[Sample]) -> list[Score]:
    """Return the scores, or refuse if they are stale or not exactly those of the samples."""
    path = loaded.run_dir / "scores.jsonl"
    scores = artifact.read_lines(path, Score)
    artifact.check_parents(path, scores.header, of_scores(loaded))
    if [score.sample_id for score in scores.records] != [sample.sample_id for sample in samples]:
        again = artifact.shell_line("score", loaded.run_dir)
        raise Refusal(f"{path}: does not hold one score for each sample; run `{again}`")
    return scores.records


def current_probe(loaded: LoadedBrief) -> ProbeReport:
    """Return what the reward did under attack, or refuse if it is stale."""
    path = loaded.run_dir / "probe.json"
    found = artifact.read_json(path, ProbeReport)
    artifact.check_parents(path, found.header, of_probe(loaded))
    return found.records[0]


def labels(loaded: LoadedBrief) -> list[Label]:
    """Return every label of the run; none when nobody has read yet."""
    path = loaded.run_dir / "labels.jsonl"
    return artifact.read_lines(path, Label).records if path.exists() else []


def judged(samples: list[Sample], found: list[Label]) -> set[str]:
    """Return the policy samples on which a person's label stands: accept or reject, of what is there now."""
    seen = seen_digests(sample for sample in samples if sample.pass_name == "policy")
    return {
        label.sample_id
        for label in standing_labels(found, seen)
        if label.reader_kind == "person" and label.verdict != "unsure"
    }


def seen_digests(samples: Iterable[Sample]) -> dict[str, str]:
    """Return, by sample, the digest of what a reader has on screen: a label of another does not stand."""
    return {sample.sample_id: seen_digest(sample) for sample in samples}


def seen_digest(sample: Sample) -> str:
    """Return the digest of what a reader of this sample has on screen."""
    shown = {"prompt": sample.prompt, "answer": sample.columns.get("answer"), "completion": sample.completion}
    return artifact.digest_value(shown)
