"""`finetune preflight`: can this machine do what training will ask of it?"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import EXIT_DONE, EXIT_NO, Refusal, Stop

if TYPE_CHECKING:
    from llm_finetuning.brief import LoadedBrief
    from llm_finetuning.machine.facts import Facts
    from llm_finetuning.machine.needs import Needs, Planned
    from llm_finetuning.types import Check


MARKS = {"passed": "fine", "warning": "WARNING", "failed": "FAILED", "skipped": "skipped"}

MACHINE_OPTIONS = (
    "adapter",
    "bf16",
    "dataloader_num_workers",
    "deepspeed",
    "fp16",
    "fsdp",
    "model_init_kwargs",
    "optim",
    "save_total_limit",
    "use_vllm",
    "vllm_enable_sleep_mode",
    "vllm_group_port",
    "vllm_mode",
    "vllm_server_port",
    "vllm_tensor_parallel_size",
)
"""Options of the brief's `training` that decide what the run asks of a machine."""


@click.command("preflight", short_help="Try on this machine what training needs")
@options.run_dir
@options.python
@options.as_json
def command(run_dir: Path, python: str | None, as_json: bool) -> int:
    """Try each thing that training needs and write env-report.json: ready, ready-with-warnings or blocked.

    GPU and driver, the training interpreter and its packages, memory, disk, ports, model and rows are looked at, and
    the rewards and the sandbox tried. Every check is run, also after one has failed; nothing is installed or changed.
    Where the brief's `hardware` is another machine, what concerns its GPU is skipped. Exit code 0 ready, with or
    without warnings, 1 blocked.
    """
    import dataclasses

    from llm_finetuning.commands import status

    report = run(run_dir, python=python)
    if report.verdict != "blocked":
        report = dataclasses.replace(report, next_action=status.next_command(run_dir))
    console.finish(lines_of(report, run_dir), facts_of(report, run_dir), as_json=as_json)
    return EXIT_NO if report.verdict == "blocked" else EXIT_DONE


def run(run_dir: Path, *, python: str | None = None) -> Any:
    """Run every check, write env-report.json and return the report."""
    import contextlib
    import dataclasses
    import sys

    from llm_finetuning import artifact, brief
    from llm_finetuning.machine import checks as machine_checks
    from llm_finetuning.stages import preflight as stage

    loaded = brief.load(run_dir)
    facts, needs = look(loaded, python)
    checks = machine_checks.run(facts, needs)
    with contextlib.redirect_stdout(sys.stderr):  # a reward that prints must not spoil --json
        checks += [check for name, tried in TRIALS.items() for check in tried(loaded, name)]
    report = stage.judge(checks, dataclasses.asdict(facts), ready_action=artifact.shell_line("status", run_dir))
    path = loaded.run_dir / "env-report.json"
    settings = {"system": facts.system, "kernel": facts.release, "python": python}
    artifact.write_json(path, artifact.header_for(path, parents_of(loaded), settings), report)
    return report


def look(loaded: "LoadedBrief", python: str | None) -> "tuple[Facts, Needs]":
    """Read this machine, and what the run asks of it."""
    import dataclasses

    from llm_finetuning.machine import driver, needs, reading

    found = driver.read()
    asked = needs.of(loaded, found[1], broken_driver=found[0].fault is not None)
    plan, why = _planned(loaded)
    asked = dataclasses.replace(asked, plan=plan, plan_fault=why)
    interpreter = reading.asked(python or loaded.brief.environment, devices=asked.on_gpu and bool(found[1]))
    return reading.read(loaded, interpreter, found, asked.ports), asked


def parents_of(loaded: "LoadedBrief") -> dict[str, str]:
    """Return what `env-report.json` depends on besides the machine."""
    from llm_finetuning import artifact, lineage
    from llm_finetuning.brief import FILE_NAME

    given = {name: loaded.brief.training.get(name) for name in MACHINE_OPTIONS}
    return {
        **lineage.brief_part(loaded, "method", "model", "dataset", "rewards", "hardware", "environment"),
        f"options of {FILE_NAME} that decide what a run asks of a machine": artifact.digest_value(given),
    }


def lines_of(report: Any, run_dir: Path) -> list[str]:
    """Return the report as text: what is to be done stands under its check, and what was skipped comes last."""
    lines = [f"preflight: {report.verdict}", ""]
    skipped: dict[str, list[str]] = {}
    for check in report.checks:
        if check.state == "skipped":
            skipped.setdefault(check.text, []).append(check.name)
            continue
        lines.append(f"  {MARKS[check.state]:<9}{check.name}: {check.text}")
        if check.next_action:
            lines.append(f"  {'':<9}  -> {check.next_action}")
    lines += [f"  {MARKS['skipped']:<9}{', '.join(names)}: {why}" for why, names in skipped.items()]
    return [*lines, "", f"wrote: {run_dir / 'env-report.json'}", f"next: {report.next_action}"]


def facts_of(report: Any, run_dir: Path) -> dict[str, Any]:
    """Return the report as `--json` prints it."""
    import dataclasses

    return {**dataclasses.asdict(report), "wrote": str(run_dir / "env-report.json")}


def _planned(loaded: "LoadedBrief") -> "tuple[Planned | None, str | None]":
    """Return what a current plan.json says of the device, or why there is nothing to hold the memory against."""
    from llm_finetuning import artifact
    from llm_finetuning.commands import plan
    from llm_finetuning.machine.needs import Planned

    written = loaded.run_dir / "plan.json"
    if not written.exists():
        return None, f"no plan.json yet; `{artifact.shell_line('plan', loaded.run_dir)}` writes it"
    try:
        (record,) = plan.current(loaded).records
    except Refusal as refusal:
        return None, refusal.lines[0]
    if record.needs is None:
        return None, f"the plan knows no need: {record.reason}"
    remedy = record.remedy["words"] if record.remedy else None
    needs = record.needs
    return Planned(gib=needs["gib"], low=needs["low"], high=needs["high"], remedy=remedy), None


def _rewards(loaded: "LoadedBrief", name: str) -> "list[Check]":
    """Import every reward of the brief and hold its signature against the columns that it will be handed."""
    from llm_finetuning.rewards import composition
    from llm_finetuning.types import Check

    try:
        columns = _columns(loaded)
    except Refusal as refusal:
        return [Check(name=name, state="failed", text=line, next_action=line) for line in refusal.lines]
    if columns is None:
        text = "the columns that rewards get are known once samples are drawn"
        return [Check(name=name, state="skipped", text=text)]
    try:
        components = composition.compose(loaded, columns)
    except Stop as stop:
        return [Check(name=name, state="failed", text=line, next_action=line) for line in stop.lines]
    named = ", ".join(component.name for component in components) or "none in the brief"
    return [Check(name=name, state="passed", text=f"import and take the data set's columns: {named}")]


def _columns(loaded: "LoadedBrief") -> list[str] | None:
    """Return the columns that rewards are handed, from the samples or from a data set read here; None for neither."""
    from llm_finetuning import artifact, dataset, lineage
    from llm_finetuning.types import Sample

    drawn = loaded.run_dir / "samples.jsonl"
    if drawn.exists():
        return lineage.columns_of(artifact.read_lines(drawn, Sample).records)
    return None if dataset.needs_program(loaded) else list(dataset.read_rows(loaded)[0].columns)


def _sandbox(loaded: "LoadedBrief", name: str) -> "list[Check]":
    """Run a known-good and a known-bad program as the reward `unit_tests` will run those of the model."""
    from llm_finetuning.types import Check

    wanted = [reward for reward in loaded.brief.rewards if reward.use == "unit_tests"]
    if not wanted:
        return [Check(name=name, state="skipped", text="no reward of the brief runs programs")]
    return [_tried(f"{name}[{reward.name}]" if reward.name else name, reward.options) for reward in wanted]


def _tried(name: str, reward_options: Mapping[str, Any]) -> "Check":
    import time

    from llm_finetuning.rewards.unit_tests import UnitTests
    from llm_finetuning.types import Check

    try:
        reward = UnitTests(**reward_options)
        level = reward.ready()
        begun = time.perf_counter()
        good, bad = reward.rehearse()
    except (TypeError, ValueError) as error:
        text = f"options of `unit_tests`: {error}"
        return Check(name=name, state="failed", text=text, next_action=f"correct the {text}")
    except Stop as stop:
        return Check(name=name, state="failed", text=stop.lines[0], next_action=stop.lines[-1])
    seconds = time.perf_counter() - begun
    said = f"level {level}: known-good {good.status}, known-bad {bad.status}, {seconds:.2f} s"
    if good.status == "passed" and bad.status not in ("passed", "infrastructure"):
        return Check(name=name, state="passed", text=said)
    words = "; ".join(part for part in (said, good.detail, bad.detail) if part)
    return Check(name=name, state="failed", text=words, next_action=f"do not train: the sandbox misjudges ({words})")


TRIALS: Mapping[str, "Callable[[LoadedBrief, str], list[Check]]"] = {
    "rewards": _rewards,
    "sandbox": _sandbox,
}
"""What is tried with the run's own rewards, after the checks of `machine.checks`."""
