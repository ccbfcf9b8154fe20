"""What `watch` shows of a run: its metrics now and over its course, its time, its last completions, its alarms.

Pure: a log, its diagnosis and how far the run is go in; records and lines of text come out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from llm_finetuning import console, live_metrics
from llm_finetuning.diagnosis.log import Completion, RunLog
from llm_finetuning.diagnosis.record import Diagnosis
from llm_finetuning.live_metrics import RECENT, Metric

SHOWN = 3  # completions
MOST_ROWS = 200  # lines that a log which grew by more is caught up with
LONGEST = 400  # characters of a completion that are shown
BLOCKS, DIGITS = "▁▂▃▄▅▆▇█", "0123456789"

WANTED = ("groups with signal", "length", "cut at the cap", "entropy", "KL", "tokens clipped", "step time, s")
"""What is said to be missing where the log has none of it."""

KINDS: Mapping[str, str] = {
    "failure": "alarm",
    "consequence": "follows",
    "watch": "watch",
    "sound": "no alarm",
    "undecided": "undecided",
}
"""Role of a finding -> the word that its line begins with."""

_COLOURS = {"alarm": "bold red", "advice": "bold", "follows": "yellow", "watch": "yellow", "no alarm": "green"}

_ROLLOUT = ("vLLM.generate", "transformers.generate", "transformers.generate_batch")
_SYNC = ("sync_weights",)
_REWARD = ("_calculate_rewards",)
_PROFILED = "profiling/Time taken: "


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Seconds of one optimizer step by what they go to; None where the log does not say."""

    whole: float | None
    rollout: float | None
    reward: float | None
    training: float | None  # what is left of the whole
    missing: tuple[str, ...]  # keys that the log lacks for the split


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """How far a run is, and whether it goes on."""

    state: Literal["running", "ended", "open"]  # open: a log of which nobody knows whether it grows
    step: float
    last_step: float | None = None  # of the whole run, where it is known
    seconds_left: float | None = None
    reason: str = ""  # why it ended
    doing: str = ""  # what it does beside steps


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that is shown of a run at one moment."""

    source: str
    reached: Reached
    metrics: tuple[Metric, ...]
    missing: tuple[str, ...]
    time: StepTime
    completions: tuple[Completion, ...]  # of the newest step that kept some
    diagnosis: Diagnosis | None  # None where no reward is logged: the rules are those of GRPO
    notes: tuple[str, ...] = ()
    has_steps: bool = True  # False before the first row of training


def view(
    log: RunLog,
    diagnosis: Diagnosis | None,
    reached: Reached,
    *,
    completions: Sequence[Completion] = (),
    profiled: Mapping[str, float] | None = None,
    draws: tuple[int, int] | None = None,
    notes: Sequence[str] = (),
) -> View:
    """Return what is shown of a log.

    `profiled` are seconds a call by the name of TRL's profiling key, `draws` the completions of an evaluation and those
    of one held-out row, where they are known.
    """
    import numpy as np

    with np.errstate(all="ignore"):  # means of numbers near the largest one are infinite, and shown as such
        metrics = live_metrics.of(log, draws)
    there = {metric.name for metric in metrics}
    newest = max((row.step for row in completions), default=0)
    return View(
        source=log.source,
        reached=reached,
        metrics=metrics,
        missing=tuple(name for name in WANTED if name not in there) if log.is_paid else (),
        time=_step_time(log, profiled or {}),
        completions=tuple(row for row in completions if row.step == newest),
        diagnosis=diagnosis,
        notes=(*notes, *live_metrics.about_held_out(log, draws)),
        has_steps=bool(len(log.steps)),
    )


def profiled_seconds(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean seconds of a call for each of TRL's profiling keys in the last rows, without its prefix.

    TRL hands `profiling/Time taken: GRPOTrainer.NAME` to wandb, MLflow and Trackio alone, in rows of their own.
    """
    held: dict[str, list[float]] = {}
    for row in rows:
        for key, value in row.items():
            bare = key.removeprefix("train/")
            if bare.startswith(_PROFILED) and isinstance(value, int | float) and math.isfinite(value):
                held.setdefault(bare.removeprefix(_PROFILED).partition(".")[2], []).append(float(value))
    return {name: sum(values[-RECENT:]) / len(values[-RECENT:]) for name, values in held.items()}


def course(values: Sequence[float], marks: str) -> str:
    """Return values as a line of marks, the lowest of which is the smallest value."""
    if not values:
        return ""
    parts = [value / 4 for value in values]  # the width of the largest numbers has no end
    low, wide = min(parts), max(parts) - min(parts)
    top = len(marks) - 1
    return "".join(marks[round((value - low) / wide * top) if wide > 0 else 0] for value in parts)


def head(found: View) -> str:
    """Return where a run stands in one line."""
    reached = found.reached
    of = f" of {reached.last_step:g}" if reached.last_step else ""
    words = [f"step {reached.step:g}{of}"]
    if not found.has_steps:
        words.append("no step has been taken yet")
    if reached.state == "ended":
        words.append(f"ended: {reached.reason}")
    elif reached.doing:
        left = f"about {console.duration(reached.seconds_left)} left" if reached.seconds_left is not None else ""
        words += filter(None, [reached.doing, left])
    elif reached.seconds_left is not None:
        words.append(f"about {console.duration(reached.seconds_left)} left")
    elif found.has_steps:
        words.append("time left is not known: the log names no last step" if not reached.last_step else "running")
    return f"{', '.join(words)}   {found.source}"


def alarms(found: View) -> list[tuple[str, str]]:
    """Return what the rules say, the verdict first: one of `KINDS` or `advice`, and the words."""
    diagnosis = found.diagnosis
    if diagnosis is None:
        return []
    lines = []
    for finding in diagnosis.findings:
        kind = KINDS[finding.role]
        since = f" from step {finding.since:g}" if finding.since is not None else ""
        lines.append((kind, f"{finding.code.replace('_', ' ')}{since}: {finding.text}"))
    if diagnosis.state == "failure":
        options = ", ".join(f"{name}={value}" for name, value in diagnosis.advice.options.items())
        lines.append(("advice", diagnosis.advice.change + (f" ({options})" if options else "")))
    return lines


def times(found: View) -> str:
    """Return the seconds of a step by what they go to, and which keys are missing for it."""
    time = found.time
    parts = [("rollout", time.rollout), ("reward", time.reward), ("training", time.training)]
    known = [
        f"{name} {console.duration(value)}{_share(value, time.whole)}" for name, value in parts if value is not None
    ]
    whole = f"step {console.duration(time.whole)}" if time.whole is not None else "step time is not known"
    missing = f"not in the log: {', '.join(time.missing)}" if time.missing else ""
    return "; ".join(filter(None, [f"{whole}: {', '.join(known)}" if known else whole, missing]))


def block(found: View) -> list[str]:
    """Return all that is shown as lines of ASCII beside what names and completions hold."""
    lines = [head(found), *(f"{kind}: {words}" for kind, words in alarms(found)), ""]
    wide = max((len(metric.name) for metric in found.metrics), default=0)
    if found.metrics:
        heads = "  ".join(f"{name:>9}" for name in ("now", f"last {RECENT}", f"first {RECENT}"))
        lines.append(f"{'':<{wide}}  {heads}  from the first step to now: 0 lowest, 9 highest")
    for metric in found.metrics:
        cells = "  ".join(f"{value:>9.3g}" for value in (metric.now, metric.recent, metric.first))
        lines.append(f"{metric.name:<{wide}}  {cells}  {course(metric.course, DIGITS)}")
    lines += [f"not in the log: {', '.join(found.missing)}"] if found.missing else []
    lines += [f"time: {times(found)}"] if found.has_steps else []
    for row in _different(found.completions):
        lines += ["", f"completion of step {row.step}, {paid(row)}:", f"  {flat(row.completion)}"]
    return [one_line(line) for line in [*lines, *(f"note: {note}" for note in found.notes)]]


def one_line(text: str) -> str:
    """Return text on one line, with its control characters shown: a component may have any name."""
    return console.visible(text.replace("\n", "\u240a").replace("\t", "\u2409"))


def rows_after(log: RunLog, step: float) -> list[tuple[float, str]]:
    """Return each row of a log from after a step, as its step and one line; of many the last `MOST_ROWS`."""
    import numpy as np

    places = np.flatnonzero(log.steps > step)[-MOST_ROWS:]
    columns = live_metrics.columns(log)
    found = []
    for place in places.tolist():
        words = [f"{name} {values[place]:.3g}" for name, values in columns if math.isfinite(values[place])]
        found.append((float(log.steps[place]), "; ".join([f"step {log.steps[place]:g}", *words])))
    return found


def paid(row: Completion) -> str:
    """Return what a completion was paid, by component."""
    return ", ".join(f"{name} {'nothing' if value is None else f'{value:.3g}'}" for name, value in row.rewards.items())


def flat(text: str) -> str:
    """Return a completion on one line, cut, with its control characters shown."""
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
    return console.visible(cut.replace("\r\n", "\n").replace("\n", " / "))


def screen(found: View, *, plain: bool) -> Any:
    """Return the view as something that rich draws; `plain` where the terminal shows ASCII alone."""
    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text

    # Text, never markup: a completion that holds [bold] or an escape sequence is shown, not obeyed.
    said = [Text(_for(f"{kind}: {words}", plain=plain), style=_COLOURS.get(kind, "")) for kind, words in alarms(found)]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("")
    for name in ("now", f"last {RECENT}", f"first {RECENT}"):
        table.add_column(name, justify="right")
    table.add_column("course", no_wrap=True)
    for metric in found.metrics:
        cells = [f"{value:.3g}" for value in (metric.now, metric.recent, metric.first)]
        table.add_row(Text(_for(metric.name, plain=plain)), *cells, course(metric.course, DIGITS if plain else BLOCKS))
    rows: list[RenderableType] = [Text(_for(head(found), plain=plain), style="bold"), *said, Text(""), table]
    rows += [Text(f"not in the log: {', '.join(found.missing)}", style="dim")] if found.missing else []
    rows += [Text(f"time: {times(found)}", style="dim")] if found.has_steps else []
    for row in _different(found.completions):
        rows += [
            Text(""),
            Text(_for(f"completion of step {row.step}, {paid(row)}", plain=plain), style="bold"),
            Text(_for(flat(row.completion), plain=plain)),
        ]
    return Group(*rows, *(Text(_for(f"note: {note}", plain=plain), style="dim") for note in found.notes))


def ascii_only(text: str) -> str:
    """Return text for a terminal that shows ASCII alone: every other letter as its escape."""
    return text.encode("ascii", "backslashreplace").decode("ascii")


def _different(rows: Sequence[Completion]) -> list[Completion]:
    """Return the first completions of a step whose texts differ."""
    return list({row.completion: row for row in reversed(rows)}.values())[::-1][:SHOWN]


def _for(text: str, *, plain: bool) -> str:
    shown = one_line(text)
    return ascii_only(shown) if plain else shown


def _step_time(log: RunLog, profiled: Mapping[str, float]) -> StepTime:
    """Return the split of a step, from the means of calls: a generation may serve several optimizer steps."""
    whole = live_metrics.recent(log, "step_time")
    if not log.is_paid:
        return StepTime(whole=whole, rollout=None, reward=None, training=None, missing=())
    rollout = _sum(profiled, _ROLLOUT)
    reward = _sum(profiled, _REWARD)
    served = _steps_a_generation(log)
    if rollout is not None:
        rollout = (rollout + (_sum(profiled, _SYNC) or 0.0)) / served
    reward = None if reward is None else reward / served
    training = None if whole is None or rollout is None or reward is None else max(0.0, whole - rollout - reward)
    missing = [] if whole is not None else ["step_time (TRL 0.26)"]
    if rollout is None:
        missing.append(f"{_PROFILED}GRPOTrainer.vLLM.generate or .transformers.generate")
    if reward is None:
        missing.append(f"{_PROFILED}GRPOTrainer._calculate_rewards")
    if rollout is None or reward is None:
        missing[-1] += " (TRL hands them to wandb, MLflow and Trackio alone)"
    return StepTime(whole=whole, rollout=rollout, reward=reward, training=training, missing=tuple(missing))


def _sum(profiled: Mapping[str, float], names: Sequence[str]) -> float | None:
    held = [profiled[name] for name in names if name in profiled]
    return sum(held) if held else None


def _steps_a_generation(log: RunLog) -> float:
    def option(name: str) -> float:
        value = log.options.get(name)
        return float(value) if isinstance(value, int | float) and value > 0 else 1.0

    accumulation = option("gradient_accumulation_steps")
    drawn = option("steps_per_generation") if "steps_per_generation" in log.options else accumulation
    return max(1.0, option("num_iterations") * drawn / accumulation)


def _share(part: float, whole: float | None) -> str:
    return f" ({part / whole:.0%})" if whole else ""
