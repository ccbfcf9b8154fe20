"""What `plan` says of a run's time: with the rates of its card, with those that were measured, or that nobody knows."""

from pathlib import Path
from typing import Any

from llm_finetuning import artifact, environment
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.sizing import calibrated, duration, observed
from llm_finetuning.sizing.forecast import Forecast, Situation
from llm_finetuning.sizing.observed import Observed
from llm_finetuning.sizing.unknown import Unknown


def time_of(
    run_dir: Path,
    loaded: LoadedBrief,
    where: Situation,
    now: Forecast,
    *,
    calibrate: bool,
    python: str | None,
) -> tuple[dict[str, Any] | None, dict[str, Any] | None, list[str]]:
    """Return the time of the run, what was measured on the machine for it, and notes."""
    measured = calibrated.kept(loaded)
    if calibrate:
        interpreter = environment.training_python(python or loaded.brief.environment, calibrated.needs(now))
        measured = calibrated.measure(loaded, now, interpreter)
    words, known = "", None
    try:
        known = duration.rates_for(now.machine)
    except Unknown as unknown:
        words = str(unknown)
    rates = calibrated.rates_from(measured, where.model, now.job, known) if measured else known
    seen = observed.observed(loaded)
    if rates is None:
        return None, None, _untimed(run_dir, now, seen, words)
    found = duration.timed(now, where.model, seen, rates)
    return duration.facts(found), measured, [*found.notes, *_left_out(now)]


def _untimed(run_dir: Path, now: Forecast, seen: Observed, why: str) -> list[str]:
    """Return the run's length in steps, which no speed is needed for, and what measures how long they take."""
    notes: list[str] = []
    steps = duration.length_of(now, seen, notes)
    measuring = artifact.shell_line("plan", run_dir, "--calibrate")
    length = "" if not steps else f"{steps} steps; "
    return [*notes, f"{length}time is not known: {why}; `{measuring}` measures it on the machine that trains"]


def _left_out(now: Forecast) -> list[str]:
    """Return that the trainer's evaluations are not in the times, where it makes any."""
    options = {name: option.value for name, option in now.config.trainer.items()}
    if options.get("eval_strategy") not in ("steps", "epoch"):
        return []
    every = options.get("eval_steps")
    often = "one an epoch" if options["eval_strategy"] == "epoch" else "one at each evaluation step"
    if options["eval_strategy"] == "steps" and isinstance(every, int) and every >= 1:
        often = f"one every {every} steps" if every > 1 else "one each step"
    first = ", and one before the first step" if options.get("eval_on_start") else ""
    return [f"held-out evaluations while it trains are not in these times: {often}{first}"]
