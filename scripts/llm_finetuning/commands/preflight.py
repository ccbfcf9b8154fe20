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
    from llm_finetuning.types import Check


@click.command("preflight", short_help="Try on this machine what training needs")
@options.run_dir
@options.as_json
def command(run_dir: Path, as_json: bool) -> int:
    """Try each thing that training needs and write env-report.json: ready or not ready.

    Every check is run, also after one has failed. The sandbox check runs a known-good and a known-bad program through
    the pool that the reward itself uses. Exit code 0 ready, 1 not ready.
    """
    report = run(run_dir)
    mark = {"passed": "fine", "failed": "FAILED", "skipped": "skipped"}
    lines = [f"preflight: {report.verdict}", ""]
    lines += [f"  {mark[check.state]:<9}{check.name}: {check.text}" for check in report.checks]
    lines += ["", f"wrote: {run_dir / 'env-report.json'}", f"next: {report.next_action}"]
    console.finish(lines, facts_of(report, run_dir), as_json=as_json)
    return EXIT_DONE if report.verdict == "ready" else EXIT_NO


def run(run_dir: Path) -> Any:
    """Run every check, write env-report.json and return the report."""
    import contextlib
    import platform
    import sys

    from llm_finetuning import artifact, brief
    from llm_finetuning.stages import preflight as stage

    loaded = brief.load(run_dir)
    with contextlib.redirect_stdout(sys.stderr):  # a reward that prints must not spoil --json
        checks = [check for name, look in CHECKS.items() for check in look(loaded, name)]
    report = stage.judge(checks, ready_action=artifact.shell_line("status", run_dir))
    path = loaded.run_dir / "env-report.json"
    machine = {"system": platform.system(), "kernel": platform.release(), "python": platform.python_version()}
    artifact.write_json(path, artifact.header_for(path, parents_of(loaded), machine), report)
    return report


def parents_of(loaded: "LoadedBrief") -> dict[str, str]:
    """Return what `env-report.json` depends on besides the machine."""
    from llm_finetuning import lineage

    return lineage.brief_part(loaded, "dataset", "rewards")


def facts_of(report: Any, run_dir: Path) -> dict[str, Any]:
    """Return the report as `--json` prints it."""
    import dataclasses

    return {**dataclasses.asdict(report), "wrote": str(run_dir / "env-report.json")}


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


CHECKS: Mapping[str, "Callable[[LoadedBrief, str], list[Check]]"] = {
    "rewards": _rewards,
    "sandbox": _sandbox,
}
"""Every check, in the order of the report; each says for itself when it has nothing to look at."""
