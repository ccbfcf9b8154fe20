"""`finetune build`: a folder that trains this run on another machine, with its requirements alone."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import Refusal

if TYPE_CHECKING:
    from llm_finetuning.brief import LoadedBrief
    from llm_finetuning.recipes.config import Measured, RunConfig

CHECK_NEEDS = ("torch", "trl")
TABLE_NEEDS = ("datasets",)
STARTED_WITH = (".sh", ".slurm", ".txt")
"""Endings of the files that a person may adapt to a machine: how the run is installed and started."""


@click.command("build", short_help="Write a folder that trains this run anywhere")
@options.run_dir
@options.python
@click.option(
    "--check/--no-check",
    default=None,
    help="Construct the config under the installed TRL; where an interpreter with TRL is at hand when left out.",
)
@options.as_json
def command(run_dir: Path, python: str | None, check: bool | None, as_json: bool) -> int:
    """Write RUN_DIR/train: train.py, a config with a reason beside each option, rewards, data, gate and launch files.

    Method grpo needs an open gate. Training itself refuses when a file in the folder, or what the gate judged, is not
    what it was. --check also installs TRL where the environment is ours; --no-check builds without torch for another
    machine. Built again, the folder keeps what its run left where nothing that training depends on changed; otherwise
    it is set aside as train.1, train.2 and so on. Exit code 0 built, 2 refused, with every fault at once.
    """
    facts = run(run_dir, python=python, check=check)
    console.finish(lines_of(facts), facts, as_json=as_json)
    return 0


def run(run_dir: Path, *, python: str | None = None, check: bool | None = None, demo: bool = False) -> dict[str, Any]:
    """Build the run and return its facts; `demo` lets the demo's own gate count."""
    from llm_finetuning import as_given

    with as_given.refusals(run_dir):
        facts = _run(run_dir, python=python, check=check, demo=demo)
    return {**facts, "notes": [as_given.said(note, run_dir) for note in facts["notes"]]}


def _run(run_dir: Path, *, python: str | None, check: bool | None, demo: bool) -> dict[str, Any]:
    from llm_finetuning import artifact, brief, lineage, recipes
    from llm_finetuning.building import launch_files, placement
    from llm_finetuning.commands import plan
    from llm_finetuning.recipes import shapes
    from llm_finetuning.training_run import TrainingRun

    loaded = brief.load(run_dir)
    train = run_dir / "train"
    if TrainingRun(train).is_running():
        stop = artifact.shell_line("train", run_dir, "--stop")
        raise Refusal(f"{train}: it trains at this moment; let it end, or stop it with `{stop}`")
    parents = lineage.of_build(loaded)
    measured = _measured(loaded, demo=demo)
    lines, held_out = _rows(loaded, python)
    machine = shapes.machine_of(loaded.brief.hardware)
    config = recipes.config_for(loaded, machine, len(lines), measured=measured)
    _check_lengths(loaded, config, measured.longest_prompt)
    config, memory = plan.fitted(loaded, config, machine, measured.longest_prompt)
    checked = [*_audit_notes(loaded), *_checked(loaded, config, python, check=check), memory]
    launch = launch_files.files_for(config)
    with placement.draft(loaded.run_dir) as folder:
        frozen = _fill(loaded, folder, config, lines, held_out, launch)
        _prove(loaded, folder, frozen, lines)
        if changed := _changed(parents, lineage.of_build(loaded)):
            raise Refusal(f"{run_dir}: {changed} changed while it was built; build again")
        record = _record(loaded, folder, config, frozen, rows=len(lines), notes=checked, demo=demo)
        _write_record(loaded, folder, parents, record)
        moved = placement.put(folder, train, record)
    return _facts(run_dir, config, len(lines), [*checked, *([moved] if moved else [])])


def _rows(loaded: "LoadedBrief", python: str | None) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
    """Return the lines of the training file and of the held-out one; None where the brief names no held-out rows."""
    from llm_finetuning import dataset, environment, lineage
    from llm_finetuning.building import rows

    def lines_of(part: "LoadedBrief") -> list[dict[str, Any]]:
        reader = None
        if dataset.needs_program(part):
            reader = environment.training_python(python or part.brief.environment, TABLE_NEEDS)
        found = dataset.read_rows(part, python=reader)
        return rows.training_rows(part.brief.method, found, dataset.source_name(part))

    named = loaded.brief.dataset.evaluation is not None
    return lines_of(loaded), lines_of(lineage.held_out(loaded)) if named else None


def _measured(loaded: "LoadedBrief", *, demo: bool) -> "Measured":
    """Return what was seen so far; refuses, where the method has a gate, one that is not open."""
    from llm_finetuning import artifact, lineage
    from llm_finetuning.building import measured
    from llm_finetuning.commands import status
    from llm_finetuning.recipes.config import Measured

    if loaded.brief.method != "grpo":
        return Measured(longest_prompt=measured.longest_prompt(loaded))
    try:
        report = lineage.open_gate(loaded, readers=lineage.DEMO_READER if demo else lineage.PERSONS)
    except artifact.Stale as stale:
        raise status.from_the_first(loaded.run_dir, stale) from None
    return measured.of_gate(loaded, report)


def _audit_notes(loaded: "LoadedBrief") -> list[str]:
    from llm_finetuning.building import measured

    return [] if loaded.brief.method == "grpo" else [measured.audit_note(loaded)]


def _check_lengths(loaded: "LoadedBrief", config: "RunConfig", longest: int | None) -> None:
    """Refuse prompts that `max_length` would cut the answer from; GRPO cuts none, its recipe fits vLLM's window."""
    option = config.trainer.get("max_length")
    if longest is not None and option is not None and option.value is not None and longest >= int(option.value):
        raise Refusal(
            f"{loaded.brief.dataset.path}: the longest prompt has {longest} tokens and training.max_length is "
            f"{option.value}, which leaves nothing of its answer; raise it above {longest}, or take long rows out"
        )


def _checked(loaded: "LoadedBrief", config: "RunConfig", python: str | None, *, check: bool | None) -> list[str]:
    """Construct the config under the installed TRL where that is wanted, and return the notes of recipe and check."""
    from llm_finetuning import environment, interpreter
    from llm_finetuning.building import check_config

    notes = list(config.notes)
    if check is False:
        return [*notes, "not checked under an installed TRL, as --no-check asks"]
    named = python or loaded.brief.environment
    if check or named is not None:
        program: str | None = environment.training_python(named, CHECK_NEEDS)
    else:
        program = interpreter.at_hand(None, CHECK_NEEDS)
    if program is None:
        return [*notes, "not checked under an installed TRL: none is at hand; --check or --python PATH does it"]
    return [*notes, *check_config.check(config, program), f"checked under the TRL of {program}"]


def _fill(
    loaded: "LoadedBrief",
    folder: Path,
    config: "RunConfig",
    lines: list[dict[str, Any]],
    held_out: list[dict[str, Any]] | None,
    launch: Mapping[str, str],
) -> dict[str, str]:
    """Write everything but the record into the folder; return where the files that the brief names lie in it."""
    from llm_finetuning import brief
    from llm_finetuning.building import config_text, freeze, requirements

    frozen = freeze.freeze(loaded, folder, lines, held_out)
    for name in (brief.FILE_NAME, *(["gate.json"] if loaded.brief.method == "grpo" else [])):
        freeze.copy(loaded.run_dir / name, folder / name)
    texts = {
        "config.yaml": config_text.text_of(config),
        "requirements.txt": requirements.text_of(config, freeze.package_files(loaded)),
        **launch,
    }
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
        if name.endswith(".sh"):
            (folder / name).chmod(0o755)
    return frozen


def _prove(loaded: "LoadedBrief", folder: Path, frozen: dict[str, str], lines: list[dict[str, Any]]) -> None:
    """Refuse rewards that do not work, or are not the same, where only what was frozen is there."""
    import sys

    from llm_finetuning import brief, lineage
    from llm_finetuning.rewards import composition

    parsed = brief.parse((folder / brief.FILE_NAME).read_text("utf-8-sig"), folder / brief.FILE_NAME)
    copied = brief.LoadedBrief(parsed, folder, frozen)
    before, after = composition.source_digests(loaded), composition.source_digests(copied)
    if changed := _changed({**before, **lineage.dataset_digest(loaded)}, {**after, **lineage.dataset_digest(copied)}):
        raise Refusal(f"{loaded.run_dir}: {changed} is another file in train/ than in the run; build again")
    columns = list(dict.fromkeys(name for row in lines for name in row if name != "prompt"))
    try:
        with contextlib.redirect_stdout(sys.stderr):  # a reward that prints must not spoil --json
            composition.compose(copied, columns)
    except Refusal as refusal:
        words = "; a reward that reads other files names them under `files:`, and is not to import by computed names"
        raise Refusal(
            *(line.replace(str(folder), f"{loaded.run_dir}/train") + words for line in refusal.lines)
        ) from None


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    from llm_finetuning import artifact

    return artifact.changed_parents(before, now)


def _record(
    loaded: "LoadedBrief",
    folder: Path,
    config: "RunConfig",
    frozen: dict[str, str],
    *,
    rows: int,
    notes: list[str],
    demo: bool,
) -> Any:
    import dataclasses

    from llm_finetuning import lineage
    from llm_finetuning.building import config_text, freeze
    from llm_finetuning.types import Build

    digests = freeze.digests(folder)
    launch = {name: digest for name, digest in digests.items() if "/" not in name and name.endswith(STARTED_WITH)}
    return Build(
        method=config.method,
        files={name: digest for name, digest in digests.items() if name not in launch},
        launch=launch,
        frozen=frozen,
        model_files=lineage.model_files(Path(loaded.model_source())),
        shape=config_text.listed(dataclasses.asdict(config.shape)),
        rows=rows,
        notes=notes,
        demo=demo,
    )


def _write_record(loaded: "LoadedBrief", folder: Path, parents: dict[str, str], record: Any) -> None:
    from llm_finetuning import artifact

    path = loaded.run_dir / "train/build.json"
    artifact.write_json(folder / path.name, artifact.header_for(path, parents), record)


def _facts(run_dir: Path, config: "RunConfig", rows: int, notes: list[str]) -> dict[str, Any]:
    import dataclasses

    from llm_finetuning import artifact
    from llm_finetuning.building.steps import steps_of
    from llm_finetuning.commands import status
    from llm_finetuning.recipes import shapes
    from llm_finetuning.training_run import TrainingRun

    done = TrainingRun(run_dir / "train").is_finished()  # the same build again, which keeps what its run left
    length = steps_of(config, rows)
    return {
        "wrote": str(run_dir / "train"),
        "method": config.method,
        "shape": dataclasses.asdict(config.shape),
        "devices": list(shapes.device_plan(config.shape)),
        "rows": rows,
        "steps": length.total,
        "rows_a_step": length.rows_a_step,
        "notes": notes,
        "next": status.next_command(run_dir) if done else artifact.shell_line("train", run_dir),
    }


def lines_of(facts: dict[str, Any]) -> list[str]:
    """Return the facts as a person reads them in a terminal."""
    length = f"{facts['rows_a_step']:g} {'prompts' if facts['method'] == 'grpo' else 'rows'} a step"
    return [
        f"build: {facts['method']} on {facts['rows']} rows, {length}; steps: {facts['steps']}",
        *(f"  {line}" for line in facts["devices"]),
        *(f"  note: {note}" for note in facts["notes"]),
        "",
        f"wrote: {facts['wrote']}",
        f"next: {facts['next']}",
    ]
