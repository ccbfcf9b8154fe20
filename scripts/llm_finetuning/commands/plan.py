"""`finetune plan`: does this run fit its machine, with which smallest change does it, and how long will it take?"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import EXIT_DONE, EXIT_INSUFFICIENT, EXIT_NO, Refusal

if TYPE_CHECKING:
    from llm_finetuning.brief import LoadedBrief
    from llm_finetuning.recipes.config import Machine, RunConfig
    from llm_finetuning.sizing.forecast import Forecast
    from llm_finetuning.sizing.remedies import Attempt, Remedies

EXITS = {"fits": EXIT_DONE, "tight": EXIT_DONE, "does not fit": EXIT_NO, "unknown": EXIT_INSUFFICIENT}


class _Memory(click.FloatRange):
    """GiB, of which there can be neither an infinite number nor none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is no number of GiB", param, ctx)
        return found


_MEMORY = _Memory(min=0, max=1e6)


@click.command("plan", short_help="Say whether the run fits the machine")
@options.run_dir
@click.option(
    "--available",
    "available_gib",
    type=_MEMORY,
    metavar="GIB",
    help="Memory that is free on the device before the run.",
)
@click.option(
    "--host",
    "host_gib",
    type=_MEMORY,
    default=0.0,
    metavar="GIB",
    help="What shared memory and data workers take, where host and GPU have one memory (DGX Spark).",
)
@click.option("--calibrate", is_flag=True, help="Time a few steps of the model on this machine, and plan with them.")
@options.python
@options.as_json
def command(
    run_dir: Path,
    available_gib: float | None,
    host_gib: float,
    calibrate: bool,
    python: str | None,
    as_json: bool,
) -> int:
    """Write plan.json: memory and time of each phase of a step, from the model's config.json and the brief.

    No weights and no GPU are needed, but with --calibrate, which loads the model under the training interpreter. The
    machine is the brief's `hardware`. Where the run does not fit, it says which phase breaks and the smallest change of
    the brief that fits. Exit code 0 fits, 1 does not fit, 3 where card or model are not known.
    """
    import dataclasses

    from llm_finetuning.commands import status
    from llm_finetuning.sizing import plan_text

    plan = run(run_dir, available_gib=available_gib, host_gib=host_gib, calibrate=calibrate, python=python)
    if plan.verdict in ("fits", "tight"):
        plan = dataclasses.replace(plan, next_action=status.next_command(run_dir))
    console.finish(plan_text.lines_of(plan, run_dir), facts_of(plan, run_dir), as_json=as_json)
    return EXITS[plan.verdict]


def run(
    run_dir: Path,
    *,
    available_gib: float | None = None,
    host_gib: float = 0.0,
    calibrate: bool = False,
    python: str | None = None,
) -> Any:
    """Forecast the run, write plan.json and return the plan."""
    import dataclasses

    from llm_finetuning import artifact, brief
    from llm_finetuning.recipes import shapes

    loaded = brief.load(run_dir)
    machine = shapes.machine_of(loaded.brief.hardware)
    stated: dict[str, Any] = {"available_gib": available_gib, "host_gib": host_gib}
    plan = _planned(run_dir, loaded, machine, **stated, calibrate=calibrate, python=python)
    path = loaded.run_dir / "plan.json"
    settings = {"machine": dataclasses.asdict(machine), **stated}
    artifact.write_json(path, artifact.header_for(path, parents_of(loaded), settings), plan)
    return plan


def parents_of(loaded: "LoadedBrief") -> dict[str, str]:
    """Return what `plan.json` depends on besides the machine."""
    from llm_finetuning import artifact, lineage
    from llm_finetuning.sizing import situation
    from llm_finetuning.sizing.unknown import Unknown

    try:
        shape = artifact.digest_value(situation.config_of(loaded).values)
    except Unknown:
        shape = "absent"
    measured = [loaded.run_dir / name for name in ("audit.json", "samples.jsonl", "scores.jsonl")]
    rows = {} if loaded.brief.method == "grpo" else _rows_digest(loaded)
    return {
        **rows,
        **lineage.brief_part(loaded, "method", "model", "sampling", "training", "variant", "hardware"),
        "config.json of the model": shape,
        **{path.name: artifact.digest_file(path) if path.exists() else "absent" for path in measured},
    }


def _rows_digest(loaded: "LoadedBrief") -> dict[str, str]:
    """Return the parent entry of the rows whose lengths bound those of training."""
    from llm_finetuning import lineage

    try:
        return lineage.dataset_digest(loaded)
    except (OSError, Refusal):
        return {}


def fitted(
    loaded: "LoadedBrief", config: "RunConfig", machine: "Machine", longest_prompt: int | None
) -> "tuple[RunConfig, str]":
    """Return a config that is about to be built with vLLM's share of the card derived, and the verdict on it in a line.

    The memory that was stated to a current plan counts here too. Refuses one that cannot fit, where not even the lowest
    likely need does: what is merely likely not to fit is a note.
    """
    from llm_finetuning.sizing import forecast, remedies, situation
    from llm_finetuning.sizing.unknown import Unknown

    try:
        where = situation.situation_of(loaded, machine, longest_prompt=longest_prompt, **_stated(loaded))
        config = forecast.with_share(config, where, machine)
        now = forecast.of_config(config, where, machine)
    except Unknown as unknown:
        return config, f"memory not planned: {unknown}"
    words = f"memory: {now.verdict}: {_reason(now)}"
    if now.verdict != "does not fit":
        return config, words
    found = remedies.search(loaded, where, now).found
    mend = f"write {remedies.words_of(found.change)}" if found else "take a smaller model or more memory"
    if now.is_impossible and machine.gpus:
        raise Refusal(f"{loaded.run_dir / 'brief.yaml'}: {_reason(now)}; {mend}; `finetune plan` shows every part")
    return config, f"{words}; {mend}"


def current(loaded: "LoadedBrief") -> Any:
    """Return the artifact plan.json; refuses one that is not there, or was made from something else."""
    from llm_finetuning import artifact
    from llm_finetuning.types import Plan

    found = artifact.read_json(loaded.run_dir / "plan.json", Plan)
    artifact.check_parents(found.path, found.header, parents_of(loaded))
    return found


def _stated(loaded: "LoadedBrief") -> dict[str, Any]:
    """Return the memory that a person stated to a plan of what is there now."""
    try:
        header = current(loaded).header
    except Refusal:
        return {}
    return {name: header.settings[name] for name in ("available_gib", "host_gib") if name in header.settings}


def _planned(
    run_dir: Path,
    loaded: "LoadedBrief",
    machine: "Machine",
    *,
    available_gib: float | None,
    host_gib: float,
    calibrate: bool,
    python: str | None,
) -> Any:
    import dataclasses

    from llm_finetuning import artifact
    from llm_finetuning.sizing import forecast, remedies, situation, timing
    from llm_finetuning.sizing.unknown import Unknown

    longest, notes = _longest_prompt(loaded)
    flags = [*(["--available", f"{available_gib:g}"] if available_gib is not None else [])]
    flags += ["--host", f"{host_gib:g}"] if host_gib else []
    try:
        where = situation.situation_of(
            loaded, machine, longest_prompt=longest, available_gib=available_gib, host_gib=host_gib
        )
        now = forecast.forecast(loaded, where)
    except Unknown as unknown:
        return _unknown_plan(str(unknown), notes, artifact.shell_line("plan", run_dir, *flags))
    if host_gib and not where.device.unified and machine.gpus:
        notes = [*notes, "--host counts where host and GPU have one memory; on this card it changes nothing"]
    found = remedies.search(loaded, where, now) if now.verdict != "fits" else None
    plan = _plan(run_dir, now, found, notes, flags)
    time, measured, more = timing.time_of(run_dir, loaded, where, now, calibrate=calibrate, python=python)
    return dataclasses.replace(plan, time=time, calibrated=measured, notes=[*plan.notes, *more])


def _longest_prompt(loaded: "LoadedBrief") -> tuple[int | None, list[str]]:
    """Return the tokens of the longest prompt where an audit of what is there now counted them."""
    from llm_finetuning.building import measured

    try:
        return measured.longest_prompt(loaded), []
    except Refusal as refusal:
        return None, [f"the audit's prompt lengths are not used: {refusal.lines[0]}"]


def _unknown_plan(reason: str, notes: list[str], again: str) -> Any:
    from llm_finetuning.types import Plan

    return Plan(
        verdict="unknown",
        reason=reason,
        next_action=f"do what the reason asks for, then `{again}`",
        device={},
        needs=None,
        phases=[],
        engine=None,
        remedy=None,
        tried=[],
        notes=notes,
    )


def _plan(run_dir: Path, now: "Forecast", found: "Remedies | None", notes: list[str], flags: list[str]) -> Any:
    import dataclasses

    from llm_finetuning import artifact
    from llm_finetuning.sizing import remedies
    from llm_finetuning.types import Plan

    again = artifact.shell_line("plan", run_dir, *flags)
    remedy = found.found if found else None
    if now.verdict != "does not fit":
        action = artifact.shell_line("status", run_dir)
    elif remedy:
        action = f"write {remedies.words_of(remedy.change)} into brief.yaml, beside what stands there, then `{again}`"
    else:
        action = f"no change of the brief fits: name a smaller model or a larger machine, then `{again}`"
    needs = now.memory.device
    return Plan(
        verdict=now.verdict,
        reason=_reason(now),
        next_action=action,
        device=dataclasses.asdict(now.device),
        needs={"gib": needs.gib, "low": needs.low, "high": needs.high, "formula": needs.formula},
        phases=[
            {
                "name": phase.name,
                "gib": phase.gib,
                "low": phase.low,
                "high": phase.high,
                "breaks": phase.name in now.breaking,
                "parts": [dataclasses.asdict(part) for part in phase.parts],
            }
            for phase in now.memory.phases
        ],
        engine=_engine(now),
        layout=_layout(now),
        remedy=_attempt(remedy) if remedy else None,
        tried=[_attempt(one) for one in (found.tried if found else ())],
        notes=[*now.notes, *notes],
    )


def _reason(now: "Forecast") -> str:
    """Return what decides, in one line without its verdict."""
    if now.server is not None and now.server.starts is False:
        needed = sum(need.gib for need in now.server.needs)
        return f"the vLLM server needs {needed:.1f} GiB of each of its GPUs, more than its share of {now.device.name}"
    needs, peak = now.memory.device, now.memory.peak
    words = (
        f"{needs.gib:.1f} GiB ({needs.low:.1f} to {needs.high:.1f}) of {now.device.free_gib:.1f} on {now.device.name}, "
        f"most in its {peak.name} phase"
    )
    if now.verdict == "does not fit" and not now.is_impossible:
        words += "; its lower end fits, so that it may"
    return f"{now.memory.blocked}; {words}" if now.memory.blocked else words


def _layout(now: "Forecast") -> dict[str, Any]:
    """Return the batch and device layout as build will write it."""
    from llm_finetuning.recipes import shapes

    options = {name: option.value for name, option in now.config.trainer.items()}
    shape = now.config.shape
    sizes = ("per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation", "num_generations")
    return {
        "devices": list(shapes.device_plan(shape)),
        "processes": shape.processes,
        "sharding": shape.sharding,
        **{name: options[name] for name in sizes if options.get(name) is not None},
    }


def _engine(now: "Forecast") -> dict[str, Any] | None:
    import dataclasses

    pool = now.server or now.memory.pool
    if pool is None or now.share is None:
        return None
    return {
        "where": "GPUs of its own" if now.server else "the trainer's GPU",
        "utilization": None if now.server else now.job.rollout.utilization,
        "least": now.share.least,
        "ample": now.share.ample,
        "starts": pool.starts,
        "sequences": pool.sequences,
        "needs": [dataclasses.asdict(need) for need in pool.needs],
    }


def _attempt(attempt: "Attempt") -> dict[str, Any]:
    from llm_finetuning.sizing import remedies

    return {
        "change": dict(attempt.change),
        "added": attempt.added,
        "words": remedies.words_of(attempt.change),
        "costs": dict(zip(attempt.names, attempt.costs, strict=True)),
        "gib": attempt.gib,
        "verdict": attempt.verdict,
    }


def facts_of(plan: Any, run_dir: Path) -> dict[str, Any]:
    """Return the plan as `--json` prints it."""
    import dataclasses

    return {**dataclasses.asdict(plan), "wrote": str(run_dir / "plan.json")}
