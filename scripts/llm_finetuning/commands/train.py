"""`finetune train`: start the built run in the background, follow it, stop it."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import EXIT_DONE, MachineryFailure, Refusal

if TYPE_CHECKING:
    import subprocess

    from llm_finetuning.training_run import TrainingRun

EARLY_S = 10.0  # a start that fails does so soon; after this the command leaves it alone
STOP_WAIT_S = 600.0  # a step and a checkpoint of a large model take minutes
POLL_S = 0.2
TELL_EVERY_S = 30.0  # while a run that was asked to stop goes on

LOGGED = (("reward", "reward"), ("eval_reward", "held-out reward"), ("loss", "loss"))
"""Metrics of a log that are told, with their names for a person."""

NEEDS = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")


@click.command("train", short_help="Start the built run in the background, or stop it")
@options.run_dir
@options.python
@click.option("--foreground", is_flag=True, help="Stay and show the progress until the run ends; Ctrl-C stops it.")
@click.option("--stop", is_flag=True, help="Let the run finish its step, save a checkpoint and end.")
@options.as_json
def command(run_dir: Path, python: str | None, foreground: bool, stop: bool, as_json: bool) -> int:
    """Start RUN_DIR/train in the background; `finetune status` shows how far it is.

    The gate, the frozen files and the training interpreter are checked first. A run that was stopped or killed goes on
    from its last checkpoint when it is started again; one that has finished is left alone. Exit code 0 started or
    finished, 1 refused by the gate or stopped by a guard, 2 bad input, 4 the machinery failed.
    """
    if stop:
        facts = end(run_dir)
        console.finish(_lines(facts), facts, as_json=as_json)
        return EXIT_DONE
    facts = run(run_dir, python=python, foreground=foreground)
    console.finish(_lines(facts), facts, as_json=as_json)
    return int(facts["exit_code"])


def run(run_dir: Path, *, python: str | None = None, foreground: bool = False, demo: bool = False) -> dict[str, Any]:
    """Start the run and return its facts: after some seconds, or at its end with `foreground`.

    A run that has finished is left alone: `started` is false then, and the facts are those of its end.
    """
    from llm_finetuning import as_given, environment
    from llm_finetuning.training_run import TrainingRun

    with as_given.refusals(run_dir):
        named, uses_vllm = _checked(run_dir, demo=demo)
        training = TrainingRun(run_dir / "train")
        if training.is_finished():
            return {**_facts(run_dir, training), "started": False}
        needs = (*NEEDS, "vllm") if uses_vllm else NEEDS
        process = training.start(environment.training_python(python or named, needs), {})
    try:
        _watch(training, process, None if foreground else EARLY_S)
    except KeyboardInterrupt:
        if not foreground:
            raise
        console.note("stopping after this step; once more to leave it to itself")
        training.stop(STOP_WAIT_S)
    return {**_facts(run_dir, training), "started": True}


def _checked(run_dir: Path, *, demo: bool) -> tuple[str | None, bool]:
    """Return the interpreter that the brief names, and whether vLLM generates; refuses a build that does not count."""
    from llm_finetuning import artifact, brief, lineage
    from llm_finetuning.commands import status

    loaded = brief.load(run_dir)
    try:
        build = lineage.current_build(loaded, demo=demo)
    except artifact.Stale as stale:
        raise status.from_the_first(run_dir, stale) from None
    return loaded.brief.environment, build.shape.get("engine") in ("colocate", "server")


def end(run_dir: Path) -> dict[str, Any]:
    """Stop a run and return its facts; refuses when nothing runs there."""
    from llm_finetuning import artifact
    from llm_finetuning.training_run import TrainingRun

    training = TrainingRun(run_dir / "train")
    if not training.is_running():
        raise Refusal(f"{run_dir}: nothing trains there; `finetune status {run_dir}` shows where it stands")
    console.note(_stopping(training))
    begun = time.monotonic()
    if not training.stop(STOP_WAIT_S, _waiter(training)):
        again = artifact.shell_line("train", run_dir, "--stop")
        raise MachineryFailure(
            f"{training.folder}: still running after {STOP_WAIT_S:.0f} s; `{again}` once more kills it, "
            "and it goes on from its last checkpoint when started again"
        )
    console.note(f"the run ended after {console.duration(time.monotonic() - begun)}")
    return _facts(run_dir, training)


def _stopping(training: "TrainingRun") -> str:
    """Return what a run that is asked to stop does first, and how long that may take."""
    progress = training.progress()
    limit = f"waiting for its end, {console.duration(STOP_WAIT_S)} at most; Ctrl-C ends the waiting alone"
    if progress is None:
        return f"stopping the run: it has not begun to train, so that there is nothing new to save\n{limit}"
    pace = "" if progress.pace is None else f", about {console.duration(max(1.0, progress.pace))} a step"
    cost = "" if progress.evaluation_s is None else f", about {console.duration(progress.evaluation_s)}"
    first = "finishes the step at hand"
    if progress.measuring:
        first = f"measures the held-out rows to their end{cost}, takes one step more"
    if progress.measures_next:
        first += f", measures the held-out rows{'' if progress.measuring else cost}"
    return (
        f"stopping the run at step {progress.step} of {progress.max_steps}{pace}: it {first}, saves "
        f"a checkpoint, which takes minutes with a large model, and ends\n{limit}, a second `--stop` kills the run"
    )


def _waiter(training: "TrainingRun") -> "Callable[[], None]":
    """Return what says now and then, while a run is on its way to its end, where it stands."""
    begun = told = time.monotonic()

    def wait() -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= TELL_EVERY_S:
            told = now
            console.note(f"still waiting after {console.duration(now - begun)}; last logged: {progress_line(training)}")

    return wait


def _watch(training: "TrainingRun", process: "subprocess.Popen[bytes]", seconds: float | None) -> None:
    """Return when the run has ended, or after some seconds; shows each step that is logged."""
    begun = time.monotonic()
    tell = _teller()
    while process.poll() is None:
        if seconds is not None and time.monotonic() - begun > seconds:
            return
        if seconds is None:
            tell(training)
        time.sleep(POLL_S)


def _teller() -> "Callable[[TrainingRun], None]":
    told, told_first = -1, ""

    def tell(training: "TrainingRun") -> None:
        nonlocal told, told_first
        progress = training.progress()
        if progress is None:
            return
        line = progress_line(training)
        if progress.step == progress.begun:  # it may be minutes before the first step
            if line != told_first:
                console.note(line)
            told_first = line
        elif progress.step > told and "loss" in progress.metrics:
            told = progress.step
            console.note(line)

    return tell


def progress_line(training: "TrainingRun") -> str:
    """Return where a run stands in one line: step, reward or loss, what it does beside steps, time left."""
    progress = training.progress()
    if progress is None:
        return "starting"
    shown = [(name, progress.metrics.get(key)) for key, name in LOGGED]
    words = [f"step {progress.step} of {progress.max_steps}"]
    words += [f"{name} {value:.3g}" for name, value in shown if isinstance(value, int | float)]
    return ", ".join(filter(None, [*words, progress.doing, progress.time_left]))


def _facts(run_dir: Path, training: "TrainingRun") -> dict[str, Any]:
    """Return the state of the run, its exit code and the next command."""
    from llm_finetuning import artifact
    from llm_finetuning.commands import status

    facts: dict[str, Any] = {"run_dir": str(run_dir), "log": str(training.log)}
    if training.is_running():
        facts |= {"state": "running", "progress": progress_line(training), "exit_code": EXIT_DONE}
        return facts | {"next": artifact.shell_line("status", run_dir)}
    ended = training.outcome()
    if ended is None:
        raise MachineryFailure(f"{training.log}: the run ended without a word; its log has the last lines")
    facts |= {key: ended[key] for key in ("state", "reason", "global_step", "exit_code")}
    finished = ended["state"] == "finished"
    return facts | {"next": status.next_command(run_dir) if finished else after(run_dir, ended)}


def after(run_dir: Path, ended: dict[str, Any]) -> str:
    """Return what follows on a run that has ended this way: what it learned, its rest, or what its reason asks for."""
    from llm_finetuning import artifact

    if ended["state"] == "finished":
        there = {path.stem for path in (run_dir / "eval").glob("*.json")}
        if "final" not in there:
            return artifact.shell_line("evaluate", run_dir, "--checkpoint", "final")
        if "base" not in there:
            return artifact.shell_line("evaluate", run_dir)
        return artifact.shell_line("compare", run_dir, "base", "final")
    if ended["state"] == "stopped" and ended["exit_code"] == EXIT_DONE:
        return f"`{artifact.shell_line('train', run_dir)}` goes on from the last checkpoint"
    return f"mend the reason, then `{artifact.shell_line('train', run_dir)}`"


def _lines(facts: dict[str, Any]) -> list[str]:
    if facts["state"] == "running":
        return [f"train: running in the background; {facts['progress']}", f"log: {facts['log']}", _next(facts)]
    if not facts.get("started", True):
        words = f"train: finished before: {reason_of(facts)}; there is nothing left to do, and nothing was started"
        return [words, f"log: {facts['log']}", _next(facts)]
    return [f"train: {facts['state']}: {reason_of(facts)}", f"log: {facts['log']}", _next(facts)]


def reason_of(ended: dict[str, Any]) -> str:
    """Return why a run ended, with the step at which it did."""
    reason, step = str(ended["reason"]), ended["global_step"]
    return reason if step < 0 or f"step {step}" in reason or f" {step} steps" in reason else f"step {step}: {reason}"


def _next(facts: dict[str, Any]) -> str:
    return f"next: {facts['next']}"
